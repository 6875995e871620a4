"""Leakage of a guarantee or a noise at a delta: the closed exchange, the sweep, exact counts.

Every bound here is true, so the least upper end and the largest lower end are taken together.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from undertow.adversaries import Adversary, Against, every_adversary
from undertow.bounds.counts.gaussian import threshold, window_divergences
from undertow.bounds.counts.laws import ENTRIES, CountWindows, count_windows, window_reach
from undertow.bounds.curves.sweep import (
    GaussianGrid,
    Polygon,
    concave_nodes,
    one_sided_value,
    polygon_of_lines,
    sweep_epsilon,
    tangent_lines,
)
from undertow.bounds.gaussian.leakages import Statistic, statistic_of
from undertow.bounds.levels.sides import ordered_pairs, witnessed
from undertow.certificate import Leakage, ValidFor, Witness, check_order
from undertow.curves import ConcentratedCurve, Curve, GaussianCurve
from undertow.errors import EffortSpent, NotSupported
from undertow.guarantees import Guarantee
from undertow.mechanisms import (
    Gaussian,
    LocalMechanism,
    Mechanism,
    MetricDP,
    Noise,
    PureDP,
    Scaled,
    TabulatedNoise,
)
from undertow.models.base import Model
from undertow.models.chains import MarkovChain
from undertow.models.gaussian import MultivariateGaussian
from undertow.numerics import ROUNDOFF, Array, divide_up, down, ndtr_error, up
from undertow.progress import SPENT
from undertow.queries import Linear

__all__ = [
    "Exchanged",
    "Rate",
    "at_delta",
    "attained",
    "closed_delta",
    "closed_epsilon",
    "closed_leakage",
    "closed_points",
    "count_leakage",
    "exact_windows",
    "largest_parameter",
    "least",
    "pure_budget_delta",
    "record_leakage",
    "record_mu",
    "sweep_leakage",
    "sweep_shape",
    "sweepable",
]


_FAR = 10
"""Records after the target that the test looks at, at most."""

_NODES = 161
"""Nodes of the polygon below a Gaussian curve."""

_ERROR = 1e-9, 1e-13
"""What a value is taken to be too large by, relatively and absolutely: more than it rounds."""

_POLYGON_WIDTH = 1e-6
"""Relative width at which the search ends (lower side)."""


def attained(curve: Curve, chain: MarkovChain, delta: float) -> tuple[float, Witness | None]:
    """Return a leakage at ``delta`` that an algorithm with the curve has on a chain, and for whom.

    0 and None where the first record is certain, or where the curve has no polygon below it.

    >>> from undertow.curves import PointCurve
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=3)
    >>> value, witness = attained(PointCurve(((1.0, 0.0),)), chain, 1e-6)
    >>> round(value, 3), witness.target
    (1.939, 0)
    """
    inner = _below(curve)
    reduced = chain.visited()
    if inner is None or reduced is None:
        return 0.0, None
    steps = min(_FAR, (reduced.length or _FAR + 1) - 1)
    kernels = [reduced.transition] * steps
    attacks = [
        (_largest(inner, kernels, int(a), int(b), delta), (int(a), int(b)))
        for a, b in zip(*ordered_pairs(reduced.size), strict=True)
        if min(reduced.initial[a], reduced.initial[b]) > 0
    ]
    if not attacks or not steps:
        return 0.0, None
    value, pair = max(attacks)
    length = reduced.length or steps + 1
    return down(value), witnessed(reduced, 0, length, {}, pair) if value > 0 else None


def _largest(curve: Polygon, kernels: list[Array], a: int, b: int, delta: float) -> float:
    """Return the largest epsilon at which the best test still gains more than ``delta``."""

    def gains(epsilon: float) -> bool:
        value = one_sided_value(curve, kernels, a, b, math.exp(epsilon))
        return value * (1 - _ERROR[0]) - _ERROR[1] > delta

    if not gains(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while gains(high):
        low, high = high, 2 * high
        if high > 500:
            return low
    while high - low > _POLYGON_WIDTH * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gains(middle) else (low, middle)
    return low


def _below(curve: Curve) -> Polygon | None:
    """Return a polygon that lies on or below a curve, None where none is known."""
    corners = curve.corners()
    if corners:
        return polygon_of_lines([(level, curve.delta(level)) for level in corners])
    if isinstance(curve, GaussianCurve):
        return _chords(curve.mu)
    if isinstance(curve, ConcentratedCurve):  # Gaussian noise is in the class
        return _chords(math.sqrt(2 * curve.rho))
    return None


def _chords(mu: float) -> Polygon | None:
    """Return chords of the curve of mu-GDP, which is concave: they lie below it."""
    from scipy.special import ndtr

    x = np.linspace(-7.5, 7.5, _NODES)
    u, g = ndtr(x), ndtr(x + mu)
    keep = (np.diff(u, prepend=0.0) > 1e-15) & (g < 1 - 1e-12)
    # both are off by the error of ndtr, and G(u) / u falls: an error of u is at most one of G
    spent = 2 * (ndtr_error(x[keep]) + ndtr_error(x[keep] + mu)) + 8 * ROUNDOFF
    u, g = u[keep], np.maximum(u[keep], g[keep] * (1 - spent))
    if len(u) < 3:
        return None
    places, values = [0.0, *u.tolist(), 1.0], [0.0, *g.tolist(), 1.0]
    hull = concave_nodes(places, values)
    return Polygon([places[node] for node in hull], [values[node] for node in hull])


Rate = Callable[[float], float]
"""The upper end of what all algorithms of a DP level leak."""

_CLOSED_WIDTH = 1e-12
"""Relative width at which the search for the level ends (upper side)."""

_LARGEST_LEVEL = 1e6
"""Level of a guarantee beyond which none is looked for (upper side)."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A leakage ``epsilon`` at ``delta``, exchanged at the level ``level`` of the guarantee."""

    epsilon: float
    delta: float
    level: float


