"""Pictures of models: chains, pedigrees, groups, and matrices of correlations."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from undertow import MarkovChain, MultivariateGaussian, Pedigree
from undertow.models import GaussianClass
from undertow.models.pedigrees import Family
from undertow.numerics import Array, check_count
from undertow_studio.charts.svg import (
    NARROW,
    ellipsis,
    fit,
    join,
    letters,
    path,
    picture,
    places,
    tag,
    text,
    titled,
)

__all__ = ["chain_picture", "correlation_picture", "family_picture", "group_picture"]

MOST_CELLS = 40
"""Rows that are drawn; of larger tables the first."""

_NUMBERED = 8
"""Rows up to which every cell has its number written in it."""


def correlation_picture(
    gaussian: MultivariateGaussian | GaussianClass, name: str = "correlation"
) -> Markup:
    """Return the correlations of Gaussian records as a table of colours.

    Of a class known by a bound every pair of records has the bound.

    >>> family = MultivariateGaussian([100, 86.8], [[225, 137.2], [137.2, 416.6]])
    >>> correlation_picture(family).count("<rect")
    8
    """
    size = gaussian.length
    if isinstance(gaussian, GaussianClass):
        shown = min(size, MOST_CELLS + 1)
        table = np.full((shown, shown), gaussian.rho)
        np.fill_diagonal(table, 1.0)
        description = f"Any two of {size} records are correlated by at most {gaussian.rho:g}."
    else:
        table = gaussian.correlations
        description = (
            f"The correlations of {size} records; the largest between two of them is "
            f"{gaussian.largest_correlation:.3g} in absolute value."
        )
    names = [str(record) for record in range(len(table))]
    title = "How strongly records depend on each other"
    return matrix_picture(
        table, names, name, title, description, ("record", "record"), records=size
    )


def matrix_picture(
    table: Array,
    names: Sequence[str],
    name: str,
    title: str,
    description: str,
    roles: tuple[str, str],
    records: int | None = None,
) -> Markup:
    """Return a square table of numbers between -1 and 1 as colours, one for each sign.

    Of more than `MOST_CELLS` rows the first are drawn, and the picture says so.
    """
    total = len(table) if records is None else records
    size = min(len(table), MOST_CELLS)

    def draw(width: float) -> tuple[float, list[Markup]]:
        longest = max(len(ellipsis(one, 10)) for one in names[:size])
        left = 14.0 + 7.2 * longest
        cell = min((width - left - 8) / size, 64.0)
        left += max(0.0, (width - left - 8 - cell * size) / 2)
        every = max(1, -(-22 // max(int(cell), 1)))  # names that do not stand in each other's way
        fits = letters(max((ellipsis(one, 10) for one in names[:size]), key=len)) < cell * every
        top, parts = 34.0 if fits else 34.0 + 4.6 * longest, []
        for row in range(size):
            middle = top + (row + 0.5) * cell
            if row % every == 0:
                parts.append(text(ellipsis(names[row], 10), left - 6, middle + 4, "tick", "end"))
                parts.append(
                    _heading(ellipsis(names[row], 10), left + (row + 0.5) * cell, top, fits)
                )
            for column in range(size):
                value = float(table[row, column])
                label = f"{roles[0]} {names[row]}, {roles[1]} {names[column]}: {value:.4g}"
                parts.append(
                    titled(
                        "rect", label, x=places(left + column * cell + 0.75),
                        y=places(top + row * cell + 0.75), width=places(cell - 1.5),
                        height=places(cell - 1.5), rx=places(min(4.0, cell / 8)),
                        class_=f"cell {'negative' if value < 0 else 'positive'}",
                        fill_opacity=places(0.04 + 0.82 * min(abs(value), 1.0)),
                        data_row=names[row], data_column=names[column], data_value=value,
                    )
                )  # fmt: skip
                if size <= _NUMBERED:
                    kind = "cell-number strong" if abs(value) > 0.62 else "cell-number"
                    parts.append(
                        text(
                            f"{value:.2f}", left + (column + 0.5) * cell, middle + 4, kind, "middle"
                        )
                    )
        height = top + size * cell + 12
        if size < total:
            parts.append(text(f"the first {size} of {total}", left, height + 10, "note"))
            height += 20
        return height, [join(parts)]

    return picture(name, title, description, draw, "matrix-picture")


def _heading(words: str, x: float, top: float, fits: bool) -> Markup:
    """Return the name above a column, slanted where it is wider than the column."""
    if fits:
        return text(words, x, top - 8, "tick", "middle")
    turned = f"translate({places(x - 2)} {places(top - 7)}) rotate(-45)"
    return tag("text", words, transform=turned, class_="tick")


MOST_DRAWN = 6
"""States that are drawn as circles; chains with more are a table of colours."""

_SMALL = 12.0
_BOLD = 14.6
"""Size of plain letters that are as wide as the bold ones of 13 units."""

_FAINT = 0.05
"""Probabilities from which an arrow among many has its number beside it."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _WordBox:
    """Where words stand, to keep others off."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: "_WordBox") -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def chain_picture(chain: MarkovChain, name: str = "chain") -> Markup:
    """Return the states and transitions of a chain; of one whose steps differ, their mean.

    Two to six states are circles, with the share of time spent in each; arrows are as wide as
    their transition is likely and have the colour of the state that they leave. Chains with more
    states are drawn as a table of colours, one row for each state.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]], states=("inactive", "active"))
    >>> picture = chain_picture(chain)
    >>> 'data-from="inactive" data-to="active" data-p="0.118"' in picture
    True
    """
    steps = chain.transition if chain.homogeneous else chain.transition.mean(axis=0)
    names = [str(state) for state in chain.states]
    mean = "" if chain.homogeneous else ", on average over all steps"
    title = f"Which state follows which{mean}"
    if chain.size > MOST_DRAWN or chain.size < 2:
        description = f"From each of {chain.size} states (rows) to each (columns){mean}."
        return matrix_picture(steps, names, name, title, description, ("from", "to"))
    shares = chain.initial if chain.homogeneous else chain.marginals(len(chain.transition) + 1)
    shares = shares if shares.ndim == 1 else shares.mean(axis=0)
    description = " ".join(
        f"From {names[row]}: "
        + ", ".join(
            f"{_percent(steps[row, column])} to {names[column]}"
            for column in np.argsort(-steps[row], kind="stable")
            if steps[row, column] > 0
        )
        + "."
        for row in range(chain.size)
    )
    return picture(
        name, title, description, lambda width: _drawn(steps, shares, names, width), "chain-picture"
    )


def _drawn(
    steps: Array, shares: Array, names: Sequence[str], width: float
) -> tuple[float, list[Markup]]:
    """Return height and parts: arrows first, then circles, then numbers on top."""
    size, narrow = len(names), width <= NARROW
    radius = (36.0 if size < 5 else 31.0) if narrow else (46.0 if size < 5 else 40.0)
    stays = bool((np.diagonal(steps) > 0).any())
    centres, height = _centres(size, width, radius, 1.15 * radius if stays else 6.0)
    taken = [_WordBox(x - radius, y - radius, x + radius, y + radius) for x, y in centres]
    arrows, numbers = [], []
    for row, column in _by_weight(steps):
        p = float(steps[row, column])
        wide = 1.2 + 7.0 * p
        curve, tip, around = (
            _loop(centres[row], _outwards(centres, row, width, height), radius, wide)
            if row == column
            # along the outside: with the ring, or there is no inside
            else _arc(
                centres[row], centres[column], radius, wide, size == 2 or (column - row) % size == 1
            )
        )
        label = f"from {names[row]} to {names[column]}: {_percent(p, 4)}"
        arrows.append(
            tag(
                "g",
                tag("title", label),
                tag("path", d=curve, class_="arrow", stroke_width=places(wide)),
                tag("path", d=tip, class_="tip"),
                class_=f"transition c{row}",
                data_from=names[row],
                data_to=names[column],
                data_p=p,
            )
        )
        if size <= 3 or p >= _FAINT * (2 if narrow else 1):
            placed = _free(around, _percent(p), taken, width, height)
            if placed is not None:
                numbers.append(text(_percent(p), *placed, f"number c{row}", "middle"))
    circles = []
    for place, (x, y) in enumerate(centres):
        share = _percent(float(shares[place]))
        circles.append(
            tag(
                "g",
                titled("circle", f"{names[place]}: {share} of all records", cx=places(x),
                       cy=places(y), r=places(radius), class_="node"),
                text(fit(names[place], 2 * radius - 10, _BOLD), x, y, "node-name", "middle"),
                text(share if narrow else f"{share} of time", x, y + 15, "node-share", "middle"),
                class_=f"c{place}",
                data_state=names[place],
                data_share=float(shares[place]),
            )
        )  # fmt: skip
    return height, [join(arrows), join(circles), join(numbers)]


def _by_weight(steps: Array) -> list[tuple[int, int]]:
    """Return the transitions that happen, the likeliest first: those get their numbers first."""
    cells = [(int(row), int(column)) for row, column in np.argwhere(steps > 0)]
    return sorted(cells, key=lambda cell: -float(steps[cell]))


def _centres(size: int, width: float, radius: float, loop: float) -> tuple[list[Point], float]:
    """Return where the circles stand, and the height of the picture; ``loop`` is that of a loop."""
    if size == 2:
        half = (width / 2 - radius - 14) if width <= NARROW else 190.0
        height = 2 * radius + loop + 66
        y = loop + radius + 26
        return [(width / 2 - half, y), (width / 2 + half, y)], height
    tall = {3: 96.0, 4: 108.0}.get(size, 138.0)
    broad = 1.72 * tall
    if width <= NARROW:  # a phone is high, not wide
        tall, broad = 1.2 * tall, (width / 2 - radius - 18) / (0.72 if size == 4 else 0.87)
    turn = -math.pi / 4 * 3 if size == 4 else -math.pi / 2
    middle = tall + radius + loop + 24
    angles = [turn + 2 * math.pi * place / size for place in range(size)]
    centres = [(width / 2 + broad * math.cos(a), middle + tall * math.sin(a)) for a in angles]
    lowest = max(y for _, y in centres)
    highest = min(y for _, y in centres)
    raised = highest - radius - loop - 24 if size > 3 else 0.0
    below = 0.62 * loop if size in (3, 4) and width > NARROW else loop
    return [(x, y - raised) for x, y in centres], lowest - raised + radius + below + 22


def _outwards(centres: Sequence[Point], place: int, width: float, height: float) -> float:
    """Return the direction in which a loop leaves a circle: away from the others."""
    x, y = centres[place]
    if len(centres) == 2:
        return -math.pi / 2
    middle = sum(one for _, one in centres) / len(centres)
    flat = 1.6 if width > NARROW else 3.2  # on a phone there is room above and below
    return math.atan2(y - middle, (x - width / 2) / flat)


def _arc(
    start: Point, end: Point, radius: float, wide: float, outside: bool
) -> tuple[str, str, list[Point]]:
    """Return a curved arrow between circles: its path, its tip, and places beside it."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    far = math.hypot(dx, dy)
    across = (dy / far, -dx / far)  # to the left of the arrow, as one looks along it
    # around a ring of circles arrows bend outwards, and those the other way round stay inside
    bend = 0.17 * far + 8 if outside else 0.07 * far + 7
    control = (
        (start[0] + end[0]) / 2 + across[0] * bend,
        (start[1] + end[1]) / 2 + across[1] * bend,
    )
    head = 6 + 1.5 * wide
    first = _towards(start, control, radius + 3)
    point = _towards(end, control, radius + 3)
    last = _towards(end, control, radius + 3 + head * 0.9)
    away = wide / 2 + 10
    beside = [
        (x + across[0] * away, y + across[1] * away)
        for share in (0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73)
        for x, y in [_bezier(first, control, last, share)]
    ]
    return _curve_of("Q", first, control, last), _tip(point, control, head), beside


