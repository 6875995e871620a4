"""Genotypes at one locus from VCF files; needs pysam, the extra ``genomics``.

The genotypes are private: nothing here prints them, and no message quotes one.
"""

import gzip
import os
import shutil
import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.data.problems import Problem
from undertow.data.table import Data
from undertow.errors import InvalidInput, NotSupported
from undertow.models.pedigrees import GENOTYPES, Pedigree
from undertow.queries import State

if TYPE_CHECKING:
    from undertow.models.base import Model

__all__ = [
    "count_genotypes",
    "frequency_problems",
    "genotype_table",
    "read_genotypes",
]


Locus = str | tuple[str, int]


def read_genotypes(
    path: str | Path,
    locus: Locus,
    people: Sequence[Any] | None = None,
    *,
    allele: str | None = None,
) -> list[State | None]:
    """Return the genotype of each person at one locus: "BB", "Bb", "bb", or None where missing.

    Parameters
    ----------
    path
        A VCF or BCF file, plain or compressed; an index is not needed.
    locus
        A variant's identifier, "chromosome:position" or (chromosome, position), positions counted
        from 1 as in the file.
    people
        Whose genotypes, in which order, by default all samples of the file; for a `Pedigree` pass
        ``pedigree.people``.
    allele
        Which allele is B, by default the alternative one (ALT), which must be named where a locus
        has several; all others are b.

    Which people, loci and alleles the file lists is taken to be public: a message may name them.

    >>> read_genotypes("cohort.vcf.gz", "22:16050075")  # doctest: +SKIP
    ['BB', 'Bb', None]
    """
    return _read(path, locus, people, allele)[0]


def _read(
    path: str | Path, locus: Locus, people: Sequence[Any] | None, allele: str | None
) -> tuple[list[State | None], str]:
    """Return the genotype of each person, and the allele that is B."""
    with _opened(Path(path)) as file:
        with _damage(f"{Path(path).name} is not a VCF file"):
            samples = list(file.header.samples)
        wanted = samples if people is None else [str(person) for person in people]
        samples_present = set(samples)
        for person in wanted:
            if person not in samples_present:
                raise InvalidInput(
                    f"person {person!r} has no genotypes in {Path(path).name}; leave them out, or "
                    "make them latent in the pedigree"
                )
        record = _found(file, locus, Path(path).name)
        with _damage(f"{Path(path).name} is damaged: its variants cannot all be read"):
            alleles = tuple(record.alleles or ())
        counted = _counted(alleles, allele, locus)
        with _damage(f"{Path(path).name} is damaged: its genotypes cannot all be read"):
            genotypes = [_genotype(record.samples[person].alleles, counted) for person in wanted]
        return genotypes, counted


def _counted(alleles: tuple[str, ...], allele: str | None, locus: Locus) -> str:
    """Return which allele is B: the one that was named, or the only alternative one."""
    if allele is not None:
        if allele not in alleles:
            raise InvalidInput(f"the locus {_words(locus)} has no allele {allele!r}")
        return allele
    if len(alleles) != 2:
        several = "several alternative alleles" if len(alleles) > 2 else "no alternative allele"
        raise InvalidInput(
            f"the locus {_words(locus)} has {several}: {', '.join(alleles)} (the first is the "
            "reference); say which is B, allele=..."
        )
    return alleles[1]


def count_genotypes(
    path: str | Path,
    locus: Locus,
    people: Sequence[Any] | None = None,
    *,
    allele: str | None = None,
) -> dict[State, int]:
    """Return how many people have each genotype at one locus; missing ones are in no count.

    Arguments as in `read_genotypes`. The counts are exact and private: release them with noise.

    >>> count_genotypes("cohort.vcf.gz", "22:16050075")  # doctest: +SKIP
    {'BB': 12, 'Bb': 7, 'bb': 1}
    """
    counts = Counter(read_genotypes(path, locus, people, allele=allele))
    return {genotype: counts[genotype] for genotype in GENOTYPES}


def genotype_table(
    path: str | Path,
    locus: Locus,
    people: Sequence[Any] | None = None,
    *,
    allele: str | None = None,
) -> Data:
    """Return the genotypes at one locus as data to be released, one record for each person.

    Arguments as in `read_genotypes`.

    >>> genotype_table("cohort.vcf.gz", "22:16050075")  # doctest: +SKIP
    """
    import polars as pl

    genotypes, counted = _read(path, locus, people, allele)
    table = pl.DataFrame({"genotype": pl.Series(genotypes, dtype=pl.String)})
    data = Data(table, value="genotype")
    title = f"{Path(path).name} at {_words(locus)}, allele {counted}"
    return data.changed(source=replace(data.source, title=title))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Yield a variant file; its library is kept quiet, since its complaints could quote it."""
    try:
        import pysam  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise NotSupported(
            "reading VCF files needs pysam; install it with: pip install 'undertow[genomics]'"
        ) from error
    if not path.is_file():
        raise InvalidInput(f"there is no file {path.name}")
    before = pysam.set_verbosity(0)
    try:
        with _source(path) as source:
            with _damage(f"{path.name} is not a VCF file"):
                file = pysam.VariantFile(source)
            with file:
                yield file
    finally:
        pysam.set_verbosity(before)


@contextmanager
def _damage(words: str) -> Iterator[None]:
    """Convert errors of the library on damaged files; its own messages could quote the data."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError):
        raise InvalidInput(words) from None


