"""The branches of one target on a tree, with some records known.

What is known beyond an edge multiplies the kernel's columns, exactly; for two states the messages
are then exact too. A branch is looked at up to its nearest known records, for every combination of
their values.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from undertow.bounds.trees.steps import step
from undertow.errors import NotSupported
from undertow.numerics import ROUNDOFF, Array

__all__ = ["Branches", "WorstValues", "filled", "neighbours"]

_MOST = 700.0
"""Largest level whose exponential is an ordinary float; an algorithm of a smaller level is one of
the larger level too."""

_FAINT = 1e-250
"""Least weight of a value given what is known, relative to the likeliest (either side)."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

COMBINATIONS = 4096
"""Most combinations of known values that are gone through on one branch."""


_PASSES = 12
"""Most sweeps of signed weights on one branch."""


@dataclass(frozen=True, slots=True)
class WorstValues:
    """The worst attack on a target: its value, the pair of values, and the known values."""

    value: float
    pair: tuple[int, int]
    facts: dict[int, int]


@dataclass(frozen=True, slots=True)
class Branches:
    """A tree, to be looked at from any of its nodes.

    ``down[i]`` is Pr[node i | its parent], ``back[i]`` Pr[parent | node i], right up to a relative
    ``error``; latent nodes add nothing to the level.
    """

    parent: Ints
    down: Array
    back: Array
    record: Bools
    error: float
    epsilon: float
    around: list[list[int]]

    def rings(self, target: int, most: int) -> list[list[int]]:
        """Return the nodes at distance 1, 2, ... from a target."""
        around = self.around
        found: list[list[int]] = []
        seen, ring = {target}, [target]
        while ring and len(found) < most:
            ring = [node for place in ring for node in around[place] if node not in seen]
            seen.update(ring)
            if ring:
                found.append(ring)
        return found

    def worst(
        self, target: int, known: Collection[int], possible: Bools, side: float,
        *, uniform: bool = False,
    ) -> WorstValues | None:  # fmt: skip
        """Return the worst values of the known records, None if no two values of the target remain.

        ``side`` is 1 for an upper end and -1 for a lower one. With ``uniform`` all known records
        of a branch have the same value. Raises `OverflowError` if there are too many combinations.
        """
        states = self.down.shape[-1]
        # (k, k): pairs of the target
        total = np.where(possible[:, None] & possible[None, :], self.epsilon, -np.inf)
        total[np.arange(states), np.arange(states)] = -np.inf
        chosen: list[tuple[list[int], Ints, Ints]] = []
        for first in self.around[target]:
            order = self.outwards(first, target, known)
            ends = [node for node, _ in order if node in known]
            # (combinations, known records of the branch)
            values = _combinations(states, len(ends), uniform)
            facts = dict(zip(ends, values.T, strict=True))
            message, weight = self._branch(order, facts, side)
            valid = (weight[:, :, None] > 0) & (weight[:, None, :] > 0)  # (combinations, k, k)
            message = np.where(valid, message, -np.inf)
            # branches are independent given the target: worst of each
            total = total + message.max(axis=0)
            chosen.append((ends, values, message.argmax(axis=0)))
        # worst pair
        x, other = (int(i) for i in np.unravel_index(int(np.argmax(total)), total.shape))
        if total[x, other] == -np.inf:
            return None
        facts_found = {
            node: int(value)
            for ends, values, rows in chosen
            for node, value in zip(ends, values[rows[x, other]], strict=True)
        }
        return WorstValues(float(total[x, other]), (x, other), facts_found)

    def attained(
        self, target: int, pair: tuple[int, int], facts: dict[int, int], most: int
    ) -> float:  # fmt: skip
        """Return what is learnt of a pair of values with these facts known, rounded down.

        Only the ``most`` nearest nodes are used; -inf if the facts exclude one of the values.
        """
        near = self.region(target, most)
        total = self.epsilon
        values = {node: np.array([state]) for node, state in facts.items()}
        for first in self.around[target]:
            order = self.outwards(first, target, facts, near)
            if not order:
                continue
            message, weight = self._branch(order, values, -1.0)
            if weight[0, pair[0]] <= 0 or weight[0, pair[1]] <= 0:
                return -math.inf
            total += float(message[0, pair[0], pair[1]])
        return total

    def wanted(
        self, order: Sequence[tuple[int, int]], target: int, pair: tuple[int, int]
    ) -> dict[int, tuple[int, int]]:
        """Return which pair of values each node of a branch must tell apart (two states)."""
        found = {target: pair}
        for node, before in order:
            x, other = found[before]
            kernel = self.kernel(node, before)
            found[node] = (0, 1) if kernel[x, 0] >= kernel[other, 0] else (1, 0)
        return found

    def sets(
        self, target: int, pair: tuple[int, int], known: Collection[int], most: int | None = None
    ) -> dict[int, int]:
        """Return the state that the worst algorithm rewards at each unknown record (two states).

        The sign of the correlation along the edges decides it; what is known does not change that.
        With ``most`` only the nearest nodes are rewarded.
        """
        near = self.region(target, most) if most else None
        found = {target: pair}
        for first in self.around[target]:
            order = self.outwards(first, target, known, near)
            found |= self.wanted(order, target, pair)
        return {
            node: x for node, (x, _) in found.items() if self.record[node] and node not in known
        }

    def swept(
        self, target: int, pair: tuple[int, int], facts: dict[int, int], most: int
    ) -> tuple[float, dict[int, tuple[int, ...]]]:
        """Return a lower end for more than two states: an algorithm that rewards chosen sets.

        A sweep of signed weights from the target outwards chooses the sets, c = K(x, .) -
        lambda K(x', .) and S = {c > 0} as on a chain (docs, theory: exchange rate), with lambda
        raised to what they attain; other branches of a node are not looked at in doing so. What
        the sets leak is then computed plainly and rounded down. Only the ``most`` nearest nodes
        are looked at: the algorithm does not depend on the others, and they are not known.
        """
        near = self.region(target, most)
        sets: dict[int, tuple[int, ...]] = {target: (pair[0],)}
        total, nodes = self.epsilon, 1
        for first in self.around[target]:
            order = self.outwards(first, target, facts, near)
            if not order:
                continue
            kernels = self._given(order, facts)
            best, ratio = 0.0, 0.0
            found: dict[int, tuple[int, ...]] = {}
            for _ in range(_PASSES):
                tried = self._signed(order, kernels, facts, pair, ratio)
                value = self._rewarded(order, kernels, facts, pair, tried)
                if value <= best:
                    break
                best, ratio, found = value, value, tried
            total += best
            nodes += len(order)
            sets.update({node: states for node, states in found.items() if self.record[node]})
        states = self.down.shape[-1]
        # relative error of a product of kernels
        depth = nodes * ((states + 4.0) * ROUNDOFF + self.error)
        return total - 4.0 * depth - 8.0 * ROUNDOFF * nodes * (1.0 + self.epsilon), sets

    def _given(
        self, order: Sequence[tuple[int, int]], facts: dict[int, int]
    ) -> dict[int, Array]:  # fmt: skip
        """Return the kernel into each unknown node, given what is known beyond it."""
        states = self.down.shape[-1]
        beyond: dict[int, Array] = {}
        kernels = {}
        for node, before in reversed(order):
            kernel = self.kernel(node, before)
            if node in facts:
                weight = kernel[:, facts[node]]
            else:
                # (k, k): what is known reweights the columns
                joint = kernel * beyond.pop(node, np.ones(states))
                weight = joint.sum(axis=1)
                # rows sum to 1 again
                kernels[node] = joint / np.where(weight > 0, weight, 1.0)[:, None]
            scaled = weight / max(float(weight.max()), 1e-300)
            beyond[before] = beyond.get(before, np.ones(states)) * scaled
        return kernels

    def _signed(
        self, order: Sequence[tuple[int, int]], kernels: dict[int, Array], facts: dict[int, int],
        pair: tuple[int, int], ratio: float,
    ) -> dict[int, tuple[int, ...]]:  # fmt: skip
        """Return the sets of one sweep of signed weights outwards, at one lambda = e^ratio."""
        gain = math.exp(min(self.epsilon, _MOST))
        signed: dict[int, Array] = {}
        sets = {}
        for node, before in order:
            if node in facts:
                continue
            kernel = kernels[node]
            if before in signed:
                # c = K(x, .) - lambda K(x', .), carried outwards, (k,)
                here = signed[before] @ kernel
            else:
                here = kernel[pair[0]] - math.exp(ratio) * kernel[pair[1]]
            here = here / max(float(np.abs(here).max()), 1e-300)
            sets[node] = tuple(int(state) for state in np.flatnonzero(here > 0))
            signed[node] = np.where(here > 0, gain, 1.0) * here if self.record[node] else here
        return sets

    def _rewarded(
        self, order: Sequence[tuple[int, int]], kernels: dict[int, Array], facts: dict[int, int],
        pair: tuple[int, int], sets: dict[int, tuple[int, ...]],
    ) -> float:  # fmt: skip
        """Return ln E[phi | x] / E[phi | x'] on one branch for phi = exp(epsilon #{x_t in S_t})."""
        states = self.down.shape[-1]
        gain = math.exp(min(self.epsilon, _MOST))
        beyond: dict[int, Array] = {}
        message = np.ones(states)
        for node, before in reversed(order):
            if node in facts:
                continue
            phi = beyond.pop(node, np.ones(states))
            if self.record[node]:
                phi = phi.copy()
                phi[list(sets[node])] *= gain  # (k,): e^epsilon on the rewarded states
            message = kernels[node] @ phi  # (k,): E[phi beyond | the node before]
            message = message / max(float(message.max()), 1e-300)
            beyond[before] = beyond.get(before, np.ones(states)) * message
        if message[pair[0]] <= 0 or message[pair[1]] <= 0:
            return 0.0
        return math.log(float(message[pair[0]]) / float(message[pair[1]]))

    def _branch(
        self, order: Sequence[tuple[int, int]], facts: dict[int, Ints], side: float
    ) -> tuple[Array, Array]:
        """Return a branch's message and evidence, one row for each combination of values."""
        states = self.down.shape[-1]
        apart = ~np.eye(states, dtype=bool)
        bounds: dict[int, Array] = {}
        weights: dict[int, Array] = {}
        message, weight = np.zeros((1, states, states)), np.ones((1, states))
        for node, before in reversed(order):
            kernel = self.kernel(node, before)
            if node in facts:
                weight = kernel[:, facts[node]].T  # (combinations, k)
                message = np.zeros((1, states, states))
            else:
                own = self.epsilon * apart * self.record[node]  # (k, k); latent nodes add nothing
                # B = epsilon + sum of s
                bound = own + bounds.pop(node, np.zeros((1, states, states)))
                beyond = weights.pop(node, np.ones((1, states)))
                joint = kernel[None] * beyond[:, None, :]  # (combinations, k, k)
                # (combinations, k): Pr[known beyond | x], up to a factor
                weight = joint.sum(axis=2)
                possible = (kernel[None] * (beyond > 0)[:, None, :]).sum(axis=2) > 0
                if (possible & (weight < _FAINT)).any():
                    raise NotSupported("some values are too rare, given what is known")
                with np.errstate(invalid="ignore"):
                    rows = joint / weight[:, :, None]
                rows = np.where(np.isnan(rows), 1.0 / states, rows)
                error = 2 * len(order) * self.error
                message = filled(step(rows, bound, side, error), weight > 0)
                weight = weight / weight.max(axis=1, keepdims=True).clip(min=1e-300)
            bounds[before] = bounds.get(before, 0.0) + message
            weights[before] = weights.get(before, 1.0) * weight
        return message, weight

    def kernel(self, node: int, before: int) -> Array:
        """Return Pr[node | the node before it, on the target's side]."""
        return np.asarray(self.down[node] if self.parent[node] == before else self.back[before])

    def region(self, target: int, most: int) -> set[int]:
        """Return the nodes nearest to a target, the target among them."""
        found, ring = {target}, [target]
        while ring and len(found) < most:
            beyond = [node for place in ring for node in self.around[place] if node not in found]
            ring = beyond[: most - len(found)]
            found.update(ring)
        return found

    def outwards(
        self, first: int, target: int, known: Collection[int], within: set[int] | None = None
    ) -> list[tuple[int, int]]:
        """Return the nodes of a branch, each after the one before it, up to the known ones."""
        order, stack = [], [(first, target)]
        while stack:
            node, before = stack.pop()
            if within is not None and node not in within:
                continue
            order.append((node, before))
            if node not in known:
                stack += [(more, node) for more in self.around[node] if more != before]
        return order


