"""Envelopes of the messages of attractive laws: brackets for every length and all that is known.

For laws of four hidden states, two for each of two symbols, that are totally positive of order two:
F = exp(theta sum of unknown records) is the worst likelihood (docs, theory-memory). The upper end
is verified cell by cell; the pattern that is read off it is played out.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations, product

import numpy as np
import numpy.typing as npt

from undertow import progress
from undertow.adversaries import Against
from undertow.bounds.core.patterns import (
    Codes,
    Pattern,
    PatternGuide,
    pattern_attack,
    shown_message,
)
from undertow.bounds.core.play import Attack
from undertow.bounds.memory.attractive import perron
from undertow.bounds.memory.boxes import Joint, balanced, column_range, grouped, joint_pad, worst_of
from undertow.errors import NotSupported
from undertow.models.attractive import kernel_margin
from undertow.models.base import Model
from undertow.models.hidden import HiddenChain
from undertow.models.lowered import LoweredLaw
from undertow.numerics import ROUNDOFF, Array

__all__ = [
    "INSIDE",
    "Bracket",
    "Elements",
    "Envelope",
    "Gaps",
    "Pieces",
    "SidePattern",
    "any_bracket",
    "contraction",
    "elements",
    "envelope",
    "envelopes_bound",
    "open_elements",
    "open_pattern",
    "pattern_codes",
    "powers",
    "regime_guide",
    "regime_kernel",
    "side_gaps",
    "worst_pair",
]


INSIDE = (slice(0, 2), slice(2, 4))
"""The hidden states of each symbol."""

SMALLEST = 1e-250
"""Entries below it are refused (either side): relative errors need numbers that do not
underflow."""

MOST_GAP = 6144
"""Unknown records between two known ones that are distinguished (cost); past them bounds are
wider."""

SETTLED, LEAST_SETTLED = 1e-5, 1e-11
"""Width of the far messages in logarithms, in units of theta, at which longer gaps are no longer
distinguished; and its least value, near the rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """All gaps of one side: of l = 0, 1, .. unknown records.

    ``seen`` (gaps, 4, 4) are (S D)^l S, ``plain`` S^l S; ``ends`` (gaps, 4) the messages (S D)^l e
    of a series that ends, ``end`` (4,) is e; ``far`` and ``far_plain`` (4, 4) are the powers of the
    longest gap. ``pad`` bounds the relative error of a quotient, ``end_error`` that of e.
    """

    seen: Array
    plain: Array
    ends: Array
    end: Array
    far: Array
    far_plain: Array
    pad: float
    end_error: float

    @property
    def longest(self) -> int:
        """The number of gaps."""
        return len(self.seen)


def powers(matrix: Array, count: int) -> Array:
    """Return the powers 0, 1, .. of a positive matrix, each up to a factor: (count, m, m).

    Twice as many with each product: cost O(count m^3), in log(count) steps.

    >>> table = powers(np.array([[.5, .5], [.25, .75]]), 4)
    >>> bool(np.allclose(table[2], np.array([[.375, .625], [.3125, .6875]])))
    True
    """
    one = balanced(matrix)
    table = np.eye(len(matrix))[None]
    while len(table) < count:
        further = balanced(table[-1] @ one)  # the power len(table)
        table = np.concatenate([table, balanced(further @ table)])
    return np.asarray(table[:count])


def _longest(step: Array, tilted: Array, goal: float) -> int:
    """Return the longest gap considered: beyond it all messages agree to the tolerance."""
    half = [balanced(step), balanced(tilted)]
    records = 1
    while True:
        whole = [balanced(matrix @ matrix) for matrix in half]
        between = [balanced(one @ two) for one, two in zip(half, whole, strict=True)]
        for count, matrices in ((2 * records, whole), (3 * records, between)):
            if (count >= 8 and max(map(column_range, matrices)) < goal) or count >= MOST_GAP:
                return min(count, MOST_GAP)
        half, records = whole, 2 * records


def side_gaps(step: Array, end: Array, end_error: float, theta: float) -> Gaps:
    """Return all gaps of a side with the matrix S = ``step``, and the message ``end`` at its end.

    >>> step = np.full((4, 4), .25)
    >>> side_gaps(step, np.ones(4), 0.0, 1.0).longest
    8
    """
    tilted = step * np.exp(theta * np.array([-1.0, -1.0, 0.0, 0.0]))  # S D / e^theta
    longest = _longest(step, tilted, max(SETTLED * min(theta, 1.0), LEAST_SETTLED))
    seen, plain = powers(tilted, longest + 1), powers(step, longest + 1)
    gaps = Gaps(
        balanced(seen[:-1] @ step), balanced(plain[:-1] @ step), seen[:-1] @ end, end,
        seen[-1], plain[-1], 64 * (longest + 8) * ROUNDOFF, end_error,
    )  # fmt: skip
    tables = (gaps.seen, gaps.plain, gaps.ends, gaps.far, gaps.far_plain)
    # a step over pairs of records has zeros, which are exact; they are gone after two of them
    least = min(float(table[table > 0].min()) for table in tables)
    if not least > SMALLEST or not all((table > 0).all() for table in tables[2:]):
        raise NotSupported("likelihoods so far apart are not told apart by this bound")
    return gaps


