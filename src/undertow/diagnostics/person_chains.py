"""Budgets under each person's own chain, where persons differ."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from undertow.adversaries import Against, check_against
from undertow.bounds.engine import leakage
from undertow.bounds.levels.classes import chain_ceilings
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.frames import ResultTable
from undertow.mechanisms import PureDP
from undertow.models.chains import MarkovChain
from undertow.models.fitting.fit import FittedChain, person_counts
from undertow.numerics import Array, check_count, check_epsilon
from undertow.planning.budget import Search, budget_for, largest_level

__all__ = ["PersonBudgets", "persons"]


_MOST_ASKED = 200
"""Persons with more than two states whose leakages are computed one by one (cost)."""
_SWEPT = 1e-7
"""Relative precision of the budgets of persons of two states: that of the sweep for all of them."""
_PRIOR = 0.5
"""Pseudo-count where the fit has none: else a transition that a person never made is impossible."""


@dataclass(frozen=True, slots=True)
class PersonBudgets(ResultTable):
    """DP levels that keep one limit under the pooled chain, and under persons' own chains.

    ``pooled`` is the budget of the one chain for all, ``median`` and ``worst`` those of two persons
    (half of all persons have no smaller one, nobody has a smaller one); ``leaks`` is what the
    pooled budget leaks under the worst person's chain, where ``limit`` was meant. Estimates of
    persons with few records scatter: ``persons`` counts those that were asked. Not private.

    >>> PersonBudgets(1.0, 9, 0.25, 0.24, 0.125, 1.8).words()[:57]
    'for a limit of 1 the one chain allows a DP level of 0.25,'
    """

    limit: float
    persons: int
    pooled: float
    median: float
    worst: float
    leaks: float

    def descriptions(self) -> list[dict[str, Any]]:
        """Return the one row of numbers."""
        return [asdict(self)]

    def words(self) -> str:
        """Return the finding in plain words."""
        return (
            f"for a limit of {self.limit:g} the one chain allows a DP level of {self.pooled:.4g}, "
            f"persons' own chains {self.median:.4g} (median) and {self.worst:.4g} (worst of "
            f"{self.persons}), for whom {self.pooled:.4g} leaks {self.leaks:.4g}"
        )


def persons(
    fitted: FittedChain, limit: float = 1.0, against: Against = "any", *, least: int = 1
) -> PersonBudgets:
    """Return the DP budgets under the pooled chain and under persons' own fitted chains.

    Each person's chain is (N_xy + prior) / (N_x + k prior) with the prior of the fit, or one half;
    persons with fewer than ``least`` transitions are left out. Persons are ranked by what the
    pooled budget leaks under their chains. The budgets are certified for those chains, which are
    estimates: `FittedChain.population` accounts for that. Cost: one sweep for all persons of two
    states, one leakage for each person of more.

    >>> still, lively = MarkovChain([[.95, .05], [.1, .9]]), MarkovChain([[.6, .4], [.5, .5]])
    >>> sample = [still.simulate(900, seed=1), *(lively.simulate(900, seed=s) for s in range(4))]
    >>> found = persons(MarkovChain.fit(sample, public=True))
    >>> found.worst < found.pooled < found.median, found.leaks > 2
    (True, True)
    """
    limit, against = check_epsilon(limit, "limit"), check_against(against)
    if not isinstance(fitted, FittedChain):
        raise InvalidInput(
            f"a chain from MarkovChain.fit is required, found {type(fitted).__name__}"
        )
    counts = person_counts(fitted.tally)
    counts = counts[counts.sum(axis=(1, 2)) >= check_count(least, "least (transitions)", 1)]
    if not len(counts):
        raise NotSupported(f"no person has {least} transitions; say a smaller least=...")
    weights = counts + (fitted.prior or _PRIOR)  # (P, k, k)
    rows = weights / weights.sum(axis=2, keepdims=True)
    chains = [MarkovChain(matrix, fitted.states, length=fitted.length) for matrix in rows]
    pooled = budget_for(fitted.point(), limit, against)
    if not np.isfinite(pooled):
        raise InvalidModel("under the pooled chain nothing leaks: it has one certain state")
    leaks = _uppers(pooled, chains, against)  # (P,)
    order = np.argsort(leaks)
    middle, last = chains[order[(len(order) - 1) // 2]], chains[order[-1]]
    return PersonBudgets(
        limit=limit,
        persons=len(chains),
        pooled=pooled,
        median=_budget(middle, limit, against),
        worst=_budget(last, limit, against),
        leaks=float(leaks[order[-1]]),
    )


def _uppers(level: float, chains: Sequence[MarkovChain], against: Against) -> Array:
    """Return upper ends of the leakage of a DP level under each chain: one sweep for two states."""
    size = chains[0].size
    if size == 2:
        return chain_ceilings(level, chains, against)
    if len(chains) > _MOST_ASKED:
        raise NotSupported(
            f"{len(chains)} persons with {size} states take long to compare; leave persons with "
            "few records out (least=...), or make two states of the records"
        )
    return np.array([leakage(PureDP(level), chain, against).upper for chain in chains])


def _budget(chain: MarkovChain, limit: float, against: Against) -> float:
    """Return the largest DP level that keeps a limit under a chain, rounded down."""
    if chain.size > 2:
        return budget_for(chain, limit, against)

    def measure(level: float) -> Leakage:
        return Leakage(0.0, float(_uppers(level, [chain], against)[0]), "exchange", against)

    return largest_level(measure, chain, limit, Search(_SWEPT))
