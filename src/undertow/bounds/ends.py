"""Ends of a leakage that need no search: what is said of a question that was interrupted."""

import math

from undertow.adversaries import Against
from undertow.channels import RandomizedResponse, flips_epsilon_upper
from undertow.mechanisms import Levelled, Mechanism, PureDP, Scaled
from undertow.models.base import Model
from undertow.models.chain_classes import ChainBox
from undertow.models.markov import MarkovChain
from undertow.models.registry import prover
from undertow.numerics import up

__all__ = ["at_least", "at_most"]


def at_least(mechanism: Mechanism, model: Model, against: Against) -> float:
    """Return a leakage that is attained: on a chain, by whoever knows all other records.

    That adversary is one of ``any``. 0 where nothing is known at once. Cost O(k^3).

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> at_least(PureDP(1.0), chain, "any"), at_least(PureDP(1.0), chain, "ignorant")
    (1.0, 0.0)
    """
    counts = isinstance(mechanism, Scaled) and bool(mechanism.query.named)
    if against != "any" or not (counts or isinstance(mechanism, PureDP)):
        return 0.0
    chains = [member for member in model.members() if isinstance(member, MarkovChain)]
    # of several models any one may be true: what one of them leaks is attained
    return max((prover(one).leakage(mechanism, one, "informed").lower for one in chains), default=0)


def at_most(mechanism: Mechanism, model: Model, against: Against, window: int = 1) -> float:
    """Return a proved bound on the leakage about ``window`` records in a row, inf if there is none.

    The DP level times the number of records that depend on each other (Theorem 4.2 of [lange2024]),
    for each record of the window; on chains, and boxes of chains, also by contraction
    (`undertow.bounds.chains.contraction`). At a delta it holds as well: no leakage grows with it.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=3)
    >>> round(at_most(PureDP(1.0), chain, "any"), 3)
    2.204
    >>> round(at_most(PureDP(1.0), MarkovChain([[0, 1], [.5, .5]], length=8), "any"), 3)
    4.243
    """
    return max(_at_most(mechanism, one, against, window) for one in model.members())


def _at_most(mechanism: Mechanism, model: Model, against: Against, window: int) -> float:
    level = _level(mechanism, model)
    if not math.isfinite(level):
        return math.inf
    if against == "informed":
        return up(window * level)
    records = model.dependent_records()
    found = math.inf if records is None else up(window * records * level)
    from undertow.bounds.chains.contraction import block_upper, contraction_upper

    box = model if isinstance(model, ChainBox) else None
    if isinstance(model, MarkovChain):
        reduced = model.visited()
        if reduced is None:
            return 0.0
        found = min(found, block_upper(level, reduced, window))
        if (reduced.transition > 0).all():
            rows = reduced.transition.reshape(-1, reduced.size, reduced.size)  # (steps, k, k)
            low, high = rows.min(axis=0), rows.max(axis=0)
            box = ChainBox(low, high, reduced.states, length=reduced.length)
    if box is not None:
        found = min(found, contraction_upper(level, box, window))
    return found


def _level(mechanism: Mechanism, model: Model) -> float:
    """Return the DP level of a mechanism for one replaced record, inf where it has none."""
    if isinstance(mechanism, RandomizedResponse):
        return flips_epsilon_upper(mechanism)
    if not isinstance(mechanism, Levelled) or getattr(mechanism, "unit", "record") != "record":
        return math.inf
    if model.family == "gaussian" and not isinstance(mechanism, PureDP):
        return math.inf  # records without a range: others can move by more than one is declared to
    return float(mechanism.level_upper(model.length))
