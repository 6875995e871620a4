"""The inverse questions: the DP budget and the noise for a wanted leakage."""

import math
from collections.abc import Callable
from dataclasses import replace

from undertow.adversaries import Against, check_against
from undertow.bounds.binary import closed_budget
from undertow.bounds.engine import group_leakage, leakage
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, MethodRefused, NothingToProtect, NotSupported
from undertow.mechanisms import DiscreteLaplace, Laplace, PureDP
from undertow.models.groups import Groups
from undertow.models.markov import MarkovChain
from undertow.models.sets import AnyModel, ModelSet, members
from undertow.numerics import check_epsilon, up
from undertow.plan import Plan, model_length
from undertow.queries import AnyQuery, Count, Histogram, Linear, Mean, Query, Sum

__all__ = ["METHODS", "calibrate", "dp_budget"]

METHODS = ("exact", "exchange", "group")
"""The certified methods, in the order in which `best` tries them."""

_PRECISION = 4e-11
"""Relative width at which the search for a level stops (its lower end is the one returned)."""


_CERTAIN = (
    "every record is certain under this model, or to this adversary, or the answer does not depend "
    "on any record: nothing can leak, and no noise is needed"
)


def dp_budget(model: AnyModel, epsilon: float, against: Against = "any") -> float:
    """Return the largest DP level whose leakage is certainly at most ``epsilon``.

    The inverse of ``leakage(PureDP(level), model)``: spend this much with any epsilon-DP
    library, and no record leaks more than ``epsilon``. Rounded down. ``inf`` if nothing can leak.

    >>> from undertow import MarkovChain, dp_budget
    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(dp_budget(chain, epsilon=1.0), 4)
    0.2503
    """
    epsilon, against = check_epsilon(epsilon), check_against(against)

    def measure(level: float) -> Leakage:
        return leakage(PureDP(level), model, against)

    found = _largest(measure, epsilon, guess=_guess(model, epsilon))
    if found is None:
        raise NotSupported(_diverges(model, epsilon))
    return found[0]


def calibrate(
    query: AnyQuery,
    model: AnyModel,
    epsilon: float,
    against: Against = "any",
    method: str = "best",
) -> Plan:
    """Return the plan with the least noise whose leakage is certainly at most ``epsilon``.

    Methods: ``exact`` (the leakage of this very count), ``exchange`` (what any algorithm of the
    same DP level could leak), ``group`` (any dependence whatever among the records), ``best``
    (the least expected error among them).

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], ("inactive", "active"), length=15264)
    >>> plan = calibrate(Count("active"), chain, epsilon=1.0)
    >>> round(plan.mechanism.scale, 4)
    3.9948
    """
    epsilon, against = check_epsilon(epsilon), check_against(against)
    _check_question(query, model)
    if method == "best":
        return _best(query, model, epsilon, against)
    if method not in METHODS:
        raise InvalidInput(
            f"unknown method {method!r}; the methods are {', '.join((*METHODS, 'best'))}"
        )
    solve = {"exact": _exact, "exchange": _exchange, "group": _group}[method]
    mechanism, leak = solve(query, model, epsilon, against)
    if not leak.proves(epsilon):
        raise NotSupported(
            f"{method} could not certify a leakage of {epsilon}; the best it proves is "
            f"{leak.upper:.6g}"
        )
    return Plan(mechanism, model, epsilon, leak, method)


def _best(query: AnyQuery, model: AnyModel, epsilon: float, against: Against) -> Plan:
    plans: list[Plan] = []
    reasons: dict[str, list[str]] = {}
    for method in METHODS:
        try:
            plans.append(calibrate(query, model, epsilon, against, method))
        except NothingToProtect:
            raise
        except NotSupported as reason:
            reasons.setdefault(str(reason), []).append(method)
    if not plans:
        told = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
        raise NotSupported(f"no method can keep this promise. {told}")
    return min(plans, key=lambda plan: plan.expected_error)


def _exact(
    query: AnyQuery, model: AnyModel, epsilon: float, against: Against
) -> tuple[Laplace | DiscreteLaplace, Leakage]:
    if not isinstance(query, Count):
        raise MethodRefused(
            f"'exact' knows counts on chains, not {type(query).__name__}; use method='exchange'"
        )
    if not all(isinstance(member, MarkovChain) for member in members(model)):
        raise MethodRefused("'exact' needs a MarkovChain; use method='exchange' or 'group'")

    def measure(rate: float) -> Leakage:
        return leakage(DiscreteLaplace(query, 1 / rate), model, against)

    found = _largest(measure, epsilon, guess=_guess(model, epsilon))
    if found is None:
        raise NotSupported(_diverges(model, epsilon))
    if math.isinf(found[0]):
        raise NothingToProtect(_CERTAIN)
    mechanism = DiscreteLaplace(query, up(1 / found[0]))
    leak = leakage(mechanism, model, against)
    if leak.method != "exact":
        raise MethodRefused(
            "'exact' cannot enumerate the windows of this chain; use method='exchange'"
        )
    return mechanism, leak


