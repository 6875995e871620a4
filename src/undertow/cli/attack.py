"""``undertow attack``: what attackers make of a release, compared with the truth."""

from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undertow.cli.files import check_figure, read_model, read_plan, write_bytes
from undertow.cli.local import is_local, verb_of
from undertow.cli.options import (
    ConfidenceOption,
    ForceOption,
    JsonOption,
    ModelOption,
    PlanOption,
    SeriesText,
    command,
    figure_kind,
    misuse,
    names,
    numbers,
    option,
    read_records,
)
from undertow.cli.output import above, answer, counting, show, show_table, waiting
from undertow.cli.plugins import registered_attacker

if TYPE_CHECKING:
    from undertow.auditing.attacking import Attack, Verdict
    from undertow.models.base import Model
    from undertow.plan import Plan

__all__ = [
    "attack",
]


_POINTS = 120
"""Points of the curve of the bound."""

_APART = 1e-6
"""Priors that differ by more have bounds of their own in the figure."""


@command
def attack(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASED",
            help="What 'undertow sanitize', 'redact' or 'release --output' (.json) wrote.",
        ),
    ],
    plan: PlanOption,
    reading: SeriesText,
    truth: Path = option("DATA", "The table that was randomised.", MISSING),
    shown: str | None = option("COLUMN", "The column of outputs; by default that of --value."),
    known: str | None = option("I,J", "Records that the attacker knows, in every series."),
    targets: str | None = option("I,J", "Records to guess; by default all."),
    attackers: str | None = option(
        "NAMES", "Of single-bit, correlation-aware, viterbi, informed, lstm, prior; else bayes."
    ),
    model: ModelOption = None,
    confidence: ConfidenceOption = 0.95,
    limits: str | None = option(
        "L,L", "Of --figure: attack plans for these too, carried out on the truth in memory."
    ),
    figure: Path | None = option("FILE", "Draw success against the limit (.png or .svg)."),
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """What attackers make of a release: how often they are right, and what was guaranteed.

    Needs the truth, so it is for those who may see it, and so is what it prints. Options that say
    how to read the table are those of 'undertow sanitize'.

    \b
    Examples:
      undertow attack flipped.csv --plan flips.json --truth activity.csv.gz --value steps \\
        --state 'steps > 0' --figure attack.png
      undertow attack flipped.csv --plan flips.json --truth activity.csv.gz --value steps \\
        --state 'steps > 0' --known 3,9 --attackers correlation-aware --json
    """
    if figure is None and limits is not None:
        raise misuse("--limits goes with --figure")
    check_figure(figure, force=force)
    others = [] if limits is None else numbers(limits, "--limits")
    read: Plan[Any] = read_plan(plan)
    how: dict[str, Any] = {
        "attackers": None if attackers is None else names(attackers, "--attackers"),
        "known": [] if known is None else read_records(known, "--known"),
        "targets": None if targets is None else read_records(targets, "--targets"),
        "model": None if model is None else _chain(model),
        "confidence": confidence,
    }
    with waiting("reading the data"):
        true = reading.read(truth)
        if is_local(read):
            column = shown or reading.value or "state"
            released: Any = reading.outputs(column).read(data)
        else:
            released = _answers(data)
    with counting("attacking", "fewer --targets are faster") as tell:
        from undertow.auditing.attacking import attack as compute

        if how["attackers"]:
            how["attackers"] = [registered_attacker(name, tell) for name in how["attackers"]]
        found = compute(released, read, true, **how)
    if figure is not None:
        with waiting("drawing"):
            _draw(found, read, true, how, others, figure, force=force)
    answer(
        found.to_dict() | {"plan": read.fingerprint()},
        lambda: _tell(found, figure),
        as_json=as_json,
    )


def _chain(path: Path) -> "Model":
    from undertow.errors import NotSupported

    found = read_model(path)
    if found.lowered() is None:
        raise NotSupported(f"attackers believe in one Markov chain; {path} describes another model")
    return found