def closed_delta(delta: float, level: float, leakage: float) -> float:
    """Return d (e^l - 1) / (e^e - 1), rounded up: Theorem 1.

    >>> round(closed_delta(1e-6, 1.0, 3.4748733768) * 1e5, 8)
    1.82122273
    """
    if not delta or not leakage:
        return 0.0
    if math.isinf(leakage):
        return math.inf
    # e^l - 1 = e^l (1 - e^-l), in logarithms, because e^l may be no float
    terms = (leakage, math.log(-math.expm1(-leakage)), -level, -math.log(-math.expm1(-level)))
    exponent = sum(terms) + 8 * ROUNDOFF * (1 + sum(map(abs, terms)))
    if math.log(delta) + exponent > 0:
        return math.inf  # more than any probability: nothing is said
    return up(delta * math.exp(exponent), 8)


def closed_epsilon(curve: Curve, rate: Rate, delta: float) -> Exchanged:
    """Return the least leakage that Theorem 1 proves at ``delta`` for a guarantee of this curve.

    Every level e gives the true pair (l(e), d(e) (e^l - 1) / (e^e - 1)). A list of pairs is tried
    at each of them; along a smooth curve the delta falls with e, and the least e that keeps
    ``delta`` is searched. A handful of pure leakages.

    >>> from undertow.curves import PointCurve
    >>> exchange = closed_epsilon(PointCurve(((1.0, 1e-6),)), lambda e: 2 * e, 4e-6)
    >>> exchange.epsilon, round(exchange.delta * 1e6, 6)
    (2.0, 3.718282)
    """

    def at(level: float) -> Exchanged:
        leak = rate(level)
        return Exchanged(leak, closed_delta(curve.delta(level), level, leak), level)

    corners = curve.corners()
    if corners:
        kept = [point for point in map(at, corners) if point.delta <= delta]
        if kept:
            return min(kept, key=lambda point: point.epsilon)
        return Exchanged(math.inf, delta, corners[-1])
    return _least(at, curve.epsilon(delta), delta)


