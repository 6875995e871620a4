"""Attacks on a hidden chain: what is attained, by an exact evaluation of each try.

An attack names, for every record around the target, what is looked at: a value that is known, or
the output that speaks most for one of the two values. Given hidden state s of the target its
likelihood is l(s) r(s), with messages r = M_1 M_2 ... 1 read outwards, M_t the transitions times
the weight of record t. The search extends one side at a time and keeps the most promising tries;
every attack that it returns can be carried out, so its value is a lower bound.
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.models.hidden_chain import HiddenChain
from undertow.numerics import Array

__all__ = ["FoundPattern", "PatternSearch", "open_attack"]

WIDTH = 40
"""Attempts that are kept on a side at each distance (cost)."""

ROUNDS = 3
"""How often both sides are searched (cost); each round uses the other side's best."""

RIVALS = 4
"""Attempts of the other side against which a side is scored (cost)."""

BEYOND = 64
"""Records without a known one that may follow beyond the pattern."""

SHOWN = -1
"""Stands for an output in a pattern; other numbers are known states."""


@dataclass(frozen=True, slots=True)
class FoundPattern:
    """What is looked at on each side, outwards from the target, and the leakage it attains."""

    value: float
    left: tuple[int, ...]
    right: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Tries:
    """Attempts on one side: products (b, 2, m, m), with outputs and without, and patterns.

    ``ends`` (b, 2, m) are the messages of what may follow: nothing, or records without a known one.
    """

    products: Array
    messages: Array
    patterns: list[tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class PatternSearch:
    """A hidden chain, and how far the target's state speaks: weights (m,) of one shown record.

    ``target`` and ``other`` are the two states; ``known`` whether records may be known; ``room``
    the records on either side (None: as many as one likes); ``all`` whether every record that is
    not known is part of the answer, as in a count.
    """

    chain: HiddenChain
    weights: Array
    target: int
    other: int
    known: bool = True
    room: tuple[int, int] | None = None
    all: bool = False

    def search(self, reach: int) -> FoundPattern | None:
        """Return the best attack that was found, None where nothing can be told apart.

        Cost O(reach * width * (k + 1) * m^3) for each round.
        """
        steps = {-1: self.chain.reverse().transition, 1: self.chain.transition}
        sides = {side: self._start(side, steps[side]) for side in (-1, 1)}
        best: FoundPattern | None = None
        for _ in range(ROUNDS):
            before = -math.inf if best is None else best.value
            for side in (1, -1):
                sides[side] = self._grown(side, steps[side], sides[-side], reach)
                found = self._best(sides[-1], sides[1])
                if found is not None and (best is None or found.value > best.value):
                    best = found
            if best is None or best.value <= before:
                break
        return best

    def played(self, left: tuple[int, ...], right: tuple[int, ...]) -> FoundPattern | None:
        """Return what one pattern attains, cut to the records that there are.

        Where every record is part of the answer, those beyond the pattern are shown as well.
        """
        steps = {-1: self.chain.reverse().transition, 1: self.chain.transition}
        codes, tries = {-1: left, 1: right}, {}
        for side in (-1, 1):
            room = self._room(side)
            if room is not None:
                more = (SHOWN,) * max(room - len(codes[side]), 0) if self.all else ()
                codes[side] = (*codes[side][:room], *more)
            messages = np.ones((2, self.chain.hidden))  # with outputs and without
            for code in reversed(codes[side]):
                if code == SHOWN:
                    weighed = np.stack([self.weights * messages[0], messages[1]])
                else:
                    weighed = messages * (self.chain.shown == code)
                messages = weighed @ steps[side].T
                messages = messages / messages.max(axis=1, keepdims=True)
            tries[side] = _Tries(np.empty(0), messages[None], [codes[side]])
        return self._best(tries[-1], tries[1])

    def _room(self, side: int) -> int | None:
        return None if self.room is None else self.room[side > 0]

    def _start(self, side: int, step: Array) -> _Tries:
        """Return the attempt that knows nothing on a side."""
        eye = np.broadcast_to(np.eye(self.chain.hidden), (1, 2, *step.shape))
        return self._closed(side, step, eye, [()])

    def _closed(
        self, side: int, step: Array, products: Array, patterns: list[tuple[int, ...]]
    ) -> _Tries:
        """Return attempts with their messages, each with the better of what may follow."""
        length = len(patterns[0])
        room = self._room(side)
        left = BEYOND if room is None else room - length
        shown = _message(step * self.weights, left)  # of records beyond that are shown
        ends = [shown] if self.all and room is not None else [shown, np.ones(len(shown))]
        plain = products[:, 1].sum(axis=2)  # (b, m)
        made = []
        for end in ends:
            seen = products[:, 0] @ end
            made.append(np.stack([seen, plain], axis=1))  # (b, 2, m)
        count = len(ends)
        return _Tries(
            np.concatenate([products] * count), np.concatenate(made),
            [(*pattern, *(() if place else (SHOWN,) * left))
             for place in range(count) for pattern in patterns],
        )  # fmt: skip

    def _grown(self, side: int, step: Array, rivals: _Tries, reach: int) -> _Tries:
        """Return the best attempts of a side, of all lengths up to the reach, best first."""
        size, room = self.chain.hidden, self._room(side)
        ones = np.ones(size)
        symbols = [(SHOWN, self.weights, ones)]
        if self.known:
            inside = [
                (self.chain.shown == state).astype(np.float64) for state in range(self.chain.size)
            ]
            symbols += [(state, row, row) for state, row in enumerate(inside)]
        factors = np.stack([np.stack([step * seen, step * plain]) for _, seen, plain in symbols])
        products = np.broadcast_to(np.eye(size), (1, 2, size, size))
        patterns: list[tuple[int, ...]] = [()]
        kept = [self._closed(side, step, products, patterns)]
        for _ in range(reach if room is None else min(reach, room)):
            # (b, symbols, 2, m, m)
            made = np.einsum("bvxy,svyz->bsvxz", products, factors).reshape(-1, 2, size, size)
            top = made.max(axis=(2, 3), keepdims=True)
            made = made / np.where(top > 0, top, 1.0)
            patterns = [(*before, code) for before in patterns for code, _, _ in symbols]
            closed = self._closed(side, step, made, patterns)
            scores = self._scores(side, closed, rivals)
            ways = np.max(scores.reshape(-1, len(patterns)), axis=0)  # the better end of each
            order = np.argsort(-ways, kind="stable")[:WIDTH].tolist()
            products, patterns = made[order], [patterns[place] for place in order]
            kept.append(_chosen(closed, np.argsort(-scores, kind="stable")[:RIVALS].tolist()))
        every = _Tries(
            np.concatenate([tries.products for tries in kept]),
            np.concatenate([tries.messages for tries in kept]),
            [pattern for tries in kept for pattern in tries.patterns],
        )
        scores = self._scores(side, every, rivals)
        return _chosen(every, np.argsort(-scores, kind="stable")[:RIVALS].tolist())

    def _scores(self, side: int, tries: _Tries, rivals: _Tries) -> Array:
        lefts, rights = (tries, rivals) if side < 0 else (rivals, tries)
        losses = self._losses(lefts, rights)
        return np.asarray(losses.max(axis=1 if side < 0 else 0))

    def _losses(self, lefts: _Tries, rights: _Tries) -> Array:
        """Return what each pair of attempts attains, (left, right); -inf where it cannot occur."""
        law = self.chain.initial * lefts.messages  # (l, 2, m)
        inside = [self.chain.shown == state for state in (self.target, self.other)]
        # Pr[pattern, X_i = state], with outputs and without: (l, r, 2) for either state
        mass = [
            np.einsum("lvs,rvs->lrv", law[..., some], rights.messages[..., some]) for some in inside
        ]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = [np.log(one) for one in mass]
            gain = (logs[0] - logs[1]) @ np.array([1.0, -1.0])  # (l, r)
        possible = (mass[0] > 0).all(axis=2) & (mass[1] > 0).all(axis=2)
        own = [self.weights[some][0] for some in inside]
        value = np.where(possible, gain, -math.inf) + math.log(own[0]) - math.log(own[1])
        return np.asarray(np.where(np.isnan(value), -math.inf, value))

    def _best(self, lefts: _Tries, rights: _Tries) -> FoundPattern | None:
        losses = self._losses(lefts, rights)
        l, r = map(int, np.unravel_index(int(losses.argmax()), losses.shape))
        if not losses[l, r] > 0:
            return None
        return FoundPattern(float(losses[l, r]), lefts.patterns[l], rights.patterns[r])


def open_attack(search: PatternSearch, records: int) -> FoundPattern:
    """Return the attack that knows nothing, with so many shown records on either side.

    >>> chain = HiddenChain([[.9, .1], [.1, .9]], (0, 1))
    >>> found = open_attack(PatternSearch(chain, np.exp([0.0, 1.0]), 1, 0), 64)
    >>> round(found.value, 6)
    4.499453
    """
    chain = search.chain
    left = _message(chain.reverse().transition * search.weights, records)
    right = _message(chain.transition * search.weights, records)
    ones = np.ones(chain.hidden)
    tries = [
        _Tries(np.empty(0), np.stack([message, ones])[None], [(SHOWN,) * records])
        for message in (left, right)
    ]
    value = float(search._losses(*tries)[0, 0])
    return FoundPattern(value, tries[0].patterns[0], tries[1].patterns[0])


def _chosen(tries: _Tries, places: list[int]) -> _Tries:
    return _Tries(
        tries.products[places], tries.messages[places], [tries.patterns[p] for p in places]
    )


def _message(step: Array, records: int) -> Array:
    """Return the message of so many records, each with the matrix ``step``, up to a factor.

    By squares of the matrix: cost O(m^3 log records).
    """
    message, power = np.ones(len(step)), step
    while records:
        if records % 2:
            message = power @ message
            message = message / message.max()
        power = power @ power
        power, records = power / power.max(), records // 2
    return np.asarray(message)
