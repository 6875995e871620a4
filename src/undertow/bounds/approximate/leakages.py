"""What a guarantee or a noise leaks at a delta: the closed exchange, the sweep, exact counts.

Every bound here is true, so the least upper end and the largest lower end are taken together.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.approximate.attained import attained
from undertow.bounds.approximate.closed import Rate, closed_delta, closed_epsilon
from undertow.bounds.approximate.counts import CountWindows, choose_reach, count_windows
from undertow.certificate import Covers, Leakage, check_order
from undertow.channels import LocalMechanism
from undertow.curves import Curve, GaussianCurve
from undertow.errors import EffortSpent, NotSupported
from undertow.mechanisms import Gaussian, Mechanism, MetricDP, Noise, PureDP, Scaled, TabulatedNoise
from undertow.models.base import Model
from undertow.models.markov import MarkovChain
from undertow.numerics import down, up
from undertow.progress import SPENT

if TYPE_CHECKING:
    from undertow.bounds.approximate.polygons import GaussianGrid, Polygon

__all__ = [
    "at_delta",
    "closed_leakage",
    "closed_points",
    "count_leakage",
    "exact_windows",
    "least",
    "sweep_leakage",
    "sweep_shape",
    "sweepable",
]

Pure = Callable[[Mechanism], Leakage]
"""What proves the pure leakage of a mechanism on the model in question."""

_TIGHT = 1e-10
"""Relative width at which the search for a level along exact counts ends (both sides)."""

_ABSURD = 1e6
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
    mechanism: Mechanism, model: Model, against: Against, delta: float, covers: Covers, pure: Pure,
    *, closed: bool = False,
) -> Leakage:  # fmt: skip
    """Return what a mechanism leaks at a delta; ``pure`` proves pure leakages on this model.

    A pure leakage holds at every delta. Guarantees and Gaussian noise go through the closed
    exchange on every model, on chains through the sweep too; Gaussian noise on a count of a chain,
    or on a statistic of Gaussian records, has an exact leakage, against any adversary. ``closed``:
    by Theorem 1 alone, which holds for whatever ``pure`` is about, a window of records too: its
    proof compares two laws of the records, and asks nothing of them.
    """
    if isinstance(mechanism, LocalMechanism | MetricDP):
        return replace(pure(mechanism), delta=delta, lower=0.0, witness=None)
    curve = mechanism.curve(model.length)
    if not delta:
        return pure(PureDP(_pure_level(mechanism, curve), getattr(mechanism, "unit", "record")))
    if getattr(mechanism, "unit", "record") == "person":
        person = pure(PureDP(1.0, "person"))  # refuses a model whose records are persons
        return replace(
            person, lower=0.0, upper=curve.epsilon(delta), delta=delta, curve=_own_points(curve)
        )
    rate = lru_cache(maxsize=256)(lambda level: pure(PureDP(level)).upper)
    found = [closed_leakage(curve, rate, delta, against)]
    if isinstance(mechanism, PureDP | Scaled | TabulatedNoise):
        found.append(replace(pure(mechanism), delta=delta, lower=0.0, witness=None))
    points, more = closed_points(curve, rate), tuple[str, ...]()
    try:
        if not closed:
            for leak in _searched(mechanism, curve, model, against, delta, covers):
                found.append(leak)  # noqa: PERF402  (each is kept though the next needs too much)
    except EffortSpent:  # what was proved by then holds
        more = (SPENT,)
    reached = max(found, key=lambda leak: leak.lower)
    proved = min(found, key=lambda leak: leak.upper).with_assumptions(more)
    check_order(reached, proved)
    points = (*points, (proved.upper, delta))
    return replace(
        proved, lower=reached.lower, witness=reached.witness, curve=tuple(sorted({*points}))
    )


def _searched(
    mechanism: Mechanism, curve: Curve, model: Model, against: Against, delta: float,
    covers: Covers,
) -> Iterator[Leakage]:  # fmt: skip
    """Yield what searches on a model prove, and what they attain."""
    if isinstance(model, MarkovChain) and sweepable(model, against, curve):
        swept = sweep_leakage(curve, model, delta, against)
        yield swept
        if not isinstance(mechanism, Noise):  # what some algorithm of the class attains
            lower, witness = attained(curve, model, delta)
            yield replace(swept, lower=min(lower, swept.upper), witness=witness)
    if isinstance(mechanism, Gaussian) and covers == "series":
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
        from undertow.bounds.approximate.records import record_leakage

        return [record_leakage(mechanism, model, against, delta)]
    if against != "any" or not isinstance(model, MarkovChain) or not mechanism.query.named:
        return []
    with suppress(NotSupported):
        return [count_leakage(mechanism, model, delta)]
    return []


def _own_points(curve: Curve) -> tuple[tuple[float, float], ...]:
    """Return pairs of a curve as it is: what it says about a whole person."""
    return closed_points(curve, lambda level: level)


def closed_leakage(curve: Curve, rate: Rate, delta: float, against: Against) -> Leakage:
    """Return what Theorem 1 proves at a delta for every algorithm with a curve, on any model.

    ``rate`` gives the upper end of what all algorithms of a DP level leak.
    """
    found = closed_epsilon(curve, rate, delta)
    return _stated("closed", 0.0, found.epsilon, delta, against, f"Theorem 1 ({_THEORY})")


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


def sweep_shape(curve: Curve) -> "Polygon | GaussianGrid":
    """Return a curve as the sweep reads it: an even grid for GDP, a polygon above it otherwise."""
    from undertow.bounds.approximate.polygons import (
        GaussianGrid,
        polygon_of_lines,
        tangent_lines,
    )

    if isinstance(curve, GaussianCurve):
        return GaussianGrid.of(curve.mu)
    corners = curve.corners()
    if corners:
        return polygon_of_lines([(level, curve.delta(level)) for level in corners])
    return polygon_of_lines(tangent_lines(curve.delta))


def sweep_leakage(
    curve: Curve, chain: MarkovChain, delta: float, against: Against, known: float | None = None
) -> Leakage:
    """Return what the sweep proves at a delta for every algorithm with a curve on a chain.

    ``known`` is an epsilon at which it was found to keep ``delta``, where nothing less is wanted.
    """
    from undertow.bounds.approximate.sweep import sweep_epsilon

    found = known or sweep_epsilon(sweep_shape(curve), chain, delta, against)
    return _stated("sweep", 0.0, found, delta, against, f"Theorems 3 to 5 ({_THEORY})")


def exact_windows(noise: Noise, chain: MarkovChain, epsilon: float) -> CountWindows:
    """Return the windows of a count on a chain, or refuse what has no exact leakage."""
    reduced = chain.visited()
    if reduced is None or not reduced.homogeneous or not isinstance(reduced.start, str):
        raise NotSupported(
            "the exact leakage of Gaussian noise is known on chains with one transition matrix and "
            "a stationary start; use method='closed'"
        )
    wanted = [reduced.index(state) for state in noise.query.named if state in reduced.states]
    counted = np.isin(np.arange(reduced.size), wanted)
    return count_windows(reduced, counted, choose_reach(reduced, epsilon))


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
    found = windows.delta(noise.sigma, high, decide=delta)
    witness = windows.witness(found.where, windows.threshold(found.where, noise.sigma, high))
    told = _stated("exact", down(low), up(high), delta, "any", _THEORY)
    return replace(told, witness=witness, covers="series")


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
    leaders, low, high = windows.delta(*place(start), decide=delta).leaders, 0.0, start

    def keeps(number: float) -> bool:
        return windows.delta(*place(number), leaders, delta).upper <= delta

    step, width = (1e-6 if close else 0.5), (_TIGHT if close else 1e-4)
    if close and keeps(high):  # look for the first number below that does not
        while low == 0.0 and step < 1:
            below = high * (1 - step)
            low, high, step = (0.0, below, 8 * step) if keeps(below) else (below, high, step)
    while True:
        while not keeps(high):
            low, high, step = high, (1 + step) * high, min(0.5, 8 * step)
            if high > _ABSURD:
                raise NotSupported("nothing certified could be found for this noise and delta")
        while high - low > width * high:
            middle = (low + high) / 2
            low, high = (low, middle) if keeps(middle) else (middle, high)
        found = windows.delta(*place(high), decide=delta)
        done, width, step = width == _TIGHT, _TIGHT, 1e-8
        if found.upper <= delta and done:
            attained = low and windows.delta(*place(low), leaders, delta).lower > delta
            return low if attained else 0.0, high
        joined = np.union1d(leaders, found.leaders)
        if found.upper > delta and len(joined) == len(leaders):
            high *= 1 + 1e-8  # nobody new leads: rounding alone is in the way
        leaders = joined


def _stated(
    method: str, lower: float, upper: float, delta: float, against: Against, citation: str
) -> Leakage:
    return Leakage(
        lower, upper, method, against, assumptions=_FAMILY, citation=citation, covers="any",
        delta=delta,
    )  # fmt: skip