def _least(at: Callable[[float], Exchanged], start: float, delta: float) -> Exchanged:
    """Return the exchange at the least level that keeps ``delta``; ``start`` keeps it alone."""
    if math.isinf(start):
        return Exchanged(math.inf, delta, start)
    high = max(start, 1e-12)
    point = at(high)
    low = high / 2
    while point.delta > delta and math.isfinite(point.epsilon) and high < _LARGEST_LEVEL:
        low, high = high, 1.5 * high
        point = at(high)
    if point.delta > delta or math.isinf(point.epsilon):
        return Exchanged(math.inf, delta, high)
    below, above = at(low), point
    if below.delta <= delta:
        return below
    for turn in range(200):
        if high - low <= _CLOSED_WIDTH * high:
            break
        level = _between(low, high, below.delta, above.delta, delta, turn)
        tried = at(level)
        if tried.delta <= delta:
            high, above = level, tried
        else:
            low, below = level, tried
    return above


def _between(low: float, high: float, top: float, bottom: float, delta: float, turn: int) -> float:
    """Return the next level: on the chord of ln delta, a little to the safe side, or halfway."""
    middle = (low + high) / 2
    if turn % 3 == 2 or not 0 < bottom < top < math.inf:
        return middle
    share = (math.log(top) - math.log(delta)) / (math.log(top) - math.log(bottom))
    aside = 0.4 * _CLOSED_WIDTH * high * (-1 if turn % 2 else 1)
    level = low + share * (high - low) + aside
    return level if low < level < high else middle


def pure_budget_delta(limit: float, delta: float, budget: float) -> float:
    """Return d0 = delta (e^beta - 1) / (e^limit - 1), rounded down.

    With beta the largest level that leaks at most ``limit``, every (beta, d0)-DP algorithm leaks at
    most (limit, delta).

    >>> round(pure_budget_delta(1.0, 1e-6, .25032578764) * 1e7, 8)
    1.65539669
    """
    if budget >= limit:  # independent records, or none that can leak
        return delta
    if budget <= 0:
        raise NotSupported("no positive DP level keeps this limit, so no delta does")
    return down(delta * math.expm1(budget) / math.expm1(limit), 32) if limit < 700 else 0.0


def largest_parameter(curve: Callable[[float], Curve], level: float, delta: float) -> float:
    """Return the largest parameter whose curve keeps ``delta`` at a level, rounded down.

    The curves grow with the parameter (mu of GDP, rho of zCDP).

    >>> from undertow.curves import GaussianCurve
    >>> round(1 / largest_parameter(GaussianCurve, 1.0, 1e-6), 6)
    4.224679
    """
    low, high = 0.0, level
    while curve(high).delta(level) <= delta:
        low, high = high, 2 * high
        if high > 1e6:
            return high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if curve(middle).delta(level) <= delta else (low, middle)
    return low


Pure = Callable[[Mechanism], Leakage]
"""What proves the pure leakage of a mechanism on the model in question."""

_WINDOW_WIDTH = 1e-10
"""Relative width at which the search for a level along exact counts ends (both sides)."""

_ETA = 1e-4
"""Share of a level that sides beyond the reach may cost (upper side): they are never the worst, so
that this is not what a plan pays."""

_LARGEST_NUMBER = 1e6
"""A level, and a share of a sigma, beyond which nobody looks."""

_POINTS = 12
"""Pairs of a curve that a certificate shows beside its own."""

_LEAST_MU, _LARGEST_MU = 1e-3, 20.0
"""Parameters of GDP that the sweep reads on a grid; for others the closed form is all there is."""

_DEEPEST = 1e-12
"""Least delta among them."""

_THEORY = "docs, theory: approximate guarantees"

_FAMILY = (
    "the records depend on each other as the model says",
    "the algorithm is what its guarantee says, for one replaced record",
)