def neighbours(parent: Ints) -> list[list[int]]:
    """Return the neighbours of every node of a tree, from the parent of each (-1 for none).

    >>> neighbours(np.array([-1, 0, 0]))
    [[1, 2], [0], [0]]
    """
    around: list[list[int]] = [[] for _ in parent]
    for child, above in enumerate(parent.tolist()):
        if above >= 0:
            around[child].append(above)
            around[above].append(child)
    return around


def filled(message: Array, possible: Bools) -> Array:
    """Return messages with pairs of impossible values set to the largest of the others.

    Such values carry no weight; with this much room they do not tighten any other pair either.

    >>> filled(np.array([[[0., 1.], [9., 0.]]]), np.array([[True, False]]))
    array([[[0., 0.],
            [0., 0.]]])
    """
    if possible.all():
        return message
    both = possible[:, :, None] & possible[:, None, :]  # (edges, k, k)
    most = np.where(both, message, 0.0).max(axis=(1, 2), keepdims=True)  # (edges, 1, 1)
    whole = np.where(both, message, most)
    states = message.shape[-1]
    whole[:, np.arange(states), np.arange(states)] = 0.0
    return whole


def _combinations(states: int, records: int, uniform: bool) -> Ints:
    if uniform:
        return np.repeat(np.arange(states)[:, None], max(records, 1), axis=1)[:, :records]
    if states**records > COMBINATIONS:
        raise OverflowError
    listed: Iterator[tuple[int, ...]] = product(range(states), repeat=records)
    return np.array(list(listed), dtype=np.int64).reshape(states**records, records)
