"""A strip of records that are known or unknown, and the odds of the attacker."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from undertow_studio.charts.svg import (
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
from undertow_studio.odds import about, chance_above, chance_below

if TYPE_CHECKING:
    from undertow_studio.pages.attacker import Cell, ValueBelief

__all__ = ["odds_bar", "record_strip"]


def record_strip(cells: "Sequence[Cell]", label: str = "Records of the series") -> Markup:
    """Return a strip of buttons, one for each record, that know or forget it when pressed.

    Each is a submit button ``name="toggle"`` whose value is the record, so a plain form around the
    strip suffices: keyboard and no script included. The target is no button: it stands still.

    >>> from undertow_studio.pages.attacker import Cell
    >>> strip = record_strip([Cell(0, "known", "idle"), Cell(1, "target"), Cell(2, "unknown")])
    >>> strip.count("<button"), strip.count('aria-pressed="true"')
    (2, 1)
    """
    items = [tag("li", _cell(cell)) for cell in cells]
    return tag("ol", join(items), class_="record-strip", aria_label=label)


def _cell(cell: "Cell") -> Markup:
    above = {"target": "?", "known": cell.value}.get(cell.role, "·")
    below = "erased" if cell.erased else cell.output
    role_words = {
        "target": "the target",
        "known": f"known to be {cell.value}",
        "unknown": "unknown",
    }[cell.role]
    shown = ", erased" if cell.erased else f", shown as {cell.output}" if cell.output else ""
    why = f"; {cell.why}" if cell.why else ""
    title = f"{cell.label or f'record {cell.record}'}: {role_words}{shown}{why}"
    inside = join(
        [
            tag("span", title, class_="visually-hidden"),
            tag(
                "span",
                ellipsis(cell.label or str(cell.record), 16),
                class_="cell-place",
                aria_hidden="true",
            ),
            tag("span", ellipsis(above, 16), class_="cell-value", aria_hidden="true"),
            tag("span", ellipsis(below, 16), class_="cell-output", aria_hidden="true")
            if below
            else None,
        ],
        "",
    )
    kind = f"cell {cell.role}{' erased' * cell.erased}"
    if cell.role == "target":
        return tag("span", inside, class_=kind, title=title)
    return tag(
        "button", inside, type="submit", name="toggle", value=cell.record, class_=kind,
        aria_pressed="true" if cell.role == "known" else "false", title=title,
    )  # fmt: skip


def odds_bar(guess: "ValueBelief", name: str = "odds") -> Markup:
    """Return the way from the prior odds to the posterior odds, within what the limit allows.

    The axis is one of odds, logarithmic, so that a leakage is a distance on it; its ticks are
    chances. The words round what is allowed to the safe side.
    """
    words = f"from {about(guess.prior)} to {about(guess.posterior)}"
    ends = guess.allowed
    promise = "the plan promises no limit for this attacker"
    if math.isfinite(guess.limit):
        promise = f"the plan allows {chance_below(ends.lower)} to {chance_above(ends.upper)}"
    description = (
        f"The chance that {guess.whom} is {guess.value} goes {words} "
        f"({guess.prior:.1%} to {guess.posterior:.1%}); {promise}."
    )

    def draw(width: float) -> tuple[float, list[Markup]]:
        left, right, y = 14.0, width - 14.0, 78.0
        marks = [_log_odds(p) for p in (ends.lower, ends.upper, guess.prior, guess.posterior)]
        shown = marks if math.isfinite(guess.limit) else marks[2:]
        reach = max([3.2, *(abs(mark) * 1.12 for mark in shown)])
        scale = Scale(-reach, reach, left, right)
        low, high, prior, posterior = (scale.at(mark) for mark in marks)
        edges = [path([(place, y - 17), (place, y + 17)], "edge") for place in (low, high)]
        parts = [
            titled("rect", promise, x=places(low), y=places(y - 17),
                   width=places(max(high - low, 1.0)), height="34", rx="6",
                   class_="allowed" if math.isfinite(guess.limit) else "allowed none",
                   data_lower=ends.lower, data_upper=ends.upper),
            path([(left, y), (right, y)], "base"),
            *_chances(scale, y, reach),
            *(edges if math.isfinite(guess.limit) else ()),
            _way(prior, posterior, y),
            titled("circle", f"before: {about(guess.prior)}", cx=places(prior), cy=places(y),
                   r="7", class_="before", data_p=guess.prior),
            titled("circle", f"after: {about(guess.posterior)}", cx=places(posterior), cy=places(y),
                   r="8", class_="after", data_p=guess.posterior),
            text("before", _inside(prior, "before", 13, width), y - 26, "before-label", "middle"),
            text(words, _inside(posterior, words, 17, width), 24, "after-label", "middle"),
            _promise(promise, y + 62, width, math.isfinite(guess.limit)),
        ]  # fmt: skip
        return y + 74, [part for part in parts if part is not None]

    return picture(
        name, f"What the attacker thinks of the target: {words}", description, draw, "odds-bar"
    )


def _way(start: float, end: float, y: float) -> Markup | None:
    """Return the arrow from before to after."""
    if abs(end - start) < 30:
        return None
    sign = 1 if end > start else -1
    tip = end - 10 * sign
    return tag(
        "path", d=f"M{places(start + 8 * sign)} {places(y)}H{places(tip - sign)}"
        f"M{places(tip - 7 * sign)} {places(y - 5)}L{places(tip)} {places(y)}"
        f"L{places(tip - 7 * sign)} {places(y + 5)}",
        class_="way",
    )  # fmt: skip


def _inside(place: float, words: str, size: float, width: float) -> float:
    """Return where words around a place stand without leaving the picture."""
    half = letters(words, size) / 2 + 4
    return min(max(place, half), width - half)


def _chances(scale: Scale, y: float, reach: float) -> list[Markup]:
    """Return round chances along the axis, 1 in 2 in the middle."""
    parts, kept = [], -1e9
    sizes = (2, 4, 10, 30, 100, 1000, 10**4, 10**6, 10**9)
    ends = [(-math.log(size - 1), f"1 in {size:,}") for size in reversed(sizes)]
    ends += [(math.log(size - 1), f"{size - 1:,} in {size:,}") for size in sizes[1:]]
    for value, words in ends:
        place, wide = scale.at(value), letters(words, 12.5)
        if abs(value) >= reach or place - wide / 2 < kept or place + wide / 2 > scale.end + 10:
            continue
        kept = place + wide / 2 + 8
        parts.append(path([(place, y - 5), (place, y + 5)], "base"))
        parts.append(text(words, place, y + 36, "tick", "middle"))
    return parts


def _promise(words: str, y: float, width: float, kept: bool) -> Markup:
    """Return what the plan allows, beside a sample of the band."""
    wide = letters(words, 13) + 26
    x = max(4.0, (width - wide) / 2)
    return tag(
        "g",
        tag("rect", x=places(x), y=places(y - 11), width="16", height="13", rx="3",
            class_="allowed" if kept else "allowed none"),
        text(words, x + 24, y, "allowed-label"),
    )  # fmt: skip


def _log_odds(p: float) -> float:
    p = min(max(p, 1e-12), 1 - 1e-12)
    return math.log(p) - math.log1p(-p)
