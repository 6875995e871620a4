"""What the failure of a check costs a plan: its leakage under the model that records suggest."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from undertow.adversaries import Against, Window
from undertow.bounds.attractive.missing import over_patterns
from undertow.bounds.engine import leakage
from undertow.bounds.second_order.leakages import second_order_leakage
from undertow.certificate import Leakage, worst
from undertow.errors import InvalidInput, NotSupported
from undertow.guarantees import GDP, ZCDP
from undertow.mechanisms import DiscreteGaussian, Gaussian, Mechanism, Noise, PureDP, Scaled
from undertow.models.base import Model
from undertow.models.checks import Check
from undertow.models.second_order import SecondOrderChain
from undertow.numerics import up
from undertow.plan import Plan

__all__ = [
    "LITTLE",
    "jointly",
    "price",
    "price_level",
    "priced",
    "priced_level",
    "quickly",
    "under",
]

MOST_STATES = 3
"""States up to which a chain of order two is tried out with every plan (cost: seconds beyond);
`undertow.robustness` tries all."""

LITTLE = 0.1
"""Effort of what is only told beside an answer, or in a refusal: about a second each."""


def priced(plan: Plan[Any], accepted: tuple[str, ...] = ()) -> Plan[Any]:
    """Return the plan with the checks of its model, and what it leaks where one of them failed.

    ``accepted`` are the names of failed checks that the caller took upon themselves.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> from undertow.models.second_order import SecondOrderChain
    >>> longer = SecondOrderChain([[[.7, .3], [.4, .6]], [[.6, .4], [.3, .7]]])
    >>> chain = MarkovChain.fit(longer.simulate(4000, seed=2), public=True)
    >>> plan = calibrate(Count(1), chain, limit=1.0, accept=["order", "memory"])
    >>> [check.name for check in plan.checks if check.leakage]
    ['order']
    """
    checks = tuple(price(check, plan) for check in plan.model.checks)
    return replace(plan, checks=checks, accepted=accepted)


def under(plan: Plan[Any], model: Model, *, quickly: bool = False) -> Leakage:
    """Return what a plan leaks about what it protects, if another model is true.

    ``quickly``: by the level of Laplace noise, of which no more is known than what all algorithms
    of it leak, and by the closed exchange at a delta; what the answer itself leaks takes long
    where records stay alike for long.
    """
    window, joint = plan.leakage.secrets.window, jointly(plan)
    more: dict[str, Any] = {"protect": Window(window)} if window > 1 else {}
    if quickly and isinstance(joint, Scaled):
        level = PureDP(joint.level_upper(plan.length))
        found = leakage(level, model, plan.against, delta=plan.delta, **more)
        return replace(found, lower=0.0, witness=None)
    if quickly and plan.delta and not more:
        return worst([_closed(plan, joint, member) for member in model.members()])
    found = leakage(joint, model, plan.against, delta=plan.delta, **more)
    if plan.missing != "any" or not isinstance(joint, Noise):
        return found
    if over_patterns(found, joint, model):
        return found
    wider = leakage(joint, model, plan.against, delta=plan.delta, covers="any", **more)
    if wider.lower >= found.lower:
        return wider
    return replace(wider, lower=found.lower, witness=found.witness)  # complete is a pattern, too


def quickly(plan: Plan[Any], model: Model) -> bool:
    """Return whether what a plan leaks under a model is only bounded by its level."""
    return bool(plan.delta) or not isinstance(model, SecondOrderChain)


def _closed(plan: Plan[Any], joint: Mechanism, model: Model) -> Leakage:
    """Return what the closed exchange says of a plan with a delta."""
    from undertow.bounds.approximate.leakages import at_delta

    def pure(level: Any) -> Leakage:
        if isinstance(model, SecondOrderChain):  # only the bound is used: hardly look for attacks
            return second_order_leakage(level, model, plan.against, reach=2)
        return leakage(level, model, plan.against)

    return at_delta(joint, model, plan.against, plan.delta, "any", pure, closed=True)


def jointly(plan: Plan[Any]) -> Mechanism:
    """Return what all releases of a plan are together: its mechanism, or what several of it keep.

    Levels and rho add up, and so do squares of mu (rounded up); what one answer leaks by its own
    shape says nothing about several.
    """
    if plan.releases == 1:
        found: Mechanism = plan.mechanism
        return found
    noise, times = plan.noise, plan.releases
    if isinstance(noise, DiscreteGaussian):
        return ZCDP(up(noise.rho_upper(plan.length) * times))
    if isinstance(noise, Gaussian):
        return GDP(up(noise.mu_upper(plan.length) * up(math.sqrt(times))))
    return PureDP(up(noise.level_upper(plan.length) * times))


def priced_level(
    checks: Iterable[Check], level: float, against: Against, window: int = 1
) -> tuple[Check, ...]:
    """Return checks with what all algorithms of a DP level leak where one of them failed.

    With little effort: a bound that takes long to find is left out.

    >>> from undertow import MarkovChain
    >>> drifts = Check("time", "failed", "", alternative=MarkovChain([[.9, .1], [.1, .9]]))
    >>> round(priced_level([drifts], .1, "any")[0].leakage[1], 3)
    0.873
    """
    return tuple(price_level(check, level, against, Window(window)) for check in checks)


def price_level(check: Check, level: float, against: Against, window: Window) -> Check:
    """Return the check with what all algorithms of a DP level leak, where it failed."""
    check = replace(check, leakage=None)
    if check.outcome != "failed" or check.alternative is None:
        return check
    try:
        leak = leakage(PureDP(level), check.alternative, against, effort=LITTLE, protect=window)
    except (NotSupported, InvalidInput):
        return check
    return check.priced(leak.lower, None if math.isinf(leak.upper) else leak.upper)


def price(check: Check, plan: Plan[Any]) -> Check:
    """Return the check with both ends, where it failed and a leakage is known under its model."""
    check = replace(check, leakage=None)  # of another plan
    other, secrets = check.alternative, plan.leakage.secrets
    if check.outcome != "failed" or other is None or plan.unit != "record":
        return check
    if secrets.pairs is not None or (secrets.records is not None and plan.task != "redact"):
        return check  # some values only: what all of them leak is no price
    if isinstance(other, SecondOrderChain) and other.size > MOST_STATES:
        return check
    try:
        leak = under(plan, other, quickly=quickly(plan, other))
    except (NotSupported, InvalidInput):
        return check
    return check.priced(leak.lower, None if math.isinf(leak.upper) else leak.upper)
