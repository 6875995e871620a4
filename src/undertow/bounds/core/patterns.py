"""Attacks of someone who may know any records: patterns on both sides of a target, by beam search.

A side grows outwards record by record; each record shows an output or is known, and the attempts
that reveal most beside the best of the other side are kept. Values are floats: a pattern is a
lower end once `play` has evaluated its `Attack`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np

from undertow.bounds.core.play import Attack, play
from undertow.certificate import Witness
from undertow.models.lowered import LoweredLaw
from undertow.numerics import Array
from undertow.progress import spend

__all__ = [
    "WIDTH",
    "Codes",
    "Pattern",
    "PatternGuide",
    "PatternSearch",
    "Symbol",
    "known_values",
    "outputs",
    "pattern_attack",
    "shown_message",
]

WIDTH = 48
"""Attempts that are kept on a side at each distance (cost)."""

ROUNDS = 3
"""Rounds of the search on both sides (cost); each uses the other side's best."""

RIVALS = 6
"""Attempts of the other side against which a side is scored (cost)."""

SEPARATE = 3
"""States up to which each pair of values is searched for by itself (cost)."""

_TRY, _GROWTH = 40.0, 6.0
"""Work of a loss, and of an entry of a product, in multiplications."""

Codes = tuple[int, ...]
"""What is looked at, outwards: the value v of a known record, or ~z for output z of a record."""


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """What is looked at in one record: its code, and a weight for each state (k,).

    A known value v weighs 1 at v and 0 elsewhere, with outputs and without (``seen``, ``plain``);
    an output weighs Pr[output | state], and 1 without.
    """

    code: int
    seen: Array
    plain: Array


def known_values(states: int) -> list[Symbol]:
    """Return the symbols of a known record, one for each value."""
    return [Symbol(value, row, row) for value, row in enumerate(np.eye(states))]


def outputs(weights: Array) -> list[Symbol]:
    """Return the symbols of a record that shows an output, weights (outputs, k), if any can occur.

    >>> [symbol.code for symbol in outputs(np.array([[.9, .1], [0, 0], [.1, .9]]))]
    [-1, -3]
    """
    ones = np.ones(weights.shape[1])
    return [Symbol(~place, row, ones) for place, row in enumerate(weights) if row.any()]


@dataclass(frozen=True, slots=True)
class Pattern:
    """An attack: both values of the target, the code of its own record, what each side shows.

    ``value`` is what it reveals, not rounded. ``own`` is None if nothing is seen of the target.
    """

    value: float
    pair: tuple[int, int]
    own: int | None
    left: Codes
    right: Codes


def pattern_attack(pattern: Pattern, weights: Callable[[int], Array]) -> Attack:
    """Return the attack of a pattern; ``weights`` (outputs, k) by the signed distance of a record.

    >>> seen = pattern_attack(Pattern(0.0, (1, 0), -1, (0,), (-1,)), lambda distance: np.eye(2))
    >>> seen.target, seen.known, seen.likelihoods.tolist()
    (1, {0: 0}, [[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    """
    target = len(pattern.left)
    own = () if pattern.own is None else (pattern.own,)
    codes = [(0, code) for code in own]
    codes += [(-1 - number, code) for number, code in enumerate(pattern.left)]
    codes += [(1 + number, code) for number, code in enumerate(pattern.right)]
    likelihoods = np.ones((target + 1 + len(pattern.right), weights(0).shape[1]))
    known = {target + distance: code for distance, code in codes if code >= 0}
    for distance, code in codes:
        if code < 0:
            likelihoods[target + distance] = weights(distance)[~code]
    first, other = pattern.pair
    return Attack(target, known, ((first,), (other,)), likelihoods)


@dataclass(frozen=True, slots=True, eq=False)
class _Attempts:
    """Attempts on one side: products (b, 2, m, m), messages (b, 2, m), and their codes.

    The axis of two is with outputs and without.
    """

    products: Array
    messages: Array
    codes: list[Codes]

    def chosen(self, scores: Array, most: int) -> "_Attempts":
        """Return the attempts of the largest scores, best first."""
        places = np.argsort(-scores, kind="stable")[:most].tolist()
        return _Attempts(
            self.products[places], self.messages[places], [self.codes[place] for place in places]
        )


