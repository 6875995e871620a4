"""Flipped series: the channel that serves best among those that keep a guarantee."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any, TypeVar

import numpy as np

from undertow import progress
from undertow.adversaries import Adversary, Against
from undertow.bounds.channels.flips import worst_attacks
from undertow.bounds.engine import leakage
from undertow.bounds.levels.sweep import ignorant_ratios
from undertow.bounds.memory.two_states import MoveBounds, law_of, pattern_guide
from undertow.certificate import Leakage, Witness
from undertow.errors import (
    EffortSpent,
    InvalidInput,
    InvalidPlan,
    MethodRefused,
    NothingToProtect,
    NotSupported,
)
from undertow.mechanisms import Flips, PureDP, RandomizedResponse, XorNoise, flips_epsilon_upper
from undertow.models.chains import MarkovChain
from undertow.models.second_order import SecondOrderChain
from undertow.models.sets import AnyModel, ModelSet
from undertow.numerics import GRAIN, Array, freeze
from undertow.planning.budget import BRACKETS, PRECISE, Search, aim, budget_for, largest_level
from undertow.planning.questions import Question, Solution, Solver, chains_of
from undertow.progress import spend
from undertow.queries import Series

__all__ = ["CHAKRABARTI", "EXACT", "EXCHANGE", "XOR", "ignorant_ratios"]


_DOUBLINGS = 50
"""The mean law of a series of any length is taken over 2^50 records."""


@dataclass(frozen=True, slots=True)
class Aim:
    """The laws of a record, one for each model of a set, and the cost of flipping a state.

    ``laws`` has a row for each model, ``weights`` an entry for each state; None asks for
    information instead. Over several laws the worst one counts.

    >>> aim = Aim(np.array([[.75, .25]]), np.ones(2))
    >>> aim.flips(np.array([[.9, .1], [.2, .8]]))
    0.125
    """

    laws: Array
    weights: Array | None

    def cost(self, channel: Array) -> float:
        """Return the cost of a channel: weighted flips, or less its information in bits."""
        if self.weights is None:
            return -self.bits(channel)
        return self.cost_of_rates(1 - np.diag(channel))

    def cost_of_rates(self, rates: Array) -> float:
        """Return the expected cost of flipping each state at its rate."""
        weights = 1.0 if self.weights is None else self.weights
        return float(np.max(self.laws @ (weights * rates)))

    def flips(self, channel: Array) -> float:
        """Return the expected share of flipped records."""
        return float(np.max(self.laws @ (1 - np.diag(channel))))

    def bits(self, channel: Array) -> float:
        """Return the information of one record and its output, in bits."""
        return min(information(law, channel) for law in self.laws)


def information(law: Array, channel: Array) -> float:
    """Return the mutual information of a record and its output, in bits.

    >>> information(np.array([.5, .5]), np.eye(2))
    1.0
    """
    shown = law @ channel  # (outputs)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = law[:, None] * channel * (np.log2(channel) - np.log2(shown))  # (states, outputs)
    return max(0.0, float(np.nansum(terms)))


def long_run_law(chain: MarkovChain) -> Array:
    """Return the law of a record, on average over the series.

    The stationary law, or with a given start the mean of the laws of all records; where the
    length is open, the limit of that mean.

    >>> long_run_law(MarkovChain([[0, 1], [1, 0]], start=[1, 0]))
    array([0.5, 0.5])
    """
    if isinstance(chain.start, str):
        return chain.initial
    if chain.length is not None:
        return np.asarray(chain.marginals(chain.length).mean(axis=0))
    mean, power = np.eye(chain.size), chain.transition
    for _ in range(_DOUBLINGS):
        # the mean of P^0 .. P^(2m - 1) from that of P^0 .. P^(m - 1)
        mean = (mean + power @ mean) / 2
        power = power @ power
        power = power / power.sum(axis=1, keepdims=True)
    law = chain.initial @ mean
    return np.asarray(law / law.sum())


def check_objective(objective: Any, size: int) -> Array | None:
    """Return the weights of an objective, None for information.

    >>> check_objective("flips", 2)
    array([1., 1.])
    """
    if isinstance(objective, str):
        if objective == "flips":
            return freeze(np.ones(size))
        if objective == "information":
            return None
        raise InvalidInput(
            f"objective must be 'flips', 'information' or a list of {size} costs, found "
            f"{objective!r}"
        )
    weights = freeze(objective)
    if weights.shape != (size,):
        raise InvalidInput(
            f"objective needs one cost for each of the {size} states, found shape {weights.shape}"
        )
    if not all(math.isfinite(w) and w >= 0 for w in weights) or not weights.any():
        raise InvalidInput(
            "objective: costs must be finite, none below 0 and one at least above it"
        )
    return weights


@dataclass(frozen=True, slots=True)
class Cut:
    """One attack on one chain, as a function of the channel.

    ``steps`` lead from each record to the next, ``fixed`` holds a 0/1 row for each record (what is
    known of it), ``shown`` its output (-1 if it does not matter). The prior odds of the known
    records do not depend on the channel: ``offset`` takes them out.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=5)
    >>> seen = tuple((record, 0) for record in range(5))
    >>> attack = Witness(2, 5, ((0, 1), (4, 1)), 0, 1, outputs=seen)
    >>> round(Cut.of(attack, chain).loss(np.array([[.98, .02], [.02, .98]])), 9)
    9.407941541
    """

    law: Array
    steps: Array
    fixed: Array
    shown: tuple[int, ...]
    target: int
    value: int
    other: int
    offset: float

    @classmethod
    def of(cls, witness: Witness, chain: MarkovChain) -> "Cut":
        """Return the attack that a witness describes, on a chain."""
        known = {record: chain.index(state) for record, state in witness.known}
        shown = {record: chain.index(state) for record, state in witness.outputs}
        named = {witness.target, *known, *shown}
        first, span = min(named), range(min(named), max(named) + 1)
        fixed = np.ones((len(span), chain.size))  # (records, states)
        for record, state in known.items():
            fixed[record - first] = np.eye(chain.size)[state]
        steps = np.array([chain.step(record) for record in span[:-1]])  # (steps, states, states)
        bare = cls(
            chain.law(first), steps.reshape(-1, chain.size, chain.size), fixed,
            (-1,) * len(span), witness.target - first,
            chain.index(witness.value), chain.index(witness.other), 0.0,
        )  # fmt: skip
        outputs = tuple(shown.get(record, -1) for record in span)
        return replace(bare, shown=outputs, offset=bare.loss(np.ones((chain.size, 1))))

    def loss(self, channel: Array) -> float:
        """Return the loss of the attack."""
        return float(CutSet([self]).losses(channel)[0])


class CutSet:
    """Attacks that are evaluated together; the same one is kept once.

    Shorter attacks are continued by records that stay where they are and show nothing. Channels
    are taken as planned channels are, with no entry below one grain.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=5)
    >>> cut = Cut.of(Witness(2, 5, (), 0, 1, outputs=((1, 0), (2, 0))), chain)
    >>> cuts = CutSet([cut, cut])
    >>> len(cuts), cuts.losses(np.array([[.8, .2], [.2, .8]])).round(6)
    (1, array([2.432263]))
    """

    def __init__(self, cuts: list[Cut]) -> None:
        self.cuts: list[Cut] = []
        self._seen: set[tuple[object, ...]] = set()
        self.add(cuts)

    def __len__(self) -> int:
        return len(self.cuts)

    def add(self, cuts: list[Cut]) -> None:
        """Add attacks."""
        for cut in cuts:
            key = (cut.shown, cut.target, cut.value, cut.other, cut.fixed.tobytes(),
                   cut.law.tobytes(), cut.steps.tobytes())  # fmt: skip
            if key not in self._seen:
                self._seen.add(key)
                self.cuts.append(cut)
        if self.cuts:
            self._pack()

    def _pack(self) -> None:
        """Write all attacks to arrays, with axes (attacks, records, value or other, states)."""
        count, size = len(self.cuts), len(self.cuts[0].law)
        records = max(len(cut.shown) for cut in self.cuts)
        self.law = np.array([cut.law for cut in self.cuts])[:, None, :]  # (C, 1, k)
        self.offset = np.array([cut.offset for cut in self.cuts])
        self.steps = np.tile(np.eye(size), (max(records - 1, 1), count, 1, 1))  # (R - 1, C, k, k)
        self.mask = np.ones((count, records, 2, size))
        self.shown = np.full((count, records), -1)
        for row, cut in enumerate(self.cuts):
            span = len(cut.shown)
            self.steps[: span - 1, row] = cut.steps
            self.mask[row, :span] = cut.fixed[:, None]
            self.mask[row, cut.target] *= np.eye(size)[[cut.value, cut.other]]
            self.shown[row, :span] = cut.shown

    def _forward(self, channel: Array) -> tuple[Array, list[Array], Array]:
        """Return the weights (C, R, 2, k), the messages from the left, and the losses (C,)."""
        channel = np.maximum(channel, GRAIN)
        columns = np.column_stack([channel, np.ones(len(channel))]).T  # -1 is the column of ones
        weights = self.mask * columns[self.shown][:, :, None]
        loss, messages = -self.offset, []
        message = self.law
        for place in range(weights.shape[1]):
            message = (message @ self.steps[place - 1] if place else message) * weights[:, place]
            mass = message.sum(axis=2, keepdims=True)  # (C, 2, 1)
            message = message / mass
            messages.append(message)
            # the product of all masses is the likelihood
            loss = loss + np.log(mass[:, 0, 0]) - np.log(mass[:, 1, 0])
        return weights, messages, loss

    def losses(self, channel: Array) -> Array:
        """Return the loss of each attack."""
        return self._forward(channel)[2]

    def evaluate(self, channel: Array) -> tuple[Array, Array]:
        """Return the losses (C,), and their gradients (C, k, m) in the entries of the channel.

        d ln Pr[z | x] / d B(y, o) is the expected number of records in state y that show o, given
        the attack, divided by B(y, o).
        """
        weights, messages, losses = self._forward(channel)
        outputs = channel.shape[1]
        counts = np.zeros((outputs + 1, len(self), len(channel)))  # (outputs or none, C, k)
        rows = np.arange(len(self))
        back = np.ones_like(messages[0])  # (C, 2, k): messages from the right
        for place in reversed(range(len(messages))):
            posterior = messages[place] * back  # of the state of this record, for either value
            posterior /= posterior.sum(axis=2, keepdims=True)
            counts[self.shown[:, place], rows] += posterior[:, 0] - posterior[:, 1]
            if place:
                back = (weights[:, place] * back) @ self.steps[place - 1].swapaxes(-1, -2)
                back = back / back.sum(axis=2, keepdims=True)
        slopes = counts[:-1].transpose(1, 2, 0) / np.maximum(channel, GRAIN)
        return losses, slopes


Oracle = Callable[[RandomizedResponse], Leakage]
"""Leakage of a channel on the model and to the adversary of the task."""

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

_CLOSE_ANGLE = 1e-6
"""Distance from the best direction at which the refinement stops, as a share of a grid step."""

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
    corners = [*ends]
    tip = corner(a, b)
    if max(tip) <= 0.5:
        corners.append(tip)
        costs = aim.laws * aim.weights  # (laws, states)
        first, last = costs[np.argmin(aim.laws[:, 0])], costs[np.argmax(aim.laws[:, 0])]
        corners += [rates for end in ends if (rates := _tie(tip, end, first - last)) is not None]
    return min(corners, key=lambda rates: aim.cost_of_rates(np.array(rates)))


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
    """Return a channel with a rare output of ratio e^a for one state, and a neutral one.

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
    >>> ratios = half_planes(lambda channel: leakage(channel, chain, "ignorant"), chain, 2.0)
    >>> [round(math.exp(ratio), 8) for ratio in ratios]
    [2.57238833, 2.17134279]
    """
    ratios = [
        largest_ratio(
            lambda a, state=state: oracle(one_sided(a, state)),  # type: ignore[misc]
            model, limit, PRECISE, None if guess is None else guess[state],
        )
        for state in (0, 1)
    ]  # fmt: skip
    return ratios[0], ratios[1]


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
        level = largest_level(
            lambda level: first if level == start else measure(min(level, LARGEST)),
            model, limit,
            Search(search.precision, start),
        )  # fmt: skip
    except NotSupported:
        return 0.0
    return min(level, LARGEST)


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
    near: float | None = None

    def towards(angle: float, precision: float) -> tuple[float, float]:
        """Return the largest (ln S, ln T) at an angle."""
        nonlocal near
        right, above = math.cos(angle), math.sin(angle)

        def measure(step: float) -> Leakage:
            return oracle(RandomizedResponse.binary(*corner(step * right, step * above)))

        step = largest_ratio(measure, model, limit, Search(precision), near)
        near = step or None
        return step * right, step * above

    low, high = 0.0, math.pi / 2
    points: list[tuple[float, float]] = []
    if aim.weights is not None:
        points = [_with_half(oracle, model, limit, state) for state in (0, 1)]
        if min(map(sum, points)) <= 0:
            return 0.0, 0.0
        low, high = sorted(math.atan2(b, a) for a, b in points)
    grid = np.linspace(low, high, _DIRECTIONS + 2)[1:-1].tolist()
    points.append(towards(math.pi / 4, PRECISE.precision))  # both states alike
    points += [towards(angle, _COARSE) for angle in grid]

    def cost(ratios: tuple[float, float]) -> float:
        rho0, rho1 = corner(*ratios)
        return aim.cost(np.array([[1 - rho0, rho0], [rho1, 1 - rho1]]))

    best = min(points, key=cost)
    angle, width = math.atan2(best[1], best[0]), (high - low) / (_DIRECTIONS + 1)
    inside = max(low, angle - width), min(high, angle + width)
    close = _CLOSE_ANGLE * (inside[1] - inside[0])
    refined = least_within(lambda turn: cost(towards(turn, _FINE)), inside, close)
    return min(best, towards(refined, PRECISE.precision), key=cost)


def _with_half(oracle: Oracle, model: AnyModel, limit: float, state: int) -> tuple[float, float]:
    """Return (ln S, ln T) where one state is flipped half the time, the other least."""

    def measure(level: float) -> Leakage:
        other = math.exp(-level) / 2
        rates = (0.5, other) if state == 0 else (other, 0.5)
        return oracle(RandomizedResponse.binary(*rates))

    level = largest_ratio(measure, model, limit)
    ratios = level, math.log(2 - math.exp(-level))
    return ratios if state == 0 else ratios[::-1]


def least_within(
    function: Callable[[float], float], inside: tuple[float, float], close: float
) -> float:
    """Return where a function is least inside an interval, by a bounded search."""
    from scipy.optimize import minimize_scalar

    optimum = minimize_scalar(function, bounds=inside, method="bounded", options={"xatol": close})
    return float(optimum.x)


_PRECISION = 1e-8
"""Relative precision of the level (its leakage is proved; the search may stop this far below)."""


def even_channel(size: int, level: float) -> RandomizedResponse:
    """Return k-ary randomised response of a DP level, its flips rounded up to the grain.

    Every other state is shown with probability 1 / (k - 1 + e^level). More noise is the same
    channel followed by more flips, so a lower level never leaks more, whatever the model.

    >>> channel = even_channel(3, 1.0)
    >>> channel.matrix.sum(axis=1).tolist(), round(channel.dp_epsilon(), 12)
    ([1.0, 1.0, 1.0], 1.0)
    """
    fade = math.exp(-level)
    return grained_channel(np.full((size, size), fade / (1 + (size - 1) * fade)))


def grained_channel(matrix: Array) -> RandomizedResponse:
    """Return a channel with every flip rounded up to the grain, and the truth shown otherwise.

    The diagonal of ``matrix`` is not looked at; no flip is rarer than one grain.

    >>> grained_channel(np.array([[.5, .2], [.3, .5]])).matrix.round(6)
    array([[0.8, 0.2],
           [0.3, 0.7]])
    """
    # (states, outputs), off the diagonal
    grains = np.maximum(np.ceil(matrix / GRAIN), 1.0).astype(np.int64)
    np.fill_diagonal(grains, 0)
    whole = round(1 / GRAIN)
    for row, spill in enumerate(grains.sum(axis=1) - whole):
        if spill > 0:  # rounding up went beyond 1: take it from the largest flip
            grains[row, np.argmax(grains[row])] -= spill
    np.fill_diagonal(grains, whole - grains.sum(axis=1))
    return RandomizedResponse(grains * GRAIN)


def silent_channel(size: int) -> RandomizedResponse:
    """Return the channel that shows every state with the same probability, whatever the record is.

    >>> silent_channel(2).matrix.tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    row = np.full(size, math.floor(1 / (size * GRAIN)) * GRAIN)
    row[0] = 1.0 - row[1:].sum()
    return RandomizedResponse(np.tile(row, (size, 1)))