Ints = npt.NDArray[np.int64]

CELL, MOST_CELLS = 5e-3, 4096
"""Width of the cells, and their largest number for each value (cost)."""

FINER, FINEST = 2e-3, 0.25
"""Below this theta cells are narrower, as what they add falls with the square of their width; and
how much narrower they get at most (cost)."""

ROUNDS, GAIN = 800, 1e-5
"""Steps towards the fixed point (cost), and the gain, in units of theta, at which they end."""

SLOP = 1e-12
"""What is added to the relative roundings of quotients in logarithms (upper side): logarithms and
exponentials of numbers up to e^60, and cells, a few roundings each."""

WIDEN = 1e-9
"""By how much an interval that holds all plain messages is widened before it is verified."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Gaps from a record known to be ``inner`` to the next, known to be ``known``, and their cells.

    ``places`` (gaps,) are their lengths, ``level`` the cells joined, as a power of two; ``seen``
    (gaps, 2, 2) is W. ``points`` (cells + 1,) are e^p at the ends of cells. ``lower`` and ``upper``
    (gaps, cells) are e^(what is added - M) at either end; ``first`` and ``last`` the cells that
    the image of a cell meets.
    """

    inner: int
    known: int
    level: int
    places: Ints
    seen: Array
    points: Array
    lower: Array
    upper: Array
    first: Ints
    last: Ints

    def reached(self, raised: Array) -> Array:
        """Return e^d of the images of cells with e^d = ``raised``, 0 if none: (gaps, cells)."""
        gaps = self.seen[..., None]  # (gaps, 2, 2, 1)
        largest = np.zeros((len(self.places), len(raised)))
        for points, shift in ((self.points[:-1], self.lower), (self.points[1:], self.upper)):
            a = points * raised
            share = (gaps[:, 1, 0] + gaps[:, 1, 1] * a) / (gaps[:, 0, 0] + gaps[:, 0, 1] * a)
            np.maximum(largest, share * shift, out=largest)
        return np.asarray(largest * (raised > 0))


@dataclass(frozen=True, slots=True, eq=False)
class _Scatter:
    """Images of all pieces by the cell they meet: places, the cells, and where each begins."""

    source: Ints
    cells: Ints
    begins: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """A verified envelope of one side: for each value e^E on cells of p from ``low`` on.

    0 stands for cells that no message meets. ``width`` has the width of the cells of each value.
    """

    gaps: Gaps
    low: tuple[float, float]
    width: tuple[float, float]
    pieces: tuple[Pieces, ...]
    scatters: tuple[_Scatter, _Scatter]
    opened: tuple[Array, Array]
    values: tuple[Array, Array]

    def traced(self, known: int, cell: int, most: int) -> list[tuple[int, int]]:
        """Return gaps and known values beyond a record that all but attain the envelope in a cell.

        A pattern to be played out: cells are not exact.
        """
        tables = [
            [piece.reached(joined(self.values[piece.known], piece.level)) for piece in mine]
            for mine in (self._of(0), self._of(1))
        ]
        flat = [np.concatenate([table.ravel() for table in tables[v]]) for v in (0, 1)]
        records: list[tuple[int, int]] = []
        while len(records) < most:
            scatter = self.scatters[known]
            place = int(np.searchsorted(scatter.cells, cell))
            if place == len(scatter.cells) or scatter.cells[place] != cell:
                break
            ends = [*scatter.begins[place : place + 2], len(scatter.source)]
            sources = scatter.source[ends[0] : ends[1]]
            best = int(sources[flat[known][sources].argmax()])
            if self.opened[known][cell] >= flat[known][best]:
                break  # the series ends there
            mine = self._of(known)
            sizes = np.cumsum([table.size for table in tables[known]])
            number = int(np.searchsorted(sizes, best, side="right"))  # which of the pieces
            piece, table = mine[number], tables[known][number]
            gap, wide = divmod(best - int(sizes[number]) + table.size, table.shape[1])
            values = self.values[piece.known][wide << piece.level : (wide + 1) << piece.level]
            known, cell = piece.known, (wide << piece.level) + int(values.argmax())
            records.append((int(piece.places[gap]), known))
        return records

    def _of(self, inner: int) -> list[Pieces]:
        return [piece for piece in self.pieces if piece.inner == inner]


def joined(values: Array, level: int) -> Array:
    """Return the largest value of each 2^level neighbouring cells."""
    return np.asarray(values.reshape(-1, 1 << level).max(axis=1))


