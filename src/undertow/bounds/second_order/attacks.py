"""Attacks on a chain of order two: what an attacker attains, by an exact evaluation of each try.

An attack names, for every record around the target, what is looked at: a known value, or an
output. Given the target x its likelihood is sum_a Pr[a, x] w(a) L(x, a) R(a, x), with a the left
neighbour, and L and R products of matrices over pairs of neighbours, read outwards. The search
extends both sides in turn, keeping the most promising attempts; every attack that it returns is
one that can be carried out, so its value is a lower bound. Records beyond those of an attack are
summed out: where each record is shown by itself they do not matter, and where one answer tells of
all of them, `AttackScenario.rest` carries their share.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from undertow.models.second_order import SecondOrderChain
from undertow.numerics import Array
from undertow.progress import spend

__all__ = ["AttackScenario", "FoundAttack", "Symbol", "search_attack"]

WIDTH = 48
"""Attempts that are kept on a side at each distance (cost)."""

ROUNDS = 3
"""How often both sides are searched (cost); each round uses the other side's best."""

_TRY, _GROWTH = 40.0, 6.0
"""Work of a loss, and of an entry of a product, in multiplications."""

RIVALS = 6
"""Attempts of the other side against which a side is scored (cost)."""


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """What is looked at in one record: a weight for each state, with outputs and without.

    A known value v weighs 1 at v and 0 elsewhere in both; an output weighs Pr[output | state] and
    without outputs 1 throughout.
    """

    seen: Array
    plain: Array
    known: int | None = None
    output: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AttackScenario:
    """A chain and what can be seen at each signed distance from the target (0 is its own record).

    ``look`` returns None beyond the series. ``rest(side, distance)`` is the message, shape (k, k),
    of all records beyond a distance where these are part of the answer; None where they are not.
    """

    chain: SecondOrderChain
    look: Callable[[int], list[Symbol] | None]
    rest: Callable[[int, int], Array | None] = lambda side, distance: None

    def symbols(self, distance: int) -> list[Symbol]:
        """Return what can be seen at a distance; beyond the series, nothing."""
        ones = np.ones(self.chain.size)
        return self.look(distance) or [Symbol(ones, ones)]


