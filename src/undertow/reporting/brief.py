"""A release in a dozen lines: what ``print(release)`` shows."""

from typing import TYPE_CHECKING

from undertow.conditions import exact_answer, readings_moved
from undertow.reporting import scope, words
from undertow.reporting.facts import BETA, numbers, proved
from undertow.rounding import above, visible

if TYPE_CHECKING:
    from undertow.releasing import Release

__all__ = ["brief"]

_MOST = 12
"""Numbers that are shown; the others are in the report."""


def brief(release: "Release") -> str:
    """Return the answer, how far off it may be, its guarantee and its place in the ledger.

    >>> from undertow import Count, MarkovChain, calibrate, release
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> plan = calibrate(Count("active"), chain, limit=1.0)
    >>> print(brief(release(plan, ["idle", "active"] * 50)).splitlines()[0])
    number of records in 'active'
    """
    rows = [(visible(label), text) for label, text in (*_answers(release), *_about(release))]
    width = max(len(label) for label, _ in rows)
    lines = [f"  {label:<{width}}  {text}".rstrip() for label, text in rows]
    top = [release.plan.noise.query.words(), *words.audience(release.plan)]
    if release.randomness != "secure":
        top.append(f"NOT PRIVATE: the noise was drawn from {release.randomness}")
    if release.replayed:
        top.append(f"Note: {scope.replay(release.made)}")
    return "\n".join(map(visible, [*top, *lines]))


def _answers(release: "Release") -> list[tuple[str, str]]:
    found = list(numbers(release))
    sure = f"with probability {100 * (1 - BETA):g}%"
    if len(found) == 1 and not found[0].label():
        bar = f"within {above(found[0].within, 6)} of {exact_answer(release.plan)} {sure}"
        return [("answer", f"{found[0].shown()}, {bar}")]
    if release.plan.noise.query.selects:
        short = f"no selected state falls short by more than {above(found[0].within, 6)} records"
        chosen = [(number.label(), number.shown()) for number in found[:_MOST]]
        more = [("...", f"and {len(found) - _MOST} more")] if len(found) > _MOST else []
        return [*chosen, *more, ("error bars", f"{short} {sure}")]
    rows = [
        (number.label() or "answer", f"{number.shown()}, within {above(number.within, 6)}")
        for number in found[:_MOST]
    ]
    if len(found) > _MOST:
        rows.append(("...", f"and {len(found) - _MOST} more"))
    return [*rows, ("error bars", f"all hold together {sure}")]


def _about(release: "Release") -> list[tuple[str, str]]:
    plan = proved(release)
    moved = readings_moved(plan, release.rows)
    again = "yes: nothing was spent" if release.replayed else "no: drawn for this release"
    return [
        *([] if moved is None else [("readings", moved)]),
        ("guarantee", plan.guarantee(*release.conditions)),
        ("protects", words.unit(plan).partition(":")[0]),
        ("window", scope.window(release.window)),
        ("groups", scope.groups(release.groups)),
        ("records", scope.records(release.rows, release.persons)),
        ("drawn", scope.drawn(release.made)),
        ("recorded earlier", again),
        ("ledger entry", release.entry or "not accounted in a ledger"),
    ]