def at_delta(
    mechanism: Mechanism, model: Model, against: Against, delta: float, valid_for: ValidFor,
    pure: Pure, *, closed: bool = False,
) -> Leakage:  # fmt: skip
    """Compute the leakage of a mechanism at a delta; ``pure`` proves pure leakages on this model.

    A pure leakage holds at every delta. Guarantees and Gaussian noise go through the closed
    exchange on every model, on chains through the sweep too; Gaussian noise on a count of a chain,
    or on a statistic of Gaussian records, has an exact leakage, against any adversary. ``closed``:
    by Theorem 1 alone, which holds for whatever ``pure`` is about, a window of records too: its
    proof compares two laws of the records, and asks nothing of them.
    """
    if isinstance(mechanism, LocalMechanism | MetricDP):
        return replace(pure(mechanism).upper_only(), delta=delta)
    curve = mechanism.curve(model.length)
    unit = mechanism.unit if isinstance(mechanism, PureDP | Guarantee) else "record"
    if not delta:
        return pure(PureDP(_pure_level(mechanism, curve), unit))
    if unit == "person":
        person = pure(PureDP(1.0, "person"))  # refuses a model whose records are persons
        own = closed_points(curve, lambda level: level)  # they hold for a whole person
        return replace(person, lower=0.0, upper=curve.epsilon(delta), delta=delta, curve=own)
    rate = lru_cache(maxsize=256)(lambda level: pure(PureDP(level)).upper)
    answers = [closed_leakage(curve, rate, delta, against)]
    if isinstance(mechanism, PureDP | Scaled | TabulatedNoise):
        answers.append(replace(pure(mechanism).upper_only(), delta=delta))
    points, more = closed_points(curve, rate), tuple[str, ...]()
    try:
        if not closed:
            for leak in _searched(mechanism, curve, model, against, delta, valid_for):
                answers.append(leak)  # noqa: PERF402  (each is kept though the next needs too much)
    except EffortSpent:  # what was proved by then holds
        more = (SPENT,)
    reached = max(answers, key=lambda leak: leak.lower)
    proved = min(answers, key=lambda leak: leak.upper).with_assumptions(more)
    check_order(reached, proved)
    points = (*points, (proved.upper, delta))
    return replace(
        proved, lower=reached.lower, witness=reached.witness, curve=tuple(sorted({*points}))
    )


def _searched(
    mechanism: Mechanism, curve: Curve, model: Model, against: Against, delta: float,
    valid_for: ValidFor,
) -> Iterator[Leakage]:  # fmt: skip
    """Yield the leakages that searches on a model prove."""
    if isinstance(model, MarkovChain) and sweepable(model, against, curve):
        swept = sweep_leakage(curve, model, delta, against)
        yield swept
        if not isinstance(mechanism, Noise):  # what some algorithm of the class attains
            lower, witness = attained(curve, model, delta)
            yield replace(swept, lower=min(lower, swept.upper), witness=witness)
    if isinstance(mechanism, Gaussian) and valid_for == "series":
        yield from _exact(mechanism, model, against, delta)


def _pure_level(mechanism: Mechanism, curve: Curve) -> float:
    """Return the level at which a curve is 0, or refuse a guarantee that has none."""
    level = curve.epsilon(0.0)
    if math.isinf(level):
        raise NotSupported(
            f"{type(mechanism).__name__} is not purely private: its leakage is infinite at delta "
            "0, because rare outputs tell two values apart; say how rare may be ignored, "
            "delta=1e-6 (far below 1 / number of records)"
        )
    return level


def _exact(mechanism: Gaussian, model: Model, against: Against, delta: float) -> list[Leakage]:
    """Return the exact leakage of this very noise, where there is one."""
    if model.family == "gaussian":
        return [record_leakage(mechanism, model, against, delta)]
    if against != "any" or not isinstance(model, MarkovChain) or not mechanism.query.named:
        return []
    with suppress(NotSupported):
        return [count_leakage(mechanism, model, delta)]
    return []