def _loop(centre: Point, angle: float, radius: float, wide: float) -> tuple[str, str, list[Point]]:
    """Return an arrow from a circle to itself: its path, its tip, and places beyond it."""
    open_, reach = 0.44, 2.35 * radius
    head = 6 + 1.5 * wide
    first = _polar(centre, angle - open_, radius + 3)
    controls = _polar(centre, angle - 0.5, reach), _polar(centre, angle + 0.5, reach)
    point = _polar(centre, angle + open_, radius + 3)
    last = _towards(point, controls[1], head * 0.9)
    curve = _curve_of("C", first, *controls, last)
    beyond = radius + 3 + 0.75 * (reach - radius) * math.cos(0.5) + wide / 2 + 9
    around = [_polar(centre, angle + turn, beyond) for turn in (0, 0.3, -0.3)]
    return curve, _tip(point, controls[1], head), [(x, y) for x, y in around]


def _tip(point: Point, source: Point, head: float) -> str:
    """Return the head of an arrow that comes from ``source``."""
    back = _towards(point, source, head)
    dx, dy = (point[0] - back[0]) * 0.48, (point[1] - back[1]) * 0.48
    corners = [point, (back[0] - dy, back[1] + dx), (back[0] + dy, back[1] - dx)]
    return "M" + "L".join(f"{places(x)} {places(y)}" for x, y in corners) + "Z"