def largest_even_level(
    oracle: Callable[[RandomizedResponse], Leakage],
    model: AnyModel,
    limit: float,
    size: int,
    guess: float | None = None,
) -> float:
    """Return the largest level of k-ary randomised response that leaks at most limit.

    0 where no level above 0 does.

    >>> from undertow.bounds.engine import leakage
    >>> from undertow.models.chains import MarkovChain
    >>> alike = MarkovChain([[1/3, 1/3, 1/3]] * 3, length=4)
    >>> round(largest_even_level(lambda channel: leakage(channel, alike), alike, 1.0, 3), 6)
    1.0
    """
    return largest_ratio(
        lambda level: oracle(even_channel(size, level)), model, limit, Search(_PRECISION), guess
    )


Certified = tuple[RandomizedResponse, Leakage]

_PROGRAMS = 60
"""Linear programs solved at most between two looks for new attacks."""

_REPAIRS = 12
"""Channels tried at most to bring one back within the guarantee."""

FIRST_BOX, _LATER_BOX, _LARGEST_BOX, _SMALLEST_BOX = 0.3, 0.05, 0.7, 1e-4
"""By what share an entry may move in one step: at first, after new attacks came in, at most, and
where the search for steps ends."""

_CLOSE_SHARE = 1e-11
"""Distance from the guarantee at which the search for a share of noise stops (proved after)."""

