"""The options that commands share, their groups in the help, and the objects they stand for.

Text that cannot be parsed and options that exclude each other are wrong usage, exit code 2;
well-formed options with impossible values are refused by the library.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, astuple, dataclass, field, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

from undertow.cli.output import ProgressOption, refusals, wanting
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
    from undertow.secrets import Secret

__all__ = [
    "AgainstOption",
    "AmountOptions",
    "AttackerOptions",
    "ConfidenceOption",
    "DataArgument",
    "DataOptions",
    "DeltaOption",
    "EffortOption",
    "ForceOption",
    "GroupedCommand",
    "GuaranteeOptions",
    "JsonOption",
    "KeyOption",
    "LengthOption",
    "LimitOption",
    "LocalOptions",
    "ModelFileOption",
    "ModelOptions",
    "NoiseOptions",
    "PlanFileOption",
    "QueryOptions",
    "RecordsOptions",
    "ReleaseOptions",
    "ReleasedOptions",
    "RowsOptions",
    "SecretOptions",
    "SeriesOptions",
    "TableOptions",
    "command",
    "figure_kind",
    "find_state",
    "misuse",
    "names",
    "numbers",
    "open_ledger",
    "option",
    "read_cell",
    "read_count",
    "read_effort",
    "read_flips",
    "read_missing",
    "read_records",
    "read_state",
    "several",
]


Group = Literal[
    "Records", "Model", "Question", "Guarantee", "Ledger", "Output", "Expert", "Options"
]
"""The headings of a help page; expert options stand on the page of ``--help-all`` alone."""


def option(
    metavar: str | None,
    words: str,
    default: Any = None,
    *,
    group: Group = "Options",
    name: str | None = None,
    **more: Any,
) -> Any:
    """Return the default of a parameter, or of a field, that declares an option.

    It is called like the parameter unless there is a ``name``; ``words`` are its help, ``group``
    is the heading that it stands under, and ``MISSING`` for a default makes it required.
    """
    settings = {"name": name, "metavar": metavar, "help": words, "rich_help_panel": group, **more}
    return field(default=default, metadata=settings)


class GroupedCommand(TyperCommand):
    """A command whose help lists its options by group, expert ones only with ``--help-all``."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options group by group, all names in a column of one width."""
        shown: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{n: [] for n in _HEADINGS}}
        parameters: list[Any] = self.get_params(ctx)
        for parameter in parameters:
            row = parameter.get_help_record(ctx)
            argument = parameter.param_type_name == "argument"
            group = "Arguments" if argument else parameter.rich_help_panel or "Options"
            if row is not None and (group != _EXPERT or _EXPERT in ctx.meta):
                shown[group].append(row)
        width = min(max(len(name) for rows in shown.values() for name, _ in rows), _WIDEST)
        for heading, rows in shown.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl([(name.ljust(width), words) for name, words in rows])


_HEADINGS: tuple[Group, ...] = get_args(Group)
_EXPERT: Group = "Expert"

_WIDEST = 26
"""Columns of the names of options; the help of a longer name begins on the next line."""


def _show_expert(context: typer.Context, wanted: bool) -> None:
    """Print the help with expert options, and end the command."""
    if wanted and not context.resilient_parsing:
        context.meta[_EXPERT] = True
        typer.echo(context.get_help())
        raise typer.Exit


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function as Typer takes it; its refusals are printed, with exit code 1.

    A parameter whose type is a dataclass stands for the options that are the fields of the class,
    in its place, and is given one object of them. What the class itself refuses is wrong usage.
    Every command also takes ``--progress`` and ``--no-progress``, and ``--help-all`` if it has
    expert options.

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
    parameters = inspect.signature(function).parameters.values()
    groups = {parameter.name: list(_options(parameter)) for parameter in parameters}
    kinds: dict[str, Any] = {parameter.name: parameter.annotation for parameter in parameters}

    def run(**given: Any) -> None:
        given.pop("help_all", None)
        with wanting(given.pop("progress", None)), refusals(given.get("as_json", False)):
            arguments = {}
            for name, listed in groups.items():
                values = {one.name: given.get(one.name, one.default) for one in listed}
                grouped = is_dataclass(kinds[name])
                arguments[name] = kinds[name](**values) if grouped else values[name]
            function(**arguments)

    every = [one for listed in groups.values() for one in listed]
    every.append(_declared("progress", ProgressOption, None))
    if any(_is_expert(one) for one in every):
        every.append(_declared("help_all", _HelpAllOption, False))
    every.sort(key=lambda one: one.default is not inspect.Parameter.empty)  # required ones first
    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, __name__
    run.__annotations__ = {one.name: one.annotation for one in every}
    vars(run)["__signature__"] = inspect.Signature(every)
    return run