def contraction(matrices: Array) -> Array:
    """Return tau = tanh(ln(n1 d0 / n0 d1) / 4) of matrices ((d0, d1), (n0, n1)), (.., 2, 2).

    0 where a column is 0: the map is constant.

    >>> contraction(np.array([[[2.0, 1.0], [1.0, 2.0]]])).round(6).tolist()
    [0.333333]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(matrices)
        turned = (logs[..., 1, 1] - logs[..., 0, 1]) + (logs[..., 0, 0] - logs[..., 1, 0])
    return np.tanh(np.abs(np.where(np.isnan(turned), 0.0, turned)) / 4)


def envelope(gaps: Gaps, theta: float) -> Envelope:
    """Return a verified envelope of one side; raises `NotSupported` where none is found.

    Cost: cells times gaps for each of some tens of rounds, well under a second.
    """
    slop = 4 * gaps.pad + gaps.end_error + SLOP
    low, high = _plain_range(gaps, slop)
    cell = CELL * min(1.0, max(math.sqrt(theta / FINER), FINEST))
    sizes = [
        min(1 << max(math.ceil(math.log2((high[v] - low[v]) / cell)), 0), MOST_CELLS)
        for v in (0, 1)
    ]
    width = tuple((high[v] - low[v]) / sizes[v] for v in (0, 1))
    grid = _Grid(gaps, low, (width[0], width[1]), (sizes[0], sizes[1]), slop)
    pieces = tuple(
        piece for inner in (0, 1) for known in (0, 1) for piece in grid.pieces(inner, known)
    )
    scatters = tuple(grid.scatter([p for p in pieces if p.inner == v], sizes[v]) for v in (0, 1))
    opened = (grid.opened(0), grid.opened(1))

    def image(values: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return the largest e^d of the open ends and of all images of the envelope."""
        parts = []
        for v in (0, 1):
            reached = np.concatenate([
                piece.reached(joined(values[piece.known], piece.level)).ravel()
                for piece in pieces if piece.inner == v
            ])  # fmt: skip
            scatter, heights = scatters[v], opened[v].copy()
            best = np.maximum.reduceat(reached[scatter.source], scatter.begins)
            heights[scatter.cells] = np.maximum(heights[scatter.cells], best)
            parts.append(heights)
        return parts[0], parts[1]

    values, gain = opened, math.inf
    least = max(GAIN * min(theta, 0.1), 4 * slop)
    for number in range(ROUNDS):
        progress.doing("steps towards an envelope", number)
        further = image(values)
        gain = max(_gain(old, new) for old, new in zip(values, further, strict=True))
        values = tuple(map(np.maximum, values, further))  # type: ignore[assignment]
        if gain <= least:
            break
    raised = 2 * min(gain, 1.0) + 4 * slop
    while raised < 1.0:
        tried = (values[0] * math.exp(raised), values[1] * math.exp(raised))
        if all((new <= old).all() for old, new in zip(tried, image(tried), strict=True)):
            parts = scatters[0], scatters[1]
            return Envelope(gaps, low, (width[0], width[1]), pieces, parts, opened, tried)
        raised *= 2
    raise NotSupported("no bound on the messages of this chain was found")


def _gain(old: Array, new: Array) -> float:
    """Return the largest growth in logarithms; inf where a cell is met for the first time."""
    grown = new > old
    if not grown.any():
        return 0.0
    return float(np.log(new[grown] / old[grown]).max()) if (old[grown] > 0).all() else math.inf


def _log_ratios(messages: Array, value: int) -> Array:
    """Return ln of the upper over the lower state of a symbol; the states on the first axis."""
    part = messages[INSIDE[value]]
    return np.asarray(np.log(part[1] / part[0]))


