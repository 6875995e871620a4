"""How far outputs can move a message, for every message: an upper envelope on one side of a target.

At a record known to be v two hidden states are left, and a message is one number: a with outputs,
p without (*plain*), each the logarithm of the upper state's share over the lower one's. Total
positivity of order 2 makes everything monotone: a gap of l unknown records to the next known one
maps p to M(p) and a to W(a), with increasing

    M(p) = ln (n0 + n1 e^p) / (d0 + d1 e^p),    0 <= M' <= tau = tanh(ln(n1 d0 / n0 d1) / 4) < 1,

outputs that speak for 1 raise a message, d = a - p >= 0, and what is leaked grows with a. So of all
messages with the same p only the largest d matters. Let E(p) be an upper bound on it: a step
function on cells of p. **Theorem.** If E holds at the open ends and for all that is far, and if

    W(p + E(p)) - M(p) <= E(M(p))    for all cells, gaps and known values,

then E bounds d for all patterns of known records, of every length: by induction over the known
records, outermost first. Such an E is found by iterating from the open ends up to a fixed point,
raised a little, and then *verified*, every number rounded up.

**Cells.** On a cell from p to q the second derivative of f = W(. + d) - M is at most tau_W + tau_M,
because |M''| = M' |1 - s - t| <= M' for the shares s, t with M' = s - t. So f is at most its larger
value at the two ends, and (tau_W + tau_M) (q - p)^2 / 8, or M(q) - M(p) if that is less. Gaps that
contract much take wider cells for the same error.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from undertow import progress
from undertow.bounds.hidden.gaps import INSIDE, Gaps
from undertow.errors import NotSupported
from undertow.numerics import Array

__all__ = ["Envelope", "Pieces", "contraction", "envelope"]

Ints = npt.NDArray[np.int64]

CELL, MOST_CELLS = 0.02, 2048
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
        found = np.zeros((len(self.places), len(raised)))
        for points, shift in ((self.points[:-1], self.lower), (self.points[1:], self.upper)):
            a = points * raised
            share = (gaps[:, 1, 0] + gaps[:, 1, 1] * a) / (gaps[:, 0, 0] + gaps[:, 0, 1] * a)
            np.maximum(found, share * shift, out=found)
        return np.asarray(found * (raised > 0))


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
        found: list[tuple[int, int]] = []
        while len(found) < most:
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
            found.append((int(piece.places[gap]), known))
        return found

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
        made = []
        for v in (0, 1):
            reached = np.concatenate([
                piece.reached(joined(values[piece.known], piece.level)).ravel()
                for piece in pieces if piece.inner == v
            ])  # fmt: skip
            scatter, found = scatters[v], opened[v].copy()
            best = np.maximum.reduceat(reached[scatter.source], scatter.begins)
            found[scatter.cells] = np.maximum(found[scatter.cells], best)
            made.append(found)
        return made[0], made[1]

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
            made = scatters[0], scatters[1]
            return Envelope(gaps, low, (width[0], width[1]), pieces, made, opened, tried)
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
        found = []
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
            found.append(Pieces(
                inner, known, level, places, seen[places], points,
                raised / share[:, :-1], raised / share[:, 1:],
                self.cells(inner, np.minimum(lower, upper) - self.slop),
                self.cells(inner, np.maximum(lower, upper) + self.slop),
            ))  # fmt: skip
        return found

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
        found = np.zeros(self.sizes[value])
        found[first : last + 1] = math.exp(float(far.max()) - least + 2 * self.slop)
        return found