Pair = tuple[int, int] | None
"""The two values of the target that are to be told apart; None for any two."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundAttack:
    """An attack: what is seen at each distance, the two values, and the leakage that it attains."""

    value: float
    first: int
    other: int
    seen: tuple[tuple[int, Symbol], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _PairTries:
    """Attempts on one side: products of matrices (b, 2, k^2, k, k), messages, and symbols.

    The axis of two is with outputs and without. Messages (b, 2, k, k) are over the inner pair.
    """

    products: Array
    messages: Array
    symbols: list[tuple[Symbol, ...]]

    @classmethod
    def start(cls, scenario: AttackScenario, side: int) -> "_PairTries":
        """Return the one attempt that looks at nothing on this side."""
        size = scenario.chain.size
        product = np.broadcast_to(np.eye(size**2), (1, 2, size**2, size**2))
        product = product.reshape(1, 2, size**2, size, size)
        return cls(product, _messages(product, scenario.rest(side, 1 if side < 0 else 0)), [()])

    def chosen(self, places: Sequence[int]) -> "_PairTries":
        """Return some of the attempts."""
        picked = list(places)
        return _PairTries(
            self.products[picked], self.messages[picked], [self.symbols[p] for p in picked]
        )

    def extended(self, step: Array, symbols: list[Symbol], rest: Array | None) -> "_PairTries":
        """Return every attempt with every symbol for one more record outwards."""
        # (symbols, 2, k)
        weights = np.stack([np.stack([symbol.seen, symbol.plain]) for symbol in symbols])
        size = len(step)
        spend(len(self.products) * len(symbols) * 2 * size**4 * _GROWTH)
        ahead = np.einsum("bvpxy,xyc->bvpyc", self.products, step)  # (b, 2, k^2, y, c)
        products = ahead[:, None] * weights[None, :, :, None, None, :]  # (b, symbols, 2, k^2, y, c)
        products = products.reshape(-1, *products.shape[2:])
        top = products.max(axis=(2, 3, 4), keepdims=True)  # (b symbols, 2, 1, 1, 1)
        products = products / np.where(top > 0, top, 1.0)
        listed = [(*before, symbol) for before in self.symbols for symbol in symbols]
        return _PairTries(products, _messages(products, rest), listed)


def _messages(products: Array, rest: Array | None) -> Array:
    size = products.shape[-1]
    found = products.sum(axis=(3, 4))  # (b, 2, k^2)
    if rest is not None:
        found[:, 0] = (products[:, 0] * rest).sum(axis=(2, 3))
    return np.asarray(found.reshape(-1, 2, size, size))


def search_attack(scenario: AttackScenario, reach: int) -> FoundAttack | None:
    """Return the best attack found on a target, None where nothing can be told apart.

    Looks up to ``reach`` records away from the target; a shorter reach is tried too. Each pair of
    values is searched for by itself, up to three states. Cost O(reach * width * symbols^3 * k^6).
    """
    size = scenario.chain.size
    pairs: list[Pair] = [None] if size > 3 else list(permutations(range(size), 2))
    found = [
        _search(scenario, distance, pair)
        for pair in pairs
        for distance in sorted({max(reach // 2, 2), reach})
    ]
    return max(filter(None, found), key=lambda attack: attack.value, default=None)


def _search(scenario: AttackScenario, reach: int, pair: Pair) -> FoundAttack | None:
    sides = {side: _PairTries.start(scenario, side) for side in (-1, 1)}
    steps = {1: scenario.chain.transition, -1: scenario.chain.reverse().transition}
    best: FoundAttack | None = None
    for _ in range(ROUNDS):
        before = -math.inf if best is None else best.value
        for side in (1, -1):
            sides[side] = _grow(scenario, steps[side], side, sides[-side], reach, pair)
            found = _best(scenario, sides[-1], sides[1], pair)
            if found is not None and (best is None or found.value > best.value):
                best = found
        if best is None or best.value <= before:
            break
    return best


def _grow(
    scenario: AttackScenario, step: Array, side: int, rivals: _PairTries, reach: int, pair: Pair
) -> _PairTries:
    """Return the best attempts of a side, of all lengths up to the reach, best first."""
    beam = _PairTries.start(scenario, side)
    kept = [beam]
    first = 2 if side < 0 else 1  # the left neighbour is summed over apart
    for distance in range(first, reach + 1):
        symbols = scenario.look(side * distance)
        if symbols is None:
            break
        further = beam.extended(step, symbols, scenario.rest(side, distance))
        scores = _scores(scenario, side, further, rivals, pair)
        order = np.argsort(-scores, kind="stable")[:WIDTH].tolist()
        beam = further.chosen(order)
        kept.append(beam.chosen(range(min(RIVALS, len(order)))))
    every = _PairTries(
        np.concatenate([tries.products for tries in kept]),
        np.concatenate([tries.messages for tries in kept]),
        [symbols for tries in kept for symbols in tries.symbols],
    )
    scores = _scores(scenario, side, every, rivals, pair)
    return every.chosen(np.argsort(-scores, kind="stable")[:RIVALS].tolist())


def _scores(
    scenario: AttackScenario, side: int, attempts: _PairTries, rivals: _PairTries, pair: Pair
) -> Array:
    """Return what each attempt attains with the best of the other side."""
    lefts, rights = (attempts, rivals) if side < 0 else (rivals, attempts)
    losses = _losses(scenario, lefts, rights, pair)
    return np.asarray(losses.max(axis=(1, 2, 3, 4, 5) if side < 0 else (0, 2, 3, 4, 5)))


def _losses(scenario: AttackScenario, lefts: _PairTries, rights: _PairTries, pair: Pair) -> Array:
    """Return the leakage for (left, right, left neighbour, own output, x, x'); -inf: impossible."""
    chain = scenario.chain
    left, right = lefts.messages, rights.messages  # (l, 2, x, a), (r, 2, a, x)
    tries = len(left) * len(right) * len(scenario.symbols(-1))
    spend(_TRY * tries * len(scenario.symbols(0)) * chain.size**2)
    near = np.stack([np.stack([s.seen, s.plain]) for s in scenario.symbols(-1)])  # (n, 2, a)
    weighted = chain.pair_law * near[..., None]  # (n, 2, a, x)
    reached = weighted * left.transpose(0, 1, 3, 2)[:, None]  # (l, n, 2, a, x)
    total = (reached[:, None] * right[None, :, None]).sum(axis=4)  # (l, r, n, 2, x)
    own = np.stack([symbol.seen for symbol in scenario.symbols(0)])  # (o, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.log(total[..., 0, :]) - np.log(total[..., 1, :])  # (l, r, n, x)
        score = gain[:, :, :, None] + np.log(own)  # (l, r, n, o, x)
        loss = score[..., :, None] - score[..., None, :]  # (l, r, n, o, x, x')
    possible = total[..., 1, :] > 0  # (l, r, n, x)
    both = (possible[..., :, None] & possible[..., None, :])[:, :, :, None]
    if pair is not None:
        wanted = np.zeros((chain.size, chain.size), dtype=bool)
        wanted[pair] = True
        both = both & wanted
    return np.asarray(np.where(both & ~np.isnan(loss), loss, -math.inf))


def _best(
    scenario: AttackScenario, lefts: _PairTries, rights: _PairTries, pair: Pair
) -> FoundAttack | None:
    """Return the best combination of both sides, the left neighbour and the target's output."""
    losses = _losses(scenario, lefts, rights, pair)
    place = np.unravel_index(int(losses.argmax()), losses.shape)
    value = float(losses[place])
    if not value > 0:
        return None
    l, r, n, o, x, y = map(int, place)
    seen = [(-2 - d, symbol) for d, symbol in enumerate(lefts.symbols[l])]
    seen += [(1 + d, symbol) for d, symbol in enumerate(rights.symbols[r])]
    seen += [(-1, scenario.symbols(-1)[n])] if scenario.look(-1) is not None else []
    seen += [(0, scenario.symbols(0)[o])] if scenario.look(0) is not None else []
    return FoundAttack(value, x, y, tuple(sorted(seen, key=lambda pair: pair[0])))