_GAIN = 1e-6
"""Relative gain below which steps get smaller."""

_ENTRY, _PROGRAM = 800.0, 40.0
"""Work of a linear program for each of its entries, in multiplications, and of any, in calls."""

_MISSED = 1e-6
"""Share of limit by which attacks not yet known may exceed it when the search ends."""


def found_cuts(
    leak: Leakage, mechanism: RandomizedResponse, chains: list[MarkovChain]
) -> list[Cut]:
    """Return the attack of a leakage, on the chain on which it leaks most; or none."""
    if leak.witness is None or not leak.witness.outputs:
        return []
    cuts = [Cut.of(leak.witness, chain) for chain in chains]
    return [max(cuts, key=lambda cut: cut.loss(mechanism.matrix))]


@dataclass(slots=True)
class ChannelSearch:
    """A guarantee, an aim, and the attacks that were found so far.

    >>> from undertow.bounds.engine import leakage
    >>> chain = MarkovChain([[.8, .1, .1], [.3, .6, .1], [.4, .1, .5]], length=3)
    >>> start, aim = RandomizedResponse.symmetric(3, .5), Aim(chain.initial[None], np.ones(3))
    >>> search = ChannelSearch(leakage(start, chain).upper, aim)
    >>> def attacks(channel):
    ...     return found_cuts(leakage(channel, chain), channel, [chain])
    >>> search.cuts.add(attacks(start))
    >>> channel = search.settled(search.descended(start.matrix, FIRST_BOX), attacks, 6)
    >>> channel, leak = search.certified(channel, lambda one: leakage(one, chain), [chain])
    >>> aim.flips(channel.matrix) < 0.48, leak.proves(search.limit)
    (True, True)
    """

    limit: float
    aim: Aim
    cuts: CutSet = field(default_factory=lambda: CutSet([]))

    def even(self, size: int) -> Array:
        """Return k-ary randomised response with the least flips that the attacks known allow.

        Whatever keeps the guarantee withstands these, so no such channel that does flips less.
        """
        return self._mixed(np.eye(size), np.full(size, 1 / size), self.limit)

    def settled(
        self, channel: Array, attacks: Callable[[RandomizedResponse], list[Cut]], rounds: int
    ) -> Array:
        """Return a better channel, once no new attacks turn up, or after so many rounds.

        To begin with it should be the best that the attacks known allow (`descended`). The result
        keeps the guarantee against those known in the end, and is not certified.
        """
        for _ in range(rounds):
            new = attacks(grained_channel(channel))
            self.cuts.add(new)
            if not new or CutSet(new).losses(channel).max() <= self.limit * (1 + _MISSED):
                break
            channel = self.descended(self.mixed(channel, self.limit), _LATER_BOX)
        return channel

    def descended(self, channel: Array, box: float) -> Array:
        """Return the channel to which linear programs lead, safe from all attacks known."""
        now = self.aim.cost(channel)
        for _ in range(_PROGRAMS):
            if box < _SMALLEST_BOX:
                break
            step = self._step(channel, box)
            trial = channel if step is None else self.mixed(channel + step, self.limit)
            gain = now - self.aim.cost(trial)
            if gain > 0:
                channel, now = trial, now - gain
            box = min(1.5 * box, _LARGEST_BOX) if gain > _GAIN * abs(now) else box / 4
        return channel

    def _step(self, channel: Array, box: float) -> Array | None:
        """Return the change of a channel that a linear program proposes, None if it finds none."""
        from scipy.optimize import linprog

        size = len(channel)
        losses, slopes = self.cuts.evaluate(channel)
        slopes = slopes.reshape(len(losses), -1)  # (attacks, entries)
        reach = box * channel.ravel()  # entries stay positive
        # first order: loss + slope . step <= limit, of the attacks that the box can bring there
        near = losses + np.abs(slopes) @ reach > self.limit
        rows = [np.column_stack([slopes[near], np.zeros(near.sum())])]
        limits = (self.limit - losses[near]).tolist()
        for gradient, now in self._gradients(channel):
            # cost under this law <= the last variable
            rows.append(np.append(gradient.ravel(), -1.0)[None])
            limits.append(-now)
        if self.aim.weights is not None:
            for x, z in permutations(range(size), 2):  # the truth stays the likeliest output
                row = np.zeros((size, size))
                row[x, z], row[x, x] = 1.0, -1.0
                rows.append(np.append(row.ravel(), 0.0)[None])
                limits.append(channel[x, x] - channel[x, z])
        left = np.concatenate(rows)
        spend(_ENTRY * left.size, calls=_PROGRAM)
        even = np.kron(np.eye(size), np.ones(size))  # (states, entries): rows keep their sum
        solve: Any = linprog
        optimum = solve(
            np.append(np.zeros(size * size), 1.0),
            A_ub=left, b_ub=np.array(limits),
            A_eq=np.hstack([even, np.zeros((size, 1))]), b_eq=np.zeros(size),
            bounds=[*zip(-reach, reach, strict=True), (None, None)],
        )  # fmt: skip
        return None if optimum.status != 0 else freeze(optimum.x[:-1].reshape(size, size))

    def _gradients(self, channel: Array) -> list[tuple[Array, float]]:
        """Return slope and value of the cost under each law."""
        gradients = []
        for law in self.aim.laws:
            if self.aim.weights is None:
                # less d information / d B
                slope = -law[:, None] * (np.log2(channel) - np.log2(law @ channel))
                gradients.append((slope, -Aim(law[None], None).bits(channel)))
            else:
                slope = np.diag(-law * self.aim.weights)
                gradients.append((slope, float(law @ (self.aim.weights * (1 - np.diag(channel))))))
        return gradients

    def mixed(self, channel: Array, goal: float) -> Array:
        """Return a channel with the least noise at which no attack known exceeds the goal.

        The noise replaces an output by a fresh draw: from the law of outputs where information
        matters, of all states alike where the truth must stay the likeliest. That never leaks
        more.
        """
        law = np.full(len(channel), 1 / len(channel))
        if self.aim.weights is None:
            law = self.aim.laws.mean(axis=0) @ channel
        return self._mixed(channel, law, goal)

    def _mixed(self, channel: Array, law: Array, goal: float) -> Array:
        """Return a channel mixed with fresh draws from a law, as few as the goal allows."""
        from scipy.optimize import brentq

        fresh = np.tile(law, (len(channel), 1))  # (states, outputs)

        def excess(share: float) -> float:
            return float(self.cuts.losses((1 - share) * channel + share * fresh).max()) - goal

        share = 0.0
        if excess(0.0) > 0:
            # at a share of 1 nothing is told, so there is a root
            share = min(
                1.0,
                brentq(excess, 0.0, 1.0, xtol=_CLOSE_SHARE / 8) + _CLOSE_SHARE,
            )
        return np.asarray((1 - share) * channel + share * fresh)

    def certified(
        self,
        channel: Array,
        oracle: Callable[[RandomizedResponse], Leakage],
        chains: list[MarkovChain],
    ) -> Certified | None:
        """Return the channel with as much noise as it takes to be certified, None if too much.

        Its share is found on the attacks known; the oracle reports those still missing.
        """
        goal = self.limit
        for _ in range(_REPAIRS):
            mechanism = grained_channel(self.mixed(channel, goal) if self.cuts else channel)
            leak = oracle(mechanism)
            if leak.proves(self.limit):
                return mechanism, leak
            new = found_cuts(leak, mechanism, chains)
            if not new:
                return None
            self.cuts.add(new)
            if new[0].loss(mechanism.matrix) <= goal + 1e-9 * max(1.0, goal):
                goal -= 1.5 * (leak.upper - self.limit) + 1e-13  # no attack explains the upper end
            if goal <= 0:
                return None
        return None


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
    points = []
    for along in (guess, (1.0, 1.0)):
        size = math.hypot(*along)
        if size <= 0:
            continue
        direction = along[0] / size, along[1] / size
        step = _towards(chain, oracle, limit, against, direction, math.hypot(*guess) * 0.8)
        points.append((step * direction[0], step * direction[1]))

    def cost(ratios: tuple[float, float]) -> float:
        rho0, rho1 = best_flips(*ratios, aim)
        return aim.cost(RandomizedResponse.binary(rho0, rho1).matrix)

    return min(points, key=cost)


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
        level = largest_level(
            lambda step: oracle(channel(step)), chain, limit, Search(BRACKETS, guess or None),
            guide,
        )  # fmt: skip
    except NotSupported:
        return 0.0
    return min(level, LARGEST)


