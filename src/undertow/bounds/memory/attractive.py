"""Sums over all series of one likelihood, for all values of the known records.

**Theorem** (docs, theory-memory). Let a law of ordered values be attractive
(`undertow.models.attractive`), and let raising record t from x to y > x multiply a likelihood by at
most w_t(y) / w_t(x). Then whatever is known, the likelihood F = prod of w_t(x_t) over unknown
records tells a high value of the target from a low one best,

    max ln E[f | u, x_K] / E[f | u', x_K] = ln N(u) / N(u') - ln N~(u) / N~(u'),      u > u',

    N(u) = sum over x with x_i = u and the known x_K of Pr[x] prod of w_t(x_t) over the target and
           the unknown records,

N~ the same with all weights 1. Where the law is not attractive it is what this F attains, and no
bound. Here N for all values of target and known records at once: `Sums`; of chains by products
of matrices between these records (`chain_sums`), of networks by one elimination
(`undertow.bounds.memory.attractive_networks`).

**Rounding.** N is a sum of products of non-negative numbers, so its error is relative and travels
with it (`PositiveArray`); a weight e^-a brings 4 a u of its own, u = 2^-53. Nothing vanishes: an
entry below 2^-500 of the largest is refused, and a product of two others is an ordinary number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
import numpy.typing as npt

from undertow.adversaries import Adversary, Against
from undertow.bounds.core.arrays import PositiveArray, rescale
from undertow.bounds.core.sides import start_error
from undertow.certificate import Leakage, Witness
from undertow.errors import NotSupported
from undertow.mechanisms import MetricDP, Scaled
from undertow.models.attractive import total_margin
from undertow.models.chains import MarkovChain
from undertow.models.lowered import LoweredLaw
from undertow.numerics import MAX_STEPS, ROUNDOFF, Array, down, log_error, up
from undertow.queries import State, as_numbers

__all__ = [
    "DEEPEST",
    "MOST_CASES",
    "Best",
    "SideGains",
    "StateExponents",
    "Sums",
    "best_case",
    "chain_sums",
    "check_cases",
    "check_range",
    "ignorant_upper",
    "ignorant_value",
    "metric_values",
    "ordered_leakage",
    "perron",
    "side_table",
    "sum_values",
]


MOST_SQUARES = 16
"""Powers 2^0 .. 2^16 of a matrix that are tried (cost)."""

ITERATIONS = 60
"""Products with the largest power on the way to the Perron vector (cost)."""


def perron(matrix: Array, factors: int = 1) -> tuple[Array, float]:
    """Return a right Perron vector, and a bound on its distance from the true one (upper side).

    ``matrix`` is a product of so many factors, each with a rounding or two in its entries. The
    distance is inf where no power that was tried is positive. Cost O(m^3).

    >>> vector, width = perron(np.array([[.9, .1], [.2, .8]]))
    >>> bool(abs(vector[0] / vector[1] - 1) < 1e-12), width < 1e-13
    (True, True)
    """
    size = len(matrix)
    powers = [rescale(matrix, faint=0.0)[0]]
    for _ in range(MOST_SQUARES):
        powers.append(rescale(powers[-1] @ powers[-1], faint=0.0)[0])
    vector = powers[-1].sum(axis=1)
    for place in (-1, 0):
        for _ in range(ITERATIONS):
            vector = powers[place] @ vector
            vector = vector / vector.max()
    if not (vector > 0).all():
        return vector, math.inf
    steps = factors * (size + 4)
    return vector, min(_width(power, vector, 2**e * steps) for e, power in enumerate(powers))


def _width(power: Array, vector: Array, roundings: int) -> float:
    """Return the bound on d(v, v*) from one power, whose entries have so many roundings each."""
    if not (power > np.finfo(np.float64).tiny * 2**60).all() or roundings > 2**40:
        return math.inf  # an entry that underflowed has no relative error
    logs = np.log(power)
    # Delta: largest over rows i, j of the range of ln M_i. - ln M_j.
    apart = logs[:, None] - logs[None]  # (i, j, k)
    largest = float(np.abs(logs).max())
    error = 2 * roundings * ROUNDOFF + log_error(8, 1 + largest)
    delta = float((apart.max(axis=2) - apart.min(axis=2)).max()) + 4 * error
    slack = 2 / (math.exp(min(delta / 2, 700.0)) + 1)  # 1 - tanh(Delta / 4)
    quotients = np.log(power @ vector) - np.log(vector)
    spread = float(quotients.max() - quotients.min()) + 4 * error
    return up(spread / (slack * (1 - 64 * ROUNDOFF)), 8)


def ignorant_value(
    transition: Array, shown: npt.NDArray[np.intp], tilts: Sequence[float], state: int = 1
) -> tuple[float, float]:
    """Return the closed form for one state of two against the other, and a bound on its error.

    ``tilts`` bound how far the likelihood of a record at distance d = 0, 1, .. from the target
    grows where it becomes ``state``, by d modulo their number. Where the law is not attractive the
    value is the limit of attacks, and no bound.

    >>> value, error = ignorant_value(np.array([[.9, .1], [.1, .9]]), np.arange(2), [1.0])
    >>> round(value, 6), error < 1e-12
    (4.499453, True)
    """
    inside = shown == state
    # (distances, m): e^tilt and 1, up to a factor
    weights = np.exp([tilt * inside - max(tilt, 0.0) for tilt in tilts])
    turns = [*weights[1:], weights[0]]  # of the records at distances 1, 2, .. and so on
    ahead, first = perron(reduce(np.matmul, [transition * row for row in turns]), len(turns))
    behind, second = perron(reduce(np.matmul, [transition.T * row for row in turns]), len(turns))
    law, third = perron(transition.T)

    def odds(masses: Array) -> float:
        return math.log(float(masses[inside].sum())) - math.log(float(masses[~inside].sum()))

    value = tilts[0] + odds(ahead * behind) - odds(law)
    largest = 1 + sum(map(abs, tilts)) + abs(odds(ahead * behind)) + abs(odds(law))
    return value, up(first + second + third + log_error(4 * len(transition) + 16, largest), 8)


def ignorant_upper(
    transition: Array, shown: npt.NDArray[np.intp], thetas: tuple[float, float]
) -> float:
    """Return the leakage to the ignorant on an attractive chain, any length, rounded up.

    ``thetas[a]`` bounds how far a likelihood grows where a record becomes ``a``.

    >>> round(ignorant_upper(np.array([[.9, .1], [.1, .9]]), np.arange(2), (1.0, 1.0)), 6)
    4.499453
    """
    limits = [ignorant_value(transition, shown, [thetas[state]], state) for state in (0, 1)]
    return max(up(value + error) for value, error in limits)


DEEPEST = 60.0
"""Largest logarithm of a weight: beyond it likelihoods lie too far apart to be held."""

MOST_CASES = 2**12
"""Values of the known records that are all tried (cost)."""

FAINT = 2.0**-500
"""Least entry beside a largest one of 1 that is distinguished from 0."""

RARE = 1e-100
"""Least positive step of a chain: with `FAINT` and `DEEPEST` no product vanishes."""


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """ln N for each value of the target and all values of the known records.

    ``logs`` has shape (values, cases), -inf where the case cannot occur; a case is a number whose
    digits, the first known record first, are their values. ``error`` bounds that of each entry.
    """

    logs: Array
    error: float


@dataclass(frozen=True, slots=True)
class Best:
    """The largest log-ratio of two values, and the values of the known records that attain it."""

    value: float
    error: float
    known: tuple[int, ...]

    @property
    def lower(self) -> float:
        """The attained value, rounded down."""
        return max(self.value - self.error, 0.0)

    @property
    def upper(self) -> float:
        """The same, rounded up."""
        return max(self.value + self.error, 0.0)


def check_cases(size: int, known: int) -> None:
    """Refuse known records whose values are too many to try."""
    if size**known > MOST_CASES:
        raise NotSupported(
            f"{known} known records have {size**known} values, too many to try: at most "
            f"{MOST_CASES}; ask about fewer known records"
        )


def best_case(seen: Sums, plain: Sums, pair: tuple[int, int], shape: Sequence[int]) -> Best | None:
    """Return the worst values of the known records, None if both values never occur together.

    ``pair`` is the value and the other one, ``shape`` the number of values of each known record.
    """
    first, second = pair
    with np.errstate(invalid="ignore"):
        odds = seen.logs - plain.logs  # (values, cases)
        ratios = odds[first] - odds[second]
    ratios = np.where(np.isnan(ratios), -math.inf, ratios)
    case = int(ratios.argmax())
    value = float(ratios[case])
    if not math.isfinite(value):
        return None
    known = tuple(int(digit) for digit in np.unravel_index(case, tuple(shape))) if shape else ()
    logs = [abs(float(each.logs[v, case])) for each in (seen, plain) for v in pair]
    return Best(value, 2 * (seen.error + plain.error) + 8 * ROUNDOFF * (1 + max(logs)), known)


def chain_sums(
    law: LoweredLaw, weights: Array, target: int, known: Sequence[int], records: int | None
) -> Sums:
    """Return the sums of a chain of hidden states over all series of so many records.

    ``weights`` (phases, m) is at most 1: an unknown record at distance d from the target has row d
    modulo phases, and the target row 0. ``records`` None stands for a series that never ends: what
    follows the last record that matters is then a Perron vector, whose error is counted. Cost
    O(m^3 log n) for each known record, and m^2 for each of their values.

    >>> law = LoweredLaw(np.array([[[.9, .1], [.1, .9]]]), np.arange(2), np.array([.5, .5]))
    >>> weights = np.exp([[-1.0, 0.0]])
    >>> seen = chain_sums(law, weights, 0, (), None)
    >>> plain = chain_sums(law, np.ones((1, 2)), 0, (), None)
    >>> best = best_case(seen, plain, (1, 0), ())
    >>> round(best.value, 6), best.error < 1e-12  # half of 4.499453 + 1, a target at an end
    (2.749727, True)
    """
    check_range(law, weights)
    error = _step_error(weights)
    anchors = sorted((target, *known))
    hidden, states = law.size, int(law.symbols[-1]) + 1
    inside = law.symbols == np.arange(states)[:, None]  # (values, m)
    message = PositiveArray.of(law.start[None], start_error(law))  # (cases, m)
    before = 0
    for number, anchor in enumerate(anchors):
        way = _way(law, weights, target, before, anchor, first=number == 0)
        message = (message @ way).scaled(1, faint=FAINT)
        masks = inside * weights[0] if anchor == target else inside
        # each case in turn with every value of this record: (cases, values, m)
        message = PositiveArray(
            (message.values[:, None] * masks).reshape(-1, hidden),
            np.repeat(message.exponent, states, axis=0), message.error + error,
        )  # fmt: skip
        before = anchor
    message = (message * _end(law, weights, target, before, records)).scaled(1, faint=FAINT)
    logs, errors = message.sum(axis=1).log()
    table = logs.reshape((states,) * len(anchors))
    table = np.moveaxis(table, anchors.index(target), 0).reshape(states, -1)
    return Sums(table, float(errors.max()))


def _step_error(weights: Array) -> float:
    """Return the relative error of weight times step, whose weights e^-a have one of 4 a u."""
    return 2 * ROUNDOFF * (8 - 4 * math.log(float(weights.min())))


def check_range(law: LoweredLaw, weights: Array) -> float:
    """Return the largest -ln of a weight; refuse numbers that could vanish on the way."""
    depth = -math.log(float(weights.min())) if weights.min() > 0 else math.inf
    if depth > DEEPEST:
        raise NotSupported(f"ratios above e^{DEEPEST:g} are not told apart here")
    if any(float(part[part > 0].min()) < RARE for part in (law.kernels, law.start)):
        raise NotSupported(f"a probability below {RARE:g} is too rare for exact arithmetic")
    return depth


def _times(first: PositiveArray, second: PositiveArray) -> PositiveArray:
    """Return a product of two matrices, or of a matrix and a message, on one power of two."""
    return (first @ second).scaled(faint=FAINT)


def _unknown(law: LoweredLaw, weights: Array, target: int, places: range) -> PositiveArray:
    """Return the product of weight and step, over unknown records in order: diag(w_t) T_t."""
    error = _step_error(weights)

    def factor(place: int) -> PositiveArray:
        row = weights[abs(place - target) % len(weights)]  # (m,)
        return PositiveArray.of(row[:, None] * law.kernel(place), error)

    product = PositiveArray.of(np.eye(law.size))
    turns = len(weights)
    rest = places
    if len(law.kernels) == 1 and len(places) >= turns:
        period = reduce(_times, map(factor, places[:turns])).scaled(faint=FAINT)
        product = period.power(len(places) // turns, faint=FAINT)
        rest = places[len(places) - len(places) % turns :]
    return reduce(_times, map(factor, rest), product)


def _way(
    law: LoweredLaw, weights: Array, target: int, before: int, anchor: int, *, first: bool
) -> PositiveArray:
    """Return what leads from a record, or from the start, to the next one that matters."""
    if first:
        return _unknown(law, weights, target, range(anchor))
    # on one side of the target distances rise or fall by one: the phases alternate either way
    step = PositiveArray.of(law.kernel(before), _step_error(weights))
    return _times(step, _unknown(law, weights, target, range(before + 1, anchor)))


def _end(
    law: LoweredLaw, weights: Array, target: int, last: int, records: int | None
) -> PositiveArray:
    """Return the message of all records after the last one that matters."""
    hidden = law.size
    plain = bool((weights == 1.0).all())
    if plain or last + 1 == records:
        return PositiveArray.of(np.ones(hidden))
    if records is None:
        period = np.eye(hidden)
        for more in range(len(weights)):
            row = weights[abs(last + 1 + more - target) % len(weights)]
            period = period @ (law.kernels[0] * row)  # T diag(w)
        vector, width = perron(period, len(weights))
        return PositiveArray.of(vector, width).scaled(faint=FAINT)
    error = _step_error(weights)
    final = weights[abs(records - 1 - target) % len(weights)]
    steps = _times(
        PositiveArray.of(law.kernel(last), error),
        _unknown(law, weights, target, range(last + 1, records - 1)),
    )
    return _times(steps, PositiveArray.of(final, error))


SETTLED = 1e-13
"""What distant records may add to the best value before the search ends (upper side)."""


@dataclass(frozen=True, slots=True, eq=False)
class SideGains:
    """What one side adds to each pair of values, by the number of records there.

    ``upto[j]`` (k, k) is the most that j records can add, ``most`` that of any number up to
    ``reach``, ``tail`` bounds that of more; ``error`` bounds all of their errors. ``opened[j]`` and
    ``fixed[d]`` are the parts: nothing known, or a record known at distance d.
    """

    upto: Array
    most: Array
    tail: Array
    error: float
    reach: int
    opened: Array
    fixed: Array
    facts: Array

    def option(self, records: int, u: int, other: int) -> tuple[int, int | None]:
        """Return how the most is attained: a distance, and the value known there (None: none)."""
        single = np.maximum.accumulate(self.fixed[: records + 1, u, other])[-1]
        if records == self.reach and self.opened[: records + 1, u, other].max() >= single:
            return int(self.opened[: records + 1, u, other].argmax()), None
        if self.opened[records, u, other] >= single:
            return records, None
        distance = int(self.fixed[: records + 1, u, other].argmax())
        return distance, int(self.facts[distance, u, other])


def _quotients(matrix: Array) -> Array:
    """Return ln of the quotients of two rows, (u, u', column); NaN where neither is possible."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(matrix)
        return np.asarray(logs[:, None, :] - logs[None, :, :])


def side_table(
    law: LoweredLaw, weights: Array, *, left: bool, known: bool, reach: int, length: int | None
) -> SideGains:
    """Return what the records on one side add, for every number of them up to ``reach``.

    Stops early where more records cannot add more than `SETTLED` to any pair, and a series of the
    length has room for as many on both sides. Cost O(k^3) for every number.
    """
    size = law.size
    step = law.kernels[0].T if left else law.kernels[0]  # rows are the value nearer to the target
    depth = check_range(law, weights)
    seen, plain = np.eye(size), np.eye(size)  # (T D)^d and T^d
    message, prior = np.ones(size), np.ones(size)  # of an open side
    if left:
        message = prior = law.start
    opened, fixed, facts = [np.zeros((size, size))], [np.full((size, size), -math.inf)], []
    facts.append(np.zeros((size, size), dtype=np.int64))
    tail = np.full((size, size), math.inf)
    largest, records, check = 1.0, 0, 64
    while records < reach:
        records += 1
        last = seen @ step  # a record known at this distance is not weighed
        # one power of two for all rows: it cancels in their quotients
        seen, _ = rescale(last * weights, faint=FAINT)
        plain, _ = rescale(plain @ step, faint=FAINT)
        message, _ = rescale(step @ (weights * message), faint=FAINT)
        if left:
            prior, _ = rescale(step @ prior, faint=FAINT)
        gain = _quotients(message[:, None])[..., 0]  # (u, u')
        if left:
            with np.errstate(invalid="ignore"):
                gain = gain - _quotients(prior[:, None])[..., 0]
        opened.append(np.where(np.isnan(gain), -math.inf, gain))
        logs = (np.abs(np.log(x[x > 0])).max() for x in (seen, plain, message, prior))
        largest = max(largest, *map(float, logs))
        if known:
            with np.errstate(invalid="ignore"):
                each = _quotients(last) - _quotients(plain)  # (u, u', known value)
            each = np.where(np.isfinite(each), each, -math.inf)
            facts.append(each.argmax(axis=2))
            fixed.append(each.max(axis=2))
        else:
            facts.append(facts[0])
            fixed.append(fixed[0])
        if records in (check, reach):
            check *= 2
            tail = _tail(seen, plain)
            best = np.maximum(np.max(opened, axis=0), np.max(fixed, axis=0))
            room = length is None or 2 * records < length
            if room and (tail - best <= SETTLED).all():
                break
    roundings = (records + 2) * (size + 6 + 4 * depth) + 8.0 * size**2
    error = 8 * ROUNDOFF * (roundings + 4 * (largest + depth))
    top = np.maximum.accumulate(np.array(fixed), axis=0)
    upto = np.maximum(np.array(opened), top)
    return SideGains(
        upto, upto.max(axis=0), tail, error, records, np.array(opened), np.array(fixed),
        np.array(facts),
    )  # fmt: skip


def _tail(seen: Array, plain: Array) -> Array:
    """Return a bound on what more records can add, from (T D)^m and T^m; inf where none is."""
    high, low = _quotients(seen), _quotients(plain)
    high = np.where(np.isnan(high), -math.inf, high).max(axis=2)
    low = np.where(np.isnan(low), math.inf, low).min(axis=2)
    tail = high - low
    return np.asarray(np.where(np.isnan(tail), math.inf, tail))


LARGEST = 32
"""Most states (cost: their third power for every distance)."""

ADDED = (
    "records are the numbers that name the states, and all steps, in the order of these "
    "numbers, are totally positive, which was checked"
)


@dataclass(frozen=True, slots=True)
class StateExponents:
    """What each state adds to an exponent, as exact numbers times a rate with its two ends.

    ``order`` lists the states from the lowest to the highest.
    """

    numbers: tuple[Fraction, ...]
    order: tuple[int, ...]
    upper: float
    attained: float

    def exponents(self, rate: float) -> Array:
        """Return rate times the numbers in rising order, from 0."""
        least = min(self.numbers)
        return np.array([rate * float(self.numbers[place] - least) for place in self.order])


def metric_values(mechanism: MetricDP, states: Sequence[State]) -> StateExponents | None:
    """Return the states as numbers, None where they are none.

    >>> metric_values(MetricDP(.5), (0, 1, 4)).numbers[2]
    Fraction(4, 1)
    """
    named = as_numbers(states)
    if named is None:
        return None
    numbers = tuple(map(Fraction, named))
    return StateExponents(numbers, _rising(named), mechanism.rate, mechanism.rate)


def sum_values(mechanism: Scaled, chain: MarkovChain) -> StateExponents | None:
    """Return what the states add to a sum or a mean, None if unavailable.

    >>> from undertow.mechanisms import Laplace
    >>> from undertow.queries import Sum
    >>> chain = MarkovChain(np.full((3, 3), 1 / 3), states=("low", "high", "mid"))
    >>> query = Sum(0, 4, values={"low": 0, "high": 4, "mid": 1})
    >>> sum_values(Laplace(query, 2.0), chain).order
    (0, 2, 1)
    """
    numbers = mechanism.query.added(chain.states, chain.length)
    if numbers is None:
        return None
    rate = 1 / mechanism.scale
    # in the order of the values themselves, also where clipping or the lattice merges two of them
    values = dict(mechanism.query.values or ())
    order = _rising([values[state] for state in chain.states])
    return StateExponents(numbers, order, up(rate), down(rate))


def _rising(numbers: Sequence[float]) -> tuple[int, ...]:
    return tuple(sorted(range(len(numbers)), key=lambda place: numbers[place]))


def ordered_leakage(values: StateExponents, chain: MarkovChain, against: Against) -> Leakage | None:
    """Return what such answers leak on a chain of ordered states, None where that is not known.

    Both ends agree but for rounding wherever the sides settle within `MAX_STEPS` records. Cost
    O(k^3) for every distance.

    >>> step = [[.7, .2, .1], [.25, .5, .25], [.1, .2, .7]]
    >>> values = metric_values(MetricDP(.5), (0, 1, 2))
    >>> leak = ordered_leakage(values, MarkovChain(step, states=(0, 1, 2)), "any")
    >>> round(leak.lower, 6), round(leak.upper, 6)
    (3.366641, 3.366641)
    """
    if against == "informed" or chain.size > LARGEST:
        return None
    order = list(values.order)
    steps = chain.transition.reshape(-1, chain.size, chain.size)[:, order][:, :, order]
    if any(total_margin(step) < 0 for step in steps):
        return None
    if float(values.exponents(values.upper)[-1]) > DEEPEST:
        return None
    law = LoweredLaw(steps, np.arange(chain.size), chain.initial[order])
    work = _Ordered(chain, law, values)
    try:
        if isinstance(against, Adversary):
            return work.explicit(against)
        if len(steps) > 1:
            return None
        return work.searched(against)
    except NotSupported:
        return None


@dataclass(frozen=True, slots=True)
class _Attack:
    """A pair of values (high or low first), the target, and the nearest known records and values.

    Values are places in the rising order.
    """

    pair: tuple[int, int]
    target: int
    known: tuple[tuple[int, int], ...]
    records: int


@dataclass(frozen=True, slots=True, eq=False)
class _Ordered:
    """A chain with its states in rising order, and what they add."""

    chain: MarkovChain
    law: LoweredLaw
    values: StateExponents

    def weights(self, rising: bool, rate: float) -> Array:
        """Return the weights of the states (k,), the largest 1."""
        exponents = self.values.exponents(rate)
        return np.asarray(np.exp(exponents - exponents[-1] if rising else -exponents))

    def pairs(self, rising: bool) -> list[tuple[int, int]]:
        """Return the pairs of a value and a lower one, or a higher one."""
        size = self.chain.size
        pairs = [(u, v) for u in range(size) for v in range(u)]
        return pairs if rising else [(v, u) for u, v in pairs]

    def explicit(self, against: Adversary) -> Leakage:
        """Return the leakage to one adversary: only its nearest records on each side matter."""
        target = against.target
        before = [record for record in against.known if record < target][-1:]
        after = [record for record in against.known if record > target][:1]
        near = [*before, *after]
        check_cases(self.chain.size, len(near))
        cases: list[tuple[Best, tuple[int, int]]] = []
        for rising in (True, False):
            cases += self._cases(rising, self.values.upper, target, near, self.chain.length)
        upper = max((best.upper for best, _ in cases), default=0.0)
        if not cases or upper <= 0:
            return self._leakage(0.0, max(upper, 0.0), against, None)
        best, pair = max(cases, key=lambda one: one[0].value)
        far = max((target, *near)) + MAX_STEPS + 1
        records = far if self.chain.length is None else self.chain.length
        attack = _Attack(pair, target, tuple(zip(near, best.known, strict=True)), records)
        return self._attained(attack, upper, against)

    def _cases(
        self, rising: bool, rate: float, target: int, near: Sequence[int], records: int | None,
        pairs: Sequence[tuple[int, int]] | None = None,
    ) -> list[tuple[Best, tuple[int, int]]]:  # fmt: skip
        """Return the worst known values for each pair."""
        size = self.chain.size
        weights = self.weights(rising, rate)[None]
        seen = chain_sums(self.law, weights, target, near, records)
        plain = chain_sums(self.law, np.ones((1, size)), target, near, records)
        cases = [
            (best_case(seen, plain, pair, (size,) * len(near)), pair)
            for pair in (self.pairs(rising) if pairs is None else pairs)
        ]
        return [(best, pair) for best, pair in cases if best is not None]

    def searched(self, against: Against) -> Leakage:
        """Return the leakage over all targets, and all known records where any may be known."""
        known, length = against == "any", self.chain.length
        reach = MAX_STEPS if length is None else min(length - 1, MAX_STEPS)
        directions: list[tuple[float, float, _Attack]] = []
        for rising in (True, False):
            weights = self.weights(rising, self.values.upper)
            sides = [
                side_table(self.law, weights, left=left, known=known, reach=reach, length=length)
                for left in (True, False)
            ]
            own = np.log(weights)[:, None] - np.log(weights)[None]  # (u, u')
            directions.append(self._joined(own, sides[0], sides[1], rising))
        upper = max(one[1] for one in directions)
        attack = max(directions, key=lambda one: one[0])[2]
        return self._attained(attack, max(upper, 0.0), against)

    def _joined(
        self, own: Array, left: SideGains, right: SideGains, rising: bool
    ) -> tuple[float, float, _Attack]:
        """Return the best value, the bound, and the attack of one direction."""
        size, length = self.chain.size, self.chain.length
        pairs = np.zeros((size, size), dtype=bool)
        for pair in self.pairs(rising):
            pairs[pair] = True
        own = np.where(pairs, own, -math.inf)
        if length is not None and length - 1 <= min(left.reach, right.reach):
            # (targets, u, u'): i records before, n - 1 - i after them
            both = own + left.upto[:length] + right.upto[:length][::-1]
            target, u, other = (
                int(axis) for axis in np.unravel_index(int(np.argmax(both)), both.shape)
            )
            value = upper = float(both.max())
            ends = left.option(target, u, other), right.option(length - 1 - target, u, other)
            records = length
        else:
            both = own + left.most + right.most
            u, other = (int(axis) for axis in np.unravel_index(int(np.argmax(both)), both.shape))
            value = float(both.max())
            most = [np.maximum(side.most, side.tail) for side in (left, right)]
            upper = float((own + most[0] + most[1])[pairs].max())
            room = MAX_STEPS if length is None else (length - 1) // 2
            ends = (
                left.option(min(left.reach, room), u, other),
                right.option(min(right.reach, room), u, other),
            )
            target = ends[0][0]
            records = target + 1 + ends[1][0]
            if length is not None:  # an open side holds all records that there are
                records, target = length, max(target, min(length // 2, length - 1 - ends[1][0]))
        known = [(target - ends[0][0], ends[0][1]), (target + ends[1][0], ends[1][1])]
        facts = tuple((record, fact) for record, fact in known if fact is not None)
        rest = 16 * ROUNDOFF * (4 + abs(value) + float(np.abs(own[pairs]).max()))
        attack = _Attack((u, other), target, facts, records)
        return value, upper + left.error + right.error + rest, attack

    def _attained(self, attack: _Attack, upper: float, against: Against) -> Leakage:
        """Return the certificate, with a lower end that its attack attains, played out anew.

        Where a start excludes some states the attack is moved to later records, if there are any.
        """
        rising, fixed = attack.pair[0] > attack.pair[1], isinstance(against, Adversary)
        lower, witness = 0.0, None
        for later in range(1 if fixed else self.chain.size + 1):
            near = [record + later for record, _ in attack.known]
            target = attack.target + later
            records = attack.records + (later if self.chain.length is None else 0)
            if max((target, *near)) >= records:
                break
            played = self._cases(
                rising, self.values.attained, target, near, records, [attack.pair]
            )  # fmt: skip
            if played:
                best = played[0][0]
                known = tuple(zip(near, best.known, strict=True))
                witness = self._witness(_Attack(attack.pair, target, known, records), against)
                lower = best.lower
                break
        return self._leakage(min(lower, upper), upper, against, witness)

    def _witness(self, attack: _Attack, against: Against) -> Witness:
        """Return the attack in the chain's own states, with possible values of other known ones."""
        names = [self.chain.states[place] for place in self.values.order]
        facts = dict(attack.known)
        if isinstance(against, Adversary):
            facts = self._filled(attack, against)
        known = tuple((record, names[value]) for record, value in sorted(facts.items()))
        value, other = (names[place] for place in attack.pair)
        return Witness(attack.target, attack.records, known, value, other)

    def _filled(self, attack: _Attack, against: Adversary) -> dict[int, int]:
        """Return values of all known records: those behind the nearest are likely ones."""
        facts = dict(attack.known)
        for side in (1, -1):
            records = [r for r in against.known if (r - attack.target) * side > 0]
            for before, record in zip(records[::side], records[::side][1:], strict=False):
                first, last = sorted((before, record))
                steps = self.chain.between(first, last)
                order = self.values.order
                steps = steps[np.ix_(order, order)]
                row = steps[facts[before]]
                if side < 0:
                    row = steps[:, facts[before]] * self.law.law(record)
                facts[record] = int(row.argmax())
        return facts

    def _leakage(
        self, lower: float, upper: float, against: Against, witness: Witness | None
    ) -> Leakage:
        return Leakage(
            lower, upper, "exact", against, witness,
            assumptions=("the records follow the stated chain", ADDED),
            citation="attractive laws (docs, theory-memory)",
        )  # fmt: skip
