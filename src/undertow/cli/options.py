"""The options that commands share, and what their text means.

Text that cannot be read (a number that is none, options that exclude each other) is wrong usage,
exit code 2. Text that reads well and says something impossible is refused by the library.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from undertow.cli.commands import option
from undertow.cli.output import say
from undertow.rounding import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from undertow.adversaries import Against, Window
    from undertow.ledger.book import Ledger
    from undertow.models.sets import AnyModel
    from undertow.plan import Plan
    from undertow.queries import AnyQuery, Count, State

__all__ = [
    "AgainstOption",
    "AgainstText",
    "ConfidenceOption",
    "DataArgument",
    "EffortOption",
    "ForceOption",
    "JsonOption",
    "KeyOption",
    "LengthOption",
    "LimitText",
    "ModelOption",
    "ModelText",
    "PlanOption",
    "QueryText",
    "ReleaseText",
    "Unit",
    "WindowText",
    "figure_kind",
    "find_state",
    "misuse",
    "names",
    "numbers",
    "open_ledger",
    "read_count",
    "read_effort",
    "read_missing",
    "read_range",
    "read_records",
]


Unit = Literal["record", "person"]
"""What is protected."""

DataArgument = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="A table: .csv, .csv.gz or .parquet, or a folder of its files."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
EffortOption = Annotated[
    float | None,
    typer.Option(
        "--effort", metavar="X",
        help="Work that a search may take, as a multiple of the default, a few seconds; it is "
        "counted, and so the same on every machine; inf for any.",
    ),
]  # fmt: skip

AcceptOption = Annotated[
    str | None,
    typer.Option(
        "--accept", metavar="NAMES",
        help="Failed checks of the model that are accepted, such as order,memory; every promise "
        "says so.",
    ),
]  # fmt: skip

ForceOption = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
ConfidenceOption = Annotated[
    float, typer.Option("--confidence", metavar="P", help="The probability that an interval holds.")
]
ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="FILE",
        help="A model as JSON, as 'undertow fit --output' writes it, or a pedigree (.ped, .fam).",
    ),
]
LengthOption = Annotated[
    int | None,
    typer.Option("--length", metavar="N", help="Records in a series; by default any number."),
]
AgainstOption = Annotated[
    Literal["any", "ignorant", "informed"] | None,
    typer.Option(
        help="What the attacker knows: any records (default), none of the others, or all."
    ),
]
PlanOption = Annotated[
    Path, typer.Option("--plan", metavar="FILE", help="What 'undertow plan --output' wrote.")
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="The key that the ledger is kept under, by default that in UNDERTOW_LEDGER_KEY.",
    ),
]

_PEDIGREES = (".ped", ".fam", ".ped.gz", ".fam.gz")


@dataclass(frozen=True, slots=True)
class ModelText:
    """The model as it was typed."""

    model: ModelOption = None
    transition: str | None = option(
        "ROWS", "A transition matrix, row = from: '0.9,0.1;0.3,0.7' (fractions such as 1/3 too)."
    )
    order: Literal["1", "2"] = option(
        None, "Of --transition; 2: a row for each pair of records, 0 0; 0 1; 1 0; 1 1.", "1"
    )
    states: str | None = option("NAMES", "State names; by default 0, 1, 2, ...")
    start: str | None = option("LAW", "'stationary' (default) or '0.5,0.5'.")
    length: LengthOption = None
    frequency: str | None = option(
        "P", "For a pedigree: how frequent allele B is, a number or a range such as 0.05,0.5."
    )

    def read(self) -> "AnyModel":
        """Return the model; ``--length`` also completes a file that leaves the length open."""
        pedigree = self.model is not None and self.model.name.lower().endswith(_PEDIGREES)
        if self.frequency is not None and not pedigree:
            raise misuse("--frequency goes with a pedigree: --model family.ped")
        if self.transition is not None and self.model is None:
            return self._chain(self.transition)
        if self.order != "1":
            raise misuse("--order goes with --transition; a model file says it itself")
        if self.model is None or self.transition is not None:
            raise misuse("give the model with either --model or --transition")
        for name, value in (("--states", self.states), ("--start", self.start)):
            if value is not None:
                raise misuse(f"{name} goes with --transition; a model file says it itself")
        return self._pedigree(self.model) if pedigree else self._from_file(self.model)

    def _pedigree(self, path: Path) -> "AnyModel":
        from undertow.models.pedigree import Pedigree

        if self.length is not None:
            raise misuse("--length goes with a chain; a pedigree says who is in it")
        if self.frequency is None:
            raise misuse(
                "a pedigree needs --frequency, how frequent allele B is among founders: a number, "
                "or a range such as 0.05,0.5 if it is not known"
            )
        ends = numbers(self.frequency, "--frequency")
        if len(ends) > 2:
            raise misuse("--frequency needs one number or two, found more")
        return Pedigree.read(path, ends[0] if len(ends) == 1 else (ends[0], ends[1]))

    def _chain(self, text: str) -> "AnyModel":
        from undertow.errors import InvalidModel
        from undertow.models.markov import MarkovChain

        rows = [numbers(row, "--transition") for row in text.split(";")]
        if self.order == "2":
            return self._second(rows)
        for position, row in enumerate(rows):
            if len(row) != len(rows):
                raise InvalidModel(
                    f"row {position} of transition has {len(row)} entries, but there are "
                    f"{len(rows)} rows; the matrix must be square, rows separated by ';'"
                )
        start: Any = "stationary" if self.start is None else self.start.strip()
        return MarkovChain(
            rows,
            None if self.states is None else names(self.states, "--states"),
            start if start == "stationary" else numbers(start, "--start"),
            self.length,
        )

    def _second(self, rows: "list[list[float]]") -> "AnyModel":
        from undertow.errors import InvalidModel
        from undertow.models.second_order import SecondOrderChain

        if self.start not in (None, "stationary"):
            raise misuse("a chain of order two starts stationary; leave --start out")
        size = len(rows[0])
        if len(rows) != size**2 or any(len(row) != size for row in rows):
            raise InvalidModel(
                f"order 2 on {size} states needs {size**2} rows of {size} entries, one for each "
                f"pair of records (the older first); found {len(rows)} rows"
            )
        table = [rows[place : place + size] for place in range(0, size**2, size)]
        listed = None if self.states is None else names(self.states, "--states")
        return SecondOrderChain(table, listed, self.length)

    def _from_file(self, path: Path) -> "AnyModel":
        from undertow.cli.files import read_model
        from undertow.models.registry import model_from_dict

        model = read_model(path)
        if self.length is None:
            return model
        description = model.to_dict()
        if description.get("length", "none") is not None:
            raise misuse("--length completes a chain of any length; this model file is none")
        if "region" in description:
            description["region"] |= {"length": self.length}
        return model_from_dict(description | {"length": self.length})


@dataclass(frozen=True, slots=True)
class LimitText:
    """How much may leak, as it was typed."""

    limit: float | None = option("L", "The leakage that is allowed at most.")
    epsilon: float | None = option("L", "What --limit was called.", hidden=True)

    def read(self) -> float:
        """Return the limit, or refuse none and two."""
        if (self.limit is None) == (self.epsilon is None):
            raise misuse("say how much may leak at most, once: --limit 1")
        if self.limit is not None:
            return self.limit
        say("warning: --epsilon is deprecated here: it is a limit on leakage, no DP level; --limit")
        return self.epsilon or 0.0


@dataclass(frozen=True, slots=True)
class QueryText:
    """A curator's question as it was typed: one of six, or none; and how it is meant."""

    count: str | None = option("STATES", "The number of records in these states.")
    histogram: bool = option(None, "The number of records in each state.", False)
    top: int | None = option("K", "The K states with the most records, the most frequent first.")
    transitions: bool = option(None, "How often each state is followed by each.", False)
    sum: str | None = option("LOW,HIGH", "The sum of records clipped to a range.")
    mean: str | None = option("LOW,HIGH", "Their mean; needs --length.")
    values: str | None = option(
        "STATE=NUMBER,...",
        "The number that a record in each state counts as in a --sum or --mean, as in "
        "low=0.2,high=1.6: for states that are no numbers and no bins.",
    )
    steps: int | None = option(
        "K",
        "Equal steps of the range that numbers are rounded to before they are added.",
    )

    def __post_init__(self) -> None:
        """Refuse what belongs to another question."""
        for name, typed in (("steps", self.steps), ("values", self.values)):
            if typed is not None and self.sum is None and self.mean is None:
                raise misuse(f"--{name} goes with --sum or --mean")

    @property
    def asked(self) -> int:
        """How many questions were typed."""
        typed = [text for text in (self.count, self.sum, self.mean) if text is not None]
        return len(typed) + self.histogram + self.transitions + (self.top is not None)

    def read(self, model: "AnyModel") -> "AnyQuery":
        """Return the query, its states being those of the model."""
        from undertow.errors import NotSupported
        from undertow.queries import Histogram, Mean, Sum, TopK, Transitions

        if self.count is not None:
            return read_count(self.count, model)
        more: dict[str, Any] = {} if self.steps is None else {"steps": self.steps}
        if self.values is not None:
            more["values"] = read_values(self.values, model.states)
        if self.sum is not None:
            return Sum(*read_range(self.sum, "--sum"), **more)
        if self.mean is not None:
            return Mean(*read_range(self.mean, "--mean"), **more)
        if not model.states:
            asked = "transitions need" if self.transitions else "a histogram needs"
            asked = asked if self.top is None else "the most frequent states need"
            raise NotSupported(f"{asked} a model that names the states, such as a Markov chain")
        if self.transitions:
            return Transitions()
        return Histogram() if self.top is None else TopK(self.top).on(model.states)


