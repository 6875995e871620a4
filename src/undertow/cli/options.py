"""The options that commands share, and what their text means.

Text that cannot be read (a number that is none, options that exclude each other) is wrong usage,
exit code 2. Text that reads well and says something impossible is refused by the library.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undertow.rounding import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from undertow.adversaries import Adversary, Against
    from undertow.models.sets import AnyModel
    from undertow.queries import AnyQuery, Count, State

__all__ = [
    "AgainstOption",
    "CountOption",
    "FrequencyOption",
    "HistogramOption",
    "JsonOption",
    "KnownOption",
    "LengthOption",
    "MeanOption",
    "ModelOption",
    "ModelText",
    "Named",
    "QueryText",
    "StartOption",
    "StatesOption",
    "SumOption",
    "TargetOption",
    "TransitionOption",
    "find_state",
    "misuse",
    "names",
    "read_against",
    "read_count",
    "read_range",
    "read_records",
]


class Named(StrEnum):
    """The adversaries that have a name."""

    any = "any"
    ignorant = "ignorant"
    informed = "informed"


ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="FILE",
        help="A model as JSON, as 'undertow fit --output' writes it, or a pedigree (.ped, .fam).",
    ),
]
TransitionOption = Annotated[
    str | None,
    typer.Option(
        "--transition",
        metavar="ROWS",
        help="A transition matrix, row = from: '0.9,0.1;0.3,0.7' (fractions such as 1/3 too).",
    ),
]
FrequencyOption = Annotated[
    str | None,
    typer.Option(
        "--frequency",
        metavar="P",
        help="For a pedigree: how frequent allele B is, a number or a range such as 0.05,0.5.",
    ),
]
StatesOption = Annotated[
    str | None,
    typer.Option("--states", metavar="NAMES", help="State names; by default 0, 1, 2, ..."),
]
StartOption = Annotated[
    str | None,
    typer.Option("--start", metavar="LAW", help="'stationary' (default) or '0.5,0.5'."),
]
LengthOption = Annotated[
    int | None,
    typer.Option("--length", metavar="N", help="Records in a series; by default any number."),
]
CountOption = Annotated[
    str | None,
    typer.Option("--count", metavar="STATES", help="The number of records in these states."),
]
HistogramOption = Annotated[
    bool, typer.Option("--histogram", help="The number of records in each state.")
]
SumOption = Annotated[
    str | None,
    typer.Option("--sum", metavar="LOW,HIGH", help="The sum of records clipped to a range."),
]
MeanOption = Annotated[
    str | None,
    typer.Option("--mean", metavar="LOW,HIGH", help="Their mean; needs --length."),
]
AgainstOption = Annotated[
    Named | None,
    typer.Option(
        "--against",
        help="What the attacker knows: any records (default), none of the others, or all.",
        show_choices=True,
    ),
]
TargetOption = Annotated[
    int | None,
    typer.Option("--target", metavar="I", help="One attacker, who wants record I (from 0) ..."),
]
KnownOption = Annotated[
    str | None,
    typer.Option("--known", metavar="I,J", help="... and knows these records (default: none)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]


_PEDIGREES = (".ped", ".fam", ".ped.gz", ".fam.gz")


@dataclass(frozen=True, slots=True)
class ModelText:
    """The model as it was typed."""

    model: Path | None
    transition: str | None
    states: str | None
    start: str | None
    length: int | None
    frequency: str | None = None

    def read(self) -> "AnyModel":
        """Return the model; ``--length`` also completes a file that leaves the length open."""
        pedigree = self.model is not None and self.model.name.lower().endswith(_PEDIGREES)
        if self.frequency is not None and not pedigree:
            raise misuse("--frequency goes with a pedigree: --model family.ped")
        if self.transition is not None and self.model is None:
            return self._chain(self.transition)
        if self.model is None or self.transition is not None:
            raise misuse("give the model with either --model or --transition")
        for name, value in (("--states", self.states), ("--start", self.start)):
            if value is not None:
                raise misuse(f"{name} goes with --transition; a model file says it itself")
        if pedigree:
            return self._pedigree(self.model)
        return self._from_file(self.model)

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
        for position, row in enumerate(rows):
            if len(row) != len(rows):
                raise InvalidModel(
                    f"row {position} of transition has {len(row)} entries, but there are "
                    f"{len(rows)} rows; the matrix must be square, rows separated by ';'"
                )
        start: Any = self.start
        if start is not None and start.strip() != "stationary":
            start = numbers(start, "--start")
        return MarkovChain(
            rows,
            None if self.states is None else names(self.states, "--states"),
            "stationary" if start is None or isinstance(start, str) else start,
            self.length,
        )

    def _from_file(self, path: Path) -> "AnyModel":
        from undertow.cli.files import read_model
        from undertow.models.sets import model_from_dict

        model = read_model(path)
        if self.length is None:
            return model
        description = model.to_dict()
        if description.get("length", "none") is not None:
            raise misuse("--length completes a chain of any length; this model file is none")
        return model_from_dict(description | {"length": self.length})


@dataclass(frozen=True, slots=True)
class QueryText:
    """The question as it was typed: one of four."""

    count: str | None
    histogram: bool
    sum: str | None
    mean: str | None

    def __post_init__(self) -> None:
        """Refuse no question and two."""
        typed = [text for text in (self.count, self.sum, self.mean) if text is not None]
        if len(typed) + self.histogram != 1:
            raise misuse("ask for one of --count, --histogram, --sum and --mean")

    def read(self, model: "AnyModel") -> "AnyQuery":
        """Return the query, its states being those of the model."""
        from undertow.errors import NotSupported
        from undertow.queries import Histogram, Mean, Sum

        if self.count is not None:
            return read_count(self.count, model)
        if self.sum is not None:
            return Sum(*read_range(self.sum, "--sum"))
        if self.mean is not None:
            return Mean(*read_range(self.mean, "--mean"))
        if not model.states:
            raise NotSupported(
                "a histogram needs a model that names the states, such as a Markov chain"
            )
        return Histogram()


def read_against(against: Named | None, target: int | None, known: str | None) -> "Against":
    """Return the adversary that was typed, ``any`` by default."""
    if target is None:
        if known is not None:
            raise misuse("--known needs --target, the record that the attacker wants")
        return "any" if against is None else against.value
    if against is not None:
        raise misuse("--target names one attacker; leave --against out")
    return _attacker(target, known)


def read_count(text: str, model: "AnyModel") -> "Count":
    """Return the count of the states named, a state being known by its text."""
    from undertow.queries import Count

    states = model.states
    if text in map(str, states):
        return Count([find_state(text, states)])
    return Count([find_state(name, states) for name in names(text, "--count")])


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


def _attacker(target: int, known: str | None) -> "Adversary":
    from undertow.adversaries import Adversary

    return Adversary(target, read_records(known, "--known") if known else [])


def read_range(text: str, option: str) -> tuple[float, float]:
    """Return the two ends of LOW,HIGH."""
    ends = numbers(text, option)
    if len(ends) != 2:
        raise misuse(f"{option} needs two numbers, LOW,HIGH; found {len(ends)}")
    return ends[0], ends[1]


def _number(text: str, option: str) -> float:
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        found = f"{text!r}" if text else "nothing between two separators"
        raise misuse(f"{option} needs numbers; found {found}") from None