def closed_leakage(curve: Curve, rate: Rate, delta: float, against: Against) -> Leakage:
    """Compute the leakage at a delta of every algorithm with a curve, by Theorem 1, on any model.

    ``rate`` gives the upper end of what all algorithms of a DP level leak.
    """
    epsilon = closed_epsilon(curve, rate, delta)
    return _stated("closed", 0.0, epsilon.epsilon, delta, against, f"Theorem 1 ({_THEORY})")


def closed_points(curve: Curve, rate: Rate) -> tuple[tuple[float, float], ...]:
    """Return pairs (epsilon, delta) that Theorem 1 proves, delta falling: a curve to be drawn.

    >>> from undertow.curves import PointCurve
    >>> closed_points(PointCurve(((1.0, 1e-6),)), lambda level: level)
    ((1.0, 1.00...e-06),)
    """
    levels = curve.corners()
    if not levels:
        first, last = curve.epsilon(1e-1), curve.epsilon(_DEEPEST)
        if not 0 < first < last < math.inf:
            first = last / 8 if 0 < last < math.inf else 1.0
            last = max(last, first) if math.isfinite(last) else first
        levels = tuple(np.geomspace(first, last, _POINTS).tolist())
    pairs = []
    for level in levels:
        leak = rate(level)
        delta = closed_delta(curve.delta(level), level, leak)
        if math.isfinite(leak) and delta < 1:
            pairs.append((leak, delta))
    return tuple(sorted(pairs))


def sweepable(model: object, against: Against, curve: Curve | None = None) -> bool:
    """Return whether the sweep knows a model: one stationary chain, against any or ignorant.

    And, if there is one, a curve: the grid of one for mu-GDP has nodes within reason.
    """
    if isinstance(curve, GaussianCurve) and not _LEAST_MU <= curve.mu <= _LARGEST_MU:
        return False
    return (
        isinstance(model, MarkovChain)
        and model.homogeneous
        and isinstance(model.start, str)
        and against in ("any", "ignorant")
        and model.visited() is not None
    )


def sweep_shape(curve: Curve) -> Polygon | GaussianGrid:
    """Return a curve as the sweep reads it: an even grid for GDP, a polygon above it otherwise."""
    if isinstance(curve, GaussianCurve):
        return GaussianGrid.of(curve.mu)
    corners = curve.corners()
    if corners:
        return polygon_of_lines([(level, curve.delta(level)) for level in corners])
    return polygon_of_lines(tangent_lines(curve.delta))


def sweep_leakage(
    curve: Curve, chain: MarkovChain, delta: float, against: Against, known: float | None = None
) -> Leakage:
    """Compute the leakage at a delta of every algorithm with a curve on a chain, by the sweep.

    ``known`` is an epsilon at which it was found to keep ``delta``, where nothing less is wanted.
    """
    epsilon = known or sweep_epsilon(sweep_shape(curve), chain, delta, against)
    return _stated("sweep", 0.0, epsilon, delta, against, f"Theorems 3 to 5 ({_THEORY})")


def exact_windows(noise: Noise, chain: MarkovChain, epsilon: float) -> CountWindows:
    """Return the windows of a count on a chain, or refuse a chain without an exact leakage."""
    reduced = chain.visited()
    if reduced is None or not reduced.homogeneous or not isinstance(reduced.start, str):
        raise NotSupported(
            "the exact leakage of Gaussian noise is known on chains with one transition matrix and "
            "a stationary start; use method='closed'"
        )
    wanted = [reduced.index(state) for state in noise.query.named if state in reduced.states]
    counted = np.isin(np.arange(reduced.size), wanted)
    cost = _ETA * epsilon
    reach = window_reach(reduced, cost, cost, ENTRIES, "method='sweep' or 'closed'")
    return count_windows(reduced, counted, reach)