def _joined(parts: Sequence[_Attempts]) -> _Attempts:
    """Return several lists of attempts as one."""
    return _Attempts(
        np.concatenate([part.products for part in parts]),
        np.concatenate([part.messages for part in parts]),
        [codes for part in parts for codes in part.codes],
    )


Ends = Callable[[int, int], Sequence[tuple[Array, Codes]]]


@dataclass(frozen=True, slots=True, eq=False)
class PatternSearch:
    """A stationary law of one kernel, and what can be seen at each signed distance of a target.

    ``look`` returns None beyond the series, the target's own outputs at 0. ``ends(side, distance)``
    are the messages (2, m), with outputs and without, and the codes of what may follow beyond a
    distance: by default nothing is looked at there. ``width`` attempts are kept at each distance.
    """

    law: LoweredLaw
    look: Callable[[int], list[Symbol] | None]
    ends: Ends | None = None
    width: int = WIDTH

    def search(self, reach: int, pair: tuple[int, int] | None = None) -> Pattern | None:
        """Return the best pattern of up to ``reach`` records a side, None if nothing is revealed.

        ``pair``: one value of the target against another; by default any two. Cost
        O(reach * width * m^2 (m + symbols)) for each round.
        """
        states = self.law.states
        if pair is None and states <= SEPARATE:
            patterns = [self.search(reach, each) for each in permutations(range(states), 2)]
            return max(filter(None, patterns), key=lambda each: each.value, default=None)
        pairs = list(permutations(range(states), 2)) if pair is None else [pair]
        steps = {1: self.law.kernels[0], -1: self.law.reversed().kernels[0]}
        eye = np.broadcast_to(np.eye(self.law.size), (1, 2, self.law.size, self.law.size))
        sides = {side: self._closed(side, 0, eye, [()]) for side in (-1, 1)}
        best: Pattern | None = None
        for _ in range(ROUNDS):
            before = -math.inf if best is None else best.value
            for side in (1, -1):
                sides[side] = self._grown(side, steps[side], sides[-side], reach, pairs)
                pattern = self._best(sides[-1], sides[1], pairs)
                if pattern is not None and (best is None or pattern.value > best.value):
                    best = pattern
            if best is None or best.value <= before:
                break
        return best

    def _closed(self, side: int, distance: int, products: Array, codes: list[Codes]) -> _Attempts:
        """Return attempts with their messages, each with all that may follow."""
        nothing: list[tuple[Array, Codes]] = [(np.ones((2, self.law.size)), ())]
        ends = nothing if self.ends is None else self.ends(side, distance)
        return _joined([
            _Attempts(
                products, np.einsum("bvst,vt->bvs", products, message),
                [(*before, *more) for before in codes],
            )
            for message, more in ends
        ])  # fmt: skip

    def _grown(
        self, side: int, step: Array, rivals: _Attempts, reach: int, pairs: list[tuple[int, int]]
    ) -> _Attempts:
        """Return the best attempts of a side, of all lengths up to the reach, best first."""
        size = self.law.size
        products = np.broadcast_to(np.eye(size), (1, 2, size, size))
        codes: list[Codes] = [()]
        kept = [self._closed(side, 0, products, codes)]
        for distance in range(1, reach + 1):
            symbols = self.look(side * distance)
            if symbols is None:
                break
            spend(len(products) * len(symbols) * 2 * size**2 * _GROWTH)
            weights = np.stack([np.stack([symbol.seen, symbol.plain]) for symbol in symbols])
            weights = weights[:, :, self.law.symbols]  # (symbols, 2, m)
            further = (products @ step)[:, None] * weights[:, :, None]  # (b, symbols, 2, m, m)
            further = further.reshape(-1, 2, size, size)
            top = further.max(axis=(2, 3), keepdims=True)
            further = further / np.where(top > 0, top, 1.0)
            codes = [(*before, symbol.code) for before in codes for symbol in symbols]
            closed = self._closed(side, distance, further, codes)
            scores = self._scores(side, closed, rivals, pairs)
            ways = scores.reshape(-1, len(codes)).max(axis=0)  # the better end of each
            order = np.argsort(-ways, kind="stable")[: self.width].tolist()
            products, codes = further[order], [codes[place] for place in order]
            kept.append(closed.chosen(scores, RIVALS))
        every = _joined(kept)
        return every.chosen(self._scores(side, every, rivals, pairs), RIVALS)

    def _scores(
        self, side: int, attempts: _Attempts, rivals: _Attempts, pairs: list[tuple[int, int]]
    ) -> Array:
        """Return what each attempt reveals with the best of the other side."""
        lefts, rights = (attempts, rivals) if side < 0 else (rivals, attempts)
        losses = self._losses(lefts, rights, pairs)
        return np.asarray(losses.max(axis=(1, 2, 3) if side < 0 else (0, 2, 3)))

    def _losses(self, lefts: _Attempts, rights: _Attempts, pairs: list[tuple[int, int]]) -> Array:
        """Return what is revealed, (left, right, own output, pair); -inf: cannot occur."""
        own = self._own()
        spend(_TRY * len(lefts.codes) * len(rights.codes) * len(own) * len(pairs))
        inside = (self.law.symbols[:, None] == np.arange(self.law.states)).astype(np.float64)
        reached = self.law.start * lefts.messages  # (l, 2, m)
        # Pr[pattern, target's value], with outputs and without: (l, r, 2, k)
        total = (reached[:, None] * rights.messages[None]) @ inside
        seen = np.stack([symbol.seen for symbol in own])  # (o, k)
        first, other = np.array(pairs).T
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.log(total[..., 0, :]) - np.log(total[..., 1, :])  # (l, r, k)
            score = gain[:, :, None] + np.log(seen)  # (l, r, o, k)
            loss = score[..., first] - score[..., other]
        possible = total[..., 1, :] > 0
        both = (possible[..., first] & possible[..., other])[:, :, None]
        return np.asarray(np.where(both & ~np.isnan(loss), loss, -math.inf))

    def _own(self) -> list[Symbol]:
        """Return what can be seen of the target itself, at least nothing."""
        ones = np.ones(self.law.states)
        return self.look(0) or [Symbol(0, ones, ones)]

    def _best(
        self, lefts: _Attempts, rights: _Attempts, pairs: list[tuple[int, int]]
    ) -> Pattern | None:
        """Return the best combination of both sides and the target's output."""
        losses = self._losses(lefts, rights, pairs)
        l, r, o, p = map(int, np.unravel_index(int(losses.argmax()), losses.shape))
        if not losses[l, r, o, p] > 0:
            return None
        code = self._own()[o].code
        return Pattern(
            float(losses[l, r, o, p]), pairs[p], code if code < 0 else None,
            lefts.codes[l], rights.codes[r],
        )  # fmt: skip


