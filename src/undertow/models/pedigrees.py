"""Families at one locus: who is whose child, and Mendel's laws."""

import csv
import gzip
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from undertow.errors import InvalidInput, InvalidModel
from undertow.models.base import Model
from undertow.models.networks import BayesianNetwork, Node, connected, plain_name
from undertow.models.validation import fields, numbers, read_name
from undertow.numerics import Array, Keyed, check_listed, freeze
from undertow.queries import BaseQuery, State

__all__ = [
    "GENOTYPES",
    "MENDEL",
    "Family",
    "Pedigree",
    "canonical_order",
    "check_descent",
    "check_parents",
    "check_sexes",
    "hardy_weinberg",
    "read_pedigree",
]


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
    sex_of: dict[Node, str] = {}
    for person, code in sexes.items():
        if person not in everyone:
            raise InvalidModel(f"the sex of {person!r} is given, who is not in the pedigree")
        sex = _SEXES.get(str(code).strip().lower())
        if sex is not None:
            sex_of[person] = sex
    roles: dict[Node, str] = {}
    for child, (father, mother) in parents.items():
        for parent, role in ((father, _MALE), (mother, _FEMALE)):
            if parent is None:
                continue
            name = "father" if role == _MALE else "mother"
            if sex_of.get(parent, role) != role:
                raise InvalidModel(
                    f"person {parent!r} is the {name} of {child!r} and {sex_of[parent]}; correct "
                    "the sex or the parents"
                )
            if roles.setdefault(parent, role) != role:
                raise InvalidModel(
                    f"person {parent!r} is the father of one person and the mother of another"
                )
    return sex_of


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


GENOTYPES: tuple[State, ...] = ("BB", "Bb", "bb")
"""The states of every person, by the number of alleles B."""


RAREST_ALLELE = 1e-40
"""Least allele frequency (either side): its square is still an ordinary probability."""


def _inheritance() -> Array:
    passed = np.array([1.0, 0.5, 0.0])  # the probability that a parent passes B on
    father, mother = passed[:, None], passed[None, :]  # axes (father, mother)
    both, none = father * mother, (1 - father) * (1 - mother)
    return freeze(np.stack([both, 1 - both - none, none], axis=-1))  # (father, mother, child)


MENDEL = _inheritance()
"""Pr[child | father, mother], Table 3 of [lange2024]; all entries are exact."""


def hardy_weinberg(frequency: float) -> Array:
    """Return the law of a founder: two independent alleles, each B with the given frequency.

    >>> hardy_weinberg(0.5)
    array([0.25, 0.5 , 0.25])
    """
    other = 1.0 - frequency
    law = np.array([frequency * frequency, 2.0 * frequency * other, other * other])
    return np.asarray(law / law.sum())


@dataclass(frozen=True, slots=True)
class Missing:
    """The name of an unknown parent, distinct from every other name."""

    role: str
    child: Node


@dataclass(frozen=True, slots=True)
class Family:
    """One connected component of a pedigree.

    ``parents[i]`` are the places of a member's father and mother, empty for founders; ``latent``
    members are not in the data. ``records`` numbers the others as in the pedigree.
    """

    members: tuple[Node, ...]
    parents: tuple[tuple[int, ...], ...]
    latent: tuple[bool, ...]
    records: tuple[int, ...]

    @property
    def length(self) -> int:
        """The number of people in the data."""
        return len(self.records)

    @property
    def founders(self) -> tuple[int, ...]:
        """The places of the members without parents."""
        return tuple(place for place, parents in enumerate(self.parents) if not parents)

    def network(self, frequency: float) -> BayesianNetwork:
        """Return the network of the family's genotypes, given the frequency of B in founders.

        >>> trio = Pedigree({"kim": ("ann", "bob")}).families()[0]
        >>> trio.network(0.5).law("kim")
        array([0.25, 0.5 , 0.25])
        """
        founder = hardy_weinberg(frequency)
        cpds = {
            member: MENDEL if parents else founder
            for member, parents in zip(self.members, self.parents, strict=True)
        }
        edges = [
            (self.members[parent], self.members[child])
            for child, parents in enumerate(self.parents)
            for parent in parents
        ]
        latent = [m for m, hidden in zip(self.members, self.latent, strict=True) if hidden]
        return BayesianNetwork(edges, cpds, GENOTYPES, latent)

    def shape(self) -> tuple[object, ...]:
        """Return a description of descent without names.

        Equal descriptions mean equal families up to names and sexes; unequal ones nearly always
        mean different families. Members are told apart by their relatives, step by step; where
        several remain alike one is taken, since in families they are interchangeable.

        >>> one, two = Pedigree({"a": ("b", "c"), "x": ("z", "y")}).families()
        >>> one.shape() == two.shape()
        True
        """
        order = canonical_order(self.parents, self.latent)
        place = {member: rank for rank, member in enumerate(order)}
        rows = [
            (self.latent[member], tuple(sorted(place[parent] for parent in self.parents[member])))
            for member in order
        ]
        return tuple(rows)