_HelpAllOption = Annotated[
    bool,
    typer.Option(
        "--help-all", is_eager=True, callback=_show_expert, show_default=False,
        help="Help with the expert options.",
    ),
]  # fmt: skip


def _is_expert(parameter: inspect.Parameter) -> bool:
    """Tell whether the help of a parameter stands on the page of ``--help-all`` alone."""
    settings = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(one, OptionInfo) and one.rich_help_panel == _EXPERT for one in settings)


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
        settings = dict(default.metadata)
        flag = settings.pop("name") or f"--{name.replace('_', '-')}"
        kind, default = Annotated[kind, typer.Option(flag, **settings)], default.default
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


Unit = Literal["record", "person"]
"""Unit of neighbours of a DP level."""

DataArgument = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="Table: .csv, .csv.gz or .parquet, or a folder of its files."
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel="Output")
]
EffortOption = Annotated[
    float | None,
    typer.Option(
        "--effort", metavar="X", rich_help_panel=_EXPERT,
        help="Work allowed to a search, as a multiple of the default (a few seconds); it is "
        "counted, so the same on every machine; inf: no limit.",
    ),
]  # fmt: skip

AcceptOption = Annotated[
    str | None,
    typer.Option(
        "--accept", metavar="NAMES", rich_help_panel="Guarantee",
        help="Failed checks of the model to accept, such as order,memory; stated in the guarantee.",
    ),
]  # fmt: skip

ForceOption = Annotated[
    bool, typer.Option("--force", help="Overwrite existing files.", rich_help_panel="Output")
]
ConfidenceOption = Annotated[
    float,
    typer.Option(
        "--confidence", metavar="P", help="Confidence of the intervals.", rich_help_panel="Question"
    ),
]
ModelFileOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="FILE",
        help="Model file written by 'undertow fit', or a pedigree (.ped, .fam).",
        rich_help_panel="Model",
    ),
]
LengthOption = Annotated[
    int | None,
    typer.Option(
        "--length", metavar="N", help="Records per series (default: any number).",
        rich_help_panel="Model",
    ),
]  # fmt: skip
AgainstOption = Annotated[
    Literal["any", "ignorant", "informed"] | None,
    typer.Option(
        metavar="WHO", rich_help_panel="Guarantee",
        help="Records the attacker knows: any (default), ignorant (none), informed (all others).",
    ),
]  # fmt: skip
PlanFileOption = Annotated[
    Path,
    typer.Option(
        "--plan", metavar="FILE", help="Plan file written by 'undertow plan'.",
        rich_help_panel="Question",
    ),
]  # fmt: skip
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key", metavar="FILE", rich_help_panel=_EXPERT,
        help="Key file of the ledger (default: that named in UNDERTOW_LEDGER_KEY).",
    ),
]  # fmt: skip