def _plain_range(gaps: Gaps, slop: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return intervals that hold all plain messages: (lows, highs), verified."""
    ends = [_log_ratios(gaps.end, v) for v in (0, 1)]
    far = [_log_ratios(gaps.far_plain, v) for v in (0, 1)]
    low = np.array([min(float(ends[v]), float(far[v].min())) for v in (0, 1)]) - slop
    high = np.array([max(float(ends[v]), float(far[v].max())) for v in (0, 1)]) + slop

    def moved(bound: Array, inner: int, known: int) -> Array:
        part = gaps.plain[:, INSIDE[inner], INSIDE[known]]
        odds = math.exp(bound[known])
        upper = part[:, 1, 0] + part[:, 1, 1] * odds
        return np.asarray(np.log(upper / (part[:, 0, 0] + part[:, 0, 1] * odds)))

    def image(low: Array, high: Array) -> tuple[Array, Array]:
        lows = [min(moved(low, inner, known).min() for known in (0, 1)) for inner in (0, 1)]
        highs = [max(moved(high, inner, known).max() for known in (0, 1)) for inner in (0, 1)]
        return np.minimum(low, np.array(lows) - slop), np.maximum(high, np.array(highs) + slop)

    for _ in range(ROUNDS):
        further = image(low, high)
        change = max(float(np.abs(further[0] - low).max()), float(np.abs(further[1] - high).max()))
        low, high = further
        if change <= 4 * slop:
            break
    wide = max(WIDEN, 16 * slop)
    while wide < 1.0:
        tried = low - wide, high + wide
        lows, highs = image(*tried)
        if (lows >= tried[0]).all() and (highs <= tried[1]).all():
            return tuple(tried[0].tolist()), tuple(tried[1].tolist())
        wide *= 2
    raise NotSupported("no bound on the messages of this chain was found")


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """The cells of both values, and what moves between them."""

    gaps: Gaps
    low: tuple[float, float]
    width: tuple[float, float]
    sizes: tuple[int, int]
    slop: float

    def cells(self, value: int, messages: Array) -> Ints:
        """Return the cells of plain messages; all lie in the interval, which was verified."""
        place = np.floor((messages - self.low[value]) / self.width[value])
        return np.clip(place, 0, self.sizes[value] - 1).astype(np.int64)

    def pieces(self, inner: int, known: int) -> list[Pieces]:
        """Return all gaps between two known values, by how many cells are joined for each."""
        plain = self.gaps.plain[:, INSIDE[inner], INSIDE[known]]  # (gaps, 2, 2)
        seen = self.gaps.seen[:, INSIDE[inner], INSIDE[known]]
        bend = contraction(plain) + contraction(seen) + 2 * self.slop
        # cells 2^k times wider add bend 4^k (width)^2 / 8: about as much for every gap
        levels = np.clip(
            np.floor(np.log2(0.5 / bend) / 2), 0, int(math.log2(self.sizes[known]))
        ).astype(np.int64)
        pieces = []
        for level in np.unique(levels).tolist():
            places = np.flatnonzero(levels == level)
            step = self.width[known] * 2**level
            points = np.exp(self.low[known] + step * np.arange((self.sizes[known] >> level) + 1))
            part = plain[places][..., None]  # (gaps, 2, 2, 1)
            share = (part[:, 1, 0] + part[:, 1, 1] * points) / (
                part[:, 0, 0] + part[:, 0, 1] * points
            )  # e^M at the ends of cells: (gaps, cells + 1)
            plain_logs = np.log(share)
            lower, upper = plain_logs[:, :-1], plain_logs[:, 1:]
            added = np.minimum(bend[places, None] * step**2 / 8, np.abs(upper - lower))
            raised = np.exp(added + 2 * self.slop)
            pieces.append(Pieces(
                inner, known, level, places, seen[places], points,
                raised / share[:, :-1], raised / share[:, 1:],
                self.cells(inner, np.minimum(lower, upper) - self.slop),
                self.cells(inner, np.maximum(lower, upper) + self.slop),
            ))  # fmt: skip
        return pieces

    def scatter(self, pieces: list[Pieces], size: int) -> _Scatter:
        """Return which images meet which cell, all cells between first and last of each."""
        first = np.concatenate([piece.first.ravel() for piece in pieces])
        last = np.concatenate([piece.last.ravel() for piece in pieces])
        count = last - first + 1
        source = np.repeat(np.arange(len(first)), count)
        within = np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count)
        cells = first[source] + within
        order = np.argsort(cells, kind="stable")
        ordered = cells[order]
        begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        return _Scatter(source[order], ordered[begins], begins)

    def opened(self, value: int) -> Array:
        """Return e^d of all that is far and of the open ends, 0 in other cells.

        The message of an end is a mixture of far ones, and with fewer unknown records d is less.
        """
        far, plain = _log_ratios(self.gaps.far, value), _log_ratios(self.gaps.far_plain, value)
        least, most = float(plain.min()), float(plain.max())
        first, last = self.cells(value, np.array([least - self.slop, most + self.slop])).tolist()
        heights = np.zeros(self.sizes[value])
        heights[first : last + 1] = math.exp(float(far.max()) - least + 2 * self.slop)
        return heights


Order = tuple[int, int, int, int]

Factors = tuple[float, float, float, float]

STRAIGHT: Order = (0, 1, 2, 3)
"""The states of the target as they come."""

FIRST_BIN, LAST_BIN = 0.5, 1e-5
"""Widths of bins of u~ and z~ at first and last (cost); those of g and h are in proportion to the
largest g."""

CLOSE = 1e-6
"""Relative distance of the bound from a pair of elements at which the bins are fine enough."""

MOST_PAIRS = 12_000_000
"""Pairs of bins that are looked at in one pass (cost): past them bins are not refined."""

LARGEST = 100.0
"""Logarithms of quotients beyond it are refused: products of four must not overflow."""

MOST_TRIED = 300
"""Elements of a bin that are tried one by one (cost)."""


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """What one side can do: ``table`` (elements, 5) of (mu, u~, z~, g, h), rounded the bad way.

    ``origin`` (elements, 3) holds the value of the first known record (-1: none), the unknown
    records before it, and the cell of its message.
    """

    table: Array
    origin: Ints


def _coordinates(seen: Array, plain: Array) -> Array:
    """Return (mu, u~, z~, g, h) of messages (.., 4)."""
    a, p = np.log(seen), np.log(plain)
    u, z = p[..., 3] - p[..., 2], p[..., 1] - p[..., 0]
    parts = [
        (a[..., 2] - a[..., 0]) - (p[..., 2] - p[..., 0]), u, z,
        np.maximum((a[..., 3] - a[..., 2]) - u, 0.0), np.maximum((a[..., 1] - a[..., 0]) - z, 0.0),
    ]  # fmt: skip
    return np.stack(np.broadcast_arrays(*parts), axis=-1)


def open_elements(gaps: Gaps, order: Order = STRAIGHT) -> Elements:
    """Return the elements of sides without a known record among the first ones."""
    rows = list(order)
    ended = _coordinates(gaps.ends[:, rows], gaps.end[rows])
    seen, plain = np.log(gaps.far[rows]), np.log(gaps.far_plain[rows])  # (state, column)

    def ends(table: Array, first: int, other: int) -> tuple[float, float]:
        apart = table[first] - table[other]
        return float(apart.min()), float(apart.max())

    u, z = ends(plain, 3, 2), ends(plain, 1, 0)
    far = [
        ends(seen, 2, 0)[1] - ends(plain, 2, 0)[0], u[1], z[0],
        max(ends(seen, 3, 2)[1] - u[0], 0.0), max(ends(seen, 1, 0)[0] - z[1], 0.0),
    ]  # fmt: skip
    count = gaps.longest
    origin = np.stack([np.full(count + 1, -1), np.arange(count + 1), np.zeros(count + 1)], axis=1)
    return _padded(np.concatenate([ended, [far]]), origin.astype(np.int64), gaps)


def _padded(table: Array, origin: Ints, gaps: Gaps) -> Elements:
    """Return elements whose roundings are added to mu: no coordinate weighs more than it."""
    table[:, 0] += 8 * (4 * gaps.pad + gaps.end_error + SLOP)
    if not np.abs(table).max() < LARGEST:
        raise NotSupported("likelihoods so far apart are not told apart by this bound")
    return Elements(table, origin)


def elements(side: Envelope, order: Order = STRAIGHT) -> Elements:
    """Return all elements of a side; ``order`` are the target's states as 0, 1 | 2, 3."""
    gaps, rows = side.gaps, list(order)
    parts = [open_elements(gaps, order)]
    for known in (0, 1):
        seen, plain = gaps.seen[:, rows, INSIDE[known]], gaps.plain[:, rows, INSIDE[known]]
        # of totally positive rows the extreme ones are those of the least and the largest state
        bends = [np.minimum(_contraction(table), 0.25) for table in (seen, plain)]
        bend = bends[0] + bends[1] + 8 * gaps.pad
        values = side.values[known]
        top = int(math.log2(len(values)))
        levels = np.clip(np.floor(np.log2(0.5 / bend) / 2), 0, top).astype(np.int64)
        for level in np.unique(levels).tolist():
            places = np.flatnonzero(levels == level)
            step = side.width[known] * 2**level
            wide = joined(values, level)
            # an end of a cell has the larger envelope of both cells that it belongs to
            beside = np.maximum(np.r_[0.0, wide], np.r_[wide, 0.0])
            points = np.flatnonzero(beside > 0)
            p = np.exp(side.low[known] + step * points)[None, :, None]
            raised = beside[points][None, :, None]
            messages = (
                (table[places][:, None, :, 0] + table[places][:, None, :, 1] * odds)
                for table, odds in ((seen, p * raised), (plain, p))
            )  # (gaps, points, states)
            coordinates = _coordinates(*messages)
            coordinates[..., 0] += (bend[places] * step**2 / 8)[:, None]
            cells = np.array([_largest(values, point, level) for point in points.tolist()])
            shape = coordinates.shape[:2]
            origin = np.stack([
                np.full(shape, known), np.broadcast_to(places[:, None], shape),
                np.broadcast_to(cells, shape),
            ], axis=-1)  # fmt: skip
            parts.append(_padded(coordinates.reshape(-1, 5), origin.reshape(-1, 3), gaps))
    return Elements(
        np.concatenate([one.table for one in parts]), np.concatenate([one.origin for one in parts])
    )


def _contraction(rows: Array) -> Array:
    """Return the largest contraction coefficient of two of four rows (.., 4, 2)."""
    pairs = [contraction(rows[..., list(pair), :]) for pair in combinations(range(4), 2)]
    return np.asarray(np.max(pairs, axis=0))


def _largest(values: Array, point: int, level: int) -> int:
    """Return the cell beside an end of wide cells in which the envelope is largest."""
    first = max(point - 1, 0) << level
    return first + int(values[first : (point + 1) << level].argmax())


def worst_pair(
    left: Elements, right: Elements, theta: float, factors: Factors = (1.0, 1.0, 1.0, 1.0)
) -> tuple[float, int, int]:
    """Return an upper bound on the leakage over all pairs, and a pair that all but attains it.

    ``factors`` are those of `undertow.bounds.memory.boxes.Joint`, 1 where messages of the
    left are joint probabilities; the first is at least the last, and the third the second.

    Bins are as bad as the worst of their elements; those whose best partner stays below a pair that
    was looked at are dropped, and the others refined.
    """
    scale = max(float(left.table[:, 3].max()), float(right.table[:, 3].max()), 1e-12)
    joint = Joint(theta, factors, joint_pad(theta, 400.0))
    lefts, rights = np.arange(len(left.table)), np.arange(len(right.table))
    width, best, floor, pair = FIRST_BIN, math.inf, -math.inf, (0, 0)
    while True:
        one, one_of = _binned(left.table[lefts], width, width * scale / 2)
        two, two_of = _binned(right.table[rights], width, width * scale / 2)
        if len(one) * len(two) > MOST_PAIRS and math.isfinite(best):
            break
        by_left, by_right = worst_of(one, two, joint)
        best = min(best, theta + math.log(float(by_left.max())) + joint.pad)
        first = int(by_left.argmax())
        other = int(worst_of(two, one[first : first + 1], joint)[0].argmax())
        tried = _tried(left, lefts[one_of == first], right, rights[two_of == other], joint)
        if tried[0] > floor:
            floor, pair = tried[0], tried[1:]
        if best <= floor * (1 + CLOSE) or width <= LAST_BIN:
            break
        goal = math.exp(floor - theta - 2 * joint.pad)
        lefts, rights = lefts[by_left[one_of] >= goal], rights[by_right[two_of] >= goal]
        if not len(lefts) or not len(rights):
            break
        width /= 2
    return max(best, floor + joint.pad), *pair


def _columns(table: Array) -> Array:
    """Return elements as `worst_of` takes them: e^ of (mu, u, z~, z, u~)."""
    mu, u, z, g, h = table.T
    return np.asarray(np.exp(np.stack([mu, u + g, z, z + h, u], axis=1)))


def _binned(table: Array, width: float, fine: float) -> tuple[Array, Ints]:
    """Return bins, each as bad as the worst of its elements, and the bin of each element."""
    order, starts = grouped(np.floor(table[:, 1:] / np.array([width, width, fine, fine])))
    ordered = table[order]
    bins = np.empty((len(starts), 5))
    # the leakage grows with mu, u~ and g, and falls with z~ and h
    for column, gather in enumerate((np.maximum, np.maximum, np.minimum, np.maximum, np.minimum)):
        bins[:, column] = gather.reduceat(ordered[:, column], starts)
    place = np.empty(len(table), dtype=np.int64)
    place[order] = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(table)]))
    return _columns(bins), place


