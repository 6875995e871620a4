"""Upper end of the leakage of a noisy count, recomputed window by window and rounded up.

The leakage is at most the product of the ratios of the two sides and the target's own record;
windows for which that does not suffice are computed as a whole, and what lies beyond the last step
is bounded as a mixture (docs/certificates.md, "The mathematics of the check", counts).
"""

import math
from typing import NamedTuple

import numpy as np

from undertow.certifying.arithmetic import (
    Bools,
    Interval,
    exp_lower,
    exp_upper,
    normalised,
    product,
    stationary,
)
from undertow.certifying.document import COUNTED, LARGEST, LAWS, CertifiedClaim
from undertow.errors import InvalidCertificate
from undertow.numerics import Array

__all__ = ["counted_upper", "log_upper"]

_ULP = 2.0**-52
_TINY = 1e-300
"""Added to every upper end and taken from every lower one: products too small for a float."""

_KNOWN, _OPEN, _BEYOND = 0, 1, 2

_WINDOWS = 20_000
"""Windows computed as a whole, for a pair of values (cost); the others keep the product."""


class _Option(NamedTuple):
    """An option of the adversary on one side, with the law of the count there."""

    kind: int
    records: int
    law: Interval
    """(x, counts)"""

    noisy: Interval
    """(x, counts): with the noise added."""

    prior: Array
    """(x, x'): Pr[option | x'] / Pr[option | x], from above; inf where it is no option."""

    ratios: Array
    """(x, x'): what the side tells by itself, from above, 0 where it is no option."""


def counted_upper(claim: CertifiedClaim, chain: Interval, steps: int) -> tuple[float, float]:
    """Return an upper end of the leakage of the noisy count; inf if none is proved.

    The second number is the same without what lies beyond the steps: more of them may help where
    the two differ.

    Cost O(k^3 steps^2) for the laws, and O(steps^2) for every window computed as a whole.
    """
    if steps > COUNTED or steps**2 * claim.size**3 > LAWS:
        raise InvalidCertificate("checking the counts of so many records would take too long")
    marks = np.array(claim.mechanism["counted"])
    rate = 1 / float(claim.mechanism["scale"])
    noise = _noise(
        exp_lower(-math.nextafter(rate, math.inf)), exp_upper(-math.nextafter(rate, 0)),
        2 * steps + 3,
    )  # fmt: skip
    left, right = (_options(claim, chain, steps, marks, noise, side) for side in (True, False))
    together = np.array([[_together(claim, one, two) for two in right] for one in left])
    step = exp_upper(math.nextafter(rate, math.inf))
    most = 1.0, 1.0
    for x in range(claim.size):
        for y in range(claim.size):
            if x != y:
                own = step if marks[x] != marks[y] else 1.0
                most = _pair(left, right, together, (x, y), own, marks, noise, most)
    return log_upper(most[0]), log_upper(most[1])


def _together(claim: CertifiedClaim, one: _Option, two: _Option) -> bool:
    """Return whether a target may have these options on its sides."""
    if _BEYOND in (one.kind, two.kind):
        return True
    records, ends = one.records + two.records, one.kind == two.kind == _OPEN
    if claim.length is None:  # a series has two records at least
        return records > 0
    return records == claim.length - 1 if ends else records <= claim.length - 1


