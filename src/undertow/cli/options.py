"""The options that commands share, and what their text means.

Text that cannot be read (a number that is none, options that exclude each other) is wrong usage,
exit code 2. Text that reads well and says something impossible is refused by the library.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, astuple, dataclass, field, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from undertow.cli.output import ProgressOption, refusals, say, wanting
from undertow.rounding import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from undertow.adversaries import Against
    from undertow.data.table import Data
    from undertow.guarantees import Guarantee, PureDP
    from undertow.ledger.book import Ledger
    from undertow.mechanisms import Noise, RandomizedResponse
    from undertow.models.sets import AnyModel
    from undertow.plan import Plan
    from undertow.queries import AnyQuery, Count, LocalQuery, State
    from undertow.secrets import Window

__all__ = [
    "AgainstOption",
    "AgainstText",
    "AmountText",
    "ConfidenceOption",
    "DataArgument",
    "DataText",
    "DeltaOption",
    "EffortOption",
    "ForceOption",
    "GuaranteeText",
    "JsonOption",
    "KeyOption",
    "LengthOption",
    "LimitText",
    "LocalText",
    "ModelOption",
    "ModelText",
    "NoiseText",
    "PlanOption",
    "QueryText",
    "RecordsText",
    "ReleaseText",
    "ReleasedText",
    "RowsText",
    "SeriesText",
    "TableText",
    "Unit",
    "WindowText",
    "command",
    "figure_kind",
    "find_state",
    "misuse",
    "names",
    "numbers",
    "open_ledger",
    "option",
    "people_of",
    "read_count",
    "read_effort",
    "read_flips",
    "read_missing",
    "read_range",
    "read_records",
    "several",
]


def option(
    metavar: str | None, words: str, default: Any = None, *, name: str | None = None, **more: Any
) -> Any:
    """Return the default of a parameter, or of a field, that declares an option.

    It is called like the parameter unless there is a ``name``; ``words`` are its help, and
    ``MISSING`` for a default says that it must be given.
    """
    made = {"name": name, "metavar": metavar, "help": words, **more}
    return field(default=default, metadata=made)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function as Typer takes it; its refusals are told, with exit code 1.

    A parameter whose type is a dataclass stands for the options that are the fields of the class,
    in its place, and is given them put together. What the class itself refuses is wrong usage.
    Every command also takes ``--progress`` and ``--no-progress``, which it need not know of.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Pair:
    ...     left: int
    ...     right: int = option("N", "The other number.", 2)
    >>> @command
    ... def add(pair: Pair, as_json: bool = False) -> None:
    ...     print(pair.left + pair.right)
    >>> list(inspect.signature(add).parameters)
    ['left', 'right', 'as_json', 'progress']
    >>> add(left=1)
    3
    """
    own = inspect.signature(function).parameters.values()
    options = {parameter.name: list(_options(parameter)) for parameter in own}
    kinds: dict[str, Any] = {one.name: one.annotation for one in own}

    def run(**given: Any) -> None:
        with wanting(given.pop("progress", None)), refusals(given.get("as_json", False)):
            made = {}
            for name, listed in options.items():
                found = {one.name: given.get(one.name, one.default) for one in listed}
                grouped = is_dataclass(kinds[name])
                made[name] = kinds[name](**found) if grouped else found[name]
            function(**made)

    every = [one for several in options.values() for one in several]
    every.append(_declared("progress", ProgressOption, None))
    every.sort(key=lambda one: one.default is not inspect.Parameter.empty)  # needed ones first
    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, __name__
    run.__annotations__ = {one.name: one.annotation for one in every}
    vars(run)["__signature__"] = inspect.Signature(every)
    return run


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield the options that a parameter stands for: itself, or the fields of its class."""
    kind = parameter.annotation
    if not is_dataclass(kind):
        yield _declared(parameter.name, kind, parameter.default)
        return
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        yield _declared(one.name, hints[one.name], one if one.metadata else one.default)


def _declared(name: str, kind: Any, default: Any) -> inspect.Parameter:
    """Return a parameter as Typer reads it; its default may be what `option` made."""
    if isinstance(default, Field):
        said = dict(default.metadata)
        flag = said.pop("name") or f"--{name.replace('_', '-')}"
        kind, default = Annotated[kind, typer.Option(flag, **said)], default.default
    needed = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=needed, annotation=kind)


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
        from undertow.models.pedigrees import Pedigree

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
        from undertow.models.chains import MarkovChain

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
        from undertow.secrets import Window

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


@dataclass(frozen=True, slots=True)
class RowsText:
    """Whose rows those of a table are, and when, as it was typed."""

    person: str | None = option("COLUMN", "Whose record it is; by default one person's.")
    time: str | None = option("COLUMN", "When; by default rows are in order of time.")
    every: str | None = option("STEP", "The time step: 5m, 1h, 1d, or a number.")
    memory: str | None = option(
        "SIZE", "Read a table that needs more memory in pieces, sorted by person and time "
        "(default 1GB)."
    )  # fmt: skip

    def outputs(self, column: str) -> "SeriesText":
        """Return how to read a randomised table of these rows: its outputs are in a column."""
        return SeriesText(self.person, self.time, self.every, self.memory, column)


@dataclass(frozen=True, slots=True)
class SeriesText(RowsText):
    """How to read a table of series, as it was typed."""

    value: str | None = option("COLUMN", "The column that holds the records.")
    state: str | None = option(
        "SQL|CUTS", "What makes a state of a record: 'steps > 0', or cut points 0.5,1,2."
    )
    window: str | None = option("FROM,TO", "Only records from FROM on and before TO (not at TO).")

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        for name, text in (("--every", self.every), ("--window", self.window)):
            if text is not None and self.time is None:
                raise misuse(f"{name} goes with --time")
        if self.value is None and not isinstance(_state(self.state), str):
            raise misuse("say what the records are: --value, or --state with an expression")

    def read(self, path: Path, **more: Any) -> "Data":
        """Return the data, its window applied; ``more`` are further arguments of `Data`."""
        from undertow.data.readers.files import DEFAULT
        from undertow.data.table import Data

        table = Data(
            path,
            value=self.value,
            person=self.person,
            time=self.time,
            state=_state(self.state),
            every=None if self.every is None else _data_options_number(self.every),
            memory=DEFAULT if self.memory is None else self.memory,
            **more,
        )
        return table if self.window is None else table.window(*_ends(self.window))


@dataclass(frozen=True, slots=True)
class TableText(SeriesText):
    """How to read a table, as it was typed: its series, and groups of their records."""

    by: str | None = option("COLUMN", "One answer for each of its groups.")
    groups: str | None = option("NAMES", "The groups; by default those that occur.")

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if self.groups is not None and self.by is None:
            raise misuse("--groups goes with --by")
        SeriesText.__post_init__(self)

    def read(self, path: Path, **more: Any) -> "Data":
        """Return the data, its window and groups applied."""
        wanted = None if self.groups is None else names(self.groups, "--groups")
        return SeriesText.read(self, path, by=self.by, groups=wanted, **more)


@dataclass(frozen=True, slots=True)
class ReleasedText(TableText):
    """The options of a command that say how to read the table to be released."""

    ungrouped: bool = option(
        None, "Vouch for a model of groups where no column says who belongs together.", False
    )

    def __post_init__(self) -> None:
        """Refuse options that lack their companion, or exclude each other."""
        if self.ungrouped and self.person is not None:
            raise misuse("--ungrouped says that no column tells who belongs together: no --person")
        TableText.__post_init__(self)

    def read(self, path: Path, **more: Any) -> "Data":
        """Return the data, its window and groups applied."""
        return TableText.read(self, path, ungrouped=self.ungrouped, **more)


@dataclass(frozen=True, slots=True)
class DataText(ReleasedText):
    """How to read a table whose records are counted, or the genotypes of a file."""

    gaps: str = option("HOW", "'split' a series there, or the state of a gap.", "split")
    locus: str | None = option(
        "CHR:POS",
        "For a VCF file: the variant, by place or name; people as in the plan's pedigree.",
    )
    allele: str | None = option("BASES", "... and which allele is B (default: ALT).")

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if self.locus is not None:
            if any(text not in (None, "split", False) for text in astuple(self)[:-2]):
                raise misuse("--locus goes with a VCF file, which says itself what its records are")
            return
        if self.allele is not None:
            raise misuse("--allele goes with --locus")
        ReleasedText.__post_init__(self)
        if self.gaps != "split" and self.every is None:
            raise misuse("--gaps needs --every, the time step that says where a record is absent")

    def read_for(self, path: Path, plan: "Plan[Any] | None") -> "Data":
        """Return the data for a plan: a gap's state is one of its own, by its text.

        Genotypes are those of the people of its pedigree, in its order.
        """
        if self.locus is not None:
            from undertow.data.genotypes import genotype_table

            people = () if plan is None else people_of(plan)
            return genotype_table(path, self.locus, people or None, allele=self.allele)
        states = () if plan is None else plan.states
        gaps = "split" if self.gaps == "split" else find_state(self.gaps, states)
        return self.read(path, gaps=gaps)


def people_of(plan: "Plan[Any]") -> tuple[Any, ...]:
    """Return the people of a plan's pedigree, in the order of its records; none without one."""
    from undertow.models.pedigrees import Pedigree

    found = [model for model in plan.model.members() if isinstance(model, Pedigree)]
    return found[0].people if found else ()