def _exchange(
    query: AnyQuery, model: AnyModel, epsilon: float, against: Against
) -> tuple[Laplace | DiscreteLaplace, Leakage]:
    budget = dp_budget(model, epsilon, against)
    if math.isinf(budget):
        raise NothingToProtect(_CERTAIN)
    scale = up(query.sensitivity(model_length(model)) / budget, 16)
    mechanism = _noise(query, scale)
    level = PureDP(up(mechanism.dp_epsilon(model_length(model))))
    leak = leakage(level, model, against)
    whose = "the lower end and the witness are those of the worst algorithm of this DP level"
    return mechanism, replace(leak, assumptions=(*leak.assumptions, whose))


def _group(
    query: AnyQuery, model: AnyModel, epsilon: float, against: Against
) -> tuple[Laplace | DiscreteLaplace, Leakage]:
    length = model_length(model)
    sizes = [m.size if isinstance(m, Groups) else length for m in members(model)]
    if any(size is None for size in sizes):
        raise MethodRefused(
            "'group' multiplies by the number of dependent records; give the chain a length"
        )
    size = 1 if against == "informed" else max(size for size in sizes if size is not None)
    scale = up(size * query.sensitivity(length) / epsilon, 16)
    mechanism = _noise(query, scale)
    leak = group_leakage(mechanism, size, against, length)
    if any(isinstance(member, MarkovChain) for member in members(model)):
        leak = replace(leak, lower=0.0)
    return mechanism, leak


def _guess(model: AnyModel, epsilon: float) -> float:
    """Return a level near the answer: the closed form where there is one, a third otherwise."""
    found = closed_budget(model, epsilon) if isinstance(model, MarkovChain) else None
    return found or epsilon / 3


def _largest(
    measure: Callable[[float], Leakage], epsilon: float, guess: float
) -> tuple[float, Leakage] | None:
    """Return the largest level (to `_PRECISION`) that provably leaks at most ``epsilon``.

    Leakage grows with the level. None if no positive level does, inf if every level does.
    Secant steps in log-log coordinates, where leakage is nearly straight; close to the end, one
    probe just below and one just above the estimate close the bracket.
    """
    good: tuple[float, Leakage] | None = None
    bad = math.inf
    trail: list[tuple[float, float]] = []
    level = guess
    for _ in range(200):
        leak = measure(level)
        if leak.proves(epsilon):
            good = (level, leak) if good is None or level > good[0] else good
        else:
            bad = min(bad, level)
        if 0 < leak.upper < math.inf:
            trail.append((math.log(level), math.log(leak.upper / epsilon)))
        if good is None and level < 1e-9 * epsilon:
            return None
        if math.isinf(bad) and level > 1e6 * max(1.0, epsilon):
            return math.inf, leak
        low = 0.0 if good is None else good[0]
        if low and bad / low - 1 <= _PRECISION:
            break
        level = _next_level(trail, low, bad, level)
    return good


def _next_level(trail: list[tuple[float, float]], low: float, high: float, level: float) -> float:
    """Return the next level to try, strictly between a proved ``low`` and an unproved ``high``."""
    if not trail:  # only leakages of 0 or inf so far
        return level * 4 if low else level / 4
    x, y = trail[-1]
    slope = 1.0
    if len(trail) > 1 and trail[-2][0] != x:
        slope = (y - trail[-2][1]) / (x - trail[-2][0])
    step = -y / slope if 0.1 < slope < 10 else -y
    estimate = x + max(-3.0, min(3.0, step))
    if abs(step) < 1e-5:  # as good as found: step aside to close the bracket
        aside = 0.35 * _PRECISION
        estimate += -aside if math.log(low or 1e-300) < estimate - 2 * aside else aside
    trial = math.exp(estimate)
    if low < trial < high:
        return trial
    if not low:
        return high / 2
    return math.sqrt(low * high) if high < math.inf else low * 4


def _noise(query: AnyQuery, scale: float) -> Laplace | DiscreteLaplace:
    if isinstance(query, Count | Histogram):
        return DiscreteLaplace(query, scale)
    return Laplace(query, scale)


def _check_question(query: AnyQuery, model: AnyModel) -> None:
    if not isinstance(query, Count | Histogram | Sum | Mean | Linear | Query):
        raise InvalidInput(
            f"the first argument must be a query such as Count('active'), found "
            f"{type(query).__name__}"
        )
    if not isinstance(model, MarkovChain | Groups | ModelSet):
        raise InvalidInput(
            f"the second argument must be a model such as MarkovChain(...), found "
            f"{type(model).__name__}"
        )
    chains = [m for m in members(model) if isinstance(m, MarkovChain)]
    if isinstance(query, Count):
        for chain in chains:
            for state in query.states:
                chain.index(state)
    if isinstance(query, Linear) and model_length(model) not in (None, len(query.weights)):
        raise InvalidInput(f"{len(query.weights)} weights do not fit {model_length(model)} records")


def _diverges(model: AnyModel, epsilon: float) -> str:
    return (
        f"no DP level keeps the leakage below {epsilon:g} on this model ({model.describe()}): "
        "one record determines unboundedly many others; give the chain a length, or use "
        "person-level privacy"
    )