def count_leakage(
    noise: Gaussian, chain: MarkovChain, delta: float, guess: float | None = None
) -> Leakage:
    """Return the exact leakage of a count with Gaussian noise against any adversary.

    The least epsilon whose largest divergence over all windows is at most ``delta``; ``guess`` is
    one close to it, where there is one.
    """
    start = guess or max(GaussianCurve(noise.mu_upper()).epsilon(delta), 1e-9)
    windows = exact_windows(noise, chain, max(start, 0.1))
    low, high = least(
        windows, delta, lambda epsilon: (noise.sigma, epsilon), start, close=guess is not None
    )
    bracket = window_divergences(windows, noise.sigma, high, decide=delta)
    witness = windows.witness(bracket.where, threshold(windows, bracket.where, noise.sigma, high))
    leak = _stated("exact", down(low), up(high), delta, "any", _THEORY)
    return replace(leak, witness=witness, valid_for="series")


def least(
    windows: CountWindows,
    delta: float,
    place: Callable[[float], tuple[float, float]],
    start: float,
    *,
    close: bool = False,
) -> tuple[float, float]:
    """Return two numbers around the least one whose divergence is at most ``delta``.

    ``place`` turns a number into (sigma, epsilon), both of which lower the divergence. At the
    first number an attack exceeds ``delta`` (0: none was found), at the second all windows keep
    it. Bisection over the windows that lead, then a look at all of them; whoever leads there joins.
    ``close`` says that ``start`` is as good as the answer.
    """
    leaders, low, high = (
        window_divergences(windows, *place(start), decide=delta).leaders,
        0.0,
        start,
    )

    def keeps(number: float) -> bool:
        return window_divergences(windows, *place(number), leaders, delta).upper <= delta

    step, width = (1e-6 if close else 0.5), (_WINDOW_WIDTH if close else 1e-4)
    if close and keeps(high):  # look for the first number below that does not
        while low == 0.0 and step < 1:
            below = high * (1 - step)
            low, high, step = (0.0, below, 8 * step) if keeps(below) else (below, high, step)
    while True:
        while not keeps(high):
            low, high, step = high, (1 + step) * high, min(0.5, 8 * step)
            if high > _LARGEST_NUMBER:
                raise NotSupported("nothing certified could be found for this noise and delta")
        while high - low > width * high:
            middle = (low + high) / 2
            low, high = (low, middle) if keeps(middle) else (middle, high)
        bracket = window_divergences(windows, *place(high), decide=delta)
        done, width, step = width == _WINDOW_WIDTH, _WINDOW_WIDTH, 1e-8
        if bracket.upper <= delta and done:
            attained = (
                low and window_divergences(windows, *place(low), leaders, delta).lower > delta
            )
            return low if attained else 0.0, high
        joined = np.union1d(leaders, bracket.leaders)
        if bracket.upper > delta and len(joined) == len(leaders):
            high *= 1 + 1e-8  # nobody new leads: rounding alone is in the way
        leaders = joined


def _stated(
    method: str, lower: float, upper: float, delta: float, against: Against, citation: str
) -> Leakage:
    """Return a leakage at a delta with the assumptions of the exchange."""
    return Leakage(
        lower, upper, method, against, assumptions=_FAMILY, citation=citation, valid_for="any",
        delta=delta,
    )  # fmt: skip


_FEW = 10
"""Records up to which every known set is looked at."""

_SOLVED = 64.0
"""Roundings, for each record and unit of the condition number, that a regression may have lost."""


@dataclass(frozen=True, slots=True)
class _Move:
    """The shift of the answer in standard deviations, and the record that causes it."""

    lower: float
    upper: float
    target: int
    known: tuple[int, ...]