_BELOW = (0.8, 0.63, 0.5, 0.4, 0.31, 0.24, 0.18, 0.13, 0.09, 0.06, 0.04)
_ABOVE = (1.2, 1.5, 1.8)
"""Sums rho0 + rho1 compared one after the other, away from 1 and while they get better."""

_CLOSE_SUM = 1e-5
"""Distance from the best sum at which the refinement stops (either side)."""

_TINY = 1e-6
"""A sum that does not keep the guarantee at this level is passed over."""

_WORTH = 1e-7
"""Relative gain in the level below which independent flips are preferred to correlated ones."""


def xor_noise(level: float, total: float) -> XorNoise:
    """Return the noise with ln (1 - f) / f = level and rho0 + rho1 = total, in whole grains.

    >>> xor_noise(math.log(3), 0.5)
    XorNoise(rho0=0.125, rho1=0.375)
    """
    rate = 1 / (1 + math.exp(level))
    rho0 = max(1, math.ceil(rate * total / GRAIN)) * GRAIN
    rho1 = min(1.0, math.floor((1 - rate) * total / GRAIN) * GRAIN)
    return XorNoise(rho0, max(rho1, GRAIN))


def least_xor_noise(
    oracle: Callable[[XorNoise], Leakage], model: AnyModel, limit: float
) -> tuple[float, float]:
    """Return level and sum of the noise with the fewest flips, by search.

    For each sum the largest level that leaks at most limit. Sums are compared from 1 outwards,
    and the best of them is refined; nothing proves that no better sum lies elsewhere. (0, 1),
    independent flips of one half, if nothing informative keeps the guarantee.

    >>> from undertow.bounds.engine import leakage
    >>> from undertow.models.chains import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=6)
    >>> level, total = least_xor_noise(lambda noise: leakage(noise, chain), chain, 4.0)
    >>> xor_noise(level, total).flip_rate < 0.26, total < 1
    (True, True)
    """
    near: float | None = None

    def level(total: float, precision: float) -> float:
        nonlocal near

        def measure(trial: float) -> Leakage:
            return oracle(xor_noise(trial, total))

        most = math.inf if total <= 1 else -math.log(total - 1)  # beyond it rho1 would exceed 1
        if precision == _COARSE and not measure(min(_TINY, most)).proves(limit):
            return 0.0
        ratio = largest_ratio(measure, model, limit, Search(precision), near)
        near = ratio or near
        return min(ratio, most)

    plain = level(1.0, PRECISE.precision)
    levels = {1.0: plain}
    for side in (_BELOW, _ABOVE):
        last = plain
        for total in side:
            levels[total] = level(total, _COARSE)
            if levels[total] < last * (1 - 2 * _COARSE):
                break
            last = levels[total]
    best = max(levels, key=lambda total: levels[total])
    below = max((total for total in levels if total < best), default=best)
    above = min((total for total in levels if total > best), default=best)
    total = least_within(lambda total: -level(total, _FINE), (below, above), _CLOSE_SUM)
    most = level(total, PRECISE.precision)
    return (most, total) if most > plain * (1 + _WORTH) else (plain, 1.0)