def _state(text: str | None) -> str | list[float] | None:
    """Return cut points where all that was typed is numbers, else the expression."""
    if text is None:
        return None
    cuts = [_data_options_number(part.strip()) for part in text.split(",")]
    return text if any(isinstance(cut, str) for cut in cuts) else cuts


def _ends(text: str) -> list[Any]:
    """Return both ends of a window: numbers where they are numbers, else the text of a time."""
    ends = [part.strip() for part in text.split(",")]
    if len(ends) != 2 or not any(ends):
        raise misuse(f"--window needs FROM,TO, of which one may be left out; found {text!r}")
    return [_data_options_number(end) if end else None for end in ends]


def _data_options_number(text: str) -> Any:
    """Return the number that was typed, or the text if it is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


DeltaOption = Annotated[
    float | None,
    typer.Option(
        "--delta",
        metavar="D",
        help="The leakage at this delta: odds may move by more than 2 e^leakage with probability "
        "2 D. By default 0.",
    ),
]
NoiseOption = Annotated[
    Literal["laplace", "gaussian", "discrete-gaussian"] | None,
    typer.Option("--noise", help="The kind of noise; Gaussian noise needs --delta."),
]


@dataclass(frozen=True, slots=True)
class NoiseText:
    """What is planned beside the limit, as it was typed: a delta, a kind of noise, how often."""

    delta: DeltaOption = None
    noise: NoiseOption = None
    releases: int | None = option(
        "T", "How many releases on the same records keep the limit together (default 1)."
    )

    def told(self) -> dict[str, Any]:
        """Return what the library is told, if anything is."""
        given = {"delta": self.delta, "noise": self.noise, "releases": self.releases}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class GuaranteeText:
    """What is known of an algorithm, as it was typed."""

    epsilon: float | None = option("E", "Any algorithm of this DP level ...")
    guarantee_delta: float | None = option("D", "... at this delta of its own: (E, D)-DP ...")
    rho: float | None = option("RHO", "... any RHO-zCDP algorithm ...")
    mu: float | None = option("MU", "... any MU-GDP algorithm ...")
    neighbours: Literal["replace", "add-remove"] | None = option(
        None, "... for one record replaced (default), or one added or removed ..."
    )
    unit: Unit | None = option(None, "... or for a whole person.")

    @property
    def asked(self) -> str | None:
        """The option that names a guarantee, None if there is none."""
        named = (("--epsilon", self.epsilon), ("--rho", self.rho), ("--mu", self.mu))
        given = [name for name, value in named if value is not None]
        if len(given) > 1:
            raise misuse(f"say what is known of the algorithm once: {' or '.join(given)}")
        return given[0] if given else None

    def check(self) -> None:
        """Refuse options that lack their companion."""
        asked = self.asked
        if self.guarantee_delta is not None and self.epsilon is None:
            raise misuse(
                "--guarantee-delta goes with --epsilon; the delta of the answer is --delta"
            )
        if self.unit is not None and asked is None:
            raise misuse("--unit goes with --epsilon; noisy answers and flips protect records")
        if self.neighbours is not None and asked is None:
            raise misuse("--neighbours goes with --epsilon, --rho or --mu")

    def fields(self) -> dict[str, Any]:
        """Return for programs which neighbours a guarantee was taken for, and who said so."""
        if self.asked is None:
            return {}
        return {
            "neighbours": self.neighbours or "replace",
            "neighbours_assumed": self.neighbours is None,
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return in words which neighbours a guarantee was taken for."""
        if self.asked is None:
            return []
        unit = self.unit or "record"
        if self.neighbours == "add-remove":
            what = f"{self.asked} is for one {unit} added or removed, so one replaced counts twice"
        else:
            said = "is" if self.neighbours else "was taken to be"
            what = f"{self.asked} {said} for one {unit} replaced"
        if self.neighbours is None:
            what += (
                "; if it is for one added or removed, as in OpenDP, Tumult and PipelineDP, say "
                "--neighbours add-remove: then more leaks"
            )
        return [("neighbours", what)]

    def read(self) -> "PureDP | Guarantee":
        """Return the guarantee."""
        from undertow.guarantees import GDP, ZCDP, ApproximateDP, PureDP

        unit, neighbours = self.unit or "record", self.neighbours or "replace"
        more: Any = {"unit": unit, "neighbours": neighbours}
        if self.rho is not None:
            return ZCDP(self.rho, **more)
        if self.mu is not None:
            return GDP(self.mu, **more)
        epsilon = self.epsilon or 0.0
        if self.guarantee_delta is not None:
            return ApproximateDP(epsilon, self.guarantee_delta, **more)
        return PureDP(2 * epsilon if neighbours == "add-remove" else epsilon, unit)