def _free(
    around: Iterable[Point], words: str, taken: list[_WordBox], width: float, height: float
) -> Point | None:
    """Return the first place where words cover nothing, and keep it; None where there is none."""
    half = letters(words, _SMALL) / 2 + 1
    for x, y in around:
        box = _WordBox(x - half, y - 8, x + half, y + 7)
        inside = box.left >= 0 and box.top >= 0 and box.right <= width and box.bottom <= height
        if inside and not any(map(box.covers, taken)):
            taken.append(box)
            return x, y + 4
    return None


def _percent(p: float, digits: int = 0) -> str:
    """Return a probability for people; what is not 0 is never said to be 0, nor what is not 1."""
    if 0 < p < 0.005 and not digits:
        return "<1%"
    if 0.995 <= p < 1 and not digits:
        return ">99%"
    return f"{100 * p:.{digits}f}".rstrip("0").rstrip(".") + "%" if digits else f"{100 * p:.0f}%"


def _towards(start: Point, end: Point, by: float) -> Point:
    far = math.hypot(end[0] - start[0], end[1] - start[1]) or 1.0
    return start[0] + (end[0] - start[0]) * by / far, start[1] + (end[1] - start[1]) * by / far


def _polar(centre: Point, angle: float, far: float) -> Point:
    return centre[0] + far * math.cos(angle), centre[1] + far * math.sin(angle)