CERTAIN = (
    "every record is certain under this model, or to this adversary: nothing can leak, and no "
    "flips are needed"
)
SILENT = "no output that says anything keeps this promise: the outputs do not depend on the records"
SPENT = (
    "the search for better flips ended with its effort spent: effort=10 allows ten times as much, "
    "effort=math.inf any"
)
SEARCHED = "found by search: the leakage is proved, that no channel serves better is not"
WHOLE = "one party holds the whole series and draws the noise"
PUBLISHED = (
    "flips as published, for an attacker who knows no other record; the leakage is the one "
    "certified here"
)
LEVEL = "the upper end holds for every algorithm of this DP level"

M = TypeVar("M", RandomizedResponse, XorNoise)

_FEW = {3: 12, 4: 9}
_FEWEST = 5
"""Records of the short series on which a channel of so many states (or more) is searched first."""

_LONGER = 3
"""Ratio of the lengths of two short series."""

_EVEN_ROUNDS, _ROUNDS = 4, (20, 6, 1)
"""Times that new attacks are asked for: on k-ary randomised response, and on better channels for
short, longer and whole series (effort; the last are the dearest)."""

_OTHER_BOXES = 0.15, 0.05
"""First steps of further searches on short series, all from k-ary randomised response."""

_SETTLED = 1e-4
"""Least change of k-ary randomized response from which the search for better channels begins."""

