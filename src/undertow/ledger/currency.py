"""The currency of a ledger: levels that add up, and what their sum is worth under a model.

For most models a level is that of differential privacy. An epsilon-DP algorithm may tell Gaussian
records apart by a threshold, so that nothing better than n epsilon is true of it; noisy sums react
gradually. Where a Gaussian model says how far two values of a record may lie apart (``spread``), a
level is therefore a rate of d-privacy times that spread: rates of releases add up like levels, and
their sum is exchanged once, by Proposition 6.1 of [lange2024].

Where an account has a delta, what is spent of several kinds is one curve, and that is exchanged
once, by Theorem 1 of the theory of approximate guarantees.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from undertow.adversaries import Against, Secrets, Window
from undertow.curves import LargestCurve
from undertow.errors import NothingToProtect, NotSupported
from undertow.ledger.amounts import Spend, round_up
from undertow.ledger.rooms import SpendCurve
from undertow.ledger.rules import Terms
from undertow.mechanisms import MetricDP, PureDP, Unit
from undertow.models.sets import AnyModel
from undertow.numerics import down, up

if TYPE_CHECKING:
    from undertow.certificate import Leakage

__all__ = ["allowance", "budget_of", "exchanged", "exchanged_at_delta", "gradual_spread"]


def gradual_spread(model: AnyModel) -> float | None:
    """Return the spread by which rates are counted, None where levels are those of DP.

    >>> from undertow import MultivariateGaussian
    >>> gradual_spread(MultivariateGaussian(0, [[1, .5], [.5, 1]], spread=40))
    40.0
    """
    spreads = [getattr(member, "spread", None) for member in model.members()]
    known = [spread for spread in spreads if spread is not None]
    return max(known) if len(known) == len(spreads) else None


def exchanged(
    level: float, model: AnyModel, against: Against, unit: Unit = "record", window: int = 1
) -> "Leakage":
    """Return what all releases together leak whose levels sum up to ``level``.

    About one record, a ``window`` of several in a row, or a person. Levels are sums for each
    record, and ``level`` is the largest: together the releases are one algorithm of that level.

    >>> from undertow import MultivariateGaussian
    >>> pair = MultivariateGaussian(0, [[1, .5], [.5, 1]], spread=40)
    >>> round(exchanged(1.0, pair, "any").upper, 6)
    1.5
    """
    from undertow.bounds.engine import leakage

    spread = gradual_spread(model)
    if spread is None or unit == "person" or window > 1:
        return leakage(PureDP(level, unit), model, against, protect=Window(window))
    return leakage(MetricDP(up(level / spread)), model, against)


def budget_of(
    limit: float, model: AnyModel, against: Against, unit: Unit = "record", window: int = 1
) -> float:
    """Return the level for a leakage ``limit``, rounded down.

    >>> from undertow import MultivariateGaussian
    >>> pair = MultivariateGaussian(0, [[1, .5], [.5, 1]], spread=40)
    >>> round(budget_of(1.0, pair, "any"), 6)
    0.666667
    """
    if unit == "person":
        return limit
    if gradual_spread(model) is not None and window == 1:
        factor = exchanged(1.0, model, against).upper  # the leakage is proportional to the level
        return down(limit / factor, 16) if factor else math.inf
    budget = _searched()(model, limit, against, Window(window))
    if math.isinf(budget):
        raise NothingToProtect(
            "every record is certain under the model: nothing can leak and nothing needs a ledger"
        )
    return budget


@cache
def _searched() -> Callable[[AnyModel, float, Against, Window], float]:
    """Return the search for a level, which remembers: accounts of one model ask the same."""
    from undertow.planning.budget import budget_for
    from undertow.planning.questions import Remembered

    return Remembered(lambda model, limit, who, kept: budget_for(model, limit, who, protect=kept))


def allowance(
    limit: float, delta: float, model: AnyModel, against: Against, unit: Unit = "record",
    window: int = 1,
) -> tuple[float, float]:  # fmt: skip
    """Return the level and the small delta for a ``limit`` kept up to ``delta``, rounded down.

    All that is (level, small delta)-DP leaks at most (limit, delta).

    >>> from undertow import Groups
    >>> level, small = allowance(1.0, 1e-6, Groups(2), "any")
    >>> round(level, 4), round(small * 1e7, 4)
    (0.5, 3.7754)
    """
    level = budget_of(limit, model, against, unit, window)
    if not delta or unit == "person":
        return level, delta
    if gradual_spread(model) is not None:
        raise NotSupported(
            "the levels of an account of Gaussian records with a spread are rates of d-privacy, "
            "and nothing is known of what these are worth together with Gaussian noise; keep the "
            "account without a delta, or under the model without its spread"
        )
    from undertow.bounds.approximate.closed import pure_budget_delta

    small = pure_budget_delta(limit, delta, level)
    if not small > 0:
        raise NotSupported(f"no delta is left for a limit of {limit:g}; lower the limit")
    return level, small


_CHOSEN = (
    "how much each release was to spend did not depend on the answers of earlier ones; where it "
    "did, the limit of the account holds"
)


def exchanged_at_delta(spent: Sequence[Spend], model: AnyModel, terms: Terms) -> "Leakage":
    """Return what all releases together leak at the delta of an account.

    Records have spent different amounts, and Theorem 1 wants one level for all of them: their
    curves are exchanged as one, the largest at each level, not one by one. A pure level leaks
    what it leaks at any delta. The closed exchange searches the best level; that of the budget,
    at which all grants were tested, is tried too.
    """
    from undertow.bounds.approximate.closed import closed_delta
    from undertow.bounds.approximate.leakages import closed_leakage

    pure = all(spend.pure for spend in spent)
    curve = LargestCurve(tuple(map(SpendCurve, spent)))
    if pure or terms.unit == "person":
        level = round_up(max(spend.level for spend in spent)) if pure else 1.0
        found = exchanged(level, model, terms.against, terms.unit, terms.window)
        upper = found.upper if pure else curve.epsilon(terms.delta)
        return replace(found, lower=0.0, upper=upper, witness=None, delta=terms.delta)

    @lru_cache(maxsize=256)
    def rate(level: float) -> float:
        return exchanged(level, model, terms.against, window=terms.window).upper

    found, granted = closed_leakage(curve, rate, terms.delta, terms.against), rate(terms.budget)
    found = replace(found, secrets=Secrets(window=terms.window))
    kept = closed_delta(curve.delta(terms.budget), terms.budget, granted) <= terms.delta
    upper = min(found.upper, granted) if kept else found.upper
    return replace(found, upper=upper, assumptions=(*found.assumptions, _CHOSEN))
