"""Two states: which flips keep a guarantee, and the best of them.

What a channel of two states leaks depends on two numbers only, the largest likelihood ratio of
an output either way: S = (1 - rho0) / rho1 and T = (1 - rho1) / rho0. Every channel whose ratios
stay within them is one that flips with `corner` and then forgets something, so that corner says
the most, whatever it is asked. The guarantee is a set of pairs (S, T), and with one pair it bounds
flips by two half-planes, rho0 + S rho1 >= 1 and T rho0 + rho1 >= 1. Logarithms throughout:
``a`` = ln S, ``b`` = ln T.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from undertow.bounds.chains.binary import ignorant_ratios
from undertow.certificate import Leakage
from undertow.channels import RandomizedResponse
from undertow.errors import NotSupported
from undertow.models.markov import MarkovChain
from undertow.models.sets import AnyModel
from undertow.numerics import GRAIN, Array
from undertow.planning.budget import PRECISE, Search, largest_level
from undertow.planning.flip_aims import Aim

__all__ = [
    "LARGEST",
    "Oracle",
    "best_flips",
    "corner",
    "frontier",
    "grained",
    "half_planes",
    "ignorant_ratios",
    "largest_ratio",
    "least_within",
    "one_sided",
    "positively_correlated",
]

Oracle = Callable[[RandomizedResponse], Leakage]
"""What a channel leaks on the model at hand, to the adversary at hand."""

LARGEST = -math.log(GRAIN) + 1e-12
"""The largest log-ratio that a planned channel can have: no flip is rarer than one grain."""

_FAINT = 2.0**-200
"""The probability of the one output that a one-sided channel has beside the usual one; so small
that the usual output says nothing, to the last bit."""

_LEAST = 1e-8
"""The log-ratio, in units of limit, below which an output counts as saying nothing."""

_LARGE = 300.0
"""Levels beyond which squares in the closed form would overflow."""

_COARSE, _FINE = 1e-3, 1e-8
"""Relative precision of levels compared on the grid, and in its refinement (either side)."""

_CLOSE = 1e-6
"""How near to the best direction the refinement stops, as a share of a grid step."""

_DIRECTIONS = 9
"""Directions of (ln S, ln T) compared before the best of them is refined."""


def corner(a: float, b: float) -> tuple[float, float]:
    """Return the flips whose likelihood ratios are exactly e^a and e^b.

    rho0 = (S - 1) / (S T - 1), rho1 = (T - 1) / (S T - 1); one half each where both are 1.

    >>> [round(rate, 6) for rate in corner(*ignorant_ratios(.2, .35, 2.0))]
    [0.342902, 0.255443]
    """
    if a <= 0 or b <= 0:
        return 0.5, 0.5
    both = -math.expm1(-(a + b))  # 1 - 1 / (S T)
    return math.exp(-b) * -math.expm1(-a) / both, math.exp(-a) * -math.expm1(-b) / both


def best_flips(a: float, b: float, aim: Aim) -> tuple[float, float]:
    """Return the flips (rho0, rho1) within the ratios e^a and e^b that serve an aim best.

    The corner says the most. The least weighted flips of at most one half each are at the
    corner, or where a half-plane meets a flip of one half; with several laws of a record also
    where two laws tie.

    >>> law = np.array([[.35, .2]]) / .55
    >>> a, b = ignorant_ratios(.2, .35, 0.5)
    >>> [round(rate, 6) for rate in best_flips(a, b, Aim(law, np.ones(2)))]
    [0.415235, 0.5]
    """
    if aim.weights is None:
        return corner(a, b)
    s, t = math.exp(min(a, _LARGE)), math.exp(min(b, _LARGE))
    ends = [
        (max(1 - s / 2, 0.5 / t), 0.5),
        (0.5, max(1 - t / 2, 0.5 / s)),
    ]
    found = [*ends]
    tip = corner(a, b)
    if max(tip) <= 0.5:
        found.append(tip)
        costs = aim.laws * aim.weights  # (laws, states)
        first, last = costs[np.argmin(aim.laws[:, 0])], costs[np.argmax(aim.laws[:, 0])]
        found += [rates for end in ends if (rates := _tie(tip, end, first - last)) is not None]
    return min(found, key=lambda rates: aim.cost_of_rates(np.array(rates)))


def _tie(
    tip: tuple[float, float], end: tuple[float, float], difference: Array
) -> tuple[float, float] | None:
    """Return where two costs agree on an edge, None if they do not."""
    here, there = float(difference @ np.array(tip)), float(difference @ np.array(end))
    if here * there >= 0:
        return None
    share = here / (here - there)
    return tip[0] + share * (end[0] - tip[0]), tip[1] + share * (end[1] - tip[1])


def grained(rates: tuple[float, float]) -> RandomizedResponse:
    """Return the channel of two states with these flips, rounded up to the grain.

    >>> bool(grained((0.1, 0.2)).matrix[0, 1] >= 0.1)
    True
    """
    rho0, rho1 = (math.ceil(rate / GRAIN) * GRAIN for rate in rates)
    return RandomizedResponse([[1 - rho0, rho0], [rho1, 1 - rho1]])


def positively_correlated(chain: MarkovChain) -> bool:
    """Return whether no step of a two-state chain makes a change likelier than staying would.

    P(0,0) P(1,1) >= P(0,1) P(1,0) at every step: then the worst series of outputs is constant, and
    the leakage either way depends on one ratio only.

    >>> positively_correlated(MarkovChain([[.6, .4], [.7, .3]]))
    False
    """
    steps = chain.transition
    return bool(np.all(steps[..., 0, 0] >= steps[..., 1, 0]))


def one_sided(a: float, state: int) -> RandomizedResponse:
    """Return a channel with a rare output of ratio e^a for one state; the other says nothing.

    >>> channel = one_sided(1.0, 0)
    >>> round(float(channel.matrix[0, 0] / channel.matrix[1, 0]), 6)
    2.718282
    """
    rare = [_FAINT, _FAINT]
    rare[state] *= math.exp(a)
    return RandomizedResponse([[rare[0], 1 - rare[0]], [rare[1], 1 - rare[1]]])


def half_planes(
    oracle: Oracle, model: AnyModel, limit: float, guess: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Return the largest ln S and ln T that leak at most limit, each by one bisection.

    For models on which either direction depends on one ratio only (`positively_correlated`
    chains, or an attacker who knows all other records). 0 where no informative output will do.

    >>> from undertow.bounds.engine import leakage
    >>> chain = MarkovChain([[.8, .2], [.35, .65]])
    >>> found = half_planes(lambda channel: leakage(channel, chain, "ignorant"), chain, 2.0)
    >>> [round(math.exp(ratio), 8) for ratio in found]
    [2.57238833, 2.17134279]
    """
    found = [
        largest_ratio(
            lambda a, state=state: oracle(one_sided(a, state)),  # type: ignore[misc]
            model, limit, PRECISE, None if guess is None else guess[state],
        )
        for state in (0, 1)
    ]  # fmt: skip
    return found[0], found[1]


