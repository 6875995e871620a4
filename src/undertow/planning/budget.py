"""The inverse question: the DP budget for a wanted leakage."""

import math
from collections.abc import Callable

from undertow.adversaries import Against, check_against
from undertow.bounds.binary import closed_budget
from undertow.bounds.engine import leakage
from undertow.certificate import Leakage
from undertow.errors import NotSupported
from undertow.mechanisms import PureDP
from undertow.models.markov import MarkovChain
from undertow.models.sets import AnyModel
from undertow.numerics import check_epsilon

__all__ = ["dp_budget", "largest_level"]

_PRECISION = 4e-11
"""Relative width at which the search for a level stops (its lower end is the one returned)."""


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

    return largest_level(measure, model, epsilon)[0]


def _guess(model: AnyModel, epsilon: float) -> float:
    """Return a level near the answer: the closed form where there is one, a third otherwise."""
    found = closed_budget(model, epsilon) if isinstance(model, MarkovChain) else None
    return found or epsilon / 3


def largest_level(
    measure: Callable[[float], Leakage], model: AnyModel, epsilon: float
) -> tuple[float, Leakage]:
    """Return the largest level (to `_PRECISION`) that provably leaks at most ``epsilon``.

    ``measure`` gives the leakage of a level; it grows with the level. inf if every level keeps
    below ``epsilon``; `NotSupported` if no positive level does.
    """
    found = _largest(measure, epsilon, _guess(model, epsilon))
    if found is None:
        raise NotSupported(_diverges(model, epsilon))
    return found


def _largest(
    measure: Callable[[float], Leakage], epsilon: float, guess: float
) -> tuple[float, Leakage] | None:
    """Return the largest level and its leakage, None if there is none.

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


def _diverges(model: AnyModel, epsilon: float) -> str:
    return (
        f"no DP level keeps the leakage below {epsilon:g} on this model ({model.describe()}): "
        "one record determines unboundedly many others; give the chain a length, or use "
        "person-level privacy"
    )
