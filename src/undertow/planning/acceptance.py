"""The refusal of a model whose checks failed: what accepting them costs, and what else there is.

Other models of the same records are offered where they need the acceptance of fewer checks. Each is
tried first: it is made, and the very question is put to it with little effort. A hidden chain is
not tried, because a fit keeps no records, and a thinned chain has the checks of its fit.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from undertow import progress
from undertow.adversaries import Against
from undertow.bounds.engine import leakage
from undertow.bounds.memory.missing import over_patterns
from undertow.bounds.memory.second_order import second_order_leakage
from undertow.certificate import Leakage, worst
from undertow.errors import FailedChecks, InvalidInput, NotSupported, UndertowError
from undertow.guarantees import GDP, ZCDP
from undertow.mechanisms import DiscreteGaussian, Gaussian, Mechanism, Noise, PureDP, Scaled
from undertow.models.base import Model, stands_for
from undertow.models.chains import periodic
from undertow.models.fitting.checks import (
    SAME_RECORDS,
    Check,
    accept_option,
    accepted,
    failed,
    listed,
)
from undertow.models.fitting.fit import FittedChain, FittedSecondOrderChain
from undertow.models.second_order import SecondOrderChain
from undertow.numerics import up
from undertow.plan import Plan
from undertow.rounding import above, below, odds
from undertow.secrets import Secret, Window

__all__ = [
    "LITTLE",
    "Trial",
    "admit",
    "leakage_under",
    "price",
    "price_level",
    "priced",
    "priced_level",
    "quickly",
]


_TRIAL, _COSTS, _ALTERNATIVES = 0.1, 0.1, 0.1
"""Effort for an answer, what accepting costs, and all other models: together two seconds."""

_MINUTES = {"1m": 1, "5m": 5, "10m": 10, "15m": 15, "20m": 20, "30m": 30, "1h": 60}
"""Steps of records that divide an hour, in minutes."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A cheap answer to a question under one model.

    ``priced`` returns a failed check with what the answer leaks under the model that the check
    suggests; ``under`` is what the answer leaks under another model, refused where the question
    cannot be put to that one.
    """

    priced: Callable[[Check], Check]
    under: Callable[[Model], Leakage]


Alternative = tuple[str, str, Callable[[], Model]]
"""Another model of the records of a fit: the check it is about, its words, how it is built."""


def admit(
    model: Model, accept: object, ask: Callable[[], Trial], *, all_of: bool = True
) -> tuple[str, ...]:
    """Return the accepted names of failed checks, or refuse with costs and alternatives.

    ``ask`` tries the question under the model.

    >>> from undertow.models.chains import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> failing = chain.with_checks([Check("memory", "failed", "it is longer")])
    >>> admit(failing, ["memory"], lambda: Trial(lambda check: check, lambda other: None))
    ('memory',)
    """
    checks = stands_for(model).checks
    try:
        return accepted(checks, accept, all_of=all_of)
    except FailedChecks as refusal:
        taken = accepted(checks, accept, all_of=False)
        missing = [check for check in failed(checks) if check.name in refusal.names]
        raise FailedChecks(_refusal(model, missing, taken, ask), refusal.names) from None


def _refusal(
    model: Model, missing: list[Check], taken: tuple[str, ...], ask: Callable[[], Trial]
) -> str:
    """Describe failed checks, the cost of accepting each, and models that need fewer."""
    with progress.granting(_TRIAL):
        try:
            trial = ask()
        except UndertowError:
            trial = None
    costs = [_UNKNOWN] * len(missing) if trial is None else _costs(missing, trial)
    reasons = [
        f"{check.name}: {check.words} ({cost})" for check, cost in zip(missing, costs, strict=True)
    ]
    names = [check.name for check in missing]
    plural = "checks" if len(names) > 1 else "check"
    every = accept_option([*taken, *names])
    others = [] if trial is None else list(_suggestions(model, [*taken, *names], taken, trial))
    instead = f"; or use {'; or '.join(others)}" if others else ""
    return (
        f"the records speak against the model, which failed the {plural} {listed(names)}: "
        f"{'; '.join(reasons)}. Say {every} to take this upon you, and every promise begins with "
        f"what it costs{instead}"
    )


def _costs(missing: list[Check], trial: Trial) -> list[str]:
    """Return what accepting each check costs, in words."""
    costs = []
    with progress.granting(_COSTS):
        for check in missing:
            leaks = trial.priced(check).leakage
            spent = check.alternative is not None and not progress.left() > 0
            costs.append(_UNKNOWN if spent else f"accepting it: {_cost(leaks)}")
    return costs


_UNKNOWN = "accepting it: the cost was not computed"


def _cost(leaks: tuple[float, float | None] | None) -> str:
    """Return what an answer leaks under the model that a check suggests, in words."""
    if leaks is None:
        return "not bounded"
    lower, upper = leaks
    if upper is None:
        return f"not bounded, a leakage of at least {below(lower)}"
    return f"a leakage of up to {above(upper)}, a factor {odds(upper)}"


def _suggestions(
    model: Model, broken: Sequence[str], taken: Sequence[str], trial: Trial
) -> Iterator[str]:
    """Yield models in words: those that answer, and need the acceptance of fewer checks."""
    with progress.granting(_ALTERNATIVES):
        for check, words, build in _alternatives(model):
            if check not in broken:
                continue
            try:
                other = build()
                left = [check.name for check in failed(other.checks)]
                if not set(left) < set(broken):
                    continue
                upper = trial.under(other).upper
            except UndertowError:
                continue
            if math.isinf(upper):
                continue
            names = [*left, *(name for name in taken if name == SAME_RECORDS)]
            more = f" with {accept_option(names)}" if names else ""
            yield f"{words}{more} (the same noise leaks up to {above(upper)} there)"


def _alternatives(model: Model) -> Iterator[Alternative]:
    """Yield other models of the records that a model was fitted to, none of them tried."""
    if not isinstance(model, FittedChain):
        return
    order = "a chain of order two, MarkovChain.fit(..., order=2)"
    yield "order", order, lambda: FittedSecondOrderChain.of_fit(model)
    yield "persons", "the chains of all persons, model.population()", model.population
    yield "hours", "a matrix for each hour, MarkovChain.periodic(...)", lambda: _hourly(model)


def _hourly(model: FittedChain) -> Model:
    """Return the chain with a matrix for each hour of the day; its step must divide an hour."""
    hours = None if model.tally is None else model.tally.hours
    step = _MINUTES.get(str(model.records.every))
    if hours is None or step is None:
        raise NotSupported("the records have no clock times, or steps that divide no hour")
    counts = hours + (model.prior or 0.5)  # (24, k, k)
    rows = counts / counts.sum(axis=2, keepdims=True)
    chain = periodic(
        dict(enumerate(np.asarray(rows))), model.states, length=model.length,
        steps_per=60 // step, context="hour",
    )  # fmt: skip
    return model.passed_on(chain, [check for check in model.checks if check.name != "hours"])


MOST_STATES = 3
"""States up to which a chain of order two is tried out with every plan (cost: seconds beyond);
`undertow.robustness` tries all."""

LITTLE = 0.1
"""Effort of what only accompanies an answer or a refusal: about a second each."""


def priced(plan: Plan[Any], accepted: tuple[str, ...] = ()) -> Plan[Any]:
    """Return the plan with the checks of its model, and its leakage where one of them failed.

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


