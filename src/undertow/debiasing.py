"""Weights that undo a channel on average, and what their sums vary by.

A channel B (row: state, column: output) is undone by weights W with B W = 1: a record with output
z counts W[z, x] in state x, and the mean of that, over the flips, is 1 if the true state is x and
0 if it is another. All sums here are over the flips; the true records are fixed.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.channels import XorNoise
from undertow.errors import NotSupported
from undertow.numerics import Array

__all__ = [
    "Kinds",
    "PairCounts",
    "WeightSums",
    "chained_variance",
    "pair_channel",
    "product_sums",
    "redacted_variance",
    "undo",
]

SINGULAR = 1e-9
"""Channels whose least singular value is below this tell some states apart by less than any
sample can show."""

_PIECE = 2**17
"""Records handled at a time."""


def undo(channel: Array) -> Array:
    """Return weights W (a row per output, a column per state) with channel @ W = 1.

    The inverse of a square channel. With more outputs than states, the weights of least squares,
    each output weighed by its probability where all states are alike; every row sums to one.

    >>> undo(np.array([[.75, .25], [.25, .75]])).tolist()
    [[1.5, -0.5], [-0.5, 1.5]]
    """
    mean = channel.mean(axis=0)
    scaled = channel / np.sqrt(np.where(mean > 0, mean, 1.0))  # (states, outputs)
    if np.linalg.svd(scaled, compute_uv=False)[-1] < SINGULAR or len(channel) > len(mean):
        raise NotSupported(
            "the outputs do not tell all states apart: different series give the same outputs "
            "with the same probabilities, so their counts cannot be estimated"
        )
    if channel.shape[0] == channel.shape[1]:
        return np.asarray(np.linalg.inv(channel))
    inverse = np.linalg.solve(scaled @ scaled.T, channel)
    return np.asarray((inverse / np.where(mean > 0, mean, 1.0)).T)


@dataclass(frozen=True, slots=True)
class Kinds:
    """Records that went through the same channel, kind by kind: channel, weights, outputs seen.

    Shapes (kinds, states, outputs), (kinds, outputs, states) and (kinds, outputs).
    """

    channels: Array
    weights: Array
    seen: Array

    @property
    def records(self) -> int:
        """The number of records."""
        return int(self.seen.sum())

    def sum(self, wanted: npt.NDArray[np.bool_], quantile: float) -> tuple[float, float]:
        """Return the estimated number of records in some states, and its variance.

        The variance is a sum over the true states, of which only estimates are known: it is
        estimated without bias, plus ``quantile`` times how far that may be off, and never more
        than that of the worst states there could be.
        """
        weights = self.weights[:, :, wanted].sum(axis=2)  # (kinds, outputs)
        total = float((self.seen * weights).sum())
        records = self.seen.sum(axis=1)
        spread = self._worst(weights, wanted.astype(float))
        excess = weights**2 - weights  # its mean is the variance where the truth is 0 or 1
        about = max(0.0, float((self.seen * excess).sum()))
        means = np.einsum("tay,ty->ta", self.channels, excess)  # (kinds, states)
        slack = math.sqrt(float(records @ self._worst(excess, means)))
        return total, min(float(records @ spread), about + quantile * slack)

    def _worst(self, values: Array, means: Array) -> Array:
        """Return the largest variance of a function of the output over the states, per kind."""
        squares = np.einsum("tay,ty->ta", self.channels, values**2)  # (kinds, states)
        return np.asarray(np.maximum(squares - means**2, 0.0).max(axis=1))


def chained_variance(
    noise: XorNoise, lengths: npt.NDArray[np.int64], counts: npt.NDArray[np.int64] | None = None
) -> float:
    """Return the most by which a sum of flips, some counted negatively, can vary.

    There is one series of each of the lengths, or as many as ``counts`` says.

    The flips of two records s and t of a series have covariance v r^|s - t| with v the variance
    of one and r = 1 - rho0 - rho1; signs that agree with it make all terms positive.

    >>> chained_variance(XorNoise(.25, .75), np.array([3]))
    0.5625
    """
    rate, decay = noise.flip_rate, abs(1 - noise.rho0 - noise.rho1)
    sizes = lengths.astype(float)
    pairs = sizes**2
    if decay < 1:
        open_end = sizes * (1 + decay) / (1 - decay)
        pairs = np.minimum(pairs, open_end - 2 * decay * (1 - decay**sizes) / (1 - decay) ** 2)
    most = np.maximum(pairs, sizes)
    return rate * (1 - rate) * float((most if counts is None else most * counts).sum())


def pair_channel(noise: XorNoise) -> Array:
    """Return the channel of two records that follow each other, states and outputs 00 01 10 11.

    >>> pair_channel(XorNoise(.5, .5)).tolist()[0]
    [0.25, 0.25, 0.25, 0.25]
    """
    start = np.array([1 - noise.flip_rate, noise.flip_rate])
    steps = np.array([[1 - noise.rho0, noise.rho0], [noise.rho1, 1 - noise.rho1]])
    law = (start[:, None] * steps).ravel()  # (pairs of flips 00 01 10 11)
    return np.array([[law[state ^ output] for output in range(4)] for state in range(4)])


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Pairs of states (a, b) counted without bias, and the variance of pairs - p times row.

    ``squares`` holds the coefficients of 1, p and p^2 of that variance; where there are several
    estimates of it, the interval covers all that one of them allows.
    """

    pairs: Array
    squares: tuple[tuple[Array, Array, Array], ...]

    def ends(self, quantile: float) -> tuple[Array, Array, Array]:
        """Return the shares of each row, and the ends of their intervals (Fieller's).

        A share p is not excluded as long as (pairs - p row)^2 <= quantile^2 variance(p): exact
        also where the row itself is uncertain, and all of [0, 1] where it may be empty.
        """
        # (states, states), each row its total
        rows = np.broadcast_to(self.pairs.sum(axis=1, keepdims=True), self.pairs.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(rows > 0, np.clip(self.pairs / rows, 0.0, 1.0), np.nan)
        low, high = shares.copy(), shares.copy()
        for squares in self.squares:
            for place in np.ndindex(*self.pairs.shape):
                one, p, pp = (quantile**2 * float(part[place]) for part in squares)
                pair, row = float(self.pairs[place]), float(rows[place])
                # Fieller: a quadratic in p
                found = _between(row**2 - pp, -2 * pair * row - p, pair**2 - one)
                low[place] = np.fmin(low[place], found[0])
                high[place] = np.fmax(high[place], found[1])
        unknown = ~(rows > 0)
        return shares, np.where(unknown, 0.0, low), np.where(unknown, 1.0, high)


def _between(square: float, linear: float, constant: float) -> tuple[float, float]:
    """Return the ends of the p in [0, 1] with square p^2 + linear p + constant <= 0, nan if none.

    What lies between two parts is taken in.
    """
    ends = [p for p in (0.0, 1.0) if square * p**2 + linear * p + constant <= 0]
    inside = linear**2 - 4 * square * constant
    if inside >= 0:
        half = -(linear + math.copysign(math.sqrt(inside), linear)) / 2  # adds, never cancels
        roots = [half / square] if square else []
        roots += [constant / half] if half else []
        ends += [p for p in roots if 0 <= p <= 1]
    return (min(ends), max(ends)) if ends else (math.nan, math.nan)


class WeightSums:
    """Sums over records i of products of the weights of i, i + 1 and i + 2."""

    def __init__(self, states: int) -> None:
        """Begin with nothing."""
        square = np.zeros((states, states))
        self.pairs, self.squares, self.mixed = square.copy(), square.copy(), square.copy()
        self.own = np.zeros(states)
        self.crossed, self.leant, self.thrice = square.copy(), square.copy(), square.copy()
        self.twice = np.zeros(states)

    def add(self, weights: Array, pairs: npt.NDArray[Any], triples: npt.NDArray[Any]) -> None:
        """Add records: which of them begin a pair of neighbours, and which a triple."""
        here, there = weights[pairs], weights[pairs + 1]  # (pairs, states) each
        self.pairs += here.T @ there
        self.squares += (here**2).T @ there**2
        self.mixed += (here**2).T @ there
        self.own += (here**2).sum(axis=0)
        # (triples, states) each
        first, second, third = (weights[triples + step] for step in range(3))
        both = first * second
        self.crossed += both.T @ (second * third)
        self.leant += both.T @ (second + third)
        self.thrice += both.T @ third
        self.twice += both.sum(axis=0)

    def ratios(self) -> PairCounts:
        """Return the pairs and two estimates of the variance, with neighbours and without.

        With u_i = w_i(a) (w_{i+1}(b) - p) the variance is the sum of E u_i^2 + 2 E u_i u_{i+1}
        less the same of the means, each of which is a sum over pairs or triples of true states
        and is estimated without bias.
        """
        rows = self.pairs.sum(axis=1, keepdims=True)
        alone = (
            self.squares - self.pairs,
            2 * (self.pairs - self.mixed),
            np.broadcast_to(self.own[:, None] - rows, self.pairs.shape),
        )
        same = np.eye(len(self.own))
        crossed = self.crossed - same * self.thrice  # covariance of neighbouring terms
        leant = self.thrice + same * self.twice[:, None] - self.leant
        together = (alone[0] + 2 * crossed, alone[1] + 2 * leant, alone[2])
        return PairCounts(self.pairs, (alone, together))


def product_sums(
    numbers: npt.NDArray[Any],
    weights: Array,
    begins: npt.NDArray[np.bool_],
    places: npt.NDArray[np.int64] | None = None,
    *,
    sums: WeightSums | None = None,
    limit: int | None = None,
) -> WeightSums:
    """Return the sums of neighbours: ``begins`` says whether a record begins a pair.

    ``weights`` has a row for each number, or a table for each of the ``places``. Records from
    ``limit`` on begin nothing here: they come again with those after them. Adds to ``sums``.
    """
    sums = WeightSums(weights.shape[-1]) if sums is None else sums
    end = numbers.size if limit is None else limit
    for start in range(0, end, _PIECE):
        stop = min(start + _PIECE, end)
        reach = slice(start, min(stop + 2, numbers.size))  # two records more, for the triples
        of = weights[numbers[reach]] if places is None else weights[places[reach], numbers[reach]]
        pairs = np.flatnonzero(begins[start:stop])
        triples = pairs[begins[np.minimum(start + pairs + 1, numbers.size - 1)]]
        sums.add(of, pairs, triples)
    return sums


def redacted_variance(kinds: Kinds, follows: npt.NDArray[Any]) -> Array:
    """Return the most that pairs - p times row can vary, for any p in [0, 1] and any true states.

    ``follows`` counts how often kind t is followed by kind t + 1. Neighbouring terms share a
    record, so their sum varies by at most three times the sum of their variances.
    """
    squares = np.einsum("tcy,tya->tac", kinds.channels, kinds.weights**2)  # E w(a)^2 | c
    states = squares.shape[1]
    same = np.eye(states)
    total = np.zeros((states, states))
    for place in np.flatnonzero(follows):
        worst = np.zeros((states, states))
        for p in (0.0, 1.0):  # the variance is convex in p
            after = squares[place + 1] - 2 * p * same + p**2  # (b, d): E (w(b) - p)^2 given state d
            # (a, b, true state, true next)
            spread = np.einsum("ac,bd->abcd", squares[place], after)
            # less the square of the mean, given the true states
            spread -= np.einsum("ac,bd->abcd", same, (same - p) ** 2)
            worst = np.maximum(worst, spread.max(axis=(2, 3)))
        total += 3 * follows[place] * worst
    return total
