"""What a count with noise from a table leaks: exact where all pairs of laws can be enumerated."""

from typing import Protocol

from undertow.adversaries import Adversary, Against
from undertow.bounds.tabulated.chains import chain_pairs
from undertow.bounds.tabulated.networks import network_pairs, parts_of
from undertow.bounds.tabulated.pairs import CountPairs
from undertow.bounds.tabulated.varying import varying_pairs
from undertow.certificate import Leakage, Witness
from undertow.errors import NotSupported
from undertow.models.base import Model
from undertow.models.markov import MarkovChain
from undertow.numerics import up
from undertow.tabulated import TabulatedNoise

__all__ = ["PairSource", "sources", "table_leakage"]

METHOD = "exact"
_CITATION = "docs, theory: least noise of any shape"

_FOLLOWS = "the records depend on each other as the model says"


class PairSource(Protocol):
    """Pairs of laws, and the attack that each stands for."""

    pairs: CountPairs

    def witness(self, where: int, answer: int) -> Witness:
        """Return the attack of a pair at an answer."""
        ...


def sources(query: object, model: Model, against: Against, limit: float) -> list[PairSource]:
    """Return all pairs of laws of a count on a model, or refuse with `NotSupported`.

    None if no record is uncertain, or none matters. ``limit`` is how large a leakage is looked at.
    """
    if against not in ("any", "ignorant"):
        raise NotSupported(
            "noise of any shape is proved against 'any' and 'ignorant'; use method='exact'"
        )
    named = getattr(query, "named", ())
    counted = tuple(state in named for state in model.states)
    if len(set(counted)) == 1 and model.family in ("chain", "network"):
        return []  # the answer is the number of records, or 0
    found: list[PairSource | None]
    if isinstance(model, MarkovChain):
        found = [_chain_source(model, counted, against, limit)]
    elif model.family == "network":
        found = [network_pairs(part, counted, against) for part in parts_of(model, against)]
    else:
        raise NotSupported(
            f"noise of any shape needs the law of a count, which {model.describe()} does not "
            "give; use method='exchange'"
        )
    return [one for one in found if one is not None]


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
        return chain_pairs(reduced, marks, against, limit)
    return varying_pairs(reduced, marks, against == "ignorant")


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
        found = Leakage(0.0, noise.level_upper(), "informed", against, None, (_FOLLOWS,), _CITATION)
        if against == "informed":
            return found
        worst = table_leakage(noise, model, "any", limit)
        return Leakage(0.0, worst.upper, METHOD, against, None, (_FOLLOWS,), _CITATION)
    lower, upper, witness = 0.0, 0.0, None
    for source in sources(noise.query, model, against, limit or noise.level_upper()):
        losses = source.pairs.losses(noise)
        upper = max(upper, up(losses.upper))
        if losses.lower > lower:
            lower, witness = losses.lower, source.witness(losses.where, losses.answer)
    return Leakage(lower, upper, METHOD, against, witness, (_FOLLOWS,), _CITATION)
