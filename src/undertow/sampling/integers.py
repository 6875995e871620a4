"""Exact discrete Laplace noise."""

from functools import cache
from typing import Any

import numpy as np

from undertow.errors import NotSupported
from undertow.numerics import check_count, check_positive
from undertow.sampling.bits import Insecure, Randomness, Secure

__all__ = ["LARGEST_SCALE", "discrete_laplace"]

LARGEST_SCALE = 2.0**50
"""Largest scale of secure noise: 2^62 is then 4,096 scales away, out of reach of any draw."""


def discrete_laplace(scale: float, count: int, randomness: Randomness | None = None) -> list[int]:
    """Return independent integers with Pr[z] proportional to exp(-|z| / scale).

    Drawn by OpenDP's sampler, which works in exact rational arithmetic on the operating system's
    random bits, after [canonne2020]: no floating-point trace in the noise. With `Insecure`
    randomness, the difference of two seeded geometric variables instead.

    >>> from undertow.sampling.bits import Insecure
    >>> len(discrete_laplace(4.0, 3, Insecure(seed=1)))
    3
    """
    scale = check_positive(scale, "noise scale")
    if scale > LARGEST_SCALE:
        raise NotSupported(
            f"a noise scale of {scale:g} would overflow whole numbers of 64 bits; the largest is "
            f"{LARGEST_SCALE:g}"
        )
    count = check_count(count, "count", 1)
    if isinstance(randomness, Insecure):
        draw = np.random.default_rng(randomness.seed)
        miss = -np.expm1(-1.0 / scale)
        return [int(z) for z in draw.geometric(miss, count) - draw.geometric(miss, count)]
    if randomness is not None and not isinstance(randomness, Secure):
        raise TypeError("randomness must be Secure() or Insecure(seed)")
    return [int(z) for z in _measurement(scale)([0] * count)]


@cache
def _measurement(scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=scale)