@dataclass(frozen=True, slots=True)
class AgainstText:
    """The attacker as it was typed."""

    against: AgainstOption = None
    target: int | None = option("I", "One attacker, who wants record I (from 0) ...")
    known: str | None = option("I,J", "... and knows these records (default: none).")

    def read(self) -> "Against":
        """Return the adversary, ``any`` by default."""
        from undertow.adversaries import Adversary

        if self.target is None:
            if self.known is not None:
                raise misuse("--known needs --target, the record that the attacker wants")
            return self.against or "any"
        if self.against is not None:
            raise misuse("--target names one attacker; leave --against out")
        return Adversary(self.target, read_records(self.known, "--known") if self.known else [])


@dataclass(frozen=True, slots=True)
class WindowText:
    """How many records in a row are protected, as it was typed."""

    protect_window: str | None = option(
        "W", "Protect the history of W records in a row, or of a duration such as 1h with --every."
    )
    every: str | None = option("STEP", "With a duration: the time between two records, such as 5m.")

    def read(self, timed: bool = False) -> "Window | None":
        """Return the window, None for one record; a step alone is refused unless it is ``timed``.

        A number of records needs no step, and may have one where something else is timed by it.
        """
        from undertow.adversaries import Window

        text = self.protect_window
        if text is None:
            if self.every is not None and not timed:
                raise misuse("--every goes with --protect-window: the time between two records")
            return None
        try:
            records: int | str = int(text)
        except ValueError:
            records = text
        if isinstance(records, str) and self.every is None:
            raise misuse(
                f"--protect-window needs a number of records, or a duration such as 1h with the "
                f"time between two records, --every 5m; found {text!r}"
            )
        return Window(records, None if timed and isinstance(records, int) else self.every)