_PEDIGREES = (".ped", ".fam", ".ped.gz", ".fam.gz")


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The options that give a model."""

    model: ModelFileOption = None
    transition: str | None = option(
        "ROWS", "Transition matrix, one row per state: '0.9,0.1;1/3,2/3'.", group="Model"
    )
    order: Literal["1", "2"] = option(
        None, "Chain order; for 2, one row per pair of states.", "1", group="Model"
    )
    states: str | None = option("NAMES", "State names (default: 0, 1, 2, ...).", group="Model")
    start: str | None = option(
        "LAW", "Initial law: 'stationary' (default) or '0.5,0.5'.", group=_EXPERT
    )
    length: LengthOption = None
    frequency: str | None = option(
        "P", "Frequency of allele B in a pedigree, a number or a range 0.05,0.5.", group="Model"
    )

    def read(self) -> "AnyModel":
        """Return the model; ``--length`` also completes a file without a length."""
        pedigree = self.model is not None and self.model.name.lower().endswith(_PEDIGREES)
        if self.frequency is not None and not pedigree:
            raise misuse("--frequency goes with a pedigree: --model family.ped")
        if self.transition is not None and self.model is None:
            return self._chain(self.transition)
        if self.order != "1":
            raise misuse("--order goes with --transition; a model file has its own")
        if self.model is None or self.transition is not None:
            raise misuse("give the model with either --model or --transition")
        for name, value in (("--states", self.states), ("--start", self.start)):
            if value is not None:
                raise misuse(f"{name} goes with --transition; a model file has its own")
        return self._pedigree(self.model) if pedigree else self._from_file(self.model)

    def _pedigree(self, path: Path) -> "AnyModel":
        from undertow.models.pedigrees import Pedigree

        if self.length is not None:
            raise misuse("--length goes with a chain; a pedigree has its own")
        if self.frequency is None:
            raise misuse(
                "a pedigree needs --frequency, the frequency of allele B among founders: a number, "
                "or a range such as 0.05,0.5 if it is unknown"
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
class QueryOptions:
    """The options that give a query: one of six, or none."""

    count: str | None = option("STATES", "Number of records in these states.", group="Question")
    histogram: bool = option(None, "Number of records in each state.", False, group="Question")
    top: int | None = option("K", "The K most frequent states.", group="Question")
    transitions: bool = option(None, "Number of transitions of each kind.", False, group="Question")
    sum: str | None = option("LOW,HIGH", "Sum of records clipped to a range.", group="Question")
    mean: str | None = option(
        "LOW,HIGH", "Mean of records clipped to a range; needs --length.", group="Question"
    )
    values: str | None = option(
        "STATE=NUMBER,...", "Numbers of the states in a --sum or --mean.", group="Question"
    )
    steps: int | None = option(
        "K", "Equal steps of the range that numbers are rounded to in a --sum or --mean.",
        group=_EXPERT,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Refuse what belongs to another query."""
        for name, text in (("steps", self.steps), ("values", self.values)):
            if text is not None and self.sum is None and self.mean is None:
                raise misuse(f"--{name} goes with --sum or --mean")

    @property
    def total(self) -> int:
        """The number of queries given."""
        texts = [text for text in (self.count, self.sum, self.mean) if text is not None]
        return len(texts) + self.histogram + self.transitions + (self.top is not None)

    def read(self, model: "AnyModel") -> "AnyQuery":
        """Return the query on the states of the model."""
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
            needs = "transitions need" if self.transitions else "a histogram needs"
            needs = needs if self.top is None else "the most frequent states need"
            raise NotSupported(f"{needs} a model that names the states, such as a Markov chain")
        if self.transitions:
            return Transitions()
        return Histogram() if self.top is None else TopK(self.top).on(model.states)


@dataclass(frozen=True, slots=True)
class AttackerOptions:
    """The options that give the attacker."""

    against: AgainstOption = None
    target: int | None = option(
        "I", "Record wanted by one explicit attacker (from 0).", group=_EXPERT
    )
    known: str | None = option(
        "I,J", "Records known to that attacker (default: none).", group=_EXPERT
    )

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
class SecretOptions:
    """The options that give what must not be told apart."""

    secret: str | None = option(
        "SECRET",
        "Protected instead of one record: '12' records in a row, a duration '1h', 'person', or the "
        "values 'a:b,c:d'.",
        group="Guarantee",
    )
    every: str | None = option(
        "STEP", "Time between two records, such as 5m (default: that of the model).", group=_EXPERT
    )

    def read(
        self, model: "AnyModel", records: list[int] | None = None, *, timed: bool = False
    ) -> "Secret | None":
        """Return the secret, None for one record; a step alone is refused unless it is ``timed``.

        ``records`` are those of ``--protect``. A duration is counted in steps of ``--every``, or of
        the records of the model.
        """
        from undertow.secrets import Pairs, Person, Records, Window

        text = None if self.secret is None else self.secret.strip()
        if self.every is not None and not timed and not _is_duration(text):
            raise misuse("--every goes with a duration such as --secret 1h")
        if text is not None and ":" in text:
            return Pairs(_pairs(text, model), records)
        if records is not None:
            if text is not None:
                raise misuse("--protect goes without --secret, or with values a:b")
            return Records(records)
        if text is None or text == "person":
            return None if text is None else Person()
        if not _is_duration(text):
            return Window(int(text))
        every = self.every or model.records.every
        if not isinstance(every, str):
            raise misuse(
                "--secret needs a number of records, 'person', values a:b, or a duration such as "
                f"1h with the time between two records, --every 5m; found {text!r}"
            )
        return Window(text, every)


