"""Leakage of a count with noise from a table: exact where all pairs of laws can be enumerated."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.counts.laws import CountPairs, CountWindows, chain_windows, varying_windows
from undertow.bounds.levels.sides import Ints
from undertow.bounds.networks.pairs import NetworkPairs, network_pairs, parts_of
from undertow.bounds.protocol import Problem
from undertow.certificate import Leakage
from undertow.errors import EffortSpent, NotSupported
from undertow.mechanisms import TabulatedNoise
from undertow.models.base import Model
from undertow.models.chains import MarkovChain
from undertow.models.networks import BayesianNetwork, Contagion
from undertow.models.pedigrees import Pedigree
from undertow.numerics import Array, up
from undertow.queries import BaseQuery

__all__ = [
    "BLOCK",
    "TABLES",
    "PairSource",
    "TableProver",
    "largest_loss",
    "pair_sources",
    "shifted_law",
    "table_leakage",
    "windows_of",
]

METHOD = "exact"
_CITATION = "docs, theory: least noise of any shape"
_FOLLOWS = "the records depend on each other as the model says"

BLOCK = 2**22
"""Most entries of the table of windows and answers that is looked at together (memory)."""

FAINT = 1e-280
"""Least likelihood of an answer whose sums have lost nothing to underflow (lower side)."""


def shifted_law(noise: TabulatedNoise, counts: int) -> Array:
    """Return g(s - j) for the counts j and the answers s = first .. last + counts - 1."""
    first, last = noise.first, noise.last
    law = noise.law(first - counts + 1, last + counts - 1)
    return windows_of(law, counts)


def windows_of(law: Array, counts: int) -> Array:
    """Return T[j, s] = law[counts - 1 - j + s]: a law read at s - j, (counts, answers)."""
    answers = len(law) - counts + 1
    place: Ints = np.arange(answers)[None, :] + (counts - 1 - np.arange(counts))[:, None]
    return np.asarray(law[place])


def largest_loss(pairs: CountPairs, noise: TabulatedNoise) -> tuple[float, float, int, int]:
    """Return certified ends of the largest loss over all pairs and answers, and where it is.

    The last two are the pair and the answer of the lower end, -1 and 0 if no pair is attained.
    """
    if not len(pairs.laws):
        return 0.0, 0.0, -1, 0
    table = shifted_law(noise, pairs.counts)  # (counts, answers)
    pad = pairs.error(table.shape[1])
    upper, lower, where, answer = 0.0, 0.0, -1, 0
    for part, ratio in _log_ratios(pairs, table):
        top = ratio.max(axis=1)  # (pairs of this block,)
        upper = max(upper, float((top + pairs.slack[part]).max()) + pad)
        seen = np.where(pairs.real[part], top, -np.inf)
        at = int(seen.argmax())
        if seen[at] - pad > lower:
            lower, where = float(seen[at]) - pad, part.start + at
            answer = noise.first + int(ratio[at].argmax())
    return lower, upper, where, answer


def _log_ratios(pairs: CountPairs, table: Array) -> Iterator[tuple[slice, Array]]:
    """Yield the log ratios (pairs, answers) of some pairs at a time."""
    step = max(1, BLOCK // table.shape[1])
    for start in range(0, len(pairs.laws), step):
        part = slice(start, min(start + step, len(pairs.laws)))
        one, two = pairs.laws[part] @ table, pairs.others[part] @ table
        if min(float(one.min()), float(two.min())) < FAINT:
            raise NotSupported(
                "some answers are too improbable for exact arithmetic with this noise; use "
                "method='exact'"
            )
        yield part, np.log(one / two)


PairSource = CountWindows | NetworkPairs
"""Pairs of laws, and the attack that each stands for."""


def pair_sources(
    query: BaseQuery, model: Model, against: Against, limit: float
) -> list[PairSource]:
    """Return all pairs of laws of a count on a model, or refuse with `NotSupported`.

    None if no record is uncertain, or none matters. ``limit`` is how large a leakage is looked at.
    """
    if against not in ("any", "ignorant"):
        raise NotSupported(
            "noise of any shape is proved against 'any' and 'ignorant'; use method='exact'"
        )
    counted = tuple(state in query.named for state in model.states)
    if len(set(counted)) == 1 and model.family in ("chain", "network"):
        return []  # the answer is the number of records, or 0
    pairs: list[PairSource | None]
    if isinstance(model, MarkovChain):
        pairs = [_chain_source(model, counted, against, limit)]
    elif isinstance(model, BayesianNetwork | Contagion | Pedigree):
        pairs = [network_pairs(part, counted, against) for part in parts_of(model, against)]
    else:
        raise NotSupported(
            f"noise of any shape needs the law of a count, which {model.describe()} does not "
            "give; use method='exchange'"
        )
    return [source for source in pairs if source is not None]


def _chain_source(
    chain: MarkovChain, counted: tuple[bool, ...], against: Against, limit: float
) -> PairSource | None:
    """Return the pairs of laws on a chain, None if no record is uncertain or the count is."""
    reduced = chain.visited()
    if reduced is None:
        return None
    marks = tuple(counted[chain.index(state)] for state in reduced.states)
    if len(set(marks)) == 1:
        return None
    if reduced.homogeneous and isinstance(reduced.start, str):
        return chain_windows(reduced, marks, against, limit)
    return varying_windows(reduced, marks, against == "ignorant")


def table_leakage(
    noise: TabulatedNoise, model: Model, against: Against, limit: float | None = None
) -> Leakage:
    """Return the exact leakage of a count with noise from a table, as certified interval.

    Against ``any`` and ``ignorant``; cost (pairs of laws) x (counts) x (answers). Refuses with
    `NotSupported` where the pairs of laws are too many, or not known.

    >>> from undertow.queries import Count
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> noise = TabulatedNoise(Count(1), -1, (2**126, 2**127, 2**126), 0.5)
    >>> leak = table_leakage(noise, chain, "any")
    >>> round(leak.lower, 4), leak.closed
    (3.1499, True)
    """
    if against == "informed" or isinstance(against, Adversary):
        bracket = Leakage(
            0.0, noise.level_upper(), "informed", against, None, (_FOLLOWS,), _CITATION
        )
        if against == "informed":
            return bracket
        worst = table_leakage(noise, model, "any", limit)
        return Leakage(0.0, worst.upper, METHOD, against, None, (_FOLLOWS,), _CITATION)
    lower, upper, witness = 0.0, 0.0, None
    for source in pair_sources(noise.query, model, against, limit or noise.level_upper()):
        loss, most, where, answer = largest_loss(source.pairs, noise)
        upper = max(upper, up(most))
        if loss > lower:
            lower, witness = loss, source.witness(where, answer)
    return Leakage(lower, upper, METHOD, against, witness, (_FOLLOWS,), _CITATION)


@dataclass(frozen=True, slots=True)
class TableProver:
    """Counts with noise from a table, on every model that gives the law of a count."""

    name: str = METHOD

    def supports(self, problem: Problem) -> bool:
        """Tell whether the noise is from a table, about one record and on whole series."""
        return problem.about_one_record and isinstance(problem.mechanism, TabulatedNoise)

    def prove(self, problem: Problem) -> Leakage:
        """Return the exact leakage, or refuse a model without a law of counts."""
        if not isinstance(problem.mechanism, TabulatedNoise):
            raise NotSupported("noise from a table is required")
        try:
            return table_leakage(problem.mechanism, problem.model, problem.against)
        except EffortSpent as error:  # the level of the table needs no pairs of laws
            raise NotSupported("the pairs of laws need more effort than allowed") from error


TABLES = TableProver()