@dataclass(frozen=True, slots=True)
class ReleaseText:
    """What every release is told: the table, the plan, the account to spend from."""

    data: DataArgument
    plan: PlanOption
    trust: list[str] | None = option(
        "KEY", "Accept only a plan that this public key (or file) signed."
    )
    ledger: str | None = option("LEDGER", "The account to spend from: a file or URL")
    dataset: str | None = option("NAME", "... and the data set in it.")
    key: KeyOption = None
    release_id: str | None = option(
        "ID", "Its name; by default it follows from the asking.", name="--id"
    )
    source: str | None = option("TEXT", "Where the model came from, for the report.")
    dry_run: bool = option(
        None, "Say what would be guaranteed, spent and written; draw nothing.", False
    )
    as_json: JsonOption = False

    def __post_init__(self) -> None:
        """Refuse half an account."""
        if (self.ledger is None) != (self.dataset is None):
            raise misuse("--ledger and --dataset go together")
        if self.release_id is not None and self.ledger is None:
            raise misuse("--id goes with --ledger, where releases have names")

    def read_plan(self) -> "Plan[Any]":
        """Return the plan, if somebody who is trusted signed it."""
        from undertow.cli.files import read_plan, read_trusted

        return read_plan(self.plan, read_trusted(self.trust))

    def keep_off(self, places: "Sequence[Path]") -> None:
        """Refuse to write over the table, the plan or the ledger."""
        from undertow.cli.files import keep_off

        keep_off(places, [self.data, self.plan, *([Path(self.ledger)] if self.ledger else [])])
        for path in places if self.data.is_dir() else ():
            if path.parent.resolve() == self.data.resolve():
                raise misuse(f"{path} would be a file of the table itself; write it elsewhere")

    def open(self) -> "Ledger | None":
        """Return the account, None if nothing is accounted."""
        return None if self.ledger is None else open_ledger(self.ledger, self.dataset, self.key)


