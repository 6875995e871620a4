"""``undertow leakage``: what an algorithm or a noisy answer reveals about one record."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from undertow.cli.options import (
    AgainstOption,
    CountOption,
    HistogramOption,
    JsonOption,
    KnownOption,
    LengthOption,
    ModelOption,
    ModelText,
    StartOption,
    StatesOption,
    TargetOption,
    TransitionOption,
    misuse,
    read_against,
    read_count,
)
from undertow.cli.output import (
    interval,
    leakage_fields,
    meaning,
    query_words,
    refusals,
    show,
    strict_json,
    waiting,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from undertow.certificate import Leakage
    from undertow.mechanisms import Levelled
    from undertow.models.sets import AnyModel

__all__ = ["leakage"]


class Unit(StrEnum):
    """What the DP level protects."""

    record = "record"
    person = "person"


def leakage(
    model: ModelOption = None,
    transition: TransitionOption = None,
    states: StatesOption = None,
    start: StartOption = None,
    length: LengthOption = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", metavar="E", help="Any algorithm of this DP level ..."),
    ] = None,
    unit: Annotated[
        Unit | None,
        typer.Option("--unit", help="... for one record replaced (default), or a whole person."),
    ] = None,
    count: CountOption = None,
    histogram: HistogramOption = False,
    scale: Annotated[
        float | None,
        typer.Option("--scale", metavar="B", help="Laplace scale of --count or --histogram."),
    ] = None,
    against: AgainstOption = None,
    target: TargetOption = None,
    known: KnownOption = None,
    as_json: JsonOption = False,
) -> None:
    """What an algorithm reveals about one record, as a certified interval.

    Ask about every algorithm of a DP level at once (--epsilon), or about one noisy answer
    (--count or --histogram, with --scale).

    \b
    Examples:
      undertow leakage --transition '0.882,0.118;0.305,0.695' --epsilon 1
      undertow leakage --transition '0.882,0.118;0.305,0.695' --states inactive,active \\
        --count active --scale 4 --against ignorant
      undertow leakage --model chain.json --epsilon 1 --target 50 --known 40,60 --json
    """
    with refusals(as_json):
        question = _question(epsilon, unit, count, histogram, scale)
        who = read_against(against, target, known)
        described = ModelText(model, transition, states, start, length).read()
        mechanism = question(described)
        with waiting("computing the leakage"):
            from undertow.bounds.engine import leakage as compute

            leak = compute(mechanism, described, who)
        if as_json:
            typer.echo(strict_json(leakage_fields(leak)))
        else:
            _tell(mechanism, described, leak)


def _question(
    epsilon: float | None,
    unit: Unit | None,
    count: str | None,
    histogram: bool,
    scale: float | None,
) -> "Callable[[AnyModel], Levelled]":
    """Return how to build the mechanism asked about, once the model's states are known."""
    if (epsilon is not None) + (count is not None) + histogram != 1:
        raise misuse("ask one question: --epsilon, --count or --histogram")
    from undertow.mechanisms import Laplace, PureDP
    from undertow.queries import Histogram

    if epsilon is not None:
        if scale is not None:
            raise misuse("--scale goes with --count or --histogram, not with --epsilon")
        return lambda _: PureDP(epsilon, "person" if unit is Unit.person else "record")
    if scale is None:
        raise misuse("a noisy answer needs --scale, the scale of its Laplace noise")
    if unit is not None:
        raise misuse("--unit goes with --epsilon; a noisy answer protects records")
    return lambda model: Laplace(Histogram() if count is None else read_count(count, model), scale)


def _tell(mechanism: "Levelled", model: "AnyModel", leak: "Leakage") -> None:
    from undertow.adversaries import words
    from undertow.mechanisms import PureDP

    if isinstance(mechanism, PureDP):
        asked = f"any {mechanism.epsilon:g}-DP algorithm, one {mechanism.unit} replaced"
    else:
        asked = f"{query_words(mechanism.query)}, Laplace noise of scale {mechanism.scale:g}"
    rows = [
        ("question", asked),
        ("model", model.describe()),
        ("leakage", interval(leak)),
        ("meaning", meaning(leak)),
        ("attacker", words(leak.against)),
        ("method", leak.method),
        ("witness", "none" if leak.witness is None else leak.witness.words()),
        ("assumes", "; ".join(leak.assumptions) or "nothing"),
    ]
    if leak.citation:
        rows.append(("proved by", leak.citation))
    show("What it reveals about one record", rows)