_NUDGES = 24
"""Times that a level is lowered, by four times as much each, until its rounding is certified."""


@dataclass(frozen=True, slots=True)
class _FlipTask:
    """The question of flips: a limit on a model against an adversary, and the aim of the flips."""

    model: AnyModel
    size: int
    limit: float
    against: Against
    aim: Aim

    @property
    def chains(self) -> list[MarkovChain]:
        return chains_of(self.model)

    def oracle(self, mechanism: Flips) -> Leakage:
        return leakage(mechanism, self.model, self.against)

    def attacks(self, mechanism: RandomizedResponse) -> list[Cut]:
        """Return the worst attacks on a channel: of each pair of values, or the worst of all."""
        cuts = [
            Cut.of(witness, chain)
            for chain in self.chains
            for witness in worst_attacks(mechanism.matrix, chain, self.against)
        ]
        return cuts or found_cuts(self.oracle(mechanism), mechanism, self.chains)


def _task(question: Question[Series], spent: float) -> _FlipTask:
    """Return the question for flips that leak at most ``spent``, or refuse one without states."""
    model = question.model
    size = len(model.states)
    if not size:
        raise NotSupported(
            "the model names no states, so there is nothing to flip to; add a chain with the "
            "states to it: ModelSet([Groups(4), MarkovChain(...)])"
        )
    laws = [long_run_law(chain) for chain in _followed(model)]
    table = np.array(laws) if laws else np.full((1, size), 1 / size)
    aim = Aim(table, check_objective(question.objective, size))
    task = _FlipTask(model, size, spent, question.against, aim)
    _check_uncertain(task)
    return task


def _followed(model: AnyModel) -> list[MarkovChain]:
    """Return chains with the laws of single records: of order two, that of the same pairs."""
    first = (member.first_order() for member in model.members())
    return [*chains_of(model), *(chain for chain in first if chain is not None)]


def _two_states(question: Question[Series], spent: float, method: str) -> _FlipTask:
    """Return the question about chains of two states, or refuse others."""
    question.chains(method)
    task = _task(question, spent)
    if task.size != 2:
        raise MethodRefused(
            f"'{method}' is for chains of two states, this one has {task.size}; use method='exact'"
        )
    return task


def _check_uncertain(task: _FlipTask) -> None:
    """Refuse a model under which no record is ever in doubt."""
    if len(task.chains) < len(task.model.members()):
        return
    if all(chain.visited() is None for chain in task.chains):
        raise NothingToProtect(CERTAIN)
    if task.oracle(RandomizedResponse(np.eye(task.size))).upper == 0:
        raise NothingToProtect(CERTAIN)


def _found(task: _FlipTask, mechanism: Flips, leak: Leakage, *notes: str) -> Solution:
    """Return flips as a solution, with measures of the series that they leave."""
    measures = [("expected flips", task.aim.flips(mechanism.matrix))]
    if _followed(task.model):
        measures.append(("information", task.aim.bits(mechanism.matrix)))
    remarks = _constant(task, mechanism.matrix)
    return Solution(mechanism, leak, (*notes, *remarks), tuple(measures))