def _bezier(first: Point, control: Point, last: Point, share: float) -> Point:
    rest = 1 - share
    weights = rest * rest, 2 * rest * share, share * share
    points = first, control, last
    x = sum(w * p[0] for w, p in zip(weights, points, strict=True))
    return x, sum(w * p[1] for w, p in zip(weights, points, strict=True))


def _curve_of(kind: str, first: Point, *others: Point) -> str:
    """Return the path of a Bezier curve, quadratic (Q) or cubic (C)."""
    start, *rest = (f"{places(x)} {places(y)}" for x, y in (first, *others))
    return f"M{start}{kind}{' '.join(rest)}"


MOST_PEOPLE = 30
"""People that are drawn; of more, the largest families that fit."""

_PILL = 34.0
"""Height of a person."""

_ROOM = 56.0
"""Width of a pill that shows enough of a name."""

_CIRCLE = 12
"""Members of a household that are drawn one by one."""


@dataclass(frozen=True, slots=True)
class _Tree:
    """Who stands in which row: places of people by generation, and each person's parents."""

    names: tuple[str, ...]
    latent: tuple[bool, ...]
    parents: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, ...], ...]


def family_picture(
    pedigree: Pedigree, name: str = "family", known: Sequence[str] = (), target: str = ""
) -> Markup:
    """Return the people of a pedigree by generations, parents joined above their children.

    People who are not in the data have a dashed outline. ``known`` and ``target`` are names of
    people to mark. Of many families the largest are drawn, up to `MOST_PEOPLE` people.

    >>> trio = Pedigree({"kim": ("bob", "ann")})
    >>> family_picture(trio).count('data-person="kim"')
    2
    """
    trees, left_out = _chosen(pedigree)
    children = [
        f"{tree.names[child]} is a child of "
        + " and ".join(tree.names[parent] for parent in tree.parents[child])
        for tree in trees
        for child in range(len(tree.names))
        if tree.parents[child]
    ]
    description = "; ".join(children) + "." if children else "Nobody here is somebody's child."
    marks = dict.fromkeys(known, "known") | ({target: "target"} if target else {})

    def draw(width: float) -> tuple[float, list[Markup]]:
        parts: list[Markup] = []
        top = 10.0
        for tree in trees:
            tall, drawn = _tree(tree, width, top, marks)
            parts += drawn
            top += tall + 18
        if left_out:
            several = "family" if left_out == 1 else "families"
            parts.append(
                text(f"and {left_out} more {several}", width / 2, top + 8, "note", "middle")
            )
            top += 20
        return top, parts

    return picture(name, "Pedigree", description, draw, "family-picture")