def open_ledger(where: str, dataset: str | None, key: Path | None = None) -> "Ledger":
    """Return an account that exists; without a name the only one there is.

    The key is that of ``--key``, or the one in UNDERTOW_LEDGER_KEY.
    """
    from undertow.errors import InvalidInput
    from undertow.ledger.book import Ledger, datasets

    if dataset is None:
        found = datasets(where)
        if len(found) != 1:
            shown = ", ".join(found[:12]) or "none"
            raise InvalidInput(
                f"name the data set with --dataset: the ledger holds {len(found)}, {shown}"
            )
        dataset = found[0]
    return Ledger(where, dataset, create=False, key=key)


def read_count(text: str, model: "AnyModel") -> "Count":
    """Return the count of the states named, a state being known by its text."""
    from undertow.queries import Count

    states = model.states
    if text in map(str, states):
        return Count([find_state(text, states)])
    return Count([find_state(name, states) for name in names(text, "--count")])


def read_values(text: str, states: "Iterable[State]") -> "dict[State, float]":
    """Return the number of each state in STATE=NUMBER,...; the last sign of equality counts.

    >>> read_values("low=0.2,a=b=3", ("low", "a=b"))
    {'low': 0.2, 'a=b': 3.0}
    """
    found: dict[State, float] = {}
    for part in text.split(","):
        name, sign, number = part.strip().rpartition("=")
        if not sign:
            raise misuse(f"--values needs STATE=NUMBER,..., such as low=0.2,high=1.6; {part!r}")
        found[find_state(name.strip(), states)] = _number(number.strip(), "--values")
    return found


def read_missing(text: str | None, states: "Sequence[State]") -> "State | None":
    """Return what was typed of missing records: None, 'any', 'none' or a state."""
    return text if text in (None, "any", "none") else find_state(text, states)


def find_state(text: str, states: "Iterable[State]") -> "State":
    """Return the state of this text, a string before a number; the text itself if there is none."""
    found = [state for state in states if str(state) == text]
    return text if text in found or not found else found[0]


def read_records(text: str, option: str) -> list[int]:
    """Return the records of a comma-separated list of whole numbers."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise misuse(f"{option} needs whole numbers such as 1,2,5; found {text!r}") from None


def read_accept(names: str | None) -> list[str]:
    """Return the names of checks of ``--accept order,memory``.

    >>> read_accept("order, memory"), read_accept(None)
    (['order', 'memory'], [])
    """
    found = [] if names is None else [name.strip() for name in names.split(",")]
    if "" in found:
        raise misuse("--accept needs the names of failed checks, such as order,memory")
    return found


def read_effort(effort: float | None) -> float | None:
    """Return an effort above 0, None where none was named."""
    if effort is not None and not effort > 0:
        raise misuse(f"--effort needs a number above 0, such as 0.1 or 10; found {effort:g}")
    return effort


def numbers(text: str, option: str) -> list[float]:
    """Return the numbers of a comma-separated list."""
    return [_number(part.strip(), option) for part in text.split(",")]


def names(text: str, option: str) -> list[str]:
    """Return the names of a comma-separated list."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise misuse(f"{option} has an empty name: separate the names by single commas")
    return parts


def misuse(message: str) -> Exception:
    """Return the error for wrong usage, exit code 2."""
    return typer.BadParameter(visible(message))


def read_range(text: str, option: str) -> tuple[float, float]:
    """Return the two ends of LOW,HIGH."""
    ends = numbers(text, option)
    if len(ends) != 2:
        raise misuse(f"{option} needs two numbers, LOW,HIGH; found {len(ends)}")
    return ends[0], ends[1]


def figure_kind(path: Path) -> Literal["png", "svg"]:
    """Return how a figure is to be drawn.

    >>> figure_kind(Path("erased.svg"))
    'svg'
    """
    match path.suffix.lower():
        case ".png":
            return "png"
        case ".svg":
            return "svg"
    raise misuse(f"--figure needs a name that ends in .png or .svg; found {path.name!r}")


def _number(text: str, option: str) -> float:
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        found = f"{text!r}" if text else "nothing between two separators"
        raise misuse(f"{option} needs numbers; found {found}") from None
