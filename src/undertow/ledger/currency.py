"""The currency of a ledger: levels that add up, and what their sum is worth under a model.

For most models a level is that of differential privacy. An epsilon-DP algorithm may tell Gaussian
records apart by a threshold, so that nothing better than n epsilon is true of it; noisy sums react
gradually. Where a Gaussian model says how far two values of a record may lie apart (``spread``), a
level is therefore a rate of d-privacy times that spread: rates of releases add up like levels, and
their sum is exchanged once, by Proposition 6.1 of [lange2024].
"""

import math
from typing import TYPE_CHECKING

from undertow.adversaries import Against
from undertow.errors import NothingToProtect
from undertow.mechanisms import MetricDP, PureDP, Unit
from undertow.models.sets import AnyModel
from undertow.numerics import down, up

if TYPE_CHECKING:
    from undertow.certificate import Leakage

__all__ = ["budget_of", "exchanged", "gradual_spread"]


def gradual_spread(model: AnyModel) -> float | None:
    """Return the spread by which rates are counted, None where levels are those of DP.

    >>> from undertow import MultivariateGaussian
    >>> gradual_spread(MultivariateGaussian(0, [[1, .5], [.5, 1]], spread=40))
    40.0
    """
    spreads = [getattr(member, "spread", None) for member in model.members()]
    known = [spread for spread in spreads if spread is not None]
    return max(known) if len(known) == len(spreads) else None


def exchanged(level: float, model: AnyModel, against: Against, unit: Unit = "record") -> "Leakage":
    """Return what all releases together leak whose levels sum up to ``level``.

    >>> from undertow import MultivariateGaussian
    >>> pair = MultivariateGaussian(0, [[1, .5], [.5, 1]], spread=40)
    >>> round(exchanged(1.0, pair, "any").upper, 6)
    1.5
    """
    from undertow.bounds.engine import leakage

    spread = gradual_spread(model)
    if spread is None or unit == "person":
        return leakage(PureDP(level, unit), model, against)
    return leakage(MetricDP(up(level / spread)), model, against)


def budget_of(limit: float, model: AnyModel, against: Against, unit: Unit = "record") -> float:
    """Return the level for a leakage ``limit``, rounded down.

    >>> from undertow import MultivariateGaussian
    >>> pair = MultivariateGaussian(0, [[1, .5], [.5, 1]], spread=40)
    >>> round(budget_of(1.0, pair, "any"), 6)
    0.666667
    """
    if unit == "person":
        return limit
    if gradual_spread(model) is not None:
        factor = exchanged(1.0, model, against).upper  # the leakage is proportional to the level
        return down(limit / factor, 16) if factor else math.inf
    from undertow.planning.budget import dp_budget

    budget = dp_budget(model, limit, against)
    if math.isinf(budget):
        raise NothingToProtect(
            "every record is certain under the model: nothing can leak and nothing needs a ledger"
        )
    return budget