def group_picture(size: int, name: str = "group") -> Markup:
    """Return a household of so many records, each joined to every other.

    >>> group_picture(4).count('class="tie"')
    12
    """
    members = check_count(size, "size", 1)
    drawn = min(members, _CIRCLE)
    description = f"{members} records with any dependence among them."

    def draw(width: float) -> tuple[float, list[Markup]]:
        radius = 62.0 if drawn < 7 else 84.0
        dot = 17.0 if drawn < 7 else 14.0
        x, y = width / 2, radius + dot + 22
        spots = [
            (
                x + radius * math.sin(2 * math.pi * place / drawn) * (drawn > 1),
                y - radius * math.cos(2 * math.pi * place / drawn) * (drawn > 1),
            )
            for place in range(drawn)
        ]
        around = tag(
            "circle", cx=places(x), cy=places(y), r=places(radius + dot + 14), class_="household"
        )
        ties = [
            path([one, other], "tie") for place, one in enumerate(spots) for other in spots[:place]
        ]
        people = [
            titled("circle", f"record {place}", cx=places(a), cy=places(b), r=places(dot),
                   class_="node c0", data_record=place)
            for place, (a, b) in enumerate(spots)
        ]  # fmt: skip
        foot = y + radius + dot + 38
        more = f" ({drawn} of them drawn)" if drawn < members else ""
        words = text(f"any dependence among {members} records{more}", x, foot, "note", "middle")
        return foot + 12, [around, join(ties), join(people), words]

    return picture(name, "Everyone may depend on everyone", description, draw, "group-picture")


def _chosen(pedigree: Pedigree) -> tuple[list[_Tree], int]:
    """Return the largest families that fit, in their order, and how many were left out."""
    families = pedigree.families()
    ranked = sorted(range(len(families)), key=lambda place: -len(families[place].members))
    kept: list[int] = []
    people = 0
    for place in ranked:
        people += len(families[place].members)
        if kept and people > MOST_PEOPLE:
            break
        kept.append(place)
    return [_generations(families[place]) for place in sorted(kept)], len(families) - len(kept)


def _generations(family: Family) -> _Tree:
    """Return the rows: children below parents, founders just above their first child."""
    count = len(family.members)
    level = [0] * count
    for _ in range(count):  # the longest way down from a founder
        for child, parents in enumerate(family.parents):
            if parents:
                level[child] = 1 + max(level[parent] for parent in parents)
    children: dict[int, list[int]] = {}
    for child, parents in enumerate(family.parents):
        for parent in parents:
            children.setdefault(parent, []).append(child)
    for person in range(count):
        if not family.parents[person] and person in children:
            level[person] = min(level[child] for child in children[person]) - 1
    rows = [[p for p in range(count) if level[p] == row] for row in range(max(level) + 1)]
    at = {person: float(place) for row in rows for place, person in enumerate(row)}
    for _ in range(
        8
    ):  # relatives near each other: down by parents, up by children, couples together
        for row in rows:
            _sort(row, at, family.parents, children)
    names = tuple("unknown" if not isinstance(m, str | int | float | tuple) else str(m)
                  for m in family.members)  # fmt: skip
    return _Tree(names, family.latent, family.parents, tuple(map(tuple, rows)))


def _sort(
    row: list[int], at: dict[int, float], parents: Sequence[tuple[int, ...]],
    children: dict[int, list[int]],
) -> None:  # fmt: skip
    """Order a generation by the mean place of parents and of partners' families, in place."""

    def pull(person: int) -> float:
        near = list(parents[person])
        for child in children.get(person, ()):
            near += [partner for partner in parents[child] if partner != person]
            near.append(child)
        spread = [at[one] for one in near]
        return sum(spread) / len(spread) if spread else at[person]

    pulls = {person: pull(person) for person in row}
    row.sort(key=lambda person: (pulls[person], at[person]))
    middle = (len(row) - 1) / 2
    for place, person in enumerate(row):
        at[person] = place - middle


