"""What cannot be exceeded on a chain of order two, whatever the attacker knows.

Read outwards from a target, the records beyond a pair (x, y) of neighbours depend on the target
through this pair alone. Let D(x, y; x', y') bound ln E[phi | x, y] / E[phi | x', y'] over all
likelihoods phi of the records beyond, over all sets of known records there, and over their values,
where changing one record from c to c' changes phi by at most the factor exp(own(c, c')).

**Two laws.** Let g be the density of a law mu by a law nu, up to a factor. If
ln f(w) / f(w') <= alpha(w, w') and ln g(w) / g(w') <= beta(w, w'), then

    ln E_mu f / E_nu f <= max over w, w' of J(alpha, beta),
    J(alpha, beta) = 2 ln cosh((alpha + beta) / 4) - 2 ln cosh((alpha - beta) / 4).

*Proof.* The ratio is E_nu[f g] / (E_nu f E_nu g). At a maximum over nu the first-order condition
puts its points (f, g) on a hyperbola, and the second-order condition leaves one point on each
branch: two points. There one variable remains, and its maximum is J. J grows with both arguments
and never exceeds the smaller one. What known records say multiplies both laws and leaves g alone.

**One record.** With w = c the next record, g = Pr[c | x, y] / Pr[c | x', y'] times what known
records beyond c say for y and y', at most a factor max_d Pr[d | y, c] / Pr[d | y', c]:

    D(x, y; x', y') <= max_c D(y, c; y', c) + max J(own(c, c') + D(y, c; y, c'), beta).

**Two records.** With w = (c, d), beyond which x, y no longer matter:

    D(x, y; x', y') <= max J(own(c, c') + own(d, d') + D(c, d; c', d'), beta).

The smaller one is taken, entry by entry. Both maps are monotone, so what they leave unchanged
bounds series of every length. At the target the same two arguments join the sides. For chains of
order one the first bound is that of order one, a few percent above the truth; with a long memory
it may be twice the truth.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from undertow.models.second_order import SecondOrderChain
from undertow.numerics import Array

__all__ = ["Own", "PairSide", "joined_upper", "spread_upper"]

ROUNDING = 1e-11
"""Relative and absolute padding of each step's result (upper side): a few dozen roundings of
logarithms, which are below a thousand, and of exponents, where the relative part helps."""

PADS = (1e-9, 1e-6, 1e-3)
"""How much is added to a limit before it is verified (upper side); the first that holds is used."""

MOST_STEPS = 20_000
"""Steps towards the limit (cost); past them the bound comes from above, where it always holds."""

CLOSE = 1e-12
"""Change of a step below which the limit counts as reached; the verification decides."""

Own = Callable[[int], Array]
"""The bound own(c, c') for the record at a distance from the target (1 is its neighbour)."""


def spread_upper(alpha: Array, beta: Array) -> Array:
    """Return J(alpha, beta) for alpha >= 0 (inf allowed), and 0 where beta <= 0; see above.

    >>> spread_upper(np.array([1.0, math.inf]), np.array([2.0, 2.0])).round(6)
    array([0.454673, 2.      ])
    """
    first, second = np.broadcast_arrays(alpha, np.maximum(beta, 0.0))
    wide = np.isinf(first)
    safe = np.where(wide, 0.0, first)
    plus, minus = (safe + second) / 4, (safe - second) / 4
    value = 2 * (np.logaddexp(plus, -plus) - np.logaddexp(minus, -minus))
    value = np.where(wide, second, np.minimum(value, np.minimum(safe, second)))
    return np.asarray(np.maximum(value, 0.0))


@dataclass(frozen=True, slots=True)
class PairSide:
    """One side of a target, read outwards; all transitions are positive."""

    transition: Array

    @property
    def log(self) -> Array:
        """The logarithm of the transitions."""
        return np.log(self.transition)

    def known_upper(self) -> Array:
        """Return how far records beyond can tell y from y' before the same c: (y, y', c)."""
        logs = self.log
        return np.asarray((logs[:, None] - logs[None]).max(axis=3))

    def one_record(self, inner: Array, own: Array) -> Array:
        """Return the bound from the records beyond the next one."""
        size, logs, known = len(own), self.log, self.known_upper()
        gain = logs[:, :, None, None] - logs[None, None]  # (x, y, x', y', c)
        high = gain + known[None, :, None]  # (x, y, x', y', c)
        low = gain - known.transpose(1, 0, 2)[None, :, None]
        beta = high[..., :, None] - low[..., None, :]  # (x, y, x', y', c, c')
        beta[..., np.arange(size), np.arange(size)] = 0.0  # c = c' moves nothing
        before = np.einsum("ycxc->yxc", inner).max(axis=2)[None, :, None]  # (1, y, 1, y')
        same = own + np.einsum("ycyd->ycd", inner)  # (y, c, c')
        by_first = spread_upper(same[None, :, None, None], beta).max(axis=(4, 5))  # (x, y, x', y')
        by_second = spread_upper(same[None, None, None], beta).max(axis=(4, 5))
        return self._padded(before + np.minimum(by_first, by_second))

    def two_records(self, beyond: Array, own: Array, next_own: Array) -> Array:
        """Return the bound from the records beyond the next two."""
        size = len(own)
        logs = (self.log[..., None] + self.log[None]).reshape(size**2, size**2)  # (x y, c d)
        moved = own[:, None, :, None] + next_own[None, :, None, :] + beyond
        moved = moved.reshape(size**2, size**2)  # (c d, c' d')
        result = np.empty((size**2, size**2))
        for row in range(size**2):
            gain = logs[row] - logs  # (other row, block)
            result[row] = spread_upper(moved, gain[:, :, None] - gain[:, None, :]).max(axis=(1, 2))
        return self._padded(result.reshape((size,) * 4))

    def step(self, inner: Array, beyond: Array, own: Array, next_own: Array) -> Array:
        """Return the smaller of both bounds, entry by entry."""
        return np.minimum(self.one_record(inner, own), self.two_records(beyond, own, next_own))

    def limit(self, own: Array) -> Array:
        """Return a bound for every number of records with the same ``own``."""
        bound = np.zeros((len(own),) * 4)
        if np.isfinite(own).all():
            for _ in range(MOST_STEPS):
                further = self.step(bound, bound, own, own)
                done = float(np.abs(further - bound).max()) <= CLOSE
                bound = further
                if done:
                    break
            for pad in PADS:
                padded = self._padded(bound, pad)
                if (self.step(padded, padded, own, own) <= padded).all():
                    return padded
        bound = np.full_like(bound, math.inf)
        for _ in range(200):
            bound = np.minimum(bound, self.step(bound, bound, own, own))
        return bound

    def recursion(self, own: Own, records: int, start: Array) -> list[Array]:
        """Return the bounds beyond distance 0, 1, .. ``records``; ``start`` holds beyond that."""
        bounds = [start, start]
        for distance in range(records, 0, -1):
            bounds.append(self.step(bounds[-1], bounds[-2], own(distance), own(distance + 1)))
        return bounds[:0:-1]

    @staticmethod
    def _padded(bound: Array, pad: float = ROUNDING) -> Array:
        """Return a little more, but nothing where a pair is compared with itself."""
        size = len(bound)
        flat = (bound * (1 + pad) + pad).reshape(size**2, size**2)
        np.fill_diagonal(flat, 0.0)
        return np.asarray(flat.reshape((size,) * 4))


def joined_upper(
    chain: SecondOrderChain, own: Own, left: Callable[[int], Array], right: Callable[[int], Array]
) -> Array:
    """Return the bound on the whole leakage about a target, shape (k, k): x against x'.

    ``own`` takes a signed distance, 0 for the target. ``left(d)`` bounds what the records beyond
    distance d on the left say about the pair at d and d - 1, ``right(d)`` alike. The best of five
    ways to join: at one neighbour, at a block of the target and a neighbour (left and right), or at
    two neighbours on each side at once.
    """
    back = chain.reverse()
    ways = [
        _by_neighbour(chain, back, own, left, right),
        _by_neighbour(back, chain, lambda d: own(-d), right, left),
        _by_block(own(0), own(1), left(0), right(1)),
        _by_block(own(0), own(-1), right(0), left(1)),
    ]
    if chain.size <= 4:
        ways.append(_by_four(chain, own, left(2), right(2)))
    best = np.minimum.reduce(ways)
    np.fill_diagonal(best, 0.0)
    return np.asarray(best * (1 + ROUNDING) + ROUNDING)


def _by_neighbour(
    chain: SecondOrderChain, back: SecondOrderChain, own: Own, left: Callable[[int], Array],
    right: Callable[[int], Array],
) -> Array:  # fmt: skip
    """Join at the left neighbour a: max_a [L + R] for x and x', then J over two values of a."""
    size, law = chain.size, np.log(chain.pair_law)  # (a, x)
    far, near = left(1), right(0)  # L(x, a; ...) beyond a; R(a, x; ...) beyond x
    ahead, behind = (PairSide(one.transition).known_upper() for one in (chain, back))  # (y, y', c)
    bound = np.zeros((size, size))
    for x, y in permutations(range(size), 2):
        first = max(far[x, a, y, a] + near[a, x, a, y] for a in range(size))
        beta = law[:, x] - law[:, y]
        beta = beta[:, None] - beta[None, :]  # (a, a')
        # records beyond x tell a from a', for x and for y; records beyond a tell x from y
        beta = beta + ahead[:, :, x] + ahead[:, :, y].T
        beta = beta + behind[x, y][:, None] + behind[y, x][None, :]
        np.fill_diagonal(beta, 0.0)
        second = min(
            float(spread_upper(own(-1) + far[s, :, s, :] + near[:, s, :, s], beta).max())
            for s in (x, y)
        )
        bound[x, y] = own(0)[x, y] + first + second
    return bound


def _by_block(target: Array, partner: Array, outer: Array, inner: Array) -> Array:
    """Join at the block of the target and a neighbour b: no more than its two values differ.

    ``outer(b, x; ..)`` bounds the side of the target, ``inner(x, b; ..)`` that of the neighbour.
    """
    total = target[:, None, :, None] + partner[None, :, None, :]  # (x, b, x', b')
    total = total + inner + outer.transpose(1, 0, 3, 2)
    return np.asarray(total.max(axis=(1, 3)))


def _by_four(chain: SecondOrderChain, own: Own, left: Array, right: Array) -> Array:
    """Join at the two neighbours on either side, (e, a) and (b, c), as one law."""
    size, step = chain.size, chain.transition
    law = np.einsum("ea,eax,axb,xbc->xeabc", chain.pair_law, step, step, step)  # (x, e, a, b, c)
    logs = np.log(law).reshape(size, size**4)  # (x, e a b c)
    # (e, a, e', a')
    near = own(-1)[None, :, None, :] + own(-2)[:, None, :, None] + left.transpose(1, 0, 3, 2)
    far = own(1)[:, None, :, None] + own(2)[None, :, None, :] + right  # (b, c, b', c')
    # (e, a, b, c, e', a', b', c')
    moved = near[:, :, None, None, :, :, None, None] + far[None, None, :, :, None, None]
    moved = moved.reshape(size**4, size**4)
    bound = np.zeros((size, size))
    for x, y in permutations(range(size), 2):
        gain = logs[x] - logs[y]
        wide = spread_upper(moved, gain[:, None] - gain[None, :])  # (e a b c, e' a' b' c')
        bound[x, y] = own(0)[x, y] + float(wide.max())
    return bound