def _is_duration(text: str | None) -> bool:
    """Tell whether a secret is neither a number of records, nor a person, nor values.

    >>> _is_duration("1h"), _is_duration("12"), _is_duration("a:b")
    (True, False, False)
    """
    if text is None or text == "person" or ":" in text:
        return False
    try:
        int(text)
    except ValueError:
        return True
    return False


def _pairs(text: str, model: "AnyModel") -> "list[tuple[State, State]]":
    """Return the pairs of states of 'a:b,c:d'."""
    pairs = []
    for part in text.split(","):
        ends = [find_state(end.strip(), model.states) for end in part.split(":")]
        if len(ends) != 2 or "" in ends:
            raise misuse(f"--secret needs pairs of states such as a:b,c:d; found {part.strip()!r}")
        pairs.append((ends[0], ends[1]))
    return pairs


@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    """The options of every release: the table, the plan, the ledger."""

    data: DataArgument
    plan: PlanFileOption
    trust: list[str] | None = option(
        "KEY", "Public key, or its file, that must have signed the plan; repeatable.", group=_EXPERT
    )
    ledger: str | None = option("LEDGER", "Ledger: a file or a URL.", group="Ledger")
    dataset: str | None = option("NAME", "Data set in the ledger.", group="Ledger")
    key: KeyOption = None
    release_id: str | None = option(
        "ID", "Name of the release (default: derived from plan and table).", name="--id",
        group="Ledger",
    )  # fmt: skip
    source: str | None = option("TEXT", "Origin of the model, for the report.", group=_EXPERT)
    dry_run: bool = option(
        None, "Print what would be guaranteed, spent and written; draw nothing.", False,
        group="Output",
    )  # fmt: skip
    as_json: JsonOption = False

    def __post_init__(self) -> None:
        """Refuse a ledger without a data set, and a name without a ledger."""
        if (self.ledger is None) != (self.dataset is None):
            raise misuse("--ledger and --dataset go together")
        if self.release_id is not None and self.ledger is None:
            raise misuse("--id goes with --ledger")

    def read_plan(self) -> "Plan[Any]":
        """Return the plan, if a trusted key signed it."""
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
        """Return the ledger, None without ``--ledger``."""
        return None if self.ledger is None else open_ledger(self.ledger, self.dataset, self.key)


def open_ledger(where: str, dataset: str | None, key: Path | None = None) -> "Ledger":
    """Return an existing ledger; without a name that of its only data set.

    The key is that of ``--key``, or the one in UNDERTOW_LEDGER_KEY.
    """
    from undertow.errors import InvalidInput
    from undertow.ledger.book import Ledger, datasets

    if dataset is None:
        existing = datasets(where)
        if len(existing) != 1:
            shown = ", ".join(existing[:12]) or "none"
            raise InvalidInput(
                f"name the data set with --dataset: the ledger holds {len(existing)}, {shown}"
            )
        dataset = existing[0]
    return Ledger(where, dataset, create=False, key=key)


def read_count(text: str, model: "AnyModel") -> "Count":
    """Return the count of the states named by their texts."""
    from undertow.queries import Count

    states = model.states
    if text in map(str, states):
        return Count([find_state(text, states)])
    return Count([find_state(name, states) for name in names(text, "--count")])