@dataclass(frozen=True, slots=True, eq=False)
class Pedigree(Keyed, Model):
    """Genotypes at one locus of people of known descent.

    Children follow Mendel's laws, founders (people without parents here) are in Hardy-Weinberg
    proportions with the given frequency of allele B; Definition 5.1 of [lange2024]. A missing
    parent is a latent founder: not counted, never a target, never known. Families that are not
    related to each other are independent. One release is about one locus; linked loci of a family
    depend on each other in ways that are not modelled here: use `Groups` for them.

    Parameters
    ----------
    parents
        For each child its father and mother; None stands for an unknown one.
    allele_frequency
        How frequent B is among founders: a number, or (low, high) for a leakage that holds for
        every frequency in between. The leakage depends on it.
    people
        Further people, or all of them to fix the order of the records: by default children and
        parents in the order in which they are named.
    sexes
        "male" or "female" (or 1, 2) for some people; blank and 0 mean unknown.
    latent
        People who are not in the data.

    >>> trio = Pedigree({"kim": ("bob", "ann")}, allele_frequency=(.05, .5))
    >>> trio.people, trio.length, trio.states
    (('kim', 'bob', 'ann'), 3, ('BB', 'Bb', 'bb'))
    """

    kind: ClassVar[str] = "pedigree"
    family: ClassVar[str] = "network"
    records_are_persons: ClassVar[bool] = True

    parents: Mapping[Node, tuple[Node | None, Node | None]]
    allele_frequency: float | tuple[float, float]
    people: tuple[Node, ...]
    sexes: Mapping[Node, str] = field(repr=False)
    latent: tuple[Node, ...]

    def __init__(
        self,
        parents: Any,
        allele_frequency: Any = 0.5,
        people: Iterable[Node] = (),
        sexes: Mapping[Node, Any] | None = None,
        latent: Iterable[Node] = (),
    ) -> None:
        """Check the descent and freeze."""
        if not isinstance(parents, Mapping):
            raise InvalidModel(
                "parents must be a dictionary {child: (father, mother)}, found "
                f"{type(parents).__name__}"
            )
        table = {
            plain_name(child): check_parents(plain_name(child), named)
            for child, named in parents.items()
        }
        hidden = tuple(dict.fromkeys(_names(latent, "latent")))
        named = [person for child, pair in table.items() for person in (child, *pair)]
        listed = _names(people, "people")
        everyone = list(dict.fromkeys(p for p in [*listed, *named] if p is not None))
        if len(set(listed)) != len(listed):
            twice = next(p for place, p in enumerate(listed) if p in listed[:place])
            raise InvalidModel(f"person {twice!r} is listed twice; list everyone once")
        for person in hidden:
            if person not in everyone:
                raise InvalidModel(f"latent person {person!r} is nobody's parent or child")
        if not set(everyone) - set(hidden):
            raise InvalidModel("a pedigree needs at least one person in the data")
        set_ = object.__setattr__
        set_(self, "parents", table)
        set_(self, "allele_frequency", _frequency(allele_frequency))
        set_(self, "people", tuple(person for person in everyone if person not in set(hidden)))
        if sexes is not None and not isinstance(sexes, Mapping):
            raise InvalidModel(
                f"sexes must be a dictionary of persons, found {type(sexes).__name__}"
            )
        set_(self, "sexes", check_sexes(table, sexes or {}, set(everyone)))
        set_(self, "latent", hidden)
        check_descent(table)

    def _key(self) -> tuple[object, ...]:
        return (
            tuple(self.parents.items()), self.allele_frequency, self.people,
            tuple(sorted(self.sexes.items(), key=repr)), self.latent,
        )  # fmt: skip

    @property
    def length(self) -> int:
        """The number of people in the data."""
        return len(self.people)

    @property
    def states(self) -> tuple[State, ...]:
        """The genotypes."""
        return GENOTYPES

    @property
    def size(self) -> int:
        """The number of genotypes."""
        return len(GENOTYPES)

    @property
    def frequencies(self) -> tuple[float, float]:
        """The least and the largest frequency of B."""
        if isinstance(self.allele_frequency, tuple):
            return self.allele_frequency
        return self.allele_frequency, self.allele_frequency

    def families(self) -> list[Family]:
        """Return the families, in the order of their first members.

        >>> len(Pedigree({"a": ("b", "c")}, people=["a", "d"]).families())
        2
        """
        everyone, parents = self._completed()
        at = {person: place for place, person in enumerate(everyone)}
        links = ((at[parent], at[child]) for child, pair in parents.items() for parent in pair)
        number = {person: place for place, person in enumerate(self.people)}
        groups = ([everyone[place] for place in part] for part in connected(len(at), links))
        return [
            _family(members, parents, number)
            for members in groups
            if any(member in number for member in members)
        ]

    @classmethod
    def read(
        cls, path: str | Path, allele_frequency: Any = 0.5, latent: Iterable[Node] = ()
    ) -> "Pedigree":
        """Return the pedigree of a PED or FAM file (plain or gzipped, with or without a header).

        The columns are family, person, father, mother, sex (1 or M, 2 or F, anything else
        unknown) and whatever follows; 0 or a blank stands for an unknown parent. A parent without
        a line of their own is not in the data: latent. People are named by their own identifier
        where that is unique in the file, otherwise by "family/person".

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "trio.ped"
        ...     _ = path.write_text("f bob 0 0 1 0\\nf ann 0 0 2 0\\nf kim bob ann 0 0\\n")
        ...     Pedigree.read(path).people
        ('bob', 'ann', 'kim')
        """

        return read_pedigree(path, allele_frequency, latent)

    def dependent_records(self) -> int:
        """Return the most records in one family."""
        return max(family.length for family in self.families())

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the network of all families at either end of the allele's frequency."""
        return [self._network(frequency) for frequency in dict.fromkeys(self.frequencies)]

    def order(self) -> tuple[Node, ...]:
        """Return the people in the order of the families' network."""
        return self.people

    def _network(self, frequency: float) -> BayesianNetwork:
        families = [family.network(frequency) for family in self.families()]
        return BayesianNetwork(
            [edge for family in families for edge in family.edges],
            {node: table for family in families for node, table in family.cpds.items()},
            self.states,
            [node for family in families for node in family.latent],
        )

    def several(self) -> bool:
        """Return whether the frequency of the allele is an interval."""
        return self.frequencies[0] < self.frequencies[1]

    def describe(self) -> str:
        """Return the model in one sentence."""
        families = self.families()
        largest = max(family.length for family in families)
        low, high = self.frequencies
        hidden = sum(sum(family.latent) for family in families)
        missing = f" ({hidden} latent)" if hidden else ""
        kin = "one family" if len(families) == 1 else f"{len(families)} families"
        size = "" if len(families) == 1 else f" of at most {largest}"
        frequency = f"of {low:g}" if low == high else f"between {low:g} and {high:g}"
        return (
            f"pedigree of {self.length} people{missing} in {kin}{size}, founders with a frequency "
            f"of B {frequency}"
        )

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        low, high = self.frequencies
        return {
            "kind": self.kind,
            "people": list(self.people),
            "parents": [[child, *pair] for child, pair in self.parents.items()],
            "sexes": [[person, sex] for person, sex in self.sexes.items()],
            "latent": list(self.latent),
            "allele_frequency": low if low == high else [low, high],
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "Pedigree":
        """Return the pedigree described by `law_dict`."""
        if not isinstance(description, dict) or not _rows(description.get("parents"), 3):
            raise InvalidModel("a pedigree needs 'parents', rows of child, father and mother")
        optional = ("kind", "people", "sexes", "latent", "allele_frequency")
        read = fields(description, "a pedigree", ("parents",), optional)
        rows = [[read_name(name) for name in row] for row in read["parents"]]
        parents = {row[0]: row[1:] for row in rows}
        if len(parents) != len(rows):
            raise InvalidModel("a child has two rows of parents; give one")
        listed = read.get("sexes", ())
        if not _rows(listed, 2):
            raise InvalidModel("'sexes' must be pairs of a person and a sex")
        sexes = {read_name(person): read_name(sex) for person, sex in listed}
        people, latent = read.get("people", ()), read.get("latent", ())
        if not isinstance(people, list | tuple) or not isinstance(latent, list | tuple):
            raise InvalidModel("'people' and 'latent' must be lists of names")
        frequency = numbers(read.get("allele_frequency", 0.5))
        return cls(
            parents, tuple(frequency) if isinstance(frequency, list) else frequency,
            map(read_name, people), sexes, map(read_name, latent),
        )  # fmt: skip

    def _completed(self) -> tuple[list[Node], dict[Node, tuple[Node, Node]]]:
        """Return everyone and all parents, with a latent founder for each missing parent."""
        everyone: list[Node] = [*self.people, *self.latent]
        parents: dict[Node, tuple[Node, Node]] = {}
        for child, (father, mother) in self.parents.items():
            if father is None and mother is None:
                continue
            one = Missing("father", child) if father is None else father
            two = Missing("mother", child) if mother is None else mother
            everyone += [parent for parent in (one, two) if isinstance(parent, Missing)]
            parents[child] = one, two
        return everyone, parents


def _family(
    members: list[Node], parents: Mapping[Node, tuple[Node, Node]], number: Mapping[Node, int]
) -> Family:
    place = {member: rank for rank, member in enumerate(members)}
    return Family(
        tuple(members),
        tuple(tuple(place[parent] for parent in parents.get(member, ())) for member in members),
        tuple(member not in number for member in members),
        tuple(number[member] for member in members if member in number),
    )


def _names(people: Any, what: str) -> list[Node]:
    """Return the names in a list of persons."""
    names = [plain_name(person) for person in check_listed(people, what)]
    try:
        set(names)
    except TypeError as error:
        raise InvalidModel(f"{what} must be strings, numbers or other hashables") from error
    return names


def _frequency(value: Any) -> float | tuple[float, float]:
    form = (
        "allele_frequency must be a number between 0 and 1, both excluded, or a pair (low, high) "
        "of such numbers"
    )
    pair = isinstance(value, tuple | list)
    if pair and len(value) != 2:
        raise InvalidModel(f"{form}; found {len(value)} numbers")
    try:
        low, high = (float(value[0]), float(value[1])) if pair else (float(value), float(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidModel(form) from error
    if not 0 < low <= high < 1:
        raise InvalidModel(f"{form}; found {value}")
    if low < RAREST_ALLELE:
        raise InvalidModel(f"{form}, and not below {RAREST_ALLELE:g}; found {value}")
    return (low, high) if low < high else low


def _rows(listed: Any, size: int) -> bool:
    """Return whether this is a list of lists with a given number of entries."""
    return isinstance(listed, list | tuple) and all(
        isinstance(row, list | tuple) and len(row) == size for row in listed
    )


_UNKNOWN_PARENT = {"", "0", "na", ".", "-9"}
"""Code of an unknown parent."""

_COLUMNS = {
    "family": {"family", "familyid", "famid", "fid", "ped", "pedigree"},
    "person": {"person", "individualid", "individual", "iid", "id", "sample", "sampleid"},
    "father": {"father", "paternalid", "fatherid", "pat", "dad", "dadid"},
    "mother": {"mother", "maternalid", "motherid", "mat", "mom", "momid"},
    "sex": {"sex", "gender"},
}
_COLUMN_ORDER = ("family", "person", "father", "mother", "sex")


def read_pedigree(
    path: str | Path, allele_frequency: Any = 0.5, latent: Iterable[Node] = ()
) -> Pedigree:
    """Return the pedigree of a file; see `Pedigree.read`."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"a path of a PED or FAM file is required, found {type(path).__name__}")
    rows = list(_person_lines(_lines(Path(path))))
    if not rows:
        raise InvalidInput(f"the pedigree file {Path(path).name} names nobody")
    persons = [person for _, _, person, *_ in rows]
    unique = len(set(persons)) == len(persons)
    line_of: dict[tuple[str, str], int] = {}

    def name(family: str, person: str) -> str:
        return person if unique else f"{family}/{person}"

    people: list[Node] = []
    parents: dict[Node, tuple[str | None, str | None]] = {}
    sexes: dict[Node, str] = {}
    for line, family, person, father, mother, sex in rows:
        if (family, person) in line_of:
            raise InvalidModel(
                f"line {line}: person {person!r} of family {family!r} is listed twice, first in "
                f"line {line_of[family, person]}; list everyone once"
            )
        line_of[family, person] = line
        child = name(family, person)
        people.append(child)
        sexes[child] = sex
        pair = tuple(
            None if parent.lower() in _UNKNOWN_PARENT else name(family, parent)
            for parent in (father, mother)
        )
        if any(parent is not None for parent in pair):
            parents[child] = (pair[0], pair[1])
    listed = set(people)
    absent = dict.fromkeys(
        parent for pair in parents.values() for parent in pair if parent and parent not in listed
    )
    return Pedigree(
        parents, allele_frequency, people, sexes, [*absent, *check_listed(latent, "latent")]
    )


def _lines(path: Path) -> list[str]:
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        return raw.decode("utf-8-sig").splitlines()
    except UnicodeEncodeError:
        raise InvalidInput("cannot read the pedigree file: no file has such a name") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise InvalidInput(
            f"cannot read the pedigree file {path.name}: {reason.lower()}"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path.name} is not a pedigree file: it is not text; PED and FAM files have lines of "
            "family, person, father, mother and sex"
        ) from error


def _person_lines(lines: list[str]) -> Iterable[tuple[int, str, str, str, str, str]]:
    """Yield (line, family, person, father, mother, sex) of every person."""
    places: dict[str, int] | None = None
    least = 4
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        cells = _cells(text)
        if places is None:
            places = _header(cells)
            if places is not None:
                least = 1 + max(places[column] for column in ("person", "father", "mother"))
                continue
            places = {column: place for place, column in enumerate(_COLUMN_ORDER)}
        if text.lstrip().startswith("#"):
            continue
        here = dict(enumerate(cells))
        entries = [here.get(places.get(column, -1), "") for column in _COLUMN_ORDER]
        if len(cells) < least or not entries[1]:
            raise InvalidInput(
                f"line {number} of the pedigree file has {len(cells)} columns; family, person, "
                "father and mother are required (sex may be blank)"
            )
        yield number, entries[0], entries[1], entries[2], entries[3], entries[4]


def _cells(text: str) -> list[str]:
    """Return the cells of a line: split at tabs, at commas, or at any blanks."""
    if "\t" in text:
        cells = text.split("\t")
    elif "," in text:
        cells = next(csv.reader([text]))
    else:
        cells = text.split()
    return [cell.strip() for cell in cells]


def _header(cells: list[str]) -> dict[str, int] | None:
    """Return where the columns stand, if the first line is a header."""
    words = ["".join(letter for letter in cell.lower() if letter.isalnum()) for cell in cells]
    places = {
        column: next(place for place, word in enumerate(words) if word in names)
        for column, names in _COLUMNS.items()
        if any(word in names for word in words)
    }
    return places if {"person", "father", "mother"} <= places.keys() else None
