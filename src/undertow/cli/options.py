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

if TYPE_CHECKING:
    from undertow.adversaries import Adversary, Against
    from undertow.models.sets import AnyModel
    from undertow.queries import Count

__all__ = [
    "AgainstOption",
    "CountOption",
    "HistogramOption",
    "JsonOption",
    "KnownOption",
    "LengthOption",
    "ModelOption",
    "ModelText",
    "Named",
    "StartOption",
    "StatesOption",
    "TargetOption",
    "TransitionOption",
    "misuse",
    "read_against",
    "read_count",
    "read_range",
]


class Named(StrEnum):
    """The adversaries that have a name."""

    any = "any"
    ignorant = "ignorant"
    informed = "informed"


ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model", metavar="FILE", help="A model as JSON, as MarkovChain.to_dict() writes it."
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


@dataclass(frozen=True, slots=True)
class ModelText:
    """The model as it was typed."""

    model: Path | None
    transition: str | None
    states: str | None
    start: str | None
    length: int | None

    def read(self) -> "AnyModel":
        """Return the model; ``--length`` also completes a file that leaves the length open."""
        if self.transition is not None and self.model is None:
            return self._chain(self.transition)
        if self.model is None or self.transition is not None:
            raise misuse("give the model with either --model or --transition")
        for name, value in (("--states", self.states), ("--start", self.start)):
            if value is not None:
                raise misuse(f"{name} goes with --transition; a model file says it itself")
        return self._from_file(self.model)

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
        from undertow.models.markov import MarkovChain

        model = read_model(path)
        if self.length is None:
            return model
        if not isinstance(model, MarkovChain) or model.length is not None:
            raise misuse("--length completes a chain of any length; this model file is none")
        return MarkovChain(model.transition, model.states, model.start, self.length)


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
    from undertow.plan import model_states
    from undertow.queries import Count

    by_text = {str(state): state for state in reversed(model_states(model))}
    by_text |= {state: state for state in model_states(model) if isinstance(state, str)}
    if text in by_text:
        return Count([by_text[text]])
    return Count([by_text.get(name, name) for name in names(text, "--count")])


def read_range(text: str, option: str) -> tuple[float, float]:
    """Return the two ends of 'LOW,HIGH'."""
    ends = numbers(text, option)
    if len(ends) != 2:
        raise misuse(f"{option} needs two numbers, LOW,HIGH; found {len(ends)}")
    return ends[0], ends[1]


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
    return typer.BadParameter(message)


def _attacker(target: int, known: str | None) -> "Adversary":
    from undertow.adversaries import Adversary

    try:
        records = [int(part) for part in known.split(",")] if known else []
    except ValueError:
        raise misuse(f"--known needs whole numbers such as 1,2,5; found {known!r}") from None
    return Adversary(target, records)


def _number(text: str, option: str) -> float:
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        found = f"{text!r}" if text else "nothing between two separators"
        raise misuse(f"{option} needs numbers; found {found}") from None