def _tried(
    left: Elements, lefts: Ints, right: Elements, rights: Ints, joint: Joint
) -> tuple[float, int, int]:
    """Return the worst pair of single elements of two bins, those with the largest mu."""
    lefts = lefts[np.argsort(-left.table[lefts, 0], kind="stable")[:MOST_TRIED]]
    rights = rights[np.argsort(-right.table[rights, 0], kind="stable")[:MOST_TRIED]]
    one, two = _columns(left.table[lefts]), _columns(right.table[rights])
    by_left, _ = worst_of(one, two, joint)
    first = int(by_left.argmax())
    other = int(worst_of(two, one[first : first + 1], joint)[0].argmax())
    value = joint.own + math.log(float(by_left.max()))
    return value, int(lefts[first]), int(rights[other])


LARGEST_THETA, LEAST_THETA = 60.0, 1e-9
"""Log-ratios outside of it are left alone: likelihoods would lie too far apart, or too near for
the roundings."""

MOST_KNOWN = 40
"""Known records on a side of an attack (cost)."""

NEGLIGIBLE = 1e-7
"""Relative part of an attack's value that is given up for a shorter pattern."""

SidePattern = tuple[tuple[tuple[int, int], ...], int]
"""Outwards: (unknown records, then a record known to be the value) for each known record, and the
unknown records at the end. Values are 0 and 1 with 1 the value that is spoken for."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """One direction: bounds, and the pattern of either side that attains ``lower`` up to rounding.

    ``state`` is the value that outputs speak for.
    """

    lower: float
    upper: float
    state: int
    left: SidePattern
    right: SidePattern


def regime_kernel(chain: HiddenChain) -> Array | None:
    """Return the transitions over hidden states 0, 1 | 2, 3 of both symbols, totally positive.

    A symbol with one hidden state has it twice, each entered half of the time. None where that is
    not possible.

    >>> chain = HiddenChain([[.7, .2, .1], [.3, .4, .3], [.1, .2, .7]], (0, 0, 1))
    >>> regime_kernel(chain)[0].tolist()
    [0.7, 0.2, 0.05, 0.05]
    """
    shown = chain.shown
    parts = [np.flatnonzero(shown == state).tolist() for state in range(chain.size)]
    if chain.size != 2 or max(map(len, parts)) > 2 or not (chain.transition > 0).all():
        return None
    for low, high in product(*(permutations(part) for part in parts)):
        order = [*low, *high]
        if kernel_margin(chain.transition[np.ix_(order, order)]) >= 0:
            twice = [*(low * (3 - len(low))), *(high * (3 - len(high)))]
            entered = np.array([len(part) / 2 for part in (low, low, high, high)])
            return np.asarray(chain.transition[np.ix_(twice, twice)] * entered)
    return None


def any_bracket(chain: HiddenChain, state: int, theta: float) -> Bracket:
    """Return the bracket of one state against the other, for log-ratios of at most ``theta``.

    ``theta`` bounds how far the likelihood of an output grows where a record becomes ``state``.
    Raises `NotSupported` where no bound is known. Cost: some tenths of a second.

    >>> chain = HiddenChain([[.7, .2, .1], [.3, .4, .3], [.1, .2, .7]], (0, 0, 1))
    >>> bracket = any_bracket(chain, 1, 1.0)
    >>> 2.88 < bracket.lower <= bracket.upper < 2.9, bracket.upper / bracket.lower < 1.001
    (True, True)
    """
    if theta <= 0:
        return Bracket(0.0, 0.0, state, ((), 0), ((), 0))
    kernel = regime_kernel(chain)
    if kernel is None:
        raise NotSupported("this bound is for totally positive chains of two hidden states each")
    if not LEAST_THETA <= theta <= LARGEST_THETA:
        raise NotSupported(f"ratios of e^{theta:g} are not told apart here")
    if state == 0:  # the other way round: total positivity is the same in the opposite order
        kernel = np.ascontiguousarray(kernel[::-1, ::-1])
    return _bracket(kernel.tobytes(), state, theta)


def envelopes_bound(chain: HiddenChain, limits: Array) -> bool:
    """Tell whether `any_bracket` bounds each value against each other at these limits.

    >>> chain = HiddenChain([[.7, .2, .1], [.3, .4, .3], [.1, .2, .7]], (0, 0, 1))
    >>> envelopes_bound(chain, np.array([[0, 1.0], [1.0, 0]]))
    True
    """
    if chain.size != 2:
        return False
    least, most = sorted((float(limits[0, 1]), float(limits[1, 0])))
    within = (least <= 0 or least >= LEAST_THETA) and most <= LARGEST_THETA
    return within and regime_kernel(chain) is not None


@lru_cache(maxsize=64)
def _bracket(content: bytes, state: int, theta: float) -> Bracket:
    kernel = np.frombuffer(content).reshape(4, 4)
    left, right = _sides(kernel, theta)
    one, two = elements(left), elements(right)
    upper, i, j = worst_pair(one, two, theta)
    patterns = [
        _traced(side, *origin.tolist())
        for side, origin in ((left, one.origin[i]), (right, two.origin[j]))
    ]
    lower, shortest = _shortest(left.gaps, patterns[0], right.gaps, patterns[1], theta)
    return Bracket(min(max(lower, 0.0), upper), upper, state, *shortest)


def _sides(kernel: Array, theta: float) -> tuple[Envelope, Envelope]:
    """Return the envelopes of the left and the right."""
    law, error = perron(kernel.T)
    if not math.isfinite(error):
        raise NotSupported("the stationary law of this chain is not known well enough")
    # rows that sum to 1 up to rounding: the law is a quotient of sums of products of three entries
    gaps = (
        side_gaps(np.ascontiguousarray(kernel.T), law, error + 64 * ROUNDOFF, theta),
        side_gaps(kernel, np.ones(4), 0.0, theta),
    )
    return envelope(gaps[0], theta), envelope(gaps[1], theta)


def _traced(side: Envelope, known: int, gap: int, cell: int) -> SidePattern:
    """Return the pattern of an element."""
    if known < 0:
        return (), gap
    records = [(gap, known), *side.traced(known, cell, MOST_KNOWN - 1)]
    return tuple(records), side.gaps.longest


def _shortest(
    left: Gaps, first: SidePattern, right: Gaps, second: SidePattern, theta: float
) -> tuple[float, tuple[SidePattern, SidePattern]]:
    """Return the value of the shortest patterns that all but attain the largest one, and these."""
    one, two = _prefixes(first), _prefixes(second)
    lefts = np.stack([message(left, pattern) for pattern in one])  # (patterns, 2, 4)
    rights = np.stack([message(right, pattern) for pattern in two])
    both = lefts[:, None] * rights[None]  # (left, right, seen or plain, states)
    odds = np.log(both[..., 2:].sum(axis=-1)) - np.log(both[..., :2].sum(axis=-1))
    values = theta + odds[..., 0] - odds[..., 1]
    records = np.add.outer(*(np.array([_records(p) for p in each]) for each in (one, two)))
    enough = values >= values.max() - NEGLIGIBLE * abs(values.max())
    place = int(np.where(enough, records, np.iinfo(np.int64).max).argmin())
    i, j = divmod(place, len(two))
    return float(values[i, j]), (one[i], two[j])


def _prefixes(pattern: SidePattern) -> list[SidePattern]:
    """Return a pattern cut after each of its known records, with ends of several lengths."""
    known, last = pattern
    ends = sorted({min(last, 2**power) for power in range(3, 14)} | {last})
    return [(known[:count], end) for count in range(len(known) + 1) for end in ends]


def _records(pattern: SidePattern) -> int:
    return sum(gap + 1 for gap, _ in pattern[0]) + pattern[1]


def message(gaps: Gaps, pattern: SidePattern) -> Array:
    """Return what a pattern says of the target's hidden states, with outputs and plain: (2, 4)."""
    known, last = pattern
    seen = gaps.ends[last] if last < gaps.longest else gaps.far @ gaps.end
    vectors = []
    for vector, table in ((seen, gaps.seen), (gaps.end, gaps.plain)):
        for gap, value in reversed(known):
            inside = INSIDE[value]
            vector = table[gap][:, inside] @ vector[inside]
            vector = vector / vector.max()
        vectors.append(vector)
    return np.stack(vectors)


