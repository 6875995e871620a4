"""Attacks at a delta: what some algorithm with a curve does leak, to who knows nothing.

One side is exact (Theorem 3): for a target at the beginning of a series, the best test over the
records that follow is found by one sweep, and the algorithm that answers with its probability has
the curve. A curve that is not a list of pairs is replaced by one below it.
"""

import math

import numpy as np

from undertow.bounds.approximate.polygons import Polygon, polygon_of_lines
from undertow.bounds.approximate.sweep import one_sided_value
from undertow.bounds.chains.known import ordered_pairs, witnessed
from undertow.certificate import Witness
from undertow.curves import ConcentratedCurve, Curve, GaussianCurve
from undertow.models.markov import MarkovChain
from undertow.numerics import ROUNDOFF, Array, down, ndtr_error

__all__ = ["attained"]

_FAR = 10
"""Records after the target that the test looks at, at most."""

_NODES = 161
"""Nodes of the polygon below a Gaussian curve."""

_ERROR = 1e-9, 1e-13
"""What a value is taken to be too large by, relatively and absolutely: more than it rounds."""

_TIGHT = 1e-6
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
    found = [
        (_largest(inner, kernels, int(a), int(b), delta), (int(a), int(b)))
        for a, b in zip(*ordered_pairs(reduced.size), strict=True)
        if min(reduced.initial[a], reduced.initial[b]) > 0
    ]
    if not found or not steps:
        return 0.0, None
    value, pair = max(found)
    length = reduced.length or steps + 1
    return down(value), witnessed(reduced, 0, length, {}, pair) if value > 0 else None


def _largest(curve: Polygon, kernels: list[Array], a: int, b: int, delta: float) -> float:
    """Return the largest epsilon at which the best test still gains more than ``delta``."""

    def gains(epsilon: float) -> bool:
        found = one_sided_value(curve, kernels, a, b, math.exp(epsilon))
        return found * (1 - _ERROR[0]) - _ERROR[1] > delta

    if not gains(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while gains(high):
        low, high = high, 2 * high
        if high > 500:
            return low
    while high - low > _TIGHT * high:
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
    return Polygon(*_hull([(0.0, 0.0), *zip(u.tolist(), g.tolist(), strict=True), (1.0, 1.0)]))


def _hull(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return the nodes and values of the least concave polygon above points that rise."""
    kept: list[tuple[float, float]] = []
    for u, g in points:
        # a point below the chord of its neighbours goes
        while len(kept) > 1 and (g - kept[-1][1]) * (kept[-1][0] - kept[-2][0]) >= (
            kept[-1][1] - kept[-2][1]
        ) * (u - kept[-1][0]):
            kept.pop()
        kept.append((u, g))
    return [u for u, _ in kept], [g for _, g in kept]