def read_values(text: str, states: "Iterable[State]") -> "dict[State, float]":
    """Return the number of each state in STATE=NUMBER,..., split at the last equality sign.

    >>> read_values("low=0.2,a=b=3", ("low", "a=b"))
    {'low': 0.2, 'a=b': 3.0}
    """
    values: dict[State, float] = {}
    for part in text.split(","):
        name, sign, number = part.strip().rpartition("=")
        if not sign:
            raise misuse(f"--values needs STATE=NUMBER,..., such as low=0.2,high=1.6; {part!r}")
        values[find_state(name.strip(), states)] = _number(number.strip(), "--values")
    return values


def read_missing(text: str | None, states: "Sequence[State]") -> "State | None":
    """Return the meaning of missing records: None, 'any', 'none' or a state."""
    return text if text in (None, "any", "none") else find_state(text, states)


def find_state(text: str, states: "Iterable[State]") -> "State":
    """Return the state of this text, a string before a number; the text itself if none has it."""
    matches = [state for state in states if str(state) == text]
    return text if text in matches or not matches else matches[0]


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
    checks = [] if names is None else [name.strip() for name in names.split(",")]
    if "" in checks:
        raise misuse("--accept needs the names of failed checks, such as order,memory")
    return checks


def read_effort(effort: float | None) -> float | None:
    """Return a positive effort, or None."""
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
    """Return the format of a figure.

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
        shown = f"{text!r}" if text else "nothing between two separators"
        raise misuse(f"{option} needs numbers; found {shown}") from None


@dataclass(frozen=True, slots=True)
class RowsOptions:
    """The options that give persons and times of the rows of a table."""

    person: str | None = option("COLUMN", "Person (default: one person).", group="Records")
    time: str | None = option("COLUMN", "Time (default: rows in order of time).", group="Records")
    every: str | None = option("STEP", "Time step: 5m, 1h, 1d, or a number.", group="Records")
    memory: str | None = option(
        "SIZE", "Memory of a table (default: 1GB); a larger one is read in pieces, and must be "
        "sorted by person and time.", group=_EXPERT,
    )  # fmt: skip

    def outputs(self, column: str) -> "SeriesOptions":
        """Return the options that read the outputs of these rows from a column."""
        return SeriesOptions(self.person, self.time, self.every, self.memory, column)


@dataclass(frozen=True, slots=True)
class SeriesOptions(RowsOptions):
    """The options that read a table of series."""

    value: str | None = option("COLUMN", "Values of the records.", group="Records")
    state: str | None = option(
        "SQL|CUTS", "State of a record: 'steps > 0', or cut points 0.5,1,2.", group="Records"
    )
    window: str | None = option("FROM,TO", "Records from FROM until before TO.", group="Records")

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        for name, text in (("--every", self.every), ("--window", self.window)):
            if text is not None and self.time is None:
                raise misuse(f"{name} goes with --time")
        if self.value is None and not isinstance(read_state(self.state), str):
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
            state=read_state(self.state),
            every=None if self.every is None else read_cell(self.every),
            memory=DEFAULT if self.memory is None else self.memory,
            **more,
        )
        return table if self.window is None else table.window(*_ends(self.window))


@dataclass(frozen=True, slots=True)
class TableOptions(SeriesOptions):
    """The options that read a table of series, and groups of their records."""

    by: str | None = option("COLUMN", "Groups, each with an answer.", group="Records")
    groups: str | None = option("NAMES", "Group names (default: those present).", group="Records")

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if self.groups is not None and self.by is None:
            raise misuse("--groups goes with --by")
        SeriesOptions.__post_init__(self)

    def read(self, path: Path, **more: Any) -> "Data":
        """Return the data, its window and groups applied."""
        wanted = None if self.groups is None else names(self.groups, "--groups")
        return SeriesOptions.read(self, path, by=self.by, groups=wanted, **more)


@dataclass(frozen=True, slots=True)
class ReleasedOptions(TableOptions):
    """The options that read a table to be released."""

    ungrouped: bool = option(
        None, "Assume groups of the model's size, without a column of persons.", False,
        group=_EXPERT,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Refuse options that lack their companion, or exclude each other."""
        if self.ungrouped and self.person is not None:
            raise misuse("--ungrouped goes without --person, which names the groups")
        TableOptions.__post_init__(self)

    def read(self, path: Path, **more: Any) -> "Data":
        """Return the data, its window and groups applied."""
        return TableOptions.read(self, path, ungrouped=self.ungrouped, **more)