@dataclass(frozen=True, slots=True)
class AmountText:
    """How much noise an answer has, as it was typed."""

    noise: NoiseOption = None
    scale: float | None = option("B", "Laplace scale of a noisy answer ...")
    sigma: float | None = option("S", "... or the standard deviation of its Gaussian noise.")

    @property
    def asked(self) -> str | None:
        """The first option that was typed, None if there is none."""
        named = (("--scale", self.scale), ("--sigma", self.sigma), ("--noise", self.noise))
        return next((name for name, value in named if value is not None), None)

    def check(self) -> None:
        """Refuse no amount of noise, two of them, and the wrong one."""
        if self.scale is not None and self.sigma is not None:
            raise misuse("say one of --scale (Laplace noise) and --sigma (Gaussian noise)")
        if self.scale is None and self.sigma is None:
            raise misuse(
                "a noisy answer needs --scale, the scale of its Laplace noise, or --sigma, the "
                "standard deviation of its Gaussian noise"
            )
        if self.noise is not None and (self.noise == "laplace") != (self.sigma is None):
            right = "--scale" if self.noise == "laplace" else "--sigma"
            raise misuse(f"--noise {self.noise} goes with {right}")

    def read(self, query: "AnyQuery") -> "Noise":
        """Return the query with its noise."""
        from undertow.mechanisms import DiscreteGaussian, Gaussian, Laplace, Selection
        from undertow.queries import TopK

        if self.sigma is None and isinstance(query, TopK):
            return Selection(query, self.scale or 0.0)
        if self.sigma is None:
            return Laplace(query, self.scale or 0.0)
        kind = DiscreteGaussian if self.noise == "discrete-gaussian" else Gaussian
        return kind(query, self.sigma)