def pattern_codes(pattern: SidePattern, state: int) -> Codes:
    """Return what is looked at outwards: the only output, or a known state.

    >>> pattern_codes((((2, 1), (0, 0)), 1), 0)
    (-1, -1, 0, 1, -1)
    """
    codes: list[int] = []
    for gap, value in pattern[0]:
        codes += [~0] * gap + [state if value else 1 - state]
    return (*codes, *([~0] * pattern[1]))


FARTHEST = 2048
"""Records on either side of an attack that knows nothing (cost); it ends where they add nothing."""

GAIN = 1e-11
"""What twice as many records must add to be looked at."""


def open_pattern(
    law: LoweredLaw, weights: Array, pair: tuple[int, int], room: tuple[int, int] | None = None
) -> Pattern:
    """Return the attack that knows nothing, with as many records as still add something.

    ``weights`` (1, k) are those of the output of each record; ``room`` counts the records on
    either side, all of which are looked at (None: as many as one likes).

    >>> law = HiddenChain([[.9, .1], [.1, .9]], (0, 1)).lowered()
    >>> open_pattern(law, np.exp([[0.0, 1.0]]), (1, 0), (1, 2)).right
    (-1, -1)
    """
    if room is not None:
        return Pattern(0.0, pair, ~0, (~0,) * room[0], (~0,) * room[1])
    tilt = weights[0, law.symbols]
    steps = [kernel * tilt for kernel in (law.reversed().kernels[0], law.kernels[0])]
    inside = [law.symbols == value for value in pair]

    def value(records: int) -> float:
        left, right = (shown_message(step, records) for step in steps)
        masses = [float((law.start * left * right)[states].sum()) for states in inside]
        return math.log(masses[0]) - math.log(masses[1]) if min(masses) > 0 else 0.0

    records = 8
    while records < FARTHEST and value(2 * records) - value(records) > GAIN:
        records *= 2
    return Pattern(0.0, pair, ~0, (~0,) * records, (~0,) * records)


