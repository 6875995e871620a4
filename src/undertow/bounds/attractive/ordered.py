"""Sums of ordered states on a chain: values that rise together, and what their noisy sum leaks.

Let the states be numbers v, and let moving a record from x to y multiply a likelihood by at most
e^{theta |v(y) - v(x)|}: Laplace noise of scale b on the sum, theta = 1 / b, and every algorithm
with metric privacy of that rate. Where all steps of the chain, states in rising order, are totally
positive, the theorem of `undertow.bounds.attractive.sums` says that F = exp(theta sum of v(x_t))
tells a high value from a low one best, and exp(-theta sum) a low one from a high one. Far answers
of the noisy sum have these very likelihoods.

A known record separates both sides of a chain, so that with one transition matrix T, D = diag(F)
and pairs u, u' of values of the target

    leak = theta |v(u) - v(u')| + left(u, u') + right(u, u'),

    right = ln R(u, .) / R(u', .) - ln R~(u, .) / R~(u', .),

    R = T (D T)^{d-1} in the column of a value known at distance d, R~ = T^d, or with j records of
    which none is known R = (T D)^j 1, R~ = 1; left the same with columns, and the start.

**Any length.** R at distance d > m is (T D)^m times something non-negative, so its quotient lies
below the largest one of the entries of two rows of (T D)^m, that of R~ above the least one of
T^m: what lies beyond m adds no more than both. As m grows they tend to what an attacker who knows
nothing sees.

**Rounding** as in `sums`: every number is a sum of products of non-negative ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.base_query import State, as_numbers
from undertow.bounds.attractive.ordered_sides import SideGains, side_table
from undertow.bounds.attractive.sums import (
    DEEPEST,
    Best,
    best_case,
    chain_sums,
    check_cases,
)
from undertow.certificate import Leakage, Witness
from undertow.errors import NotSupported
from undertow.mechanisms import MetricDP, Scaled
from undertow.models.attractive import total_margin
from undertow.models.lowered import LoweredLaw
from undertow.models.markov import MarkovChain
from undertow.numerics import MAX_STEPS, ROUNDOFF, Array, down, up

__all__ = ["StateExponents", "metric_values", "ordered_leakage", "sum_values"]

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
    """Return what the states add to a sum or a mean, None where nobody said.

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
        found = [(u, v) for u in range(size) for v in range(u)]
        return found if rising else [(v, u) for u, v in found]

    def explicit(self, against: Adversary) -> Leakage:
        """Return the leakage to one adversary: only its nearest records on each side matter."""
        target = against.target
        before = [record for record in against.known if record < target][-1:]
        after = [record for record in against.known if record > target][:1]
        near = [*before, *after]
        check_cases(self.chain.size, len(near))
        found: list[tuple[Best, tuple[int, int]]] = []
        for rising in (True, False):
            found += self._cases(rising, self.values.upper, target, near, self.chain.length)
        upper = max((best.upper for best, _ in found), default=0.0)
        if not found or upper <= 0:
            return self._leakage(0.0, max(upper, 0.0), against, None)
        best, pair = max(found, key=lambda one: one[0].value)
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
        made = [
            (best_case(seen, plain, pair, (size,) * len(near)), pair)
            for pair in (self.pairs(rising) if pairs is None else pairs)
        ]
        return [(best, pair) for best, pair in made if best is not None]

    def searched(self, against: Against) -> Leakage:
        """Return the leakage over all targets, and all known records where any may be known."""
        known, length = against == "any", self.chain.length
        reach = MAX_STEPS if length is None else min(length - 1, MAX_STEPS)
        found: list[tuple[float, float, _Attack]] = []
        for rising in (True, False):
            weights = self.weights(rising, self.values.upper)
            sides = [
                side_table(self.law, weights, left=left, known=known, reach=reach, length=length)
                for left in (True, False)
            ]
            own = np.log(weights)[:, None] - np.log(weights)[None]  # (u, u')
            found.append(self._joined(own, sides[0], sides[1], rising))
        upper = max(one[1] for one in found)
        attack = max(found, key=lambda one: one[0])[2]
        return self._attained(attack, max(upper, 0.0), against)

    def _joined(
        self, own: Array, left: SideGains, right: SideGains, rising: bool
    ) -> tuple[float, float, _Attack]:
        """Return the best value found, the bound, and the attack of one direction."""
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
