"""``undertow audit``: test the code that carries out a plan against its guarantee."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from undertow.cli.files import read_plan
from undertow.cli.options import ConfidenceOption, JsonOption, command, misuse, option
from undertow.cli.output import answer, below, counting, show

if TYPE_CHECKING:
    from undertow.auditing.auditor import Audit
    from undertow.plan import Plan

__all__ = ["audit"]


_LEAST = 1000


@command
def audit(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN", help="Plan file written by 'undertow plan'.")
    ],
    draws: int | None = option("N", "Series per attack and value (default: 50000)."),
    confidence: ConfidenceOption = 0.95,
    limit: float | None = option("L", "Leakage to refute (default: that of the plan)."),
    delta: float | None = option("D", "Delta to refute it at (default: that of the plan)."),
    seed: int | None = option("N", "Seed of noise and data, for repeatable experiments."),
    as_json: JsonOption = False,
) -> None:
    """Audit the code that carries out a plan by attacks on data drawn from its model.

    No private data is needed. The bound holds with the stated confidence, whatever the code does;
    a consistent result proves nothing. A leakage of epsilon needs some e^epsilon times a thousand
    draws.

    \b
    Examples:
      undertow audit plan.json
      undertow audit flips.json --draws 20000 --json

    Exit codes: 0 consistent with the guarantee; 1 refuted, or not possible (with the reason);
    2 wrong usage.
    """
    if draws is not None and draws < _LEAST:
        raise misuse(f"--draws needs at least {_LEAST}; found {draws}")
    if not 0 < confidence < 1:
        raise misuse(f"--confidence must lie between 0 and 1; found {confidence:g}")
    if limit is not None and not limit > 0:
        raise misuse(f"--limit must be positive; found {limit:g}")
    if delta is not None and not 0 <= delta < 1:
        raise misuse(f"--delta must be 0 or more and below 1; found {delta:g}")
    if seed is not None and seed < 0:
        raise misuse(f"--seed must be 0 or more; found {seed}")
    from undertow.auditing.auditor import DRAWS
    from undertow.auditing.auditor import audit as attack

    read = read_plan(plan)
    with counting("attacking", "fewer --draws are faster, and prove less") as progress:
        result = attack(
            read, draws or DRAWS, seed=seed, confidence=confidence, limit=limit,
            delta=delta, progress=progress,
        )  # fmt: skip
    answer(
        result.to_dict() | {"plan": read.fingerprint()},
        lambda: _show(read, result),
        as_json=as_json,
    )
    if result.refuted:
        raise typer.Exit(1)


def _show(plan: "Plan", result: "Audit") -> None:
    from undertow.adversaries import words

    value, other = result.attack.value, result.attack.other
    seen = (
        f"in {result.hits:,} series with {value!r}, {result.other_hits:,} with {other!r}, of "
        f"{result.draws:,} tested"
        f"{f'; in {result.blanks:,} blank draws, for delta' if result.delta else ''}"
    )
    guarantee = f"a leakage of at most {result.limit_words()} to {words(plan.against)}"
    sure = f"with {100 * result.confidence:g}% confidence"
    show(
        f"The guarantee is {'REFUTED' if result.refuted else 'consistent with the audit'}",
        [
            ("question", plan.query.words()),
            ("guarantee", guarantee),
            ("found", f"at least {below(result.lower, 4)}{result.at_delta()}, {sure}"),
            ("attack", result.attack_words()),
            ("event", result.event),
            ("seen", seen),
            (
                "tried",
                f"{result.attacks} attack{'s' * (result.attacks > 1)}, {result.series:,} series",
            ),
            ("randomness", result.randomness),
            *([] if result.refuted else [("cannot be seen", "; ".join(result.cannot_see))]),
        ],
    )