def leakage_under(plan: Plan[Any], model: Model, *, quickly: bool = False) -> Leakage:
    """Return the leakage of a plan about its secret, if another model is true.

    ``quickly``: by the level of Laplace noise, of which no more is known than what all algorithms
    of it leak, and by the closed exchange at a delta; what the answer itself leaks takes long
    where records stay alike for long.
    """
    secret, joint = plan.leakage.secret, joint_mechanism(plan)
    whole = secret.window > 1 or secret.person
    more: dict[str, Any] = {"secret": secret} if whole else {}
    if quickly and isinstance(joint, Scaled):
        level = PureDP(joint.level_upper(plan.length))
        leak = leakage(level, model, plan.against, delta=plan.delta, **more)
        return leak.upper_only()
    if quickly and plan.delta and not more:
        return worst([_closed(plan, joint, member) for member in model.members()])
    leak = leakage(joint, model, plan.against, delta=plan.delta, **more)
    if plan.missing != "any" or not isinstance(joint, Noise):
        return leak
    if over_patterns(leak, joint, model):
        return leak
    wider = leakage(joint, model, plan.against, delta=plan.delta, valid_for="any", **more)
    if wider.lower >= leak.lower:
        return wider
    return replace(wider, lower=leak.lower, witness=leak.witness)  # complete is a pattern, too


def quickly(plan: Plan[Any], model: Model) -> bool:
    """Return whether the leakage of a plan under a model is bounded by its level alone."""
    return bool(plan.delta) or not isinstance(model, SecondOrderChain)


def _closed(plan: Plan[Any], joint: Mechanism, model: Model) -> Leakage:
    """Return the leakage of a plan at its delta by the closed exchange."""
    from undertow.bounds.curves.leakages import at_delta

    def pure(level: Any) -> Leakage:
        if isinstance(model, SecondOrderChain):  # only the bound is used: hardly look for attacks
            return second_order_leakage(level, model, plan.against, reach=2)
        return leakage(level, model, plan.against)

    return at_delta(joint, model, plan.against, plan.delta, "any", pure, closed=True)


def joint_mechanism(plan: Plan[Any]) -> Mechanism:
    """Return what all releases of a plan are together: its mechanism, or what several of it keep.

    Levels and rho add up, and so do squares of mu (rounded up); what one answer leaks by its own
    shape says nothing about several.
    """
    if plan.releases == 1:
        mechanism: Mechanism = plan.mechanism
        return mechanism
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


def price_level(check: Check, level: float, against: Against, secret: Secret) -> Check:
    """Return the check with what all algorithms of a DP level leak, where it failed."""
    check = replace(check, leakage=None)
    if check.outcome != "failed" or check.alternative is None:
        return check
    try:
        leak = leakage(PureDP(level), check.alternative, against, secret, effort=LITTLE)
    except (NotSupported, InvalidInput):
        return check
    return check.priced(leak.lower, None if math.isinf(leak.upper) else leak.upper)


def price(check: Check, plan: Plan[Any]) -> Check:
    """Return the check with both ends, where it failed and a leakage is known under its model."""
    check = replace(check, leakage=None)  # of another plan
    other, secret = check.alternative, plan.leakage.secret
    if check.outcome != "failed" or other is None or plan.unit != "record":
        return check
    if secret.value_pairs is not None or (secret.targets is not None and plan.task != "redact"):
        return check  # some values only: what all of them leak is no price
    if isinstance(other, SecondOrderChain) and other.size > MOST_STATES:
        return check
    try:
        leak = leakage_under(plan, other, quickly=quickly(plan, other))
    except (NotSupported, InvalidInput):
        return check
    return check.priced(leak.lower, None if math.isinf(leak.upper) else leak.upper)
