"""A Markov chain whose records are shown, and attacks on one of its records.

A *side* of a target is read outwards. On it the attacker has an *option*: the nearest known
record lies at some distance and has some value, or nothing is known (open) up to the end of the
series. Given the target's value the two sides are independent of each other, so that

    ln Pr[z | x_i = x, x_K] / Pr[z | x_i = x', x_K] = own + left + right:

``own`` is the log-ratio for the target's own output, and the *gain* of a side is the log-ratio of
the side's messages with the outputs less the log-ratio without them, because what a known value
says by itself does not count. What lies beyond the nearest known records cancels.
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.bounds.chains.known import far_supports, log
from undertow.errors import InvalidInput
from undertow.models.markov import MarkovChain
from undertow.numerics import ROUNDOFF, Array, freeze, log_sum

__all__ = [
    "PLAIN",
    "ObservedChain",
    "Option",
    "SeriesAttack",
    "observe",
    "primitive",
    "replayed",
]

PLAIN = 1e-60
"""Least probability with which messages are carried as plain numbers: past a positive step the
entries of a message differ by no more than this factor, so none that matters can underflow."""

REPLAY_ERROR = 16.0
"""Roundings charged for each record of a replayed witness, per state and unit of size (lower)."""


@dataclass(frozen=True, slots=True)
class ObservedChain:
    """A chain and what is shown of its records.

    ``channels`` is Pr[output | state] with shape (n, k, m), or (1, k, m) where all records go
    through the same channel. With ``noise``, a transition matrix of two states, a stationary
    noise chain is added modulo two instead, and ``channels`` only says how often a record is
    flipped. ``length`` None stands for any length.
    """

    chain: MarkovChain
    channels: Array
    length: int | None
    noise: Array | None = None

    @property
    def size(self) -> int:
        """The number of states."""
        return self.chain.size

    @property
    def alike(self) -> bool:
        """Whether all steps and all channels are the same."""
        return self.chain.homogeneous and len(self.channels) == 1

    def kernel(self, record: int, side: int) -> Array:
        """Return K[x, y] from a record (x) to the next one outwards (y).

        ``side`` is 1 to the right, where K is the transition matrix, and -1 to the left, where it
        is the transposed one: the law of the target cancels.
        """
        return np.asarray(self.chain.step(record) if side > 0 else self.chain.step(record - 1).T)

    def channel(self, record: int) -> Array:
        """Return the channel of a record."""
        return np.asarray(self.channels[0 if len(self.channels) == 1 else record])


@dataclass(frozen=True, slots=True)
class Option:
    """What is known on a side: ``value`` at ``distance``, or nothing on ``distance`` records."""

    distance: int
    value: int | None = None


@dataclass(frozen=True, slots=True)
class SeriesAttack:
    """A target, what is known left and right of it, and the two values that are compared."""

    target: int
    length: int
    left: Option
    right: Option
    value: int
    other: int

    def sides(self) -> tuple[tuple[int, Option], tuple[int, Option]]:
        """Return (-1, left) and (1, right)."""
        return (-1, self.left), (1, self.right)

    def known(self) -> dict[int, int]:
        """Return the nearest known records and their values."""
        return {
            self.target + side * option.distance: option.value
            for side, option in self.sides()
            if option.value is not None
        }


def observe(chain: MarkovChain, channels: object) -> ObservedChain:
    """Return the chain with checked channels: one (k, m) matrix, or a stack (n, k, m).

    >>> observe(MarkovChain([[.9, .1], [.2, .8]]), [[.8, .2], [.3, .7]]).alike
    True
    """
    stack = freeze(channels)
    stack = stack[None] if stack.ndim == 2 else stack
    if stack.ndim != 3 or stack.shape[1] != chain.size or not stack.size:
        raise InvalidInput(
            f"the chain has {chain.size} states; channels must have shape ({chain.size}, outputs) "
            f"or (records, {chain.size}, outputs), found {freeze(channels).shape}"
        )
    length = chain.length
    if len(stack) > 1:
        if length not in (None, len(stack)):
            raise InvalidInput(
                f"there are channels for {len(stack)} records, but the chain has {length}"
            )
        length = len(stack)
    return ObservedChain(chain, stack, length)


def primitive(chain: MarkovChain) -> bool:
    """Return whether the states of a homogeneous chain all mix in the end, whatever the start.

    >>> primitive(MarkovChain([[0, 1], [1, 0]])), primitive(MarkovChain([[0, 1], [.5, .5]]))
    (False, True)
    """
    if not chain.homogeneous:
        return True
    return bool(far_supports(chain.transition).all())


def replayed(
    observed: ObservedChain, attack: SeriesAttack, outputs: dict[int, int]
) -> tuple[float, float]:
    """Return the log-likelihood ratio of some outputs as the attacker sees it, and its error.

    One forward pass over the records between the far ends of the sides, once with the outputs and
    once without, for either value of the target. Records without an output are summed out. The
    error is that of a sum of products of non-negative numbers: `REPLAY_ERROR` roundings for each
    record, state and unit of the logarithms' size. -inf stands for an attack that cannot occur.
    """
    hidden = _Hidden(observed)
    first = attack.target - attack.left.distance
    last = attack.target + attack.right.distance
    known = attack.known()
    # rows: with outputs for value and other, without outputs for value and other
    pair = np.array([[attack.value], [attack.other]] * 2)
    law = observed.chain.law(first) if first else observed.chain.initial
    table, large = np.tile(hidden.start(law), (4, 1)), 1.0  # (4, states)
    for record in range(first, last + 1):
        if record > first:
            table = hidden.advance(table, record - 1)
        if record in known:
            table = np.where(hidden.state == known[record], table, hidden.nothing)
        if record == attack.target:
            table = np.where(hidden.state == pair, table, hidden.nothing)
        if record in outputs and (record not in known or observed.noise is not None):
            table = hidden.show(table, record, outputs[record])
        peak = table.max(axis=1)
        nothing = peak == hidden.nothing
        if nothing[2:].any() or nothing[:2].all():
            return -math.inf, 0.0
        table, size = hidden.rescale(table, peak)
        large = max(large, size)
    value = hidden.ratio(table)
    large = max(large, abs(value)) if math.isfinite(value) else large
    steps = last - first + 2
    if attack.left.value is None and not isinstance(observed.chain.start, str):
        steps += first  # the law of the first record carries roundings of its own
    return value, REPLAY_ERROR * steps * (hidden.size + 4 + large) * ROUNDOFF


class _Hidden:
    """The hidden states of a replay: those of the chain, or pairs (state, noise).

    Tables hold logarithms, so that nothing underflows; or plain numbers where no transition is
    so small that this could happen.
    """

    def __init__(self, observed: ObservedChain) -> None:
        self.observed = observed
        base = np.arange(observed.size)
        self.state = base if observed.noise is None else np.repeat(base, 2)
        self.size = len(self.state)
        least = observed.chain.transition.min()
        shown = observed.channels[observed.channels > 0].min()
        self.plain = observed.noise is None and least > PLAIN and shown > PLAIN
        self.nothing = 0.0 if self.plain else -math.inf
        self.exponent = np.zeros(4, dtype=np.int64)
        self.steps: dict[int, Array] = {}
        self.weights: dict[tuple[int, int], Array] = {}

    def _number(self, values: Array) -> Array:
        return values if self.plain else log(values)

    def start(self, law: Array) -> Array:
        if self.observed.noise is not None:
            law = np.outer(law, self.observed.channels[0, 0]).ravel()  # Pr[keep], Pr[flip]
        return self._number(law)

    def advance(self, table: Array, record: int) -> Array:
        chain, noise = self.observed.chain, self.observed.noise
        if self.plain:
            return table @ chain.step(record)
        key = 0 if chain.homogeneous else record
        if key not in self.steps:
            step = chain.step(record)
            self.steps[key] = log(step if noise is None else np.asarray(np.kron(step, noise))).T
        return log_sum(table[:, None, :] + self.steps[key], axis=2)

    def show(self, table: Array, record: int, output: int) -> Array:
        key = 0 if len(self.observed.channels) == 1 else record, output
        if key not in self.weights:
            seen = self.observed.channel(record)[:, output]
            if self.observed.noise is not None:
                seen = np.where((self.state ^ np.tile([0, 1], 2)) == output, 1.0, 0.0)
            one = np.ones(self.size)
            self.weights[key] = self._number(np.stack([seen, seen, one, one]))
        weight = self.weights[key]
        return table * weight if self.plain else table + weight

    def rescale(self, table: Array, peak: Array) -> tuple[Array, float]:
        if self.plain:
            exponent = np.frexp(peak)[1]  # powers of two: exact
            self.exponent += exponent
            return np.ldexp(table, -exponent[:, None]), 1.0
        common = np.repeat([peak[:2].max(), peak[2:].max()], 2)[:, None]  # (4, 1)
        size = np.abs(np.concatenate([table, common], axis=1))
        return table - common, float(size[np.isfinite(size)].max())

    def ratio(self, table: Array) -> float:
        sums = log(table.sum(axis=1)) if self.plain else log_sum(table, axis=1)  # (4,)
        powers = np.array([1, -1, -1, 1]) @ self.exponent
        return float(sums[0] - sums[1]) - float(sums[2] - sums[3]) + math.log(2) * int(powers)
