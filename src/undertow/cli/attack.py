"""``undertow attack``: the success of attackers on a release, given the truth."""

from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undertow.cli.files import check_figure, read_model, read_plan, write_figure
from undertow.cli.options import (
    ConfidenceOption,
    ForceOption,
    JsonOption,
    ModelFileOption,
    PlanFileOption,
    SeriesOptions,
    command,
    misuse,
    names,
    numbers,
    option,
    read_records,
)
from undertow.cli.output import above, answer, counting, show, show_checks, show_table, waiting
from undertow.cli.plugins import registered_attacker

if TYPE_CHECKING:
    from undertow.auditing.attacking import Attack, Verdict
    from undertow.data.table import Data
    from undertow.figures.canvas import Figure
    from undertow.models.base import Model
    from undertow.plan import Plan

__all__ = ["attack"]


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
            help="Release written by 'undertow sanitize' or 'undertow release --output' (.json).",
        ),
    ],
    plan: PlanFileOption,
    reading: SeriesOptions,
    truth: Path = option("DATA", "Table before the release.", MISSING, group="Records"),
    shown: str | None = option(
        "COLUMN", "Column of outputs (default: that of --value).", group="Records"
    ),
    known: str | None = option(
        "I,J", "Records known to the attacker, in every series.", group="Question"
    ),
    targets: str | None = option("I,J", "Records to guess (default: all).", group="Question"),
    attackers: str | None = option(
        "NAMES", "Attackers: single-bit, correlation-aware, viterbi, informed, lstm, prior "
        "(default: bayes).", group="Question",
    ),
    model: ModelFileOption = None,
    confidence: ConfidenceOption = 0.95,
    limits: str | None = option(
        "L,L", "Further limits in the figure; their plans are carried out on the truth in memory.",
        group="Expert",
    ),
    figure: Path | None = option(
        "FILE", "Path of a figure of success against the limit (.png or .svg).", group="Output"
    ),
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Attack a release with the truth at hand: how often attackers are right, and the guarantee.

    The result depends on the truth and is for those who may see it. The options that read the table
    are those of 'undertow sanitize'.

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
    settings: dict[str, Any] = {
        "attackers": None if attackers is None else names(attackers, "--attackers"),
        "known": [] if known is None else read_records(known, "--known"),
        "targets": None if targets is None else read_records(targets, "--targets"),
        "model": None if model is None else _chain(model),
        "confidence": confidence,
    }
    with waiting("reading the data"):
        true = reading.read(truth)
        if read.task != "answer":
            column = shown or reading.value or "state"
            released: Any = reading.outputs(column).read(data)
        else:
            released = _answers(data)
    with counting("attacking", "fewer --targets are faster") as progress:
        from undertow.auditing.attacking import attack as compute

        if settings["attackers"]:
            settings["attackers"] = [
                registered_attacker(name, progress) for name in settings["attackers"]
            ]
        result = compute(released, read, true, **settings)
    if figure is not None:
        with waiting("drawing"):
            drawn = _draw(result, read, true, settings, others)
        write_figure(figure, drawn, force=force)
    answer(
        result.to_dict()
        | {"plan": read.fingerprint(), "checks": [check.to_dict() for check in read.checks]},
        lambda: _show(result, read, figure),
        as_json=as_json,
    )


def _chain(path: Path) -> "Model":
    from undertow.errors import NotSupported

    model = read_model(path)
    if model.lowered() is None:
        raise NotSupported(f"attackers use one Markov chain; {path} describes another model")
    return model


def _answers(path: Path) -> list[float]:
    """Return the numbers of a release, as 'undertow release --output' wrote them."""
    import json

    from undertow.errors import InvalidInput
    from undertow.files import reason

    refusal = (
        f"{path} must be the .json file that 'undertow release --output' wrote: the plan answers "
        "a question with noise"
    )
    try:
        release = json.loads(path.read_bytes())
        return [float(number["value"]) for number in release["numbers"]]
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {reason(error)}") from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidInput(refusal) from error


def _draw(
    result: "Attack", plan: "Plan[Any]", true: "Data", settings: dict[str, Any],
    others: list[float],
) -> "Figure":  # fmt: skip
    """Return the figure: this attack, and those on plans for other limits."""
    import numpy as np

    from undertow.figures.series import Guarantee, Hit, draw_attacks

    attacks = [result, *(_other(plan, true, settings, limit) for limit in others)]
    hits = [
        Hit(
            one.attacker, attack.limit, one.accuracy, *one.interval, one.covers,
            # the bound of an attacker whose prior is not that of the others
            one.bound if abs(one.prior - attack.verdicts[0].prior) > _APART else None,
        )
        for attack in attacks
        for one in attack.verdicts
        if one.attacker != "prior"
    ]  # fmt: skip
    most = 1.12 * max(attack.limit for attack in attacks)
    levels = np.linspace(0.0, most if np.isfinite(most) else 10.0, _POINTS)
    bounds = np.array([result.bound(float(level)) for level in levels])
    title = f"Attacks on {result.records} records"
    return draw_attacks(hits, Guarantee(levels, bounds, result.verdicts[0].prior), title)


def _other(plan: "Plan[Any]", true: "Data", settings: dict[str, Any], limit: float) -> "Attack":
    """Return the attack on a plan for another limit, carried out once and not written."""
    from undertow.auditing.attacking import attack as compute
    from undertow.planning.calibrate import calibrate
    from undertow.releasing.request import release
    from undertow.releasing.series import sanitize

    other: Plan[Any] = calibrate(plan.query, plan.model, limit, plan.against, accept=plan.accepted)
    if other.task == "answer":
        return compute(release(other, true).value, other, true, **settings)
    shown = sanitize(other, true)
    return compute(shown, other, true, **settings)


def _show(result: "Attack", plan: "Plan[Any]", figure: Path | None) -> None:
    from undertow.adversaries import words

    broken = result.broken()
    verdict = "kept, as far as these attackers can tell"
    if broken:
        verdict = f"BROKEN by {', '.join(one.attacker for one in broken)}"
    promise = f"leakage {above(result.limit)} against {words(result.against)}"
    facts = [
        ("guarantee", "; ".join([promise, *result.conditions])),
        ("records", f"{result.records}, of {result.series} series"),
        ("guessed", f"{result.verdicts[0].targets} of them"),
    ]
    if result.known:
        facts.append(("known", ", ".join(map(str, result.known))))
    facts += [
        ("intervals", f"hold with probability {100 * result.confidence:g}%"),
        ("the guarantee is", verdict),
    ]
    if figure is not None:
        facts.append(("written to", str(figure)))
    show("The attack", facts)
    header = ["attacker", "right", "interval", "advantage", "charges", "worst odds", "guaranteed"]
    show_table("Success of the attackers", header, [_row(one) for one in result.verdicts])
    show_checks(plan.checks)


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
