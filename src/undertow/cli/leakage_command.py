"""``undertow leakage``: what an algorithm or a noisy answer reveals about one record."""

from typing import TYPE_CHECKING

from undertow.cli.commands import command, option
from undertow.cli.local_options import read_flips
from undertow.cli.options import AgainstText, JsonOption, ModelText, QueryText, Unit, misuse
from undertow.cli.output import answer, interval, leakage_fields, meaning, show, waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from undertow.certificate import Leakage
    from undertow.channels import RandomizedResponse
    from undertow.mechanisms import Levelled
    from undertow.models.sets import AnyModel

__all__ = ["leakage"]


@command
def leakage(
    model: ModelText,
    query: QueryText,
    who: AgainstText,
    epsilon: float | None = option("E", "Any algorithm of this DP level ..."),
    unit: Unit | None = option(None, "... for one record replaced (default), or a whole person."),
    scale: float | None = option("B", "Laplace scale of a noisy answer."),
    flips: str | None = option(
        "RHO[,RHO]",
        "The series, each record flipped with this probability, or one for each of two states.",
    ),
    effort: int | None = option("N", "For --flips of many states: more narrows the interval."),
    as_json: JsonOption = False,
) -> None:
    """What an algorithm reveals about one record, as a certified interval.

    Ask about every algorithm of a DP level at once (--epsilon), about one noisy answer (--count,
    --histogram, --sum or --mean, with --scale), or about a series of flipped records (--flips).

    \b
    Examples:
      undertow leakage --transition '0.882,0.118;0.305,0.695' --epsilon 1
      undertow leakage --transition '0.882,0.118;0.305,0.695' --states inactive,active \\
        --count active --scale 4 --against ignorant
      undertow leakage --model chain.json --epsilon 1 --target 50 --known 40,60 --json
      undertow leakage --model chain.json --flips 0.3,0.4
      undertow leakage --model family.ped --frequency 0.05,0.5 --count BB --scale 2
    """
    if effort is not None and flips is None:
        raise misuse("--effort goes with --flips")
    question = _question(epsilon, unit, query, scale, flips)
    against, described = who.read(), model.read()
    mechanism = question(described)
    with waiting("computing the leakage"):
        from undertow.bounds.engine import EFFORT
        from undertow.bounds.engine import leakage as compute

        leak = compute(mechanism, described, against, effort=EFFORT if effort is None else effort)
    answer(
        leakage_fields(leak) | {"any_length": described.length is None},
        lambda: _tell(mechanism, described, leak),
        as_json=as_json,
    )


def _question(
    epsilon: float | None, unit: Unit | None, query: QueryText, scale: float | None,
    flips: str | None,
) -> "Callable[[AnyModel], Levelled | RandomizedResponse]":  # fmt: skip
    """Return how to build the mechanism asked about, once the model's states are known."""
    if (epsilon is not None) + (flips is not None) + query.asked != 1:
        raise misuse("ask one question: --epsilon, --count, --histogram, --sum, --mean or --flips")
    from undertow.mechanisms import Laplace, PureDP

    other = "--flips" if flips is not None else "--epsilon" if epsilon is not None else None
    if scale is not None and other is not None:
        raise misuse(f"--scale goes with a noisy answer, not with {other}")
    if unit is not None and epsilon is None:
        raise misuse("--unit goes with --epsilon; noisy answers and flips protect records")
    if flips is not None:
        return lambda model: read_flips(flips, model)
    if epsilon is not None:
        return lambda _: PureDP(epsilon, unit or "record")
    if scale is None:
        raise misuse("a noisy answer needs --scale, the scale of its Laplace noise")
    return lambda model: Laplace(query.read(model), scale)


def _tell(mechanism: "Levelled | RandomizedResponse", model: "AnyModel", leak: "Leakage") -> None:
    from undertow.adversaries import words
    from undertow.channels import RandomizedResponse
    from undertow.mechanisms import PureDP

    if isinstance(mechanism, RandomizedResponse):
        rates = dict.fromkeys(f"{1 - kept:g}" for kept in mechanism.matrix.diagonal())
        asked = f"the whole series, each record flipped with probability {' or '.join(rates)}"
    elif isinstance(mechanism, PureDP):
        asked = f"any {mechanism.epsilon:g}-DP algorithm, one {mechanism.unit} replaced"
    else:
        asked = f"{mechanism.query.words()}, Laplace noise of scale {mechanism.scale:g}"
    rows = [
        ("question", asked),
        ("model", model.describe()),
        ("leakage", interval(leak)),
        ("meaning", meaning(leak)),
        ("attacker", words(leak.against)),
        ("method", leak.method),
        ("witness", "none" if leak.witness is None else leak.witness.words(model.length is None)),
        ("assumes", "; ".join(leak.assumptions) or "nothing"),
    ]
    if leak.citation:
        rows.append(("proved by", leak.citation))
    show("What it reveals about one record", rows)
