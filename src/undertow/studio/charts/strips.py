"""A strip of records to play the attacker on, and the odds that move with it."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from undertow.studio.charts.svg import (
    NARROW,
    Html,
    Scale,
    ellipsis,
    join,
    letters,
    path,
    picture,
    places,
    tag,
    text,
    titled,
)
from undertow.studio.views.cells import Cell
from undertow.studio.views.odds import about, chance_above, chance_below

if TYPE_CHECKING:
    from undertow.studio.views.attacker import Guess

__all__ = ["odds_bar", "record_strip"]


def record_strip(cells: Sequence[Cell], label: str = "Records of the series") -> Html:
    """Return a strip of buttons, one for each record, that know or forget it when pressed.

    Each is a submit button ``name="toggle"`` whose value is the record, so a plain form around the
    strip suffices: keyboard and no script included. The target is no button: it stands still.

    >>> strip = record_strip([Cell(0, "known", "idle"), Cell(1, "target"), Cell(2, "unknown")])
    >>> strip.count("<button"), strip.count('aria-pressed="true"')
    (2, 1)
    """
    made = [tag("li", _cell(cell)) for cell in cells]
    return tag("ol", join(made), class_="record-strip", aria_label=label)


def _cell(cell: Cell) -> Html:
    above = {"target": "?", "known": cell.value}.get(cell.role, "·")
    below = "erased" if cell.erased else cell.output
    said = {
        "target": "the target",
        "known": f"known to be {cell.value}",
        "unknown": "unknown",
    }[cell.role]
    shown = ", erased" if cell.erased else f", shown as {cell.output}" if cell.output else ""
    why = f"; {cell.why}" if cell.why else ""
    inside = join(
        [
            tag("span", f"record {cell.record}: {said}{shown}{why}", class_="visually-hidden"),
            tag("span", str(cell.record), class_="cell-place", aria_hidden="true"),
            tag("span", ellipsis(above, 9), class_="cell-value", aria_hidden="true"),
            tag("span", ellipsis(below, 9), class_="cell-output", aria_hidden="true")
            if below
            else None,
        ],
        "",
    )
    kind = f"cell {cell.role}{' erased' * cell.erased}"
    title = f"record {cell.record}: {said}{shown}{why}"
    if cell.role == "target":
        return tag("span", inside, class_=kind, title=title)
    return tag(
        "button", inside, type="submit", name="toggle", value=cell.record, class_=kind,
        aria_pressed="true" if cell.role == "known" else "false", title=title,
    )  # fmt: skip


def odds_bar(guess: "Guess", name: str = "odds") -> Html:
    """Return the way from the prior odds to the posterior odds, within what the limit allows.

    The axis is that of odds, logarithmic: a leakage is a distance on it. The words round what is
    allowed to the safe side.
    """
    allowed = guess.allowed
    said = (
        f"The probability that record {guess.target} is {guess.value} goes from "
        f"{about(guess.prior)} to {about(guess.posterior)}; the plan allows nothing below "
        f"{chance_below(allowed.lower)} and nothing above {chance_above(allowed.upper)}."
    )
    if math.isinf(guess.limit):
        said = said.split(";")[0] + "; the plan promises no limit for this attacker."
    words = f"from {about(guess.prior)} to {about(guess.posterior)}"

    def draw(width: float) -> tuple[float, list[Html]]:
        narrow = width <= NARROW
        left, right, y = 22.0, width - 22.0, 74.0
        ends = [_log_odds(p) for p in (allowed.lower, allowed.upper, guess.prior, guess.posterior)]
        reach = max([3.2, *(abs(end) * 1.12 for end in ends)])
        scale = Scale(-reach, reach, left, right)
        low, high, prior, posterior = (scale.at(end) for end in ends)
        parts = [
            titled("rect", f"allowed: {chance_below(allowed.lower)} to "
                   f"{chance_above(allowed.upper)}", x=places(low), y=places(y - 17),
                   width=places(max(high - low, 1.0)), height="34", rx="6", class_="allowed",
                   data_lower=allowed.lower, data_upper=allowed.upper),
            path([(left, y), (right, y)], "base"),
        ]  # fmt: skip
        parts += _odds_ticks(scale, y, reach, narrow)
        parts += [
            path([(low, y - 17), (low, y + 17)], "edge"),
            path([(high, y - 17), (high, y + 17)], "edge"),
            _way(prior, posterior, y),
            titled("circle", f"before: {about(guess.prior)}", cx=places(prior), cy=places(y),
                   r="7", class_="before", data_p=guess.prior),
            titled("circle", f"after: {about(guess.posterior)}", cx=places(posterior), cy=places(y),
                   r="8", class_="after", data_p=guess.posterior),
            text("before", *_beside(prior, posterior, y - 26, width, "before", 0), "before-label",
                 "middle"),
            text(words, min(max(posterior, letters(words, 16) / 2 + 4),
                            width - letters(words, 16) / 2 - 4), 22, "after-label", "middle"),
        ]  # fmt: skip
        return y + 66, parts

    return picture(name, f"Odds of the target: {words}", said, draw, "odds-bar")


def _way(start: float, end: float, y: float) -> Html | None:
    """Return the arrow from before to after."""
    if abs(end - start) < 18:
        return None
    sign = 1 if end > start else -1
    tip = end - 10 * sign
    return tag(
        "path", d=f"M{places(start + 8 * sign)} {places(y)}H{places(tip - 3 * sign)}"
        f"M{places(tip - 7 * sign)} {places(y - 5)}L{places(tip)} {places(y)}"
        f"L{places(tip - 7 * sign)} {places(y + 5)}",
        class_="way",
    )  # fmt: skip


def _beside(
    place: float, other: float, y: float, width: float, words: str, shift: float
) -> tuple[float, float]:
    half = letters(words) / 2 + 3
    return min(max(place + shift, half), width - half), y


def _odds_ticks(scale: Scale, y: float, reach: float, narrow: bool) -> list[Html]:
    """Return round odds along the axis, 1 : 1 in the middle."""
    parts = []
    steps = [0.0, *(math.log(odds) for odds in (3, 10, 30, 100, 1000, 10**4, 10**6, 10**9))]
    kept: list[float] = []
    for size in steps:
        for value in {size, -size}:
            place = scale.at(value)
            room = 42 if narrow else 54
            if abs(value) >= reach or any(abs(place - other) < room for other in kept):
                continue
            kept.append(place)
            odds = f"{math.exp(abs(value)):,.0f}"
            words = f"{odds} : 1" if value >= 0 else f"1 : {odds}"
            parts.append(path([(place, y - 4), (place, y + 4)], "grid"))
            parts.append(text(words, place, y + 36, "tick", "middle"))
    foot = y + 56
    parts.append(text("unlikely", scale.start, foot, "axis"))
    parts.append(text("likely", scale.end, foot, "axis", "end"))
    parts.append(text("odds", (scale.start + scale.end) / 2, foot, "axis", "middle"))
    return parts


def _log_odds(p: float) -> float:
    p = min(max(p, 1e-12), 1 - 1e-12)
    return math.log(p) - math.log1p(-p)