def several(releases: int) -> str:
    """Return how many releases a limit is for, in words.

    >>> several(52), several(1)
    (', by 52 releases together', '')
    """
    return f", by {releases} releases together" if releases > 1 else ""


@dataclass(frozen=True, slots=True)
class RecordsText:
    """What becomes of records that are missing or in no state, as it was typed."""

    strict: bool = option(
        None,
        "Refuse records that are missing or in no state, by their row; that refusal depends on the "
        "records.",
        False,
    )

    def rest(self, plan: "Plan[Any]") -> "State | None":
        """Return the state that such records have in a plan, None if they are refused."""
        return None if self.strict else plan.rest


@dataclass(frozen=True, slots=True)
class LocalText:
    """A question about the series itself, as it was typed: flipped, or redacted."""

    series: bool = option(None, "The whole series, each record flipped at random.", False)
    redacted: bool = option(None, "The series, records erased around those of --protect.", False)
    objective: str | None = option(
        "AIM",
        "Of --series: fewest 'flips' (default), most 'information', or the costs 1,2 of "
        "flipping each state.",
    )
    protect: str | None = option("I,J", "Only these records need protection.")

    def __post_init__(self) -> None:
        """Refuse options that lack their companion, or have the wrong one."""
        if self.series and self.redacted:
            raise misuse("ask for one of --series and --redacted")
        if self.objective is not None and not self.series:
            raise misuse("--objective goes with --series")
        if self.redacted and self.protect is None:
            raise misuse("--redacted needs --protect, the records that must stay hidden")
        if self.series and self.protect is not None:
            raise misuse("--protect goes with --redacted; a flipped series protects every record")

    @property
    def asked(self) -> bool:
        """Whether the series itself is asked for."""
        return self.series or self.redacted

    def read(self, length: int | None) -> "LocalQuery":
        """Return the query; ``length`` is what was typed for it, None if nothing was."""
        from undertow.queries import Redacted, Series

        if self.series:
            return Series()
        return Redacted(read_records(self.protect or "", "--protect"), length)

    def aim(self) -> Any:
        """Return what the flips are chosen for: a name, or a cost for each state."""
        text = self.objective
        if text is None or text in ("flips", "information"):
            return text
        return numbers(text, "--objective")


def read_flips(text: str, model: "AnyModel") -> "RandomizedResponse":
    """Return the flips that were typed: one probability for all states, or one for each of two."""
    from undertow.errors import NotSupported
    from undertow.mechanisms import RandomizedResponse

    probabilities = numbers(text, "--flips")
    if len(probabilities) == 2:
        return RandomizedResponse.binary(*probabilities)
    if len(probabilities) != 1:
        raise misuse(
            f"--flips needs one probability, or one for each of two states; found {text!r}"
        )
    states = len(model.states)
    if not states:
        raise NotSupported("the model names no states, so there is nothing to flip to")
    return RandomizedResponse.symmetric(states, probabilities[0])