def largest_ratio(
    measure: Callable[[float], Leakage],
    model: AnyModel,
    limit: float,
    search: Search = PRECISE,
    guess: float | None = None,
) -> float:
    """Return the largest log-ratio that leaks at most limit; 0 if there is none above 0.

    ``measure`` gives the leakage of a log-ratio; it grows with it. At most `LARGEST`.

    >>> from undertow.models.groups import Groups
    >>> twice = largest_ratio(lambda a: Leakage(2 * a, 2 * a, "exact", "any"), Groups(2), 3.0)
    >>> round(twice, 9)
    1.5
    """
    start = min(guess or limit / 3, LARGEST)
    first = measure(start)
    if math.isinf(first.upper) and not measure(_LEAST * limit).proves(limit):
        return 0.0
    try:
        found = largest_level(
            lambda level: first if level == start else measure(min(level, LARGEST)),
            model, limit,
            Search(search.precision, start),
        )  # fmt: skip
    except NotSupported:
        return 0.0
    return min(found, LARGEST)


def frontier(oracle: Oracle, model: AnyModel, limit: float, aim: Aim) -> tuple[float, float]:
    """Return the ln S and ln T on the edge of the guarantee that serve an aim best, by search.

    For models on which both ratios matter in either direction. A larger ratio never leaks less,
    so every direction of (ln S, ln T) has one largest step. Directions are compared on a grid and
    the best of them is refined; symmetric flips are among them, and where flips of one half end
    the range, its ends.
    Nothing proves that no better direction lies between. (0, 0) where nothing informative will do.

    >>> from undertow.bounds.engine import leakage
    >>> chain = MarkovChain([[.2, .8], [.7, .3]], length=4)
    >>> aim = Aim(chain.initial[None], np.ones(2))
    >>> a, b = frontier(lambda channel: leakage(channel, chain), chain, 2.0, aim)
    >>> round(leakage(RandomizedResponse.binary(*corner(a, b)), chain).upper, 8)
    2.0
    """
    edge = _Edge(oracle, model, limit)
    low, high = 0.0, math.pi / 2
    found: list[tuple[float, float]] = []
    if aim.weights is not None:
        found = [edge.with_half(state) for state in (0, 1)]
        if min(map(sum, found)) <= 0:
            return 0.0, 0.0
        low, high = sorted(math.atan2(b, a) for a, b in found)
    grid = np.linspace(low, high, _DIRECTIONS + 2)[1:-1].tolist()
    found.append(edge.towards(math.pi / 4, PRECISE.precision))  # both states alike
    found += [edge.towards(angle, _COARSE) for angle in grid]

    def cost(ratios: tuple[float, float]) -> float:
        rho0, rho1 = corner(*ratios)
        return aim.cost(np.array([[1 - rho0, rho0], [rho1, 1 - rho1]]))

    best = min(found, key=cost)
    angle, width = math.atan2(best[1], best[0]), (high - low) / (_DIRECTIONS + 1)
    inside = max(low, angle - width), min(high, angle + width)
    close = _CLOSE * (inside[1] - inside[0])
    refined = least_within(lambda turn: cost(edge.towards(turn, _FINE)), inside, close)
    return min(best, edge.towards(refined, PRECISE.precision), key=cost)


