"""Leakage of all algorithms of a DP level on a tree of any size (docs, theory: trees).

Messages of children add, B = epsilon + sum of s, and `step` along an edge turns B into the next
message. Two sweeps over the tree, up and down, give the leakage about every record. Exact for two
states and a stated adversary; certified from above for ``any`` and for more states.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations, product

import numpy as np
import numpy.typing as npt

from undertow.adversaries import Adversary, Against, check_against, every_adversary
from undertow.bounds.graphs import attack_on, informed_level
from undertow.certificate import Leakage, Witness
from undertow.errors import NotSupported
from undertow.models.networks import BayesianNetwork
from undertow.numerics import ROUNDOFF, Array, check_epsilon, down

__all__ = [
    "LISTED",
    "RootedTree",
    "WorstValues",
    "evidence_step",
    "filled",
    "likely_facts",
    "neighbours",
    "pair_messages",
    "roundings",
    "step",
    "tree_leakage",
]


LISTED = 5
"""Most states whose extreme points are listed: 2000 of them; 6 would have 41,000."""

_SLACK = 1e-12
"""Relative slack with which an extreme point may break a bound and still count (upper side)."""

_TOGETHER = 4_000_000
"""Most numbers held at once while extreme points are looked at."""


def roundings(kernel: Array, bound: Array) -> Array:
    """Return how far rounding can move the log-ratios of one step, for each edge.

    Logarithms of the kernel and of the likelihood carry an error of their own size.

    >>> float(roundings(np.full((2, 2), .5), np.zeros((2, 2)))) < 1e-14
    True
    """
    states = kernel.shape[-1]
    size = np.where(np.isfinite(bound), np.abs(bound), 0.0).max(axis=(-2, -1))  # (...)
    with np.errstate(divide="ignore"):
        logs = np.log(kernel)
    # (...): rarest entry of each kernel
    rare = np.where(np.isfinite(logs), -logs, 0.0).max(axis=(-2, -1))
    return np.asarray(8.0 * ROUNDOFF * (states + 4.0 + size + rare))


def step(kernel: Array, bound: Array, side: float = 1.0, error: float = 0.0) -> Array:
    """Return the largest log-ratios of K g, at least 0; 0 on the diagonal.

    An infinite bound gives inf wherever it matters.

    >>> kernel, bound = np.array([[.9, .1], [.2, .8]]), np.array([[0, 1.], [1., 0]])
    >>> step(kernel, bound).round(6)
    array([[0.      , 0.639307],
           [0.706275, 0.      ]])
    """
    states = kernel.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(kernel)
        if states == 2:
            best = _two_states(logs, bound)
        elif states <= LISTED:
            best = _extreme_points(logs, bound)
        else:
            best = _coarse(kernel, bound)
    best = np.where(np.isnan(best), bound.max(axis=(-2, -1), keepdims=True), best)
    pad = side * (roundings(kernel, bound) + error)
    best = np.maximum(best + pad[..., None, None], 0.0)
    best[..., np.arange(states), np.arange(states)] = 0.0
    return np.asarray(best)


def _two_states(logs: Array, bound: Array) -> Array:
    """Return the step for two states: the ratio g(0)/g(1) at its ends."""
    best = np.full(np.broadcast_shapes(logs.shape, bound.shape), -np.inf)
    for end in (bound[..., 0, 1], -bound[..., 1, 0]):
        # (..., k): ln K g, g(1) = 1
        mixed = np.logaddexp(logs[..., 0] + end[..., None], logs[..., 1])
        open_ended = np.isinf(end)[..., None]
        # an unbounded ratio: what is left is the larger share
        limit = np.where(end[..., None] > 0, logs[..., 0], logs[..., 1])
        mixed = np.where(open_ended, limit, mixed)
        best = np.maximum(best, mixed[..., :, None] - mixed[..., None, :])  # (..., k, k)
    return best


def evidence_step(
    kernel: Array, bound: Array, known: Array, error: float = 0.0
) -> tuple[Array, Array]:  # fmt: skip
    """Return the step where known records beyond the edge may shift the kernel, and step(L).

    Known records beyond the edge multiply the kernel's columns by lambda, of which only
    ln lambda(y) - ln lambda(y') <= L(y, y') is used, L = ``known``. For two states the worst shift
    is found in closed form; otherwise step(K, B + L)(x, x') + step(K, L)(x', x), and never more
    than max B. step(K, L) is how far lambda itself is seen through the edge. Upper ends only.

    >>> kernel = np.array([[.9, .1], [.2, .8]])
    >>> bound, known = np.array([[0, 1.], [1., 0]]), np.array([[0, .5], [.5, 0]])
    >>> evidence_step(kernel, bound, known)[0].round(6)
    array([[0.      , 0.693049],
           [0.70704 , 0.      ]])
    """
    states = kernel.shape[-1]
    most = np.maximum(bound.max(axis=(-2, -1)), 0.0)[..., None, None]  # (..., 1, 1)
    if states == 2:
        seen = step(kernel, known, 1.0, error)
        with np.errstate(divide="ignore", invalid="ignore"):
            best = _shifted(np.log(kernel), bound, known)
        pad = roundings(kernel, bound) + roundings(kernel, known) + error
        best = best + pad[..., None, None]
    else:
        # both steps at once, (2, ..., k, k)
        both = step(np.stack([kernel] * 2), np.stack([bound + known, known]), 1.0, error)
        seen = both[1]
        best = both[0] + np.swapaxes(seen, -1, -2)  # step(K, B + L)(x, x') + step(K, L)(x', x)
        best = np.where(np.isfinite(best), best, most)
    best = np.where(np.isnan(best), most, best)
    best = np.clip(best, 0.0, most)
    best[..., np.arange(states), np.arange(states)] = 0.0
    return np.asarray(best), seen


def _shifted(logs: Array, bound: Array, known: Array) -> Array:
    """Return the largest log-ratio over all shifts l of the kernel's log-odds.

    With a = logit K(x, 0), a' = logit K(x', 0) and the likelihood's log-ratio at its end b, the
    loss h(a + l) - h(a' + l), h(z) = ln(1 + e^{z+b}) - ln(1 + e^z), has one maximum in l, at
    -b/2 - (a + a')/2.
    """
    odds = logs[..., 0] - logs[..., 1]  # (..., k): logit K(x, 0)
    best = np.zeros(np.broadcast_shapes(logs.shape, bound.shape))
    low, high = -known[..., 1, 0], known[..., 0, 1]  # (...): how far lambda can shift the odds
    for x, other in ((0, 1), (1, 0)):
        first, second = odds[..., x], odds[..., other]
        end = np.where(first >= second, bound[..., 0, 1], -bound[..., 1, 0])
        middle = -end / 2 - (first + second) / 2  # (...): where the loss is largest
        shift = np.clip(middle, low, high)
        loss = _gain(first + shift, end) - _gain(second + shift, end)
        same = np.isinf(first) & (first == second)
        unclear = ~np.isfinite(shift) | np.isnan(loss)
        loss = np.where(unclear, np.abs(end), loss)
        best[..., x, other] = np.where(same, 0.0, loss)
    return best


def _gain(odds: Array, end: Array) -> Array:
    """Return ln(1 + e^{z + b}) - ln(1 + e^z), with its limits b and 0."""
    gain = np.logaddexp(0.0, odds + end) - np.logaddexp(0.0, odds)
    return np.where(np.isinf(odds), np.where(odds > 0, end, 0.0), gain)


def _extreme_points(logs: Array, bound: Array) -> Array:
    """Return the step for a few states, over all extreme points."""
    states = logs.shape[-1]
    shape = np.broadcast_shapes(logs.shape, bound.shape)
    flat_logs = np.broadcast_to(logs, shape).reshape(-1, states, states)  # (edges, k, k)
    flat = np.broadcast_to(bound, shape).reshape(-1, states, states)
    combos = _spanning(states)  # (points, k, k, k)
    best = np.empty_like(flat)
    size = max(1, _TOGETHER // (len(combos) * states * states))
    for start in range(0, len(flat), size):
        piece = slice(start, start + size)
        best[piece] = _extremes_block(flat_logs[piece], flat[piece], combos)
    return best.reshape(shape)


def _extremes_block(logs: Array, bound: Array, combos: Array) -> Array:
    """Return the step of some edges over all extreme points."""
    count, states = bound.shape[:2]
    endless = np.isinf(bound).any(axis=(1, 2))
    safe = np.where(np.isfinite(bound), bound, 0.0)
    # (edges, points k): ln g = combos . B
    heights = safe.reshape(count, -1) @ combos.reshape(-1, states * states).T
    heights = heights.reshape(count, -1, states)  # ln g of every extreme point
    slack = _SLACK * (1.0 + np.abs(safe).max(axis=(1, 2)))
    apart = heights[..., :, None] - heights[..., None, :] - safe[:, None]  # (edges, points, k, k)
    # (edges, points): all bounds are kept
    allowed = (apart <= slack[:, None, None, None]).all(axis=(2, 3))
    mixes = _log_mix(logs[:, None], heights[:, :, None])  # ln K g for every extreme point and row
    ratios = np.where(
        allowed[:, :, None, None], mixes[..., :, None] - mixes[..., None, :], -np.inf
    )  # fmt: skip
    best: Array = ratios.max(axis=1)  # (edges, k, k)
    best[:, range(states), range(states)] = -np.inf
    best[endless] = np.inf
    return best


def _log_mix(logs: Array, heights: Array) -> Array:
    """Return ln sum exp(logs + heights) over the last axis."""
    total = logs + heights
    peak = total.max(axis=-1)  # (edges, points, k)
    return np.asarray(peak + np.log(np.exp(total - peak[..., None]).sum(axis=-1)))


@lru_cache(maxsize=8)
def _spanning(states: int) -> Array:
    """Return every spanning tree with every choice of tight bounds, as ln g = combos . B.

    Shape (points, states, states, states): entry [r, y] are the coefficients of B in ln g(y), with
    ln g(0) = 0.
    """
    edges = list(combinations(range(states), 2))
    rows = []
    for tree in combinations(edges, states - 1):
        for upward in product((True, False), repeat=states - 1):
            coefficients: dict[int, Array] = {0: np.zeros((states, states))}
            left = list(zip(tree, upward, strict=True))
            while left:
                ready = [item for item in left if (item[0][0] in coefficients)
                         != (item[0][1] in coefficients)]  # fmt: skip
                if not ready:
                    break
                (a, b), up = ready[0]
                left.remove(ready[0])
                known, fresh = (a, b) if a in coefficients else (b, a)
                row = coefficients[known].copy()
                if up:
                    row[fresh, known] += 1.0  # ln g(fresh) = ln g(known) + B(fresh, known)
                else:
                    row[known, fresh] -= 1.0
                coefficients[fresh] = row
            if len(coefficients) == states:
                rows.append(np.stack([coefficients[state] for state in range(states)]))
    return np.stack(rows)


def _coarse(kernel: Array, bound: Array) -> Array:
    """Return the step when only the largest bound is used: sets of the likeliest states."""
    most = bound.max(axis=(-2, -1))[..., None]  # (..., 1)
    best = np.full(np.broadcast_shapes(kernel.shape, bound.shape), -np.inf)
    for x, other in permutations(range(kernel.shape[-1]), 2):
        rows = kernel[..., x, :], kernel[..., other, :]
        # g = e^most on the states that favour x the most, 1 elsewhere: one cut of this order
        order = np.argsort(-(rows[0] / (rows[0] + rows[1])), axis=-1)
        mixed = []
        for row in rows:
            mass = np.take_along_axis(row, order, -1)  # (..., states), likeliest first
            inside, beyond = np.cumsum(mass, -1), np.cumsum(mass[..., ::-1], -1)[..., ::-1]
            mixed.append(np.logaddexp(np.log(inside[..., :-1]) + most, np.log(beyond[..., 1:])))
        best[..., x, other] = (mixed[0] - mixed[1]).max(axis=-1)  # over the states - 1 cuts
    return best


FAINT = 1e-250
"""Least probability of a value, or weight given what is known relative to the likeliest (either
side): products with it are still ordinary floats."""

_LARGEST_LEVEL = 700.0
"""Largest level whose exponential is an ordinary float; an algorithm of a smaller level is one of
the larger level too."""

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
class RootedTree:
    """A tree as arrays, to be looked at from any of its nodes: parents before children.

    ``down[i]`` is Pr[node i | its parent], ``back[i]`` Pr[parent | node i], right up to a relative
    ``error``; both are unused at roots. ``around`` lists the neighbours of every node, ``levels``
    the nodes by depth, ``laws`` are the marginals; latent nodes add nothing to the level.
    """

    parent: Ints
    down: Array
    back: Array
    record: Bools
    error: float
    epsilon: float
    around: list[list[int]]
    levels: list[Ints]
    laws: Array

    def pairs(self) -> Bools:
        """Return which pairs of values each record can have, (n, k, k)."""
        possible = (self.laws > 0) & self.record[:, None]  # (n, k)
        apart = ~np.eye(self.laws.shape[1], dtype=bool)
        return np.asarray(possible[:, :, None] & possible[:, None, :] & apart)

    def rings(self, target: int, most: int) -> list[list[int]]:
        """Return the nodes at distance 1, 2, ... from a target."""
        around = self.around
        rings: list[list[int]] = []
        seen, ring = {target}, [target]
        while ring and len(rings) < most:
            ring = [node for place in ring for node in around[place] if node not in seen]
            seen.update(ring)
            if ring:
                rings.append(ring)
        return rings

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
            # tree are independent given the target: worst of each
            total = total + message.max(axis=0)
            chosen.append((ends, values, message.argmax(axis=0)))
        # worst pair
        x, other = (int(i) for i in np.unravel_index(int(np.argmax(total)), total.shape))
        if total[x, other] == -np.inf:
            return None
        facts_chosen = {
            node: int(value)
            for ends, values, rows in chosen
            for node, value in zip(ends, values[rows[x, other]], strict=True)
        }
        return WorstValues(float(total[x, other]), (x, other), facts_chosen)

    def attained(
        self, target: int, pair: tuple[int, int], facts: dict[int, int], most: int
    ) -> float:  # fmt: skip
        """Return the loss of a pair of values with these facts known, rounded down.

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

    def rewarded_pairs(
        self, order: Sequence[tuple[int, int]], target: int, pair: tuple[int, int]
    ) -> dict[int, tuple[int, int]]:
        """Return which pair of values each node of a branch must tell apart (two states)."""
        pairs = {target: pair}
        for node, before in order:
            x, other = pairs[before]
            kernel = self.kernel(node, before)
            pairs[node] = (0, 1) if kernel[x, 0] >= kernel[other, 0] else (1, 0)
        return pairs

    def sets(
        self, target: int, pair: tuple[int, int], known: Collection[int], most: int | None = None
    ) -> dict[int, int]:
        """Return the state that the worst algorithm rewards at each unknown record (two states).

        The sign of the correlation along the edges decides it; what is known does not change that.
        With ``most`` only the nearest nodes are rewarded.
        """
        near = self.region(target, most) if most else None
        pairs = {target: pair}
        for first in self.around[target]:
            order = self.outwards(first, target, known, near)
            pairs |= self.rewarded_pairs(order, target, pair)
        return {
            node: x for node, (x, _) in pairs.items() if self.record[node] and node not in known
        }

    def swept(
        self, target: int, pair: tuple[int, int], facts: dict[int, int], most: int
    ) -> tuple[float, dict[int, tuple[int, ...]]]:
        """Return a lower end for more than two states: an algorithm that rewards chosen sets.

        A sweep of signed weights from the target outwards chooses the sets, c = K(x, .) -
        lambda K(x', .) and S = {c > 0} as on a chain (docs, theory: exchange rate), with lambda
        raised to what they attain; other tree of a node are not looked at in doing so. What
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
            chosen: dict[int, tuple[int, ...]] = {}
            for _ in range(_PASSES):
                tried = self._signed(order, kernels, facts, pair, ratio)
                value = self._rewarded(order, kernels, facts, pair, tried)
                if value <= best:
                    break
                best, ratio, chosen = value, value, tried
            total += best
            nodes += len(order)
            sets.update({node: states for node, states in chosen.items() if self.record[node]})
        states = self.down.shape[-1]
        # relative error of a product of kernels
        depth = nodes * ((states + 4.0) * ROUNDOFF + self.error)
        return total - 4.0 * depth - 8.0 * ROUNDOFF * nodes * (1.0 + self.epsilon), sets

    def _given(
        self, order: Sequence[tuple[int, int]], facts: dict[int, int]
    ) -> dict[int, Array]:  # fmt: skip
        """Return the kernel into each unknown node, given the known ones beyond it."""
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
        gain = math.exp(min(self.epsilon, _LARGEST_LEVEL))
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
        gain = math.exp(min(self.epsilon, _LARGEST_LEVEL))
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
                if (possible & (weight < FAINT)).any():
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
        region, ring = {target}, [target]
        while ring and len(region) < most:
            beyond = [node for place in ring for node in self.around[place] if node not in region]
            ring = beyond[: most - len(region)]
            region.update(ring)
        return region

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
    """Return the values that known records are given, (combinations, records)."""
    if uniform:
        return np.repeat(np.arange(states)[:, None], max(records, 1), axis=1)[:, :records]
    if states**records > COMBINATIONS:
        raise OverflowError
    listed: Iterator[tuple[int, ...]] = product(range(states), repeat=records)
    return np.array(list(listed), dtype=np.int64).reshape(states**records, records)


POINTS = 32
"""Points kept for each edge."""


@dataclass(frozen=True, slots=True)
class _EdgePoints:
    """Pairs (l, s) behind an edge; ``origin`` is a row of ``choices``, or -1 - a known value.

    ``choices`` has a column for each edge farther out: which of its points was taken.
    """

    shifts: Array
    gains: Array
    origin: Ints
    choices: Ints
    beyond: tuple[int, ...]


def likely_facts(
    tree: RootedTree, target: int, pair: tuple[int, int], most: int
) -> dict[int, int]:  # fmt: skip
    """Return known records and values that make one target's pair of values easy to tell apart.

    Looks at the ``most`` nearest nodes.

    >>> links, kernel = [(0, 1), (1, 2), (2, 3), (3, 4)], [[.9, .1], [.2, .8]]
    >>> path = BayesianNetwork(links, {0: [.5, .5], 1: kernel, 2: kernel, 3: kernel, 4: kernel})
    >>> likely_facts(rooted_tree(3.0, path), 0, (0, 1), 9)
    {3: 1}
    """
    near = tree.region(target, most)
    facts: dict[int, int] = {}
    for first in tree.around[target]:
        order = tree.outwards(first, target, (), near)
        if not order:
            continue
        wanted = tree.rewarded_pairs(order, target, pair)
        points: dict[int, _EdgePoints] = {}
        farther: dict[int, list[int]] = {}
        for node, before in order:
            farther.setdefault(before, []).append(node)
        for node, before in reversed(order):
            beyond = tuple(farther.get(node, ()))
            points[node] = _edge_points(tree, node, before, wanted, [points[b] for b in beyond],
                                   beyond)  # fmt: skip
        stack = [(first, int(np.argmax(points[first].gains)))]
        while stack:
            node, chosen = stack.pop()
            origin = int(points[node].origin[chosen])
            if origin < 0:
                facts[node] = -1 - origin
                continue
            row = points[node].choices[origin].tolist()
            stack += list(zip(points[node].beyond, row, strict=True))
    return facts


def _edge_points(
    tree: RootedTree, node: int, before: int, wanted: dict[int, tuple[int, int]],
    farther: Sequence[_EdgePoints], beyond: tuple[int, ...],
) -> _EdgePoints:  # fmt: skip
    """Return the points of one edge from those of the edges farther out."""
    shifts = np.zeros(1)
    gains = np.array([tree.epsilon if tree.record[node] else 0.0])
    choices = np.zeros((1, 0), dtype=np.int64)
    for points in farther:
        both = np.add.outer(shifts, points.shifts).ravel()  # (kept points x points of the edge,)
        more = np.add.outer(gains, points.gains).ravel()
        rows = np.repeat(choices, len(points.shifts), axis=0)  # (combinations, edges so far)
        last = np.tile(np.arange(len(points.shifts)), len(shifts))[:, None]
        kept = _best_by_shift(both, more)
        shifts, gains = both[kept], more[kept]
        choices = np.hstack([rows, last])[kept]  # (kept, edges so far + 1)
    kernel = tree.kernel(node, before)
    x, other = wanted[before]
    end = gains if wanted[node] == (0, 1) else -gains
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(kernel[:, 0]) - np.log(kernel[:, 1])  # (2,)
        learnt = _gain(odds[x] + shifts, end) - _gain(odds[other] + shifts, end)
        moved = np.logaddexp(np.log(kernel[0, 0]) + shifts, np.log(kernel[0, 1])) - np.logaddexp(
            np.log(kernel[1, 0]) + shifts, np.log(kernel[1, 1])
        )
        certain = np.log(kernel[0]) - np.log(
            kernel[1]
        )  # (2,): shifts where the node itself is known
    if tree.record[node]:
        moved, learnt = np.append(moved, certain), np.append(learnt, [0.0, 0.0])
    origin = np.arange(len(moved))
    origin[len(gains) :] = -1 - np.arange(len(moved) - len(gains))
    fine = np.flatnonzero(np.isfinite(moved) & np.isfinite(learnt))
    if not fine.size:
        fine, moved, learnt = np.array([0]), np.zeros(1), np.zeros(1)
    kept = fine[_best_by_shift(moved[fine], learnt[fine])]
    return _EdgePoints(moved[kept], learnt[kept], origin[kept], choices, beyond)


def _best_by_shift(shifts: Array, gains: Array) -> Ints:
    """Return the places of the largest gain in each of a few ranges of the shift."""
    if len(shifts) <= POINTS:
        return np.arange(len(shifts))
    low, high = float(shifts.min()), float(shifts.max())
    cell = np.minimum(((shifts - low) / max(high - low, 1e-300) * POINTS).astype(int), POINTS - 1)
    order = np.lexsort((gains, cell))  # by range of the shift, then by gain
    # the largest gain of each range
    last = np.append(np.flatnonzero(np.diff(cell[order])), len(order) - 1)
    return np.asarray(order[last])


Pair = tuple[float, float]


def pair_messages(tree: RootedTree, side: float, *, known: bool) -> Array:
    """Return the sum of all messages into every node, (n, 2, 2), rounded to one side.

    All entries of the kernels ``down`` and ``back`` must be positive; ``side`` is 1 for upper ends
    and -1 for lower ones. Cost O(n), whatever the shape.

    >>> link = BayesianNetwork([(0, 1)], {0: [2 / 3, 1 / 3], 1: [[.9, .1], [.2, .8]]})
    >>> pair_messages(rooted_tree(1.0, link), 1.0, known=False).round(4).tolist()
    [[[0.0, 0.6393], [0.7063, 0.0]], [[0.0, 0.6393], [0.7063, 0.0]]]
    """
    parent, error = tree.parent, tree.error
    count, above = len(parent), parent.tolist()
    own = [tree.epsilon if is_record else 0.0 for is_record in tree.record.tolist()]
    degree = np.bincount(parent[parent >= 0], minlength=count).tolist()
    slack = [side * ROUNDOFF * (number + 4.0) for number in degree]
    rising, seen = [(0.0, 0.0)] * count, [(0.0, 0.0)] * count
    children, facts = [[0.0, 0.0] for _ in above], [[0.0, 0.0] for _ in above]
    kernels = tree.down.tolist()
    for node in range(count - 1, -1, -1):
        if above[node] < 0:
            continue
        more = 1.0 + slack[node]
        bound = own[node] + children[node][0] * more, own[node] + children[node][1] * more
        evidence = facts[node][0] * more, facts[node][1] * more
        rising[node] = _passed(kernels[node], bound, evidence, known, side, 0.0)
        _add(children[above[node]], rising[node])
        if known:
            seen[node] = _moved(kernels[node], evidence, own[node] > 0, 0.0)
            _add(facts[above[node]], seen[node])
    falling, downward = [(0.0, 0.0)] * count, [(0.0, 0.0)] * count
    kernels = tree.back.tolist()
    for node, before in enumerate(above):
        if before < 0:
            continue
        rest = _rest(children[before], rising[node], slack[before], falling[before])
        bound = own[before] + rest[0], own[before] + rest[1]
        evidence = _rest(facts[before], seen[node], slack[before], downward[before])
        falling[node] = _passed(kernels[node], bound, evidence, known, side, 2 * error)
        if known:
            downward[node] = _moved(kernels[node], evidence, own[before] > 0, 2 * error)
    total = np.zeros((count, 2, 2))
    # (2, n) taken apart
    total[:, 0, 1], total[:, 1, 0] = (np.array(children) + np.array(falling)).T
    return np.asarray(total + np.abs(total) * np.array(slack)[:, None, None])


def _add(total: list[float], term: Pair) -> None:
    total[0] += term[0]
    total[1] += term[1]


def _rest(total: Sequence[float], own: Pair, slack: float, above: Pair) -> Pair:
    """Return sums without one of their terms, and with the message from above."""
    return (
        max(max(total[0] - own[0], 0.0) + slack * total[0] + above[0], 0.0),
        max(max(total[1] - own[1], 0.0) + slack * total[1] + above[1], 0.0),
    )


def _passed(
    kernel: list[list[float]], bound: Pair, evidence: Pair, known: bool, side: float, error: float
) -> Pair:
    """Return the message behind an edge, its kernel possibly shifted by known records there."""
    (p0, q0), (p1, q1) = kernel
    rare = -math.log(min(p0, q0, p1, q1))
    pad = side * (8.0 * ROUNDOFF * (12.0 + max(bound) + max(evidence) + 2.0 * rare) + error)
    end = bound[0] if p0 >= p1 else -bound[1]  # ln g(0)/g(1) at which 0 is most likely
    back = -bound[1] if p0 >= p1 else bound[0]
    if not known:
        first = _mixed(p0, q0, end) - _mixed(p1, q1, end)
        second = _mixed(p1, q1, back) - _mixed(p0, q0, back)
        return max(first + pad, 0.0), max(second + pad, 0.0)
    a, b = math.log(p0 / q0), math.log(p1 / q1)
    first = _scalar_shifted(a, b, end, evidence)
    second = _scalar_shifted(b, a, back, evidence)
    most = max(bound)
    return min(max(first + pad, 0.0), most), min(max(second + pad, 0.0), most)


def _moved(kernel: list[list[float]], evidence: Pair, record: bool, error: float) -> Pair:
    """Return how far known records behind an edge can move the odds of the two values."""
    (p0, q0), (p1, q1) = kernel
    pad = 8.0 * ROUNDOFF * (6.0 + max(evidence) - 2.0 * math.log(min(p0, q0, p1, q1))) + error
    end, back = (evidence[0], -evidence[1]) if p0 >= p1 else (-evidence[1], evidence[0])
    first = _mixed(p0, q0, end) - _mixed(p1, q1, end)
    second = _mixed(p1, q1, back) - _mixed(p0, q0, back)
    if record:
        first = max(first, math.log(p0 / p1), math.log(q0 / q1))
        second = max(second, math.log(p1 / p0), math.log(q1 / q0))
    return max(first + pad, 0.0), max(second + pad, 0.0)


def _mixed(p: float, q: float, end: float) -> float:
    """Return ln(p e^end + q)."""
    if end > 0:
        return end + math.log(p + q * math.exp(-end))
    return math.log(p * math.exp(end) + q)


def _scalar_shifted(first: float, second: float, end: float, evidence: Pair) -> float:
    """Return the largest h(a + l) - h(a' + l) over shifts l, h(z) = ln(1+e^{z+b}) - ln(1+e^z)."""
    # the one maximum, within what is known
    shift = min(max(-end / 2 - (first + second) / 2, -evidence[1]), evidence[0])
    return _scalar_gain(first + shift, end) - _scalar_gain(second + shift, end)


def _scalar_gain(odds: float, end: float) -> float:
    """Return ln(1 + e^{z + b}) - ln(1 + e^z) of two numbers."""
    return _softplus(odds + end) - _softplus(odds)


def _softplus(value: float) -> float:
    """Return ln(1 + e^z)."""
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


DEPTHS = 8
"""Distance from the worst target up to which known records are tried for a lower end."""

REGION = 1024
"""Most nodes around a target among which known records are chosen for a lower end."""

SWEPT = 10_000
"""Most nodes around a target whose sets are chosen for a lower end (others only add to it)."""

THIN = 16
"""Nodes on an average level below which two-state trees are swept node by node."""

SMALL = 7
"""Most records of a tree for which every known set is gone through."""


def tree_leakage(epsilon: float, network: BayesianNetwork, against: Against = "any") -> Leakage:
    """Compute the leakage of all epsilon-DP algorithms about one record of a tree.

    Two states: exact against ``ignorant``, ``informed`` and explicit adversaries, certified from
    above against ``any``. More states: certified from above. Cost O(n k^2) for two states; for
    three to five all extreme points of each step are looked at, beyond that a coarser bound serves.

    >>> kernel = [[.882, .118], [.305, .695]]
    >>> path = BayesianNetwork([(0, 1), (1, 2)], {0: [.721, .279], 1: kernel, 2: kernel})
    >>> round(tree_leakage(1.0, path, "ignorant").upper, 6)
    2.202411
    """
    epsilon, against = check_epsilon(epsilon), check_against(against)
    if not network.is_tree:
        raise NotSupported("a node of this network has several parents: it is not a tree")
    if len({table.shape[-1] for table in network.tables}) > 1:
        raise NotSupported("the latent nodes of this tree have other states than its records")
    if against == "informed":
        return _informed(epsilon, network)
    tree = rooted_tree(epsilon, network)
    if isinstance(against, Adversary):
        return _fixed(network, tree, against)
    if against == "ignorant":
        return _ignorant(network, tree)
    return _any(network, tree)


def _ignorant(network: BayesianNetwork, tree: RootedTree) -> Leakage:
    """Return the leakage to an attacker who knows nothing."""
    upper, worst_record, values = _worst_record(tree, _messages(tree, 1.0))
    if worst_record is None:
        return _leakage(0.0, upper, "ignorant", None, network)
    if network.size > 2:
        swept, witness = _swept(network, tree, worst_record, WorstValues(upper, values, {}))
        return _leakage(min(swept, upper), upper, "ignorant", witness, network)
    lower, target, pair = _worst_record(tree, _messages(tree, -1.0))
    target = worst_record if target is None else target
    witness = _witness(network, tree, target, WorstValues(lower, pair, {}))
    return _leakage(max(lower, 0.0), upper, "ignorant", witness, network)


def _any(network: BayesianNetwork, tree: RootedTree) -> Leakage:
    """Return the leakage to an attacker who may know any records."""
    totals = _messages(tree, 1.0, known=True)
    upper, target, pair = _worst_record(tree, totals)
    shown = [_informed(tree.epsilon, network)]
    if target is not None and network.size > 2:
        lower, witness = _swept(network, tree, target, WorstValues(upper, pair, {}))
        shown.append(_leakage(lower, math.inf, "any", witness, network))
    if target is not None:
        shown += _attempts(network, tree, target, pair)
    if network.size == 2:
        shown.append(_ignorant(network, tree))
    best = max(shown, key=lambda leak: leak.lower)
    if network.length <= SMALL and best.lower < upper:
        every = [_fixed(network, tree, each) for each in every_adversary("any", network.length)]
        best = max([best, *every], key=lambda leak: leak.lower)
        upper = min(upper, max(leak.upper for leak in every))
    return _leakage(min(best.lower, upper), upper, "any", best.witness, network)


def _fixed(network: BayesianNetwork, tree: RootedTree, against: Adversary) -> Leakage:
    """Return the leakage to one adversary: every branch at its worst known values."""
    places = network.places
    target = places[against.target]
    possible = tree.laws[target] > 0
    known = {places[record] for record in against.known}
    try:
        upper = tree.worst(target, known, possible, 1.0)
        lower = tree.worst(target, known, possible, -1.0)
    except OverflowError:
        bound = _any(network, tree)
        many = "too many known records for all their values: the bound for any attacker is used"
        return Leakage(
            0.0, bound.upper, bound.method, against,
            assumptions=(*bound.assumptions, many), citation=bound.citation,
        )  # fmt: skip
    if upper is None or lower is None:
        return _leakage(0.0, 0.0, against, None, network)
    if network.size > 2:
        least, attack = _swept(network, tree, target, upper)
        return _leakage(min(least, upper.value), upper.value, against, attack, network)
    witness = _witness(network, tree, target, lower)
    return _leakage(max(lower.value, 0.0), upper.value, against, witness, network)


def _attempts(
    network: BayesianNetwork, tree: RootedTree, target: int, pair: tuple[int, int]
) -> list[Leakage]:
    """Return the leakage to some attackers: chosen ones, and those who know all at a distance."""
    possible = tree.laws[target] > 0
    if network.size == 2:
        facts = likely_facts(tree, target, pair, REGION)
        value = tree.attained(target, pair, facts, REGION)
        attack = _witness(network, tree, target, WorstValues(value, pair, facts), REGION)
        return [_leakage(max(value, 0.0), math.inf, "any", attack, network)]
    leaks, inside = [], 0
    for ring in tree.rings(target, DEPTHS):
        known = {place for place in ring if tree.record[place]}
        inside += len(ring)
        if inside > REGION or not known:
            continue
        worst = tree.worst(target, known, possible, -1.0, uniform=True)
        if worst is not None:
            lower, witness = _swept(network, tree, target, worst)
            leaks.append(_leakage(lower, math.inf, "any", witness, network))
    return leaks


def _swept(
    network: BayesianNetwork, tree: RootedTree, target: int, worst: WorstValues
) -> tuple[float, Witness | None]:
    """Return the loss and the attack of sets chosen for one target and pair of values."""
    value, sets = tree.swept(target, worst.pair, worst.facts, SWEPT)
    return max(value, 0.0), attack_on(network, target, worst.pair, worst.facts, sets)


def _messages(tree: RootedTree, side: float, *, known: bool = False) -> Array:
    """Return the sum of all messages into every node, (n, k, k), rounded to one side.

    ``side`` is 1 for upper ends and -1 for lower ones; ``known`` lets records beyond each edge be
    known (upper ends only).
    """
    count, states = tree.laws.shape
    positive = bool((tree.down[tree.parent >= 0] > 0).all() and (tree.laws > 0).all())
    if states == 2 and positive and count < THIN * len(tree.levels):
        return pair_messages(tree, side, known=known)
    # (n, k, k)
    own = np.where(~np.eye(states, dtype=bool) & tree.record[:, None, None], tree.epsilon, 0.0)
    children = _Sums(np.zeros((count, states, states)), np.zeros((count, states, states), int))
    facts = _Sums(np.zeros_like(children.finite), np.zeros_like(children.endless))
    rising, seen = np.zeros_like(own), np.zeros_like(own)  # messages of each node to its parent
    degree = np.bincount(tree.parent[tree.parent >= 0], minlength=count)  # children of each node
    slack = side * ROUNDOFF * (degree + 4.0)[:, None, None]  # of adding up and taking away
    for level in reversed(tree.levels[1:]):
        kernel, parent = tree.down[level], tree.parent[level]  # (edges, k, k) and (edges,)
        # B = epsilon + sum of s
        bound = np.asarray(own[level] + children.all(level) * (1 + slack[level]))
        if known:
            evidence = facts.all(level) * (1 + slack[level])
            rising[level], passed = evidence_step(kernel, bound, evidence)
            seen[level] = _evidence(kernel, passed, tree.record[level], 0.0)
            facts.add(parent, seen[level])
        else:
            rising[level] = step(kernel, bound, side)
        children.add(parent, rising[level])
    falling, downward = (
        np.zeros_like(own),
        np.zeros_like(own),
    )  # messages of its parent to each node
    error = 2 * tree.error  # of a ratio of two sums over a kernel with errors
    for level in tree.levels[1:]:
        kernel, parent = tree.back[level], tree.parent[level]
        possible = tree.laws[level] > 0
        # siblings only: not what came from this child
        rest = children.without(parent, rising[level])
        rest = rest + slack[parent] * children.all(parent) + falling[parent]
        bound = own[parent] + np.maximum(rest, 0.0)
        if known:
            evidence = facts.without(parent, seen[level])
            evidence = evidence + slack[parent] * facts.finite[parent] + downward[parent]
            falling[level], passed = evidence_step(kernel, bound, evidence, error)
            downward[level] = filled(
                _evidence(kernel, passed, tree.record[parent], error), possible
            )
        else:
            falling[level] = step(kernel, bound, side, error)
        falling[level] = filled(falling[level], possible)
    total = children.all(slice(None)) + falling
    return np.asarray(total + slack * np.abs(total))


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums of children's messages, with infinite terms counted apart."""

    finite: Array
    endless: Ints

    def add(self, places: Ints, terms: Array) -> None:
        """Add a message to each of some nodes."""
        far = np.isinf(terms)
        # several children may share a parent
        np.add.at(self.finite, places, np.where(far, 0.0, terms))
        if far.any():
            np.add.at(self.endless, places, far)

    def all(self, places: Ints | slice) -> Array:
        """Return the sums at some nodes."""
        return np.asarray(np.where(self.endless[places] > 0, np.inf, self.finite[places]))

    def without(self, places: Ints, terms: Array) -> Array:
        """Return the sums at some nodes, each without one of its terms."""
        far = np.isinf(terms)
        rest = np.maximum(self.finite[places] - np.where(far, 0.0, terms), 0.0)
        return np.where(self.endless[places] - far > 0, np.inf, rest)


def _evidence(kernel: Array, passed: Array, record: Bools, error: float) -> Array:
    """Return how far known records behind an edge can move the odds of two values.

    ``passed`` is what is seen through the edge of those farther away; the node next to it may
    itself be known, if it is a record.
    """
    states = kernel.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(kernel)
        direct = logs[..., :, None, :] - logs[..., None, :, :]  # (edges, k, k, values of the node)
    pad = roundings(kernel, np.zeros_like(kernel)) + error
    direct = np.where(np.isnan(direct), -np.inf, direct).max(axis=-1) + pad[..., None, None]
    evidence = np.maximum(passed, np.where(record[..., None, None], direct, 0.0))
    evidence[..., np.arange(states), np.arange(states)] = 0.0
    return np.asarray(evidence)


def _worst_record(tree: RootedTree, totals: Array) -> tuple[float, int | None, tuple[int, int]]:
    """Return the largest leakage over all records, its target and its pair of values."""
    both = tree.pairs()
    if not both.any():
        return 0.0, None, (0, 0)
    losses = np.where(both, tree.epsilon + totals, -np.inf)  # (n, k, k)
    target, x, other = (int(i) for i in np.unravel_index(int(np.argmax(losses)), losses.shape))
    return float(losses[target, x, other]), target, (x, other)


def _informed(epsilon: float, network: BayesianNetwork) -> Leakage:
    amount, witness = informed_level(network, epsilon)
    lower = 0.0 if witness is None else down(amount)
    return _leakage(lower, amount, "informed", witness, network)


def _witness(
    network: BayesianNetwork, tree: RootedTree, target: int, worst: WorstValues,
    most: int | None = None,
) -> Witness:  # fmt: skip
    """Return the attack: the known records, and the sets that the worst algorithm rewards."""
    sets = {n: (s,) for n, s in tree.sets(target, worst.pair, worst.facts, most).items()}
    return attack_on(network, target, worst.pair, worst.facts, sets)


def rooted_tree(epsilon: float, network: BayesianNetwork) -> RootedTree:
    """Return the tree as arrays."""
    count, states = len(network.nodes), network.size
    parent = np.array([above[0] if above else -1 for above in network.parents], dtype=np.int64)
    depth = np.zeros(count, dtype=np.int64)
    for place in range(count):
        if parent[place] >= 0:
            depth[place] = depth[parent[place]] + 1
    order = np.argsort(depth, kind="stable")
    # where each level begins
    cuts = np.searchsorted(depth[order], np.arange(1, int(depth.max()) + 1))
    levels = [np.asarray(part, dtype=np.int64) for part in np.split(order, cuts)]
    kernels = np.zeros((count, states, states))
    laws = np.zeros((count, states))
    inner = np.flatnonzero(parent >= 0)
    if inner.size:
        kernels[inner] = np.array([network.tables[place] for place in inner.tolist()])
    roots = levels[0]
    laws[roots] = np.array([network.tables[place] for place in roots.tolist()])
    for level in levels[1:]:
        # y is the parent, x the child
        laws[level] = np.einsum("ny,nyx->nx", laws[parent[level]], kernels[level])
        possible = np.einsum("ny,nyx->nx", laws[parent[level]] > 0, kernels[level] > 0)
        if (possible & (laws[level] < FAINT)).any():
            raise NotSupported("some values of the records are too rare for exact arithmetic")
    back = np.zeros_like(kernels)
    if inner.size:
        joint = laws[parent[inner]][:, :, None] * kernels[inner]  # (edges, parent, child)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Bayes: (edges, child, parent)
            back[inner] = np.swapaxes(joint, 1, 2) / laws[inner][:, :, None]
        back[inner] = np.where(np.isnan(back[inner]), 1.0 / states, back[inner])
    record = np.isin(np.arange(count), network.places)
    error = ROUNDOFF * (states + 2.0) * (len(levels) + 2.0)
    around = neighbours(parent)
    return RootedTree(parent, kernels, back, record, error, epsilon, around, levels, laws)


def _leakage(
    lower: float, upper: float, against: Against, witness: Witness | None,
    network: BayesianNetwork,
) -> Leakage:  # fmt: skip
    """Return a leakage on a tree, with a note where it is an upper bound."""
    exact = network.size == 2 and against != "any"
    notes = ["the records follow the stated tree"]
    if not exact and against != "informed":
        notes.append("an upper bound: " + (
            "what is known behind each edge is taken at its worst"
            if network.size == 2 else "messages between more than two states keep pairs only"
        ))  # fmt: skip
    return Leakage(lower, upper, "exchange", against, witness, tuple(notes), "docs, theory: trees")
