"""Pedigrees from PED and FAM files."""

import csv
import gzip
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from undertow.errors import InvalidInput, InvalidModel
from undertow.models.network import Node
from undertow.models.pedigree import Pedigree
from undertow.numerics import check_listed

__all__ = ["read_pedigree"]

_NONE = {"", "0", "na", ".", "-9"}
"""What stands for an unknown parent."""

_COLUMNS = {
    "family": {"family", "familyid", "famid", "fid", "ped", "pedigree"},
    "person": {"person", "individualid", "individual", "iid", "id", "sample", "sampleid"},
    "father": {"father", "paternalid", "fatherid", "pat", "dad", "dadid"},
    "mother": {"mother", "maternalid", "motherid", "mat", "mom", "momid"},
    "sex": {"sex", "gender"},
}
_ORDER = ("family", "person", "father", "mother", "sex")


def read_pedigree(
    path: str | Path, allele_frequency: Any = 0.5, latent: Iterable[Node] = ()
) -> Pedigree:
    """Return the pedigree of a file; see `Pedigree.read`."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"a path of a PED or FAM file is required, found {type(path).__name__}")
    rows = list(_rows(_lines(Path(path))))
    if not rows:
        raise InvalidInput(f"the pedigree file {Path(path).name} names nobody")
    persons = [person for _, _, person, *_ in rows]
    unique = len(set(persons)) == len(persons)
    seen: dict[tuple[str, str], int] = {}

    def name(family: str, person: str) -> str:
        return person if unique else f"{family}/{person}"

    people: list[Node] = []
    parents: dict[Node, tuple[str | None, str | None]] = {}
    sexes: dict[Node, str] = {}
    for line, family, person, father, mother, sex in rows:
        if (family, person) in seen:
            raise InvalidModel(
                f"line {line}: person {person!r} of family {family!r} is listed twice, first in "
                f"line {seen[family, person]}; list everyone once"
            )
        seen[family, person] = line
        child = name(family, person)
        people.append(child)
        sexes[child] = sex
        pair = tuple(
            None if parent.lower() in _NONE else name(family, parent) for parent in (father, mother)
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


def _rows(lines: list[str]) -> Iterable[tuple[int, str, str, str, str, str]]:
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
            places = {column: place for place, column in enumerate(_ORDER)}
        if text.lstrip().startswith("#"):
            continue
        here = dict(enumerate(cells))
        found = [here.get(places.get(column, -1), "") for column in _ORDER]
        if len(cells) < least or not found[1]:
            raise InvalidInput(
                f"line {number} of the pedigree file has {len(cells)} columns; family, person, "
                "father and mother are required (sex may be blank)"
            )
        yield number, found[0], found[1], found[2], found[3], found[4]


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
    found = {
        column: next(place for place, word in enumerate(words) if word in names)
        for column, names in _COLUMNS.items()
        if any(word in names for word in words)
    }
    return found if {"person", "father", "mother"} <= found.keys() else None
