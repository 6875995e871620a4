"""Is the allele as frequent in the data as the pedigree says? For the curator's eyes only.

A leakage under a pedigree holds for the frequencies that were declared. Genotypes in which the
allele is far more frequent, or far rarer, are a sign that the other allele is meant, or that the
interval is too narrow.
"""

from typing import TYPE_CHECKING

from undertow.data.problems import Problem
from undertow.errors import InvalidInput
from undertow.models.pedigree import GENOTYPES, Pedigree

if TYPE_CHECKING:
    from undertow.data.table import Data
    from undertow.models.base import Model

__all__ = ["frequency_problems"]

_RARE = 0.01
"""How seldom founders of a declared frequency may be as extreme before a curator is told."""


def frequency_problems(data: "Data", model: "Model") -> list[Problem]:
    """Return whether allele B is too frequent or too rare among the founders of a pedigree.

    The alleles of founders are independent, so n of them have Binomial(n, p) copies of B. Told is a
    number of copies whose tail is below 1% at every declared p. Depends on the genotypes, though
    it names no number: it belongs into no report. One pass over the records.

    >>> from undertow.data.table import Data
    >>> trio = Pedigree({"kim": ("bob", "ann")}, allele_frequency=(.01, .02))
    >>> print(*frequency_problems(Data(["BB", "BB", "Bb"]), trio))
    the table: allele B is more frequent among the founders than declared (0.01 to 0.02): ...
    """
    said: list[Problem] = []
    pedigrees = [member for member in model.members() if isinstance(member, Pedigree)]
    try:
        listed = data.sequences(GENOTYPES) if pedigrees else []
    except InvalidInput:  # rows that do not fit together are problems of their own
        return said
    records = [record for series in listed for record in series]
    for pedigree in pedigrees:
        found = _departure(records, pedigree)
        if found is not None:
            low, high = pedigree.frequencies
            what = (
                f"allele B is {found} among the founders than declared ({low:g} to {high:g}): "
                "B may be the other allele, or the interval too narrow"
            )
            said.append(Problem(None, None, what))
    return said


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