def record_leakage(mechanism: Gaussian, model: object, against: Against, delta: float) -> Leakage:
    """Return the leakage of Gaussian noise on a statistic of Gaussian records at a delta.

    Exact for one linear statistic of few records; otherwise sigma alone hides, and the upper end is
    that of the statistic's factor.

    >>> model = MultivariateGaussian(0, [[1, .9, 0], [.9, 1, .3], [0, .3, 1]])
    >>> noise = Gaussian(Linear([1, 1, 1], spread=1.0), sigma=10.0)
    >>> leak = record_leakage(noise, model, "any", 1e-6)
    >>> round(leak.upper, 4), leak.method
    (1.0938, 'exact')
    """
    question = statistic_of(mechanism.query, model, against)  # type: ignore[arg-type]
    move = record_mu(question, mechanism, model, against)
    upper = GaussianCurve(move.upper).epsilon(delta)
    lower, witness = 0.0, None
    if move.lower > 0 and isinstance(model, MultivariateGaussian):
        lower = min(_attained_epsilon(move.lower, delta), upper)
        mean, half = [float(m) for m in model.mean], question.spread / 2
        centre, known = mean[move.target], tuple((k, mean[k]) for k in move.known)
        witness = Witness(move.target, model.length, known, centre + half, centre - half)
    return Leakage(
        lower, upper, "exact" if move.lower else "closed", against, witness,
        (*question.assumptions, f"the answer is {up(move.upper):.6g}-GDP about the target"),
        "docs, theory: approximate guarantees", delta=delta,
    )  # fmt: skip


def _attained_epsilon(mu: float, delta: float) -> float:
    """Return the leakage of mu-GDP at a delta, rounded down."""
    return max(0.0, down(GaussianCurve(mu).epsilon(delta * (1 + 1e-9)), 64) * (1 - 1e-9))


def record_mu(question: Statistic, noise: Gaussian, model: object, against: Against) -> _Move:
    """Return certified ends of the largest mu over what is known."""
    factor, moved = question.factor, question.moved
    whole = _Move(
        0.0, divide_up(Fraction(factor.upper) * moved / Fraction(noise.sigma), 1.0),
        factor.target, factor.known,
    )  # fmt: skip
    query = noise.query
    one = isinstance(query, Linear) and query.lower is None and np.asarray(query.weights).ndim == 1
    if not one or not isinstance(model, MultivariateGaussian) or model.length > _FEW:
        return whole
    weights = np.asarray(query.weights, dtype=np.float64)  # type: ignore[union-attr]
    moves = [
        (_mu(model, weights, each, noise.sigma, float(moved)), each)
        for each in every_adversary(against, model.length)
    ]
    (lower, _), attacker = max(moves, key=lambda move: move[0][0])
    upper = max(ends[1] for ends, _ in moves)
    return _Move(lower, min(upper, whole.upper), attacker.target, attacker.known)


def _mu(
    model: MultivariateGaussian, weights: Array, adversary: Adversary, sigma: float, moved: float
) -> tuple[float, float]:
    """Return both ends of M |c| / sqrt(sigma^2 + v), the error of the regression paid.

    A solution loses a multiple of the condition number of what is given, relative to its norm.
    """
    given = [*adversary.known, adversary.target]
    unknown = [t for t in range(model.length) if t not in given]
    covariance = np.asarray(model.covariance)
    inside = covariance[np.ix_(given, given)]
    across = covariance[np.ix_(unknown, given)]  # (unknown, given)
    regression = np.linalg.solve(inside, across.T).T if unknown else np.zeros((0, len(given)))
    own, rest = float(weights[adversary.target]), weights[unknown]
    coefficient = own + float(rest @ regression[:, -1])
    left = covariance[np.ix_(unknown, unknown)] - regression @ across.T
    variance = float(rest @ left @ rest)
    pad = _SOLVED * ROUNDOFF * model.length * max(float(np.linalg.cond(inside)), 1.0)
    norms = np.linalg.norm(regression, axis=1)  # (unknown,)
    slack = pad * (abs(own) + float(np.abs(rest) @ norms))
    reach = np.abs(covariance[np.ix_(unknown, unknown)])
    reach = reach + np.outer(norms, np.linalg.norm(across, axis=1))
    loss = pad * float(np.abs(rest) @ reach @ np.abs(rest))
    low = moved * max(abs(coefficient) - slack, 0.0) / math.sqrt(sigma**2 + variance + loss)
    high = moved * (abs(coefficient) + slack) / math.sqrt(sigma**2 + max(variance - loss, 0.0))
    return max(down(low, 16), 0.0), up(high, 16)