def shown_message(step: Array, records: int) -> Array:
    """Return the message of so many records, each with the matrix ``step``, up to a factor.

    By squares of the matrix: cost O(m^3 log records).

    >>> shown_message(np.array([[.5, .25], [.25, .5]]), 3).tolist()
    [1.0, 1.0]
    """
    message, power = np.ones(len(step)), step
    while records:
        if records % 2:
            message = power @ message
            message = message / message.max()
        power = power @ power
        power, records = power / power.max(), records // 2
    return np.asarray(message)


ELSEWHERE = 1e-3
"""Relative distance of levels at which patterns are looked for anew."""


@dataclass(slots=True)
class PatternGuide:
    """Attacks of patterns at any level: a guide to where leakages are worth proving, no proof.

    ``patterns_at`` finds the worst patterns at a level, ``attack_at`` is one at another level.
    """

    law: LoweredLaw
    patterns_at: Callable[[float], Sequence[Pattern]]
    attack_at: Callable[[Pattern, float], Attack]
    patterns: Sequence[Pattern] = ()
    focused: float = 0.0
    level: float = 0.0
    bracketed: ClassVar[bool] = True

    def attains(self, level: float) -> float:
        """Return what the patterns attain at a level."""
        self.level = level
        if not self.patterns:
            self.focus(level)
        values = (play(self.law, self.attack_at(each, level)).lower for each in self.patterns)
        return max(values, default=0.0)

    def focus(self, level: float) -> None:
        """Search for the patterns that are worst at a level."""
        self.patterns, self.focused = self.patterns_at(level), level

    def learn(self, witness: Witness) -> bool:
        """Search again at a level that was not proved; return False if that was done before."""
        if abs(self.level - self.focused) <= ELSEWHERE * self.focused:
            return False
        self.focus(self.level)
        return True
