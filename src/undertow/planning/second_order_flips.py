"""Flips for chains of order two: the largest likelihood ratios that keep a guarantee.

Where the law is attractive either direction depends on one ratio, and the guarantee is two
half-planes, as on chains of order one (`undertow.planning.flips`). Elsewhere both ratios matter,
and what a channel leaks takes seconds: two directions are tried, that of the best flips for order
one, and that of symmetric flips.
"""

import math

from undertow.adversaries import Against
from undertow.bounds.second_order.guides import pattern_guide
from undertow.bounds.second_order.two_states import MoveBounds, law_of
from undertow.channels import RandomizedResponse
from undertow.errors import NotSupported
from undertow.models.second_order import SecondOrderChain
from undertow.planning.budget import BRACKETS, Search, largest_level
from undertow.planning.flip_aims import Aim
from undertow.planning.flips import LARGEST, Oracle, best_flips, corner, one_sided

__all__ = ["flip_ratios", "one_ratio_each"]


def one_ratio_each(chain: SecondOrderChain, against: Against) -> bool:
    """Return whether either direction of flips depends on one ratio only."""
    return against == "informed" or law_of(chain) == "attractive"


def flip_ratios(
    chain: SecondOrderChain, oracle: Oracle, limit: float, against: Against, aim: Aim,
    guess: tuple[float, float],
) -> tuple[float, float]:  # fmt: skip
    """Return the largest ln S = ln (1 - rho0) / rho1 and ln T that leak at most limit.

    S is that of output 0, so it is what tells 0 from 1. ``guess`` are those for order one. (0, 0)
    where no informative output will do.
    """
    if one_ratio_each(chain, against):
        return (
            _towards(chain, oracle, limit, against, (1.0, 0.0), guess[0]),
            _towards(chain, oracle, limit, against, (0.0, 1.0), guess[1]),
        )
    found = []
    for along in (guess, (1.0, 1.0)):
        size = math.hypot(*along)
        if size <= 0:
            continue
        direction = along[0] / size, along[1] / size
        step = _towards(chain, oracle, limit, against, direction, math.hypot(*guess) * 0.8)
        found.append((step * direction[0], step * direction[1]))

    def cost(ratios: tuple[float, float]) -> float:
        rho0, rho1 = best_flips(*ratios, aim)
        return aim.cost(RandomizedResponse.binary(rho0, rho1).matrix)

    return min(found, key=cost)


def _towards(
    chain: SecondOrderChain, oracle: Oracle, limit: float, against: Against,
    direction: tuple[float, float], guess: float,
) -> float:  # fmt: skip
    """Return the largest step along a direction of (ln S, ln T) that keeps the limit, 0 if none."""

    def channel(step: float) -> RandomizedResponse:
        step = min(step, LARGEST)
        if 0.0 in direction:
            return one_sided(step, direction.index(max(direction)))
        return RandomizedResponse.binary(*corner(step * direction[0], step * direction[1]))

    guide = pattern_guide(
        chain,
        against,
        lambda step: MoveBounds(step * direction[1], step * direction[0]),
        words=True,
    )
    if guide is None and not one_ratio_each(chain, against):  # every word: a bracket too
        limit *= 1 - BRACKETS
    try:
        found = largest_level(
            lambda step: oracle(channel(step)), chain, limit, Search(BRACKETS, guess or None),
            guide,
        )  # fmt: skip
    except NotSupported:
        return 0.0
    return min(found, LARGEST)