def _constant(task: _FlipTask, channel: Array) -> list[str]:
    """Return a note where always showing one state would cost less than these flips."""
    aim = task.aim
    if aim.weights is None or not _followed(task.model):
        return []
    costs = [aim.cost_of_rates(1.0 - np.eye(task.size)[state]) for state in range(task.size)]
    best = int(np.argmin(costs))
    if costs[best] >= aim.cost(channel):
        return []
    name = task.model.states[best]
    costs_in_words = f"{costs[best]:.4f} against {aim.cost(channel):.4f}"
    return [f"always showing {name!r} would cost less ({costs_in_words}), and say nothing"]


# --- the methods ----------------------------------------------------------------------------------


def _exact(question: Question[Series]) -> Solution:
    """Return the channel that serves best.

    For two states whose neighbours are positively correlated it is the optimum: the guarantee is
    two half-planes, each found by one bisection that begins at the closed form for an attacker who
    knows no other record. For negatively correlated ones, for order two without one ratio in each
    direction and for more states it is the best that a search found, never worse than k-ary
    randomised response.
    """
    second = _second_order(question)
    if second is None:
        question.chains("exact")
    task = _task(question, aim(question.limit))
    if second is None and task.size > 2:
        return _exact_many(task)
    if second is not None:
        straight = one_ratio_each(second, task.against)
        guess = _guess(replace(task, model=second.first_order()))
        guess = guess or (task.limit / 3, task.limit / 3)
        a, b = flip_ratios(second, task.oracle, task.limit, task.against, task.aim, guess)
    else:
        straight = task.against == "informed" or all(map(positively_correlated, task.chains))
        if straight:
            a, b = half_planes(task.oracle, task.model, task.limit, _guess(task))
        else:
            a, b = frontier(task.oracle, task.model, task.limit, task.aim)
    notes = () if straight else (SEARCHED,)
    if min(a, b) <= 0:
        return _silent(task, "exact")

    def make(share: float) -> RandomizedResponse:
        return grained(best_flips(a * share, b * share, task.aim))

    return _found(task, *_certified(task, make), *notes)


def _second_order(question: Question[Series]) -> SecondOrderChain | None:
    """Return the chain of order two that was asked about, None for other models."""
    model = question.model
    if not isinstance(model, SecondOrderChain):
        return None
    if model.size > 2:
        raise MethodRefused(
            f"'exact' knows flips of chains of order two with two states, this one has "
            f"{model.size}; use method='exchange'"
        )
    return model


def _guess(task: _FlipTask) -> tuple[float, float] | None:
    """Return the ratios of the closed form, the least over its chains; None without any."""
    if task.against == "informed":
        return task.limit, task.limit
    ratios = []
    for chain in task.chains:
        q, r = chain.transition[..., 0, 1].max(), chain.transition[..., 1, 0].max()
        if chain.homogeneous and 0 < q < 1 and 0 < r < 1 and q + r <= 1:
            ratios.append(ignorant_ratios(float(q), float(r), task.limit))
    return (min(a for a, _ in ratios), min(b for _, b in ratios)) if ratios else None


def _exact_many(task: _FlipTask) -> Solution:
    """Return the best channel that a search finds, first on short series, then on the whole one.

    The search may take half the effort, the other half is for the proof of what it finds.
    """
    search, notes = ChannelSearch(task.limit, task.aim), [SEARCHED]
    channel: Array | None = None
    try:
        with progress.allowing(progress.left() / 2):
            for better in _improved(task, search):
                channel = better
    except EffortSpent:
        notes.append(SPENT)
    if channel is None:
        return _even(task, None, notes)
    certified = search.certified(channel, task.oracle, task.chains)
    if certified is None or task.aim.cost(certified[0].matrix) > task.aim.cost(
        search.even(task.size)
    ):
        return _even(task, certified, notes)
    return _found(task, *certified, *notes)


def _improved(task: _FlipTask, search: ChannelSearch) -> Iterator[Array]:
    """Yield channels that keep the guarantee against all attacks found so far, ever better ones.

    None where no attack is found on k-ary randomised response.
    """
    (brief, _), *_ = tasks = _ladder(task)
    channel = even_channel(task.size, task.limit / 3).matrix
    for _ in range(_EVEN_ROUNDS):  # k-ary randomised response, as far as short series tell
        search.cuts.add(brief.attacks(grained_channel(channel)))
        if not search.cuts:
            return
        before, channel = channel, search.even(task.size)
        yield channel
        if np.abs(channel - before).max() <= _SETTLED:
            break
    channel = search.descended(channel, FIRST_BOX)
    yield channel
    for one, rounds in tasks:
        channel = search.settled(channel, one.attacks, rounds)
        yield channel
        for box in _OTHER_BOXES if one is brief else ():  # other steps may lead elsewhere
            trial = search.descended(search.even(task.size), box)
            if task.aim.cost(trial) < task.aim.cost(channel):
                trial = search.settled(trial, one.attacks, rounds)
                channel = min(trial, search.mixed(channel, task.limit), key=task.aim.cost)
                yield channel


def _even(task: _FlipTask, certified: Certified | None, notes: list[str]) -> Solution:
    """Return the better of the certified channel and k-ary randomised response."""
    level = largest_even_level(task.oracle, task.model, task.limit, task.size)
    if level <= 0:
        return _silent(task, "exact") if certified is None else _found(task, *certified, *notes)
    even = _certified(task, lambda share: even_channel(task.size, level * share))
    channels = [even] if certified is None else [certified, even]
    best = min(channels, key=lambda pair: task.aim.cost(pair[0].matrix))
    return _found(task, *best, *notes)


def _ladder(task: _FlipTask) -> list[tuple[_FlipTask, int]]:
    """Return the same task on ever longer series, and how often to look for new attacks on each.

    Short series are cheaper to search on, and nearly as hard to hide in.
    """
    tasks = [task]
    if not isinstance(task.against, Adversary) and task.against != "informed":
        for times in (_LONGER, 1):  # longest first
            chains = [_shortened(chain, times) for chain in task.chains]
            if chains != tasks[0].chains:
                tasks.insert(0, replace(task, model=ModelSet(chains)))
    return list(zip(tasks, _ROUNDS, strict=False))


