"""More than two states: a better channel than k-ary randomised response, by cutting planes.

Each attack (an adversary, two values, a series of outputs) bounds a channel B by
ln Pr[z | x, known] / Pr[z | x', known] <= limit, a smooth function of B. The search collects the
attacks that the oracle reports, moves B by a linear program within a small box around it, and
brings the result back by noise until the oracle certifies it. What it returns is certified, never
worse than where it began, and not proved to be the best.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from undertow.certificate import Leakage, Witness
from undertow.channels import RandomizedResponse
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, freeze
from undertow.planning.flip_aims import Aim
from undertow.planning.kary_flips import grained_channel

__all__ = ["Certified", "Cut", "improved_channel"]

Certified = tuple[RandomizedResponse, Leakage]

_ROUNDS = 60
"""Linear programs solved at most."""

_SECONDS = 15.0
"""Processor time after which nothing new is tried (a cost limit: what was found by then is
certified)."""

_REPAIRS = 12
"""Channels tried at most to bring one step back within the guarantee."""

_FIRST_BOX, _HINTED_BOX, _LARGEST_BOX, _SMALLEST_BOX = 0.3, 0.05, 0.7, 3e-3
"""By what share an entry may move in one step: at first, at first from a hint, at most, and where
the search ends."""

_CLOSE = 1e-11
"""How near to the guarantee a share of noise is found (either side; the oracle decides)."""

_GAIN = 1e-5
"""Relative gain below which steps get smaller."""


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

    def evaluate(self, channel: Array) -> tuple[float, Array]:
        """Return the loss of the attack and its gradient in the entries of the channel.

        d ln Pr[z | x] / d B(y, o) is the expected number of records in state y that show o, given
        the attack, divided by B(y, o).
        """
        weights = self._weights(channel)
        forward, loss = self._forward(weights)
        counts = np.zeros((2, *channel.shape))  # (value or other, states, outputs)
        back = np.ones((2, len(self.law)))  # (value or other, states): messages from the right
        for place in reversed(range(len(weights))):
            if self.shown[place] >= 0:
                posterior = forward[place] * back  # of the state of this record, for either value
                posterior /= posterior.sum(axis=1, keepdims=True)
                counts[:, :, self.shown[place]] += posterior
            if place:
                back = (weights[place] * back) @ self.steps[place - 1].T
                back /= back.sum(axis=1, keepdims=True)
        return loss, (counts[0] - counts[1]) / channel

    def loss(self, channel: Array) -> float:
        """Return the loss of the attack."""
        return self._forward(self._weights(channel))[1]

    def _weights(self, channel: Array) -> Array:
        """Return the weight of each state of each record, for either value of the target."""
        columns = np.column_stack([channel, np.ones(len(channel))])  # -1 is the column of ones
        # (records, 2, states)
        weights = np.repeat((self.fixed * columns.T[list(self.shown)])[:, None], 2, axis=1)
        # the target is value, or other
        weights[self.target] *= np.eye(len(self.law))[[self.value, self.other]]
        return np.asarray(weights)

    def _forward(self, weights: Array) -> tuple[Array, float]:
        """Return the normalised messages from the left, and the loss."""
        messages = np.empty_like(weights)  # (records, 2, states)
        loss = -self.offset
        message = self.law
        for place, weight in enumerate(weights):
            message = (message @ self.steps[place - 1] if place else message) * weight
            mass = message.sum(axis=1)  # (2): value, other
            loss += math.log(mass[0] / mass[1])  # the product of all masses is the likelihood
            message = message / mass[:, None]
            messages[place] = message
        return messages, loss


def improved_channel(
    oracle: Callable[[RandomizedResponse], Leakage],
    chains: list[MarkovChain],
    limit: float,
    aim: Aim,
    start: Certified,
    hint: Array | None = None,
) -> Certified:
    """Return a certified channel that serves an aim at least as well as the one to start from.

    ``hint`` is a channel that did well elsewhere: with enough noise it is tried first.

    >>> from undertow.bounds.engine import leakage
    >>> chain = MarkovChain([[.8, .1, .1], [.3, .6, .1], [.4, .1, .5]], length=3)
    >>> start, aim = RandomizedResponse.symmetric(3, .5), Aim(chain.initial[None], np.ones(3))
    >>> told = leakage(start, chain)
    >>> better, proof = improved_channel(
    ...     lambda channel: leakage(channel, chain), [chain], told.upper, aim, (start, told))
    >>> aim.flips(better.matrix) < 0.48, proof.proves(told.upper)
    (True, True)
    """
    search = _CuttingPlanes(oracle, chains, limit, aim, [], time.process_time() + _SECONDS)
    if not search.learn(*start):
        return start
    best, box = start, _FIRST_BOX
    if hint is not None:
        trial = search.repaired(hint)
        if trial is not None and aim.cost(trial[0].matrix) < aim.cost(best[0].matrix):
            best, box = trial, _HINTED_BOX
    for _ in range(_ROUNDS):
        if box < _SMALLEST_BOX or search.late:
            break
        step = search.step(best[0].matrix, box)
        trial = None if step is None else search.repaired(best[0].matrix + step)
        now = aim.cost(best[0].matrix)
        gain = 0.0 if trial is None else now - aim.cost(trial[0].matrix)
        if trial is not None and gain > 0:
            best = trial
        if gain > _GAIN * abs(now):
            box = min(1.5 * box, _LARGEST_BOX)
        else:
            box /= 4
    return best


@dataclass(slots=True)
class _CuttingPlanes:
    """The oracle, and the attacks that it has reported so far."""

    oracle: Callable[[RandomizedResponse], Leakage]
    chains: list[MarkovChain]
    limit: float
    aim: Aim
    cuts: list[Cut]
    deadline: float

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return time.process_time() > self.deadline

    def learn(self, mechanism: RandomizedResponse, leak: Leakage) -> float:
        """Keep the attack behind a leakage; return its loss, 0 if there is none to keep."""
        if leak.witness is None or not leak.witness.outputs:
            return 0.0
        found = [Cut.of(leak.witness, chain) for chain in self.chains]
        losses = [cut.loss(mechanism.matrix) for cut in found]
        worst = int(np.argmax(losses))
        self.cuts.append(found[worst])
        return losses[worst]

    def step(self, channel: Array, box: float) -> Array | None:
        """Return the change of a channel that a linear program proposes, None if it finds none."""
        from scipy.optimize import linprog

        size = len(channel)
        rows, limits = [], []
        for cut in self.cuts:
            loss, slope = cut.evaluate(channel)
            rows.append(np.append(slope.ravel(), 0.0))  # first order: loss + slope . step <= limit
            limits.append(self.limit - loss)
        for gradient, now in self._gradients(channel):
            # cost under this law <= the last variable
            rows.append(np.append(gradient.ravel(), -1.0))
            limits.append(-now)
        if self.aim.weights is not None:
            for x, z in permutations(range(size), 2):  # the truth stays the likeliest output
                row = np.zeros((size, size))
                row[x, z], row[x, x] = 1.0, -1.0
                rows.append(np.append(row.ravel(), 0.0))
                limits.append(channel[x, x] - channel[x, z])
        even = np.kron(np.eye(size), np.ones(size))  # (states, entries): rows keep their sum
        reach = [(-box * entry, box * entry) for entry in channel.ravel()]  # entries stay positive
        solve: Any = linprog
        found = solve(
            np.append(np.zeros(size * size), 1.0),
            A_ub=np.array(rows), b_ub=np.array(limits),
            A_eq=np.hstack([even, np.zeros((size, 1))]), b_eq=np.zeros(size),
            bounds=[*reach, (None, None)],
        )  # fmt: skip
        return None if found.status != 0 else freeze(found.x[:-1].reshape(size, size))

    def _gradients(self, channel: Array) -> list[tuple[Array, float]]:
        """Return slope and value of the cost under each law."""
        found = []
        for law in self.aim.laws:
            if self.aim.weights is None:
                # less d information / d B
                slope = -law[:, None] * (np.log2(channel) - np.log2(law @ channel))
                found.append((slope, -Aim(law[None], None).bits(channel)))
            else:
                slope = np.diag(-law * self.aim.weights)
                found.append((slope, float(law @ (self.aim.weights * (1 - np.diag(channel))))))
        return found

    def repaired(self, channel: Array) -> Certified | None:
        """Return the channel with as much noise as it takes to be certified, None if too much.

        The noise replaces an output by a fresh draw: from the law of outputs where information
        matters, of all states alike where the truth must stay the likeliest. That never leaks
        more. Its share is found on the attacks known; the oracle reports those still missing.
        """
        law = np.full(len(channel), 1 / len(channel))
        if self.aim.weights is None:
            law = self.aim.laws.mean(axis=0) @ channel
        fresh = np.tile(law, (len(channel), 1))  # (states, outputs)
        goal = self.limit
        for tries in range(_REPAIRS):
            if tries and self.late:
                break
            share = self._share(channel, fresh, goal)
            mechanism = grained_channel((1 - share) * channel + share * fresh)
            leak = self.oracle(mechanism)
            if leak.proves(self.limit):
                return mechanism, leak
            loss = self.learn(mechanism, leak)
            if loss <= goal + 1e-9 * max(1.0, goal):  # the attack does not explain the upper end
                goal -= 1.5 * (leak.upper - self.limit) + 1e-13
        return None

    def _share(self, channel: Array, fresh: Array, goal: float) -> float:
        """Return the least share of fresh outputs at which no known attack exceeds the goal."""
        from scipy.optimize import brentq

        def mixed(share: float) -> Array:
            return (1 - share) * channel + share * fresh

        share = 0.0
        for _ in self.cuts:
            losses = [cut.loss(mixed(share)) for cut in self.cuts]
            worst = self.cuts[int(np.argmax(losses))]
            if max(losses) <= goal + _CLOSE * goal:
                break
            # at a share of 1 nothing is told, so there is a root
            share = brentq(lambda part, cut=worst: cut.loss(mixed(part)) - goal, share, 1.0)
        return min(1.0, share + _CLOSE)
