"""The inverse question: the DP budget for a wanted leakage."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from undertow.adversaries import Against, check_against
from undertow.bounds.chains.binary import closed_budget
from undertow.bounds.engine import leakage
from undertow.certificate import Leakage
from undertow.deprecations import renamed
from undertow.errors import NotSupported
from undertow.mechanisms import PureDP
from undertow.models.markov import MarkovChain
from undertow.models.sets import AnyModel
from undertow.numerics import check_epsilon

__all__ = ["PRECISE", "Search", "aim", "dp_budget", "largest_level"]


@dataclass(frozen=True, slots=True)
class Search:
    """How to search for a level: the relative width at which to stop, and where to begin.

    The level returned is a proved one at any width; a wider search only finds less of it.
    """

    precision: float
    guess: float | None = None


PRECISE = Search(4e-11)
"""The search behind every plan."""

HEADROOM = 2.0**-40
"""Share of a guarantee that calibration leaves unspent (lower side). A plan is proved again
wherever it is used, without any tolerance, and another machine's logarithms and matrix products
differ in their last digits, by some 1e-13."""


def aim(limit: float) -> float:
    """Return what noise is calibrated for, so that its proof for ``limit`` holds everywhere.

    >>> aim(1.0) < 1.0
    True
    """
    return limit * (1 - HEADROOM)


@renamed(epsilon="limit")
def dp_budget(model: AnyModel, limit: float, against: Against = "any") -> float:
    """Return the largest DP level whose leakage is certainly at most ``limit``.

    The inverse of ``leakage(PureDP(level), model)``: spend this much with any epsilon-DP
    library, and no record leaks more than ``limit``. Rounded down. ``inf`` if nothing can leak.

    >>> from undertow import MarkovChain, dp_budget
    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(dp_budget(chain, limit=1.0), 4)
    0.2503
    """
    limit, against = check_epsilon(limit, "limit"), check_against(against)

    def measure(level: float) -> Leakage:
        return leakage(PureDP(level), model, against)

    return largest_level(measure, model, limit)


def _guess(model: AnyModel, limit: float) -> float:
    """Return a level near the answer: the closed form where there is one, a third otherwise."""
    found = closed_budget(model, limit) if isinstance(model, MarkovChain) else None
    return found or limit / 3


def largest_level(
    measure: Callable[[float], Leakage],
    model: AnyModel,
    limit: float,
    search: Search = PRECISE,
) -> float:
    """Return the largest level (to the search's precision) that provably leaks at most ``limit``.

    ``measure`` gives the leakage of a level; it grows with the level. inf if every level keeps
    below ``limit``; `NotSupported` if no positive level does.

    Secant steps in log-log coordinates, where leakage is nearly straight; close to the end, one
    probe just below and one just above the estimate close the bracket.
    """
    good: float | None = None
    bad = math.inf
    trail: list[tuple[float, float]] = []
    level = search.guess or _guess(model, limit)
    for _ in range(200):
        leak = measure(level)
        if leak.proves(limit):
            good = level if good is None else max(good, level)
        else:
            bad = min(bad, level)
        if 0 < leak.upper < math.inf:
            trail.append((math.log(level), math.log(leak.upper) - math.log(limit)))
        if good is None and level < 1e-9 * limit:
            break
        if math.isinf(bad) and level > 1e6 * max(1.0, limit):
            return math.inf
        low = good or 0.0
        if low and bad / low - 1 <= search.precision:
            break
        level = _next_level(trail, low, bad, level, search.precision)
    if good is None:
        raise NotSupported(
            f"no DP level keeps the leakage below {limit:g} on this model ({model.describe()}): "
            "one record determines unboundedly many others; give the chain a length, or use "
            "person-level privacy"
        )
    return good


def _next_level(
    trail: list[tuple[float, float]], low: float, high: float, level: float, precision: float
) -> float:
    """Return the next level to try, strictly between a proved ``low`` and an unproved ``high``."""
    if not trail:  # only leakages of 0 or inf so far
        return level * 4 if low else level / 4
    x, y = trail[-1]
    slope = 1.0
    if len(trail) > 1 and trail[-2][0] != x:
        slope = (y - trail[-2][1]) / (x - trail[-2][0])
    step = -y / slope if 0.1 < slope < 10 else -y
    estimate = x + max(-3.0, min(3.0, step))
    if abs(step) < max(1e-5, precision / 4):  # as good as found: step aside to close the bracket
        aside = 0.35 * precision
        estimate += -aside if math.log(low or 1e-300) < estimate - 2 * aside else aside
    trial = math.exp(estimate)
    if low < trial < high:
        return trial
    if not low:
        return high / 2
    return math.sqrt(low * high) if high < math.inf else low * 4