def _shortened(chain: MarkovChain, times: int) -> MarkovChain:
    """Return the chain with few records, or some times as many."""
    few = times * _FEW.get(chain.size, _FEWEST)
    if not chain.homogeneous or (chain.length or math.inf) <= few:
        return chain
    return MarkovChain(chain.transition, chain.states, chain.start, few)


def _chakrabarti(question: Question[Series]) -> Solution:
    """Return the flips of Theorem 1 of [chakrabarti2022], where it is stated."""
    task = _two_states(question, question.limit, "chakrabarti")
    if len(task.chains) > 1 or not task.chains[0].homogeneous:
        raise MethodRefused(
            "'chakrabarti' is stated for one chain with one transition matrix; use method='exact'"
        )
    chain = task.chains[0]
    q, r = float(chain.transition[0, 1]), float(chain.transition[1, 0])
    if not (0 < q < 0.5 and 0 < r < 0.5 and isinstance(chain.start, str)):
        raise MethodRefused(
            "'chakrabarti' is stated for a stationary chain that rather stays where it is, "
            f"0 < P(0, 1), P(1, 0) < 1/2, found {q:g} and {r:g} with "
            f"{'a stationary' if isinstance(chain.start, str) else 'a given'} start; use "
            "method='exact'"
        )
    mechanism = grained(best_flips(*ignorant_ratios(q, r, task.limit), task.aim))
    return _found(task, mechanism, task.oracle(mechanism), PUBLISHED)


def _xor(question: Question[Series]) -> Solution:
    """Return correlated noise, where one party holds the whole series."""
    task = _two_states(question, aim(question.limit), "xor")
    level, total = least_xor_noise(task.oracle, task.model, task.limit)
    if level <= 0:
        return _silent(task, "xor", XorNoise(0.5, 0.5))

    def make(share: float) -> XorNoise:
        return xor_noise(level * share, total)

    return _found(task, *_certified(task, make), WHOLE, SEARCHED)


def _exchange(question: Question[Series]) -> Solution:
    """Return k-ary randomised response of the DP level that any algorithm may spend.

    It composes with other releases.
    """
    task = _task(question, aim(question.limit))
    least = PureDP(_LEAST * task.limit)
    if not leakage(least, task.model, task.against).proves(task.limit):
        return _silent(task, "exchange")
    budget = budget_for(task.model, task.limit, task.against)
    if math.isinf(budget):
        raise NothingToProtect(CERTAIN)

    def prove(mechanism: RandomizedResponse) -> Leakage:
        level = flips_epsilon_upper(mechanism)
        leak = leakage(PureDP(level), task.model, task.against)
        return leak if level <= budget else replace(leak, upper=math.inf)  # a ledger would refuse

    certified = _certified(task, lambda share: even_channel(task.size, budget * share), prove)
    return _found(task, *certified, LEVEL)


def _silent(task: _FlipTask, method: str, mechanism: Flips | None = None) -> Solution:
    """Return the channel whose rows are all the same, to the last bit: it leaks exactly nothing."""
    leak = replace(_nothing(method, task.against), valid_for="series")
    return _found(task, mechanism or silent_channel(task.size), leak)


def _nothing(method: str, against: Against) -> Leakage:
    return Leakage(0.0, 0.0, method, against, assumptions=(SILENT,), valid_for="any")


def _certified(
    task: _FlipTask,
    make: Callable[[float], M],
    prove: Callable[[M], Leakage] | None = None,
) -> tuple[M, Leakage]:
    """Return the first channel whose leakage is proved, at ever so slightly smaller levels."""
    oracle = prove or task.oracle
    less = 0.0
    for nudge in range(_NUDGES):
        mechanism = make(1.0 - less)
        leak = oracle(mechanism)
        if leak.proves(task.limit):
            return mechanism, leak
        less = 2.0**-52 * 4.0**nudge
    raise NotSupported(
        f"no flips could be certified for a leakage of {task.limit:g}; the last one proves "
        f"{leak.upper:.6g}"
    )


# --- proofs ---------------------------------------------------------------------------------------


def _prove(method: str, *notes: str) -> Callable[[Question[Series], Flips], Leakage]:
    """Return the prover of flips by their own leakage, with its further assumptions."""

    def prove(question: Question[Series], mechanism: Flips) -> Leakage:
        if _says_nothing(mechanism):
            return _nothing(method, question.against)
        leak = leakage(mechanism, question.model, question.against)
        return replace(leak, assumptions=(*leak.assumptions, *notes))

    return prove


def _prove_level(question: Question[Series], mechanism: Flips) -> Leakage:
    """Return what all algorithms of the DP level of independent flips could leak."""
    if isinstance(mechanism, XorNoise):
        raise InvalidPlan("'exchange' plans independent flips, not a noise chain")
    if _says_nothing(mechanism):
        return _nothing("exchange", question.against)
    level = PureDP(flips_epsilon_upper(mechanism))
    leak = leakage(level, question.model, question.against)
    return replace(leak, assumptions=(*leak.assumptions, LEVEL), valid_for="any")


def _says_nothing(mechanism: Flips) -> bool:
    """Return whether the rows of a channel are all the same, to the last bit."""
    return isinstance(mechanism, RandomizedResponse) and np.ptp(mechanism.matrix, axis=0).max() == 0


EXACT = Solver(_exact, _prove("exact"))
EXCHANGE = Solver(_exchange, _prove_level)
XOR = Solver(_xor, _prove("xor", WHOLE))
CHAKRABARTI = Solver(_chakrabarti, _prove("chakrabarti", PUBLISHED))
