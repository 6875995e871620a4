"""Families by generations, and households in which everyone may depend on everyone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from undertow.models.pedigrees import Family, Pedigree
from undertow.numerics import check_count
from undertow_studio.charts.svg import (
    Html,
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

__all__ = ["MOST_PEOPLE", "family_picture", "group_picture"]

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
) -> Html:
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
    said = "; ".join(children) + "." if children else "Nobody here is somebody's child."
    marks = dict.fromkeys(known, "known") | ({target: "target"} if target else {})

    def draw(width: float) -> tuple[float, list[Html]]:
        parts: list[Html] = []
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

    return picture(name, "Who is whose child", said, draw, "family-picture")


def group_picture(size: int, name: str = "group") -> Html:
    """Return a household of so many records, each joined to every other.

    >>> group_picture(4).count('class="tie"')
    12
    """
    members = check_count(size, "size", 1)
    drawn = min(members, _CIRCLE)
    said = f"{members} records that may depend on each other in any way whatever."

    def draw(width: float) -> tuple[float, list[Html]]:
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

    return picture(name, "Everyone may depend on everyone", said, draw, "group-picture")


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


def _tree(tree: _Tree, width: float, top: float, marks: dict[str, str]) -> tuple[float, list[Html]]:
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
        told = {"latent": " (not in the data)", "known": ", known", "target": ", the target"}
        people.append(
            tag(
                "g",
                titled("rect", words + told.get(role, ""), x=places(x - wide / 2),
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
        found: list[float] = []
        for place, x in enumerate(wanted):
            here = (found[-1] + gap if found else middle) if x is None else x
            found.append(max(here, found[-1] + gap) if place else here)
        pulls = [x - here for x, here in zip(wanted, found, strict=True) if x is not None]
        shift = sum(pulls) / len(pulls) if pulls else 0.0
        low, high = found[0] + shift - wide / 2, found[-1] + shift + wide / 2
        shift += max(4.0 - low, 0.0) - max(high - (width - 4.0), 0.0)
        at |= {person: here + shift for person, here in zip(row, found, strict=True)}
    return at


def _named(words: str, x: float, y: float, role: str, room: float, upright: bool) -> Html:
    """Return a person's name in the pill."""
    kind = f"person {role}".strip()
    if not upright:
        return text(fit(words, room - 14), x, y + 4.5, kind, "middle")
    turned = f"translate({places(x + 4.5)} {places(y)}) rotate(-90)"
    return tag("text", fit(words, room - 14), transform=turned, class_=f"{kind} to-middle")


def _curve(person: tuple[float, float], union: tuple[float, float], half: float) -> Html:
    """Return the line from a person to the point where parents and children meet."""
    (x, y), (a, b) = (person[0], person[1] + half), union
    middle = places((y + b) / 2)
    x_, a_ = places(x), places(a)
    return tag(
        "path", d=f"M{x_} {places(y)}C{x_} {middle} {a_} {middle} {a_} {places(b)}",
        class_="descent",
    )  # fmt: skip