def _pair(
    left: list[_Option], right: list[_Option], together: Bools, pair: tuple[int, int], own: float,
    marks: Bools, noise: Interval, most: tuple[float, float],
) -> tuple[float, float]:  # fmt: skip
    """Return the largest ratios so far and for two values of the target, from above."""
    sides = [np.array([option.ratios[pair] for option in side]) for side in (left, right)]
    possible = together & (sides[0] > 0)[:, None] & (sides[1] > 0)
    with np.errstate(over="ignore", invalid="ignore"):
        bound = np.nextafter(np.nextafter(np.outer(*sides), np.inf) * own, np.inf)
    bound = np.where(possible, bound, 0.0)
    bound = np.where(np.isnan(bound), np.inf, bound)
    (best, inside), order = most, np.argsort(-bound.ravel(), kind="stable")[:_WINDOWS]
    for at in order.tolist():
        ceiling = float(bound.flat[at])
        if ceiling <= best:
            return best, inside
        one, two = left[at // len(right)], right[at % len(right)]
        ratio = min(ceiling, _window(one, two, pair, marks, noise))
        best = max(best, ratio)
        if _BEYOND not in (one.kind, two.kind):
            inside = max(inside, ratio)
    rest = np.sort(bound.ravel())[::-1][_WINDOWS:]
    return max(best, float(rest.max(initial=0.0))), inside


def _window(
    one: _Option, two: _Option, pair: tuple[int, int], marks: Bools, noise: Interval
) -> float:
    """Return the largest ratio of a whole window, from above."""
    x, y = pair
    more, less = (
        _answers(one.noisy[end][value], two.law[end][value], int(marks[value]), noise[end])
        for end, value in ((1, x), (0, y))
    )
    slack = 2 * (two.law.low.shape[1] + 4) * _ULP
    more, less = more * (1 + slack) + _TINY, np.maximum(less * (1 - slack) - _TINY, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        ratio = float(np.nextafter(more / less, np.inf).max())
        prior = math.nextafter(float(one.prior[pair] * two.prior[pair]), math.inf)
    return math.nextafter(ratio * prior, math.inf)


def _answers(noisy: Array, law: Array, own: int, noise: Array) -> Array:
    """Return the likelihoods of the answers 0 .. of a window: sum_j law(j) noisy(s - own - j)."""
    one, two = len(noisy), len(law)
    fade = noise[0]  # e^-m / b
    # noisy at -two .. one + two - 1: it falls off like the noise
    wide = np.concatenate([noisy[0] * fade[two:0:-1], noisy, noisy[-1] * fade[1 : two + 1]])
    # entry a of the full convolution is sum_j law(j) wide(a - j), and wide(m) is noisy(m - two)
    full = np.convolve(law, wide)
    start = two - own
    return full[start : start + one + two]


# --- one side -------------------------------------------------------------------------------------


def _options(
    claim: CertifiedClaim, chain: Interval, steps: int, marks: Bools, noise: Interval, left: bool
) -> list[_Option]:
    """Return the adversary's options on one side, including those beyond ``steps``."""
    size = claim.size
    kernel = Interval(chain.low.T, chain.high.T) if left else chain
    ends = _first(claim, chain) if left else Interval(np.ones(size), np.ones(size))
    here = ends  # Pr[target = x] where so many records precede; ones on the right
    table = kernel  # Pr[known v | x] at the distance reached, (x, v)
    law = Interval(kernel.low[..., None], kernel.high[..., None])  # (x, v, count before v)
    nothing = Interval(here.low[:, None], here.high[:, None])  # no record on this side
    options = [_option(_OPEN, 0, nothing, here, noise)]
    for step in range(1, steps + 1):
        if claim.against == "any":
            for v in range(size):
                part = Interval(law.low[:, v], law.high[:, v])
                prior = Interval(table.low[:, v], table.high[:, v])
                options.append(_option(_KNOWN, step, part, prior, noise))
        if left and not isinstance(claim.start, str):
            moved = product(Interval(here.low[None], here.high[None]), chain)
            here = moved.row(0)
        counted = _counted(law, marks)  # (x, v, count with v)
        options.append(_option(_OPEN, step, _weighed(counted, ends), here, noise))
        if step < steps:
            law, table = _moved(counted, kernel), product(table, kernel)
    if claim.length is not None and steps == claim.length - 1:
        return options
    # the least Pr[known v | x] / Pr[known v | x'] at the last step, turned round
    worst = np.ones((size, size))
    if left or claim.against == "any":
        with np.errstate(divide="ignore", invalid="ignore"):
            turned = np.nextafter(table.high[None, :] / table.low[:, None], np.inf)  # (x, x', v)
        worst = np.where(table.high[None, :] > 0, turned, 0.0).max(axis=2)
    for v in range(size):
        part = Interval(law.low[:, v], law.high[:, v])
        some = (table.high[:, None, v] > 0) | (table.high[None, :, v] > 0)
        noisy = _smoothed(part, noise)
        ratios = np.where(some, _odds_ratios(noisy, worst), 0.0)
        options.append(_Option(_BEYOND, steps + 1, part, noisy, worst, ratios))
    return options


def _first(claim: CertifiedClaim, chain: Interval) -> Interval:
    if not isinstance(claim.start, str):
        return normalised(np.array([claim.start])).row(0)
    law = stationary(chain)
    if law is None:
        raise InvalidCertificate("not checkable: the stationary law is not that of all states")
    return law


def _option(kind: int, records: int, law: Interval, prior: Interval, noise: Interval) -> _Option:
    noisy = _smoothed(law, noise)
    possible = (prior.high[:, None] > 0) & (prior.high[None, :] > 0)  # (x, x')
    with np.errstate(divide="ignore", invalid="ignore"):
        turned = np.nextafter(prior.high[None, :] / prior.low[:, None], np.inf)
    turned = np.where(possible, turned, np.inf)
    ratios = np.where(possible, _odds_ratios(noisy, turned), 0.0)
    return _Option(kind, records, law, noisy, turned, ratios)


def _odds_ratios(noisy: Interval, prior: Array) -> Array:
    """Return the largest ratio over answers times that of the priors, from above, (x, x')."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratio = np.nextafter(noisy.high[:, None] / noisy.low[None, :], np.inf).max(axis=2)
        ratios = np.nextafter(ratio * prior, np.inf)
    return np.asarray(np.where(np.isnan(ratios), np.inf, ratios))


def _noise(low_fade: float, high_fade: float, answers: int) -> Interval:
    """Return e^-|s - j| / b, (j, s), from below and above."""
    apart = np.abs(np.subtract.outer(np.arange(answers), np.arange(answers)))
    low, high = [1.0], [1.0]
    for _ in range(answers - 1):
        low.append(math.nextafter(low[-1] * low_fade, 0))
        high.append(math.nextafter(high[-1] * high_fade, math.inf))
    return Interval(np.array(low)[apart], np.array(high)[apart])


def _smoothed(law: Interval, noise: Interval) -> Interval:
    """Return the law of a count, (x, counts), with the noise added.

    A sum of n products of numbers that are not negative errs by n + 1 roundings, in any order.
    """
    count = law.low.shape[1]
    slack = 2 * (count + 2) * _ULP
    low = law.low @ noise.low[:count, :count]
    high = law.high @ noise.high[:count, :count]
    return Interval(np.maximum(low * (1 - slack) - _TINY, 0.0), high * (1 + slack) + _TINY)


def _counted(law: Interval, marks: Bools) -> Interval:
    """Return the law with the record at the far end counted as well, (x, v, one count more)."""
    ends = []
    for part in law:
        wide = np.zeros((*part.shape[:2], part.shape[2] + 1))
        wide[:, ~marks, :-1] = part[:, ~marks]
        wide[:, marks, 1:] = part[:, marks]
        ends.append(wide)
    return Interval(*ends)


def _weighed(law: Interval, ends: Interval) -> Interval:
    slack = 2 * (law.low.shape[1] + 2) * _ULP
    low = np.einsum("xvj,v->xj", law.low, ends.low) * (1 - slack) - _TINY
    high = np.einsum("xvj,v->xj", law.high, ends.high) * (1 + slack) + _TINY
    return Interval(np.maximum(low, 0.0), high)


def _moved(law: Interval, kernel: Interval) -> Interval:
    """Return the law one record further out, (x, z, count)."""
    slack = 2 * (law.low.shape[1] + 2) * _ULP
    low = np.einsum("xvj,vz->xzj", law.low, kernel.low) * (1 - slack) - _TINY
    high = np.einsum("xvj,vz->xzj", law.high, kernel.high) * (1 + slack) + _TINY
    return Interval(np.maximum(low, 0.0), high)


def log_upper(ratio: float) -> float:
    """Return a number whose exponential is at least the ratio; 0 below 1, inf if none is proved.

    >>> 0 <= log_upper(math.e) - 1 < 1e-13
    True
    """
    if not ratio <= exp_lower(LARGEST):
        return math.inf
    if ratio <= 1:
        return 0.0
    value = math.log(ratio)  # a proposal
    step = 4 * _ULP
    while exp_lower(value) < ratio:
        value, step = value + step, 2 * step
    return value
