"""Who is whose child: checks, and an order that does not depend on names."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from undertow.errors import InvalidModel
from undertow.models.network import Node, plain_name

__all__ = ["canonical_order", "check_descent", "check_parents", "check_sexes"]

_MALE, _FEMALE = "male", "female"
_SEXES = {
    "1": _MALE, "m": _MALE, "male": _MALE,
    "2": _FEMALE, "f": _FEMALE, "female": _FEMALE,
}  # fmt: skip


def check_parents(child: Node, named: Any) -> tuple[Node | None, Node | None]:
    """Return a father and a mother, None for an unknown one, or refuse anything else.

    >>> check_parents("kim", ["bob", None])
    ('bob', None)
    """
    if isinstance(named, str) or not isinstance(named, Sequence):
        raise InvalidModel(
            f"the parents of {child!r} must be a pair (father, mother), with None for an unknown "
            "one"
        )
    if len(named) != 2:
        raise InvalidModel(
            f"person {child!r} has {len(named)} parents; name two, with None for an unknown one"
        )
    father, mother = (plain_name(parent) for parent in named)
    if child is None:
        raise InvalidModel("a child needs a name; None stands for an unknown parent")
    for person in (child, father, mother):
        try:
            hash(person)
        except TypeError:
            raise InvalidModel(
                f"a parent of {child!r} is named by a {type(person).__name__}; name people by "
                "texts or numbers"
            ) from None
    if father is not None and father == mother:
        raise InvalidModel(f"person {father!r} is both father and mother of {child!r}")
    return father, mother


def check_sexes(
    parents: Mapping[Node, tuple[Node | None, Node | None]],
    sexes: Mapping[Node, Any],
    everyone: set[Node],
) -> dict[Node, str]:
    """Return the known sexes, or refuse a parent of the wrong one.

    >>> check_sexes({"kim": ("bob", None)}, {"bob": 1, "kim": 0}, {"kim", "bob"})
    {'bob': 'male'}
    """
    found: dict[Node, str] = {}
    for person, code in sexes.items():
        if person not in everyone:
            raise InvalidModel(f"the sex of {person!r} is given, who is not in the pedigree")
        sex = _SEXES.get(str(code).strip().lower())
        if sex is not None:
            found[person] = sex
    roles: dict[Node, str] = {}
    for child, (father, mother) in parents.items():
        for parent, role in ((father, _MALE), (mother, _FEMALE)):
            if parent is None:
                continue
            name = "father" if role == _MALE else "mother"
            if found.get(parent, role) != role:
                raise InvalidModel(
                    f"person {parent!r} is the {name} of {child!r} and {found[parent]}; correct "
                    "the sex or the parents"
                )
            if roles.setdefault(parent, role) != role:
                raise InvalidModel(
                    f"person {parent!r} is the father of one person and the mother of another"
                )
    return found


def check_descent(parents: Mapping[Node, tuple[Node | None, Node | None]]) -> None:
    """Refuse people who are their own ancestors.

    >>> check_descent({"kim": ("bob", None), "bob": (None, "kim")})
    Traceback (most recent call last):
    undertow.errors.InvalidModel: person 'kim' is their own ancestor
    """
    above = {child: [p for p in pair if p is not None] for child, pair in parents.items()}
    try:
        TopologicalSorter(above).prepare()
    except CycleError as error:
        raise InvalidModel(f"person {error.args[1][0]!r} is their own ancestor") from None


def canonical_order(parents: tuple[tuple[int, ...], ...], latent: tuple[bool, ...]) -> list[int]:
    """Return the members in an order that does not depend on how they were listed.

    Members are told apart by their relatives, step by step; where several remain alike one is
    taken, since in families such members are interchangeable (if not, two listings of the same
    family may get different orders, and nothing worse).

    >>> canonical_order(((), (), (0, 1)), (False, False, False))
    [0, 1, 2]
    """
    count = len(parents)
    children: list[list[int]] = [[] for _ in range(count)]
    mates: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for child, pair in enumerate(parents):
        for parent in pair:
            children[parent].append(child)
            mates[parent] += [(child, other) for other in pair if other != parent]
    colour = [int(hidden) for hidden in latent]
    while True:
        colour = _refined(colour, parents, children, mates)
        cells: dict[int, list[int]] = {}
        for member, shade in enumerate(colour):
            cells.setdefault(shade, []).append(member)
        several = [shade for shade, cell in cells.items() if len(cell) > 1]
        if not several:
            return sorted(range(count), key=lambda member: colour[member])
        chosen = cells[min(several)][0]
        colour = [2 * shade + 1 for shade in colour]
        colour[chosen] -= 1


def _refined(
    colour: list[int],
    parents: tuple[tuple[int, ...], ...],
    children: list[list[int]],
    mates: list[list[tuple[int, int]]],
) -> list[int]:
    """Return a numbering of the members that no relative distinguishes any further."""
    kinds = len(set(colour))
    while True:
        keys = [
            (
                colour[member],
                tuple(sorted(colour[parent] for parent in parents[member])),
                tuple(sorted(colour[child] for child in children[member])),
                tuple(sorted((colour[child], colour[mate]) for child, mate in mates[member])),
            )
            for member in range(len(colour))
        ]
        ranks = {key: rank for rank, key in enumerate(sorted({*keys}))}
        colour = [ranks[key] for key in keys]
        if len(ranks) == kinds:
            return colour
        kinds = len(ranks)