@contextmanager
def _source(path: Path) -> Iterator[Any]:
    """Yield what the library can read: the file, or a pipe from one compressed by plain gzip."""
    with path.open("rb") as file:
        head = file.read(16)
    if head[:2] != b"\x1f\x8b" or head[12:14] == b"BC":  # not gzip, or gzip in seekable blocks
        yield str(path)
        return
    receive, send = os.pipe()
    feeder = threading.Thread(target=_feed, args=(path, send), daemon=True)
    with os.fdopen(receive, "rb") as stream:
        feeder.start()
        yield stream
    feeder.join()


def _feed(path: Path, send: int) -> None:
    """Write a gzipped file into a pipe, until it ends or nobody reads any more."""
    quiet = suppress(OSError, EOFError, zlib.error)
    with quiet, os.fdopen(send, "wb") as out, gzip.open(path, "rb") as file:
        shutil.copyfileobj(file, out)


def _found(file: Iterable[Any], locus: Locus, name: str) -> Any:
    """Return the only record at a locus."""
    matches = list(_matching(file, locus, name))
    if not matches:
        raise InvalidInput(f"{name} has no locus {_words(locus)}")
    if len(matches) > 1:
        raise InvalidInput(
            f"{name} has {len(matches)} variants at {_words(locus)}; name one by its identifier"
        )
    return matches[0]


def _matching(file: Iterable[Any], locus: Locus, name: str) -> Iterator[Any]:
    place = _place(locus)
    with _damage(f"{name} is damaged: its variants cannot all be read"):
        for record in file:
            named = record.id is not None and record.id == locus
            if named or (place is not None and (record.chrom, record.pos) == place):
                yield record.copy()


def _place(locus: Locus) -> tuple[str, int] | None:
    if isinstance(locus, tuple):
        if len(locus) != 2:
            raise InvalidInput("a locus is (chromosome, position), 'chromosome:position' or a name")
        return str(locus[0]), int(locus[1])
    chromosome, colon, position = locus.rpartition(":")
    return (chromosome, int(position)) if colon and position.isdigit() else None


def _words(locus: Locus) -> str:
    return locus if isinstance(locus, str) else f"{locus[0]}:{locus[1]}"


def _genotype(alleles: Any, counted: str) -> State | None:
    """Return a genotype by its number of alleles B; anything but two known alleles is missing."""
    if alleles is None or len(alleles) != 2 or None in alleles:
        return None
    return GENOTYPES[2 - sum(1 for allele in alleles if allele == counted)]


_RARE = 0.01
"""Level of the test of a declared frequency against the founders."""


def frequency_problems(data: "Data", model: "Model") -> list[Problem]:
    """Return whether allele B is too frequent or too rare among the founders of a pedigree.

    The alleles of founders are independent, so n of them have Binomial(n, p) copies of B. A number
    of copies whose tail is below 1% at every declared p is a problem. Depends on the genotypes,
    though it names no number: it belongs into no report. One pass over the records.

    >>> from undertow.data.table import Data
    >>> trio = Pedigree({"kim": ("bob", "ann")}, allele_frequency=(.01, .02))
    >>> print(*frequency_problems(Data(["BB", "BB", "Bb"]), trio))
    the table: allele B is more frequent among the founders than declared (0.01 to 0.02): ...
    """
    problems: list[Problem] = []
    pedigrees = [member for member in model.members() if isinstance(member, Pedigree)]
    try:
        listed = data.sequences(GENOTYPES) if pedigrees else []
    except InvalidInput:  # rows that do not fit together are problems of their own
        return problems
    records = [record for series in listed for record in series]
    for pedigree in pedigrees:
        departure = _departure(records, pedigree)
        if departure is not None:
            low, high = pedigree.frequencies
            what = (
                f"allele B is {departure} among the founders than declared ({low:g} to {high:g}): "
                "B may be the other allele, or the interval too narrow"
            )
            problems.append(Problem(None, None, what))
    return problems


def _departure(records: list[str | None], pedigree: Pedigree) -> str | None:
    """Return how B departs from what is declared, None where it need not."""
    from scipy.special import bdtr, bdtrc

    if len(records) != pedigree.length:
        return None  # records of other people: a release refuses them by their number
    children = {child for child, pair in pedigree.parents.items() if pair != (None, None)}
    copies = [
        2 - GENOTYPES.index(record)
        for person, record in zip(pedigree.people, records, strict=True)
        if person not in children and record is not None
    ]
    count, alleles, (low, high) = sum(copies), 2 * len(copies), pedigree.frequencies
    if count and bdtrc(count - 1, alleles, high) < _RARE:  # Pr(at least so many)
        return "more frequent"
    if alleles and bdtr(count, alleles, low) < _RARE:  # Pr(at most so many)
        return "rarer"
    return None