@dataclass(frozen=True, slots=True)
class DataOptions(ReleasedOptions):
    """The options that read a table of records, or the genotypes of a VCF file."""

    gaps: str = option(
        "HOW", "Absent time steps: 'split' the series, or records in a state.", "split",
        group="Records",
    )  # fmt: skip
    locus: str | None = option(
        "CHR:POS", "Variant of a VCF file, by place or name; people of the plan's pedigree.",
        group="Records",
    )  # fmt: skip
    allele: str | None = option("BASES", "Allele B (default: ALT).", group="Records")

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if self.locus is not None:
            if any(text not in (None, "split", False) for text in astuple(self)[:-2]):
                raise misuse("--locus goes with a VCF file, without options of a table")
            return
        if self.allele is not None:
            raise misuse("--allele goes with --locus")
        ReleasedOptions.__post_init__(self)
        if self.gaps != "split" and self.every is None:
            raise misuse("--gaps needs --every, the time step")

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

    pedigrees = [model for model in plan.model.members() if isinstance(model, Pedigree)]
    return pedigrees[0].people if pedigrees else ()


def read_state(text: str | None) -> str | list[float] | None:
    """Return cut points if the text is numbers alone, else the expression."""
    if text is None:
        return None
    cuts = [read_cell(part.strip()) for part in text.split(",")]
    return text if any(isinstance(cut, str) for cut in cuts) else cuts


def _ends(text: str) -> list[Any]:
    """Return both ends of a window: numbers where they are numbers, else the text of a time."""
    ends = [part.strip() for part in text.split(",")]
    if len(ends) != 2 or not any(ends):
        raise misuse(f"--window needs FROM,TO, of which one may be left out; found {text!r}")
    return [read_cell(end) if end else None for end in ends]


