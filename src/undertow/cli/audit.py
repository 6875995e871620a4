"""``undertow audit``: does the code that carries out a plan keep its guarantee?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from undertow.cli.files import read_plan
from undertow.cli.options import JsonOption, command, misuse, option
from undertow.cli.output import answer, below, counting, say, show

if TYPE_CHECKING:
    from undertow.auditing.auditor import Audit
    from undertow.plan import Plan

__all__ = [
    "audit",
]


_LEAST = 1000


@command
def audit(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN", help="The plan's file, as 'undertow plan' wrote it.")
    ],
    draws: int | None = option("N", "Series of each attack and value (50000 unless told)."),
    confidence: float = option("C", "Of the bound and the verdict.", 0.95),
    limit: float | None = option("L", "The leakage to refute, not the plan's own."),
    delta: float | None = option("D", "The delta to refute it at, not the plan's own."),
    seed: int | None = option("N", "Repeatable, with seeded noise: for experiments."),
    promise: float | None = option("L", "What --limit was called.", hidden=True),
    as_json: JsonOption = False,
) -> None:
    """Attack the code that carries out a plan, on data drawn from its model.

    No private data is needed. The bound holds with the confidence stated, whatever the code does;
    a consistent plan is not proved by it. Small leakages need few draws, large ones many: some
    e^epsilon times a thousand.

    \b
    Examples:
      undertow audit plan.json
      undertow audit flips.json --draws 20000 --json

    Exit codes: 0 consistent with the guarantee; 1 refuted, or no audit possible (with the reason);
    2 wrong usage.
    """
    if draws is not None and draws < _LEAST:
        raise misuse(f"--draws needs at least {_LEAST}; found {draws}")
    if not 0 < confidence < 1:
        raise misuse(f"--confidence must lie between 0 and 1; found {confidence:g}")
    if promise is not None:
        if limit is not None:
            raise misuse("say once what to refute: --limit")
        say("warning: --promise is deprecated; write --limit")
        limit = promise
    if limit is not None and not limit > 0:
        raise misuse(f"--limit must be positive; found {limit:g}")
    if delta is not None and not 0 <= delta < 1:
        raise misuse(f"--delta must be 0 or more and below 1; found {delta:g}")
    if seed is not None and seed < 0:
        raise misuse(f"--seed must be 0 or more; found {seed}")
    from undertow.auditing.auditor import DRAWS
    from undertow.auditing.auditor import audit as attack

    read = read_plan(plan)
    with counting("attacking", "fewer --draws are faster, and prove less") as tell:
        found = attack(
            read, draws or DRAWS, seed=seed, confidence=confidence, limit=limit,
            delta=delta, progress=tell,
        )  # fmt: skip
    answer(
        found.to_dict() | {"plan": read.fingerprint()}, lambda: _tell(read, found), as_json=as_json
    )
    if found.refuted:
        raise typer.Exit(1)


def _tell(plan: "Plan", found: "Audit") -> None:
    from undertow.adversaries import words

    value, other = found.attack.value, found.attack.other
    seen = (
        f"in {found.hits:,} series with {value!r}, {found.other_hits:,} with {other!r}, of "
        f"{found.draws:,} tested"
        f"{f'; in {found.blanks:,} blank draws, for delta' if found.delta else ''}"
    )
    said = f"a leakage of at most {found.limit_words()} to {words(plan.against)}"
    sure = f"with {100 * found.confidence:g}% confidence"
    show(
        f"The guarantee is {'REFUTED' if found.refuted else 'consistent with the audit'}",
        [
            ("question", plan.query.words()),
            ("guarantee", said),
            ("found", f"at least {below(found.lower, 4)}{found.at_delta()}, {sure}"),
            ("attack", found.attack_words()),
            ("event", found.event),
            ("seen", seen),
            (
                "tried",
                f"{found.attacks} attack{'s' * (found.attacks > 1)}, {found.series:,} series",
            ),
            ("randomness", found.randomness),
            *([] if found.refuted else [("cannot be seen", "; ".join(found.cannot_see))]),
        ],
    )
