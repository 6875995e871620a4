"""More than two states: a better channel than k-ary randomised response, by cutting planes.

Each attack (an adversary, two values, a series of outputs) bounds a channel B by
ln Pr[z | x, known] / Pr[z | x', known] <= limit, a smooth function of B. The search moves B by
linear programs within a small box around it until no attack known allows a better one, asks for the
attacks that this one missed, and begins again; in the end noise is added until the oracle certifies
the result. What it returns is certified, never worse than where it began, and not proved to be the
best. Every limit counts steps, so the same question has the same answer on every machine.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np

from undertow.certificate import Leakage
from undertow.channels import RandomizedResponse
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, freeze
from undertow.planning.channel_cuts import Cut, CutSet
from undertow.planning.flip_aims import Aim
from undertow.planning.kary_flips import grained_channel
from undertow.progress import spend

__all__ = ["FIRST_BOX", "Certified", "ChannelSearch", "found_cuts"]

Certified = tuple[RandomizedResponse, Leakage]

_PROGRAMS = 60
"""Linear programs solved at most between two looks for new attacks."""

_REPAIRS = 12
"""Channels tried at most to bring one back within the guarantee."""

FIRST_BOX, _LATER_BOX, _LARGEST_BOX, _SMALLEST_BOX = 0.3, 0.05, 0.7, 1e-4
"""By what share an entry may move in one step: at first, after new attacks came in, at most, and
where the search for steps ends."""

_CLOSE = 1e-11
"""How near to the guarantee a share of noise is found (either side; the oracle decides)."""

_GAIN = 1e-6
"""Relative gain below which steps get smaller."""

_ENTRY, _PROGRAM = 800.0, 40.0
"""Work of a linear program for each of its entries, in multiplications, and of any, in calls."""

_MISSED = 1e-6
"""Share of limit by which attacks not yet known may exceed it when the search ends."""


def found_cuts(
    leak: Leakage, mechanism: RandomizedResponse, chains: list[MarkovChain]
) -> list[Cut]:
    """Return the attack behind a leakage, on the chain on which it tells the most; or none."""
    if leak.witness is None or not leak.witness.outputs:
        return []
    found = [Cut.of(leak.witness, chain) for chain in chains]
    return [max(found, key=lambda cut: cut.loss(mechanism.matrix))]


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
    >>> found = search.settled(search.descended(start.matrix, FIRST_BOX), attacks, 6)
    >>> channel, leak = search.certified(found, lambda one: leakage(one, chain), [chain])
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
        found = solve(
            np.append(np.zeros(size * size), 1.0),
            A_ub=left, b_ub=np.array(limits),
            A_eq=np.hstack([even, np.zeros((size, 1))]), b_eq=np.zeros(size),
            bounds=[*zip(-reach, reach, strict=True), (None, None)],
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
            share = min(1.0, brentq(excess, 0.0, 1.0, xtol=_CLOSE / 8) + _CLOSE)
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