def read_cell(text: str) -> Any:
    """Return the number in a text, or the text itself."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


DeltaOption = Annotated[
    float | None,
    typer.Option(
        "--delta", metavar="D", rich_help_panel="Guarantee",
        help="Delta of the leakage (default: 0): odds move by more than 2 e^leakage with "
        "probability at most 2 D.",
    ),
]  # fmt: skip
NoiseOption = Annotated[
    Literal["laplace", "gaussian", "discrete-gaussian"] | None,
    typer.Option(
        "--noise", metavar="KIND", rich_help_panel="Guarantee",
        help="Noise: laplace, gaussian or discrete-gaussian; the last two need --delta.",
    ),
]  # fmt: skip
LimitOption = Annotated[
    float,
    typer.Option("--limit", metavar="L", help="Leakage limit.", rich_help_panel="Guarantee"),
]


@dataclass(frozen=True, slots=True)
class NoiseOptions:
    """The options that give delta, the kind of noise and the number of releases."""

    delta: DeltaOption = None
    noise: NoiseOption = None
    releases: int | None = option(
        "T", "Releases on the same records that keep the limit together (default: 1).",
        group="Guarantee",
    )  # fmt: skip

    def arguments(self) -> dict[str, Any]:
        """Return the options given, as arguments of `calibrate`."""
        given = {"delta": self.delta, "noise": self.noise, "releases": self.releases}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class GuaranteeOptions:
    """The options that give the guarantee of an algorithm."""

    epsilon: float | None = option("E", "DP level of any algorithm.", group="Question")
    guarantee_delta: float | None = option("D", "Delta of that level: (E, D)-DP.", group="Question")
    rho: float | None = option("RHO", "Rho of any zCDP algorithm.", group="Question")
    mu: float | None = option("MU", "Mu of any algorithm with Gaussian DP.", group="Question")
    neighbours: Literal["replace", "add-remove"] | None = option(
        "HOW", "Neighbours of the guarantee: replace (default), or add-remove.", group="Question"
    )
    unit: Unit | None = option(
        "UNIT", "Unit of the guarantee: record (default), or person.", group="Question"
    )

    @property
    def flag(self) -> str | None:
        """The option that names a guarantee, None without one."""
        named = (("--epsilon", self.epsilon), ("--rho", self.rho), ("--mu", self.mu))
        given = [name for name, value in named if value is not None]
        if len(given) > 1:
            raise misuse(f"give one guarantee of the algorithm: {' or '.join(given)}")
        return given[0] if given else None

    def check(self) -> None:
        """Refuse options that lack their companion."""
        flag = self.flag
        if self.guarantee_delta is not None and self.epsilon is None:
            raise misuse(
                "--guarantee-delta goes with --epsilon; the delta of the answer is --delta"
            )
        if self.unit is not None and flag is None:
            raise misuse("--unit goes with --epsilon; noisy answers and flips protect records")
        if self.neighbours is not None and flag is None:
            raise misuse("--neighbours goes with --epsilon, --rho or --mu")

    def fields(self) -> dict[str, Any]:
        """Return the neighbours of the guarantee, and whether they were assumed, for JSON."""
        if self.flag is None:
            return {}
        return {
            "neighbours": self.neighbours or "replace",
            "neighbours_assumed": self.neighbours is None,
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return the neighbours of the guarantee, and whether they were assumed, in words."""
        if self.flag is None:
            return []
        unit = self.unit or "record"
        if self.neighbours == "add-remove":
            what = f"{self.flag} is for one {unit} added or removed, so one replaced counts twice"
        else:
            verb = "is" if self.neighbours else "was taken to be"
            what = f"{self.flag} {verb} for one {unit} replaced"
        if self.neighbours is None:
            what += (
                "; if it is for one added or removed, as in OpenDP, Tumult and PipelineDP, use "
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
class AmountOptions:
    """The options that give the amount of noise on an answer."""

    noise: NoiseOption = None
    scale: float | None = option("B", "Scale of Laplace noise on an answer.", group="Question")
    sigma: float | None = option(
        "S", "Standard deviation of Gaussian noise on an answer.", group="Question"
    )

    @property
    def flag(self) -> str | None:
        """The first of these options given, None without one."""
        named = (("--scale", self.scale), ("--sigma", self.sigma), ("--noise", self.noise))
        return next((name for name, value in named if value is not None), None)

    def check(self) -> None:
        """Refuse no amount of noise, two of them, and the wrong one."""
        if self.scale is not None and self.sigma is not None:
            raise misuse("give one of --scale (Laplace noise) and --sigma (Gaussian noise)")
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
    """Return the number of releases that share a limit, in words.

    >>> several(52), several(1)
    (', by 52 releases together', '')
    """
    return f", by {releases} releases together" if releases > 1 else ""


@dataclass(frozen=True, slots=True)
class RecordsOptions:
    """The option that refuses records that are missing or in no state."""

    strict: bool = option(
        None, "Refuse missing and foreign records by row; that refusal depends on the records.",
        False, group="Records",
    )  # fmt: skip

    def rest(self, plan: "Plan[Any]") -> "State | None":
        """Return the state of such records under a plan, None if they are refused."""
        return None if self.strict else plan.rest


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """The options that ask for the series itself, flipped or redacted."""

    series: bool = option(
        None, "The whole series, each record flipped at random.", False, group="Question"
    )
    redacted: bool = option(
        None, "The series, records erased around those of --protect.", False, group="Question"
    )
    protect: str | None = option(
        "I,J", "Protected records (from 0); by default all.", group="Question"
    )
    objective: str | None = option(
        "AIM",
        "Aim of --series: fewest 'flips' (default), most 'information', or costs 1,2 of flipping "
        "each state.",
        group=_EXPERT,
    )

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
    def present(self) -> bool:
        """Whether the series itself is asked for."""
        return self.series or self.redacted

    def read(self, length: int | None) -> "LocalQuery":
        """Return the query for series of ``length`` records."""
        from undertow.queries import Redacted, Series

        if self.series:
            return Series()
        return Redacted(read_records(self.protect or "", "--protect"), length)

    def aim(self) -> Any:
        """Return the objective of the flips: a name, or a cost for each state."""
        text = self.objective
        if text is None or text in ("flips", "information"):
            return text
        return numbers(text, "--objective")


def read_flips(text: str, model: "AnyModel") -> "RandomizedResponse":
    """Return flips with one probability for all states, or one for each of two."""
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