def _tree(
    tree: _Tree, width: float, top: float, marks: dict[str, str]
) -> tuple[float, list[Markup]]:
    """Return the height and the parts of one family: its people are pills with their names.

    In a crowded generation the pills stand upright, and names are read from below.
    """
    gap = (width - 12) / max(map(len, tree.rows))
    longest = max(letters(fit(one, 120.0)) for one in tree.names) + 26
    upright = gap - 8 < min(longest, _ROOM)
    wide, pill = (min(gap - 6, 30.0), longest) if upright else (min(gap - 8, longest), _PILL)
    gap = min(gap, max(wide + 22, 44.0 if upright else 112.0))
    tall = pill + 52
    across = _places(tree, width, gap, wide)
    spots = {
        person: (across[person], top + pill / 2 + 4 + level * tall)
        for level, row in enumerate(tree.rows)
        for person in row
    }
    unions: dict[tuple[int, ...], list[int]] = {}
    for child, parents in enumerate(tree.parents):
        if parents:
            unions.setdefault(tuple(sorted(parents)), []).append(child)
    lines = []
    for place, (parents, children) in enumerate(unions.items()):
        x = sum(spots[one][0] for one in parents) / len(parents)
        y = max(spots[one][1] for one in parents) + pill / 2 + 20 + 6 * (place % 3)
        lines += [_curve(spots[one], (x, y), pill / 2) for one in parents]
        lines += [_curve(spots[one], (x, y), -pill / 2) for one in children]
        lines.append(tag("circle", cx=places(x), cy=places(y), r="2.8", class_="union"))
    people = []
    for person, (x, y) in spots.items():
        words, hidden = tree.names[person], tree.latent[person]
        role = "latent" if hidden else marks.get(words, "")
        suffixes = {"latent": " (not in the data)", "known": ", known", "target": ", the target"}
        people.append(
            tag(
                "g",
                titled("rect", words + suffixes.get(role, ""), x=places(x - wide / 2),
                       y=places(y - pill / 2), width=places(wide), height=places(pill),
                       rx=places(min(pill, wide) / 2), class_=f"node {role}".strip()),
                _named(words, x, y, role, pill if upright else wide, upright),
                class_="c0",
                data_person=words,
            )
        )  # fmt: skip
    return len(tree.rows) * tall - 38, [join(lines), join(people)]


def _places(tree: _Tree, width: float, gap: float, wide: float) -> dict[int, float]:
    """Return where everyone stands: children under their parents where there is room."""
    at = {
        person: width / 2 + (place - (len(row) - 1) / 2) * gap
        for row in tree.rows
        for place, person in enumerate(row)
    }
    for row in tree.rows[1:]:
        wanted = [
            sum(at[parent] for parent in tree.parents[person]) / len(tree.parents[person])
            if tree.parents[person]
            else None
            for person in row
        ]
        known = [x for x in wanted if x is not None]
        middle = sum(known) / len(known) if known else width / 2
        # everyone at least a gap apart, the generation as a whole under its parents
        row_places: list[float] = []
        for place, x in enumerate(wanted):
            here = (row_places[-1] + gap if row_places else middle) if x is None else x
            row_places.append(max(here, row_places[-1] + gap) if place else here)
        pulls = [x - here for x, here in zip(wanted, row_places, strict=True) if x is not None]
        shift = sum(pulls) / len(pulls) if pulls else 0.0
        low, high = row_places[0] + shift - wide / 2, row_places[-1] + shift + wide / 2
        shift += max(4.0 - low, 0.0) - max(high - (width - 4.0), 0.0)
        at |= {person: here + shift for person, here in zip(row, row_places, strict=True)}
    return at


def _named(words: str, x: float, y: float, role: str, room: float, upright: bool) -> Markup:
    """Return a person's name in the pill."""
    kind = f"person {role}".strip()
    if not upright:
        return text(fit(words, room - 14), x, y + 4.5, kind, "middle")
    turned = f"translate({places(x + 4.5)} {places(y)}) rotate(-90)"
    return tag("text", fit(words, room - 14), transform=turned, class_=f"{kind} to-middle")


def _curve(person: tuple[float, float], union: tuple[float, float], half: float) -> Markup:
    """Return the line from a person to the point where parents and children meet."""
    (x, y), (a, b) = (person[0], person[1] + half), union
    middle = places((y + b) / 2)
    x_, a_ = places(x), places(a)
    return tag(
        "path", d=f"M{x_} {places(y)}C{x_} {middle} {a_} {middle} {a_} {places(b)}",
        class_="descent",
    )  # fmt: skip