def least_within(
    function: Callable[[float], float], inside: tuple[float, float], close: float
) -> float:
    """Return where a function is least inside an interval, by a bounded search."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(function, bounds=inside, method="bounded", options={"xatol": close})
    return float(found.x)


@dataclass(slots=True)
class _Edge:
    """The largest ratios that keep a guarantee, in one direction after another."""

    oracle: Oracle
    model: AnyModel
    limit: float
    near: float | None = None

    def towards(self, angle: float, precision: float) -> tuple[float, float]:
        """Return the largest (ln S, ln T) at an angle."""
        right, above = math.cos(angle), math.sin(angle)

        def measure(step: float) -> Leakage:
            return self.oracle(RandomizedResponse.binary(*corner(step * right, step * above)))

        step = largest_ratio(measure, self.model, self.limit, Search(precision), self.near)
        self.near = step or None
        return step * right, step * above

    def with_half(self, state: int) -> tuple[float, float]:
        """Return (ln S, ln T) where one state is flipped half the time, the other least."""

        def rates(level: float) -> tuple[float, float]:
            other = math.exp(-level) / 2
            return (0.5, other) if state == 0 else (other, 0.5)

        def measure(level: float) -> Leakage:
            return self.oracle(RandomizedResponse.binary(*rates(level)))

        level = largest_ratio(measure, self.model, self.limit)
        found = level, math.log(2 - math.exp(-level))
        return found if state == 0 else found[::-1]