def regime_guide(model: Model, against: Against) -> PatternGuide | None:
    """Return a guide for levels on a hidden chain that has a bracket, None otherwise.

    >>> chain = HiddenChain([[.7, .2, .1], [.3, .4, .3], [.1, .2, .7]], (0, 0, 1))
    >>> regime_guide(chain, "ignorant") is None
    True
    >>> guide = regime_guide(chain, "any")
    >>> guide.focus(1.0)
    >>> 2.88 < guide.attains(1.0) < 2.9
    True
    """
    if not isinstance(model, HiddenChain) or against != "any" or model.hidden == model.size:
        return None
    if regime_kernel(model) is None:
        return None
    chain, law = model.endless(), model.lowered()

    def weights(level: float, state: int) -> Array:
        return np.exp([level * (np.arange(2) == state)])

    def patterns(level: float) -> list[Pattern]:
        within = min(max(level, LEAST_THETA), LARGEST_THETA)
        worst = []
        for state in (0, 1):
            pair, bracket = (state, 1 - state), any_bracket(chain, state, within)
            sides = (pattern_codes(side, state) for side in (bracket.left, bracket.right))
            worst.append(open_pattern(law, weights(within, state), pair))
            worst.append(Pattern(bracket.lower, pair, ~0, *sides))
        return worst

    def attack(pattern: Pattern, level: float) -> Attack:
        return pattern_attack(pattern, lambda _: weights(level, pattern.pair[0]))

    return PatternGuide(law, patterns, attack)