def _answers(path: Path) -> list[float]:
    """Return the numbers of a release, as 'undertow release --output' wrote them."""
    import json

    from undertow.errors import InvalidInput
    from undertow.files import reason

    form = (
        f"{path} must be the .json file that 'undertow release --output' wrote: the plan answers "
        "a question with noise"
    )
    try:
        said = json.loads(path.read_bytes())
        return [float(number["value"]) for number in said["numbers"]]
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {reason(error)}") from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidInput(form) from error


def _draw(
    found: "Attack", plan: "Plan[Any]", true: Any, how: dict[str, Any], others: list[float],
    path: Path, *, force: bool,
) -> None:  # fmt: skip
    """Write the figure: this attack, and those on plans for other limits."""
    import numpy as np

    from undertow.figures.canvas import figure_bytes
    from undertow.figures.series import Guarantee, Hit, draw_attacks

    attacks = [found, *(_other(plan, true, how, limit) for limit in others)]
    hits = [
        Hit(one.attacker, attack.limit, one.accuracy, *one.interval, one.covers, _own(one, attack))
        for attack in attacks
        for one in attack.verdicts
        if one.attacker != "prior"
    ]
    most = 1.12 * max(attack.limit for attack in attacks)
    levels = np.linspace(0.0, most if np.isfinite(most) else 10.0, _POINTS)
    bounds = np.array([found.bound(float(level)) for level in levels])
    title = f"Attacks on {found.records} records"
    drawn = draw_attacks(hits, Guarantee(levels, bounds, found.verdicts[0].prior), title)
    write_bytes(path, figure_bytes(drawn, figure_kind(path)), force=force)


def _own(one: "Verdict", attack: "Attack") -> float | None:
    """Return the bound of an attacker whose prior is not that of the others."""
    shared = attack.verdicts[0].prior
    return one.bound if abs(one.prior - shared) > _APART else None


def _other(plan: "Plan[Any]", true: Any, how: dict[str, Any], limit: float) -> "Attack":
    """Return the attack on a plan for another limit, carried out once and not written."""
    from undertow.auditing.attacking import attack as compute
    from undertow.planning.calibrate import calibrate
    from undertow.releasing import series as sanitizing
    from undertow.releasing.request import release

    made: Plan[Any] = calibrate(plan.query, plan.model, limit, plan.against, accept=plan.accepted)
    if not is_local(made):
        return compute(release(made, true).value, made, true, **how)
    shown = getattr(sanitizing, verb_of(made))(made, true)
    return compute(shown, made, true, **how)


def _tell(found: "Attack", figure: Path | None) -> None:
    from undertow.adversaries import words

    broken = found.broken()
    verdict = "kept, as far as these attackers can tell"
    if broken:
        verdict = f"BROKEN by {', '.join(one.attacker for one in broken)}"
    facts = [
        ("guarantee", f"leakage {above(found.limit)} against {words(found.against)}"),
        ("records", f"{found.records}, of {found.series} series"),
        ("guessed", f"{found.verdicts[0].targets} of them"),
    ]
    if found.known:
        facts.append(("known", ", ".join(map(str, found.known))))
    facts += [
        ("intervals", f"hold with probability {100 * found.confidence:g}%"),
        ("the guarantee is", verdict),
    ]
    if figure is not None:
        facts.append(("written to", str(figure)))
    show("The attack", facts)
    header = ["attacker", "right", "interval", "advantage", "charges", "worst odds", "guaranteed"]
    show_table("How the attackers fared", header, [_row(one) for one in found.verdicts])


def _row(one: "Verdict") -> list[str]:
    low, high = one.interval
    bound = "nothing" if one.bound is None else f"at most {above(one.bound, 4)}"
    return [
        one.attacker,
        f"{one.accuracy:.4f}",
        f"{low:.4f} to {high:.4f}",
        f"{one.advantage:+.4f}",
        f"{one.charged:.4g}",
        "-" if one.worst is None else f"{one.worst:.4g}",
        bound if one.covers else f"{bound}, but not against this attacker",
    ]
