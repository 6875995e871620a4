"""Upper ends against whoever knows any records, at every length: cells of plain messages.

At a known record only the quotients of the plain message inside its symbol matter. Boxes of them
(cells) carry bounds D that hold for every pattern of known records beyond; gaps of unknown records
lead from cell to cell until nothing grows (docs, theory-engine: E5), also with cycles of
kernels (docs, theory-engine: E15).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from undertow.bounds.core.arrays import LIBM, STEP
from undertow.bounds.core.cones import LARGEST_FACTOR, MOST_STATES, between, ray_error, rays
from undertow.bounds.core.sides import KERNEL_ERROR
from undertow.errors import InvalidModel, NotSupported
from undertow.models.chains import stationary_law
from undertow.models.lowered import LoweredLaw
from undertow.numerics import Array
from undertow.progress import spend

__all__ = ["WIDTH", "CellBounds", "Cells", "Known", "Lead", "any_upper"]

Places = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

Known = tuple[tuple[int, int], ...]
"""Known records of a side: distance from the target, outwards, and value."""

WIDTH = 0.1
"""Width of a box, in logarithms of quotients (cost; wider boxes, wider bounds)."""

SETTLED = 3e-4
"""Spread of the logarithm of a plain message from which a gap is bounded as endless (cost)."""

CAPS = (2, 8, 0)
"""Records of the gaps that are closed first; 0: all of them (cost)."""

PHASES_AT_ONCE = 32
"""Phases of a cycle whose cells are carried together at most (cost)."""

LONGEST = 5_000
"""Records after which a gap must have settled (cost)."""

GROWTH = 1e-4
"""Relative margin above the required value when a cell's bound is raised (cost, width)."""

MOST_BOXES = 4_000_000
"""Boxes of a symbol at most, over all phases (memory)."""

LARGEST_SPREAD = 30.0
"""Largest logarithm of a quotient of transitions into one hidden state (cost; bounds of rarer ones
are finite and useless)."""

MOST_CELLS = 60_000
"""Cells of a side at most (cost: some 20,000 for 288 phases)."""

SORTED = 200.0
"""Work of a box that is looked up, in multiplications."""

WIDE = (
    "the hidden states of one value are too many, or differ too much, for the cells of their "
    "messages; use fewer hidden states, or mix the kernel with a uniform one, chain.mixed(1e-4)"
)

BATCH = 4_000_000
"""Numbers of a table of quotients that are held at once (memory)."""

RAISES = (1e-5, 1e-4, 1e-3, 1e-2)
"""Relative increases of the limits in the search for bounds that no further step raises; each after
the last one failed."""

ROOM = 256 * STEP
"""Margin of each step in that search, relative to 1 + bound: a few hundred roundings, for chains on
which the limits do not matter."""

LEAST = 1e-6
"""Largest limit below which bounds are those of this limit (upper side): roundings of long gaps
would outweigh smaller ones."""

TURNS = 64
"""Steps after which endless bounds are tried (cost)."""

STILL = 1e-14
"""Change of a bound in a step below which the search for an endless one ends."""

BINS = 4
"""Bins of the join in a box's width (cost, width)."""

COARSER = 4
"""Doublings of the bins with which the join begins (cost)."""

CLOSE = 5e-5
"""Relative excess over the largest value up to which pairs of bins are not refined (cost)."""

PAIRS_AT_ONCE = 100_000
"""Pairs of bins that are joined at once (memory)."""

HELD = 20_000
"""Elements of a phase that are held before they are put in bins (memory)."""

KEYS = 2**9
"""Bins on either side of 0, for each quotient (those beyond share the last one)."""

PASSED = 2**16
"""More records than any gap passes: codes of origins."""

TRACED = 24
"""Known records of a pattern that is traced back at most (cost)."""

OPEN, FAR = -1, -2
"""Origins of elements that no known record bounds: nothing is known beyond, or it is far off."""


def any_upper(law: LoweredLaw, limits: Array, width: float = WIDTH) -> Array:
    """Return upper ends of what is revealed of one value against another, shape (k, k).

    They hold for every target, whatever is known of the other records, and every number of records
    of the stationary law (of a cycle of kernels: of the periodic law, from any phase on).

    >>> law = LoweredLaw(np.array([[[.9, .1], [.1, .9]]]), np.arange(2), np.array([.5, .5]))
    >>> bool(any_upper(law, np.array([[0, 1.0], [1.0, 0]]))[0, 1] >= 2.552)
    True
    """
    return Cells.of(law, width).bounds(limits).upper


@dataclass(frozen=True, slots=True)
class Lead:
    """A pattern of known records that leads to an upper end: its value, a pair, a phase."""

    upper: float
    pair: tuple[int, int]
    phase: int
    left: Known
    right: Known


@dataclass(frozen=True, slots=True, eq=False)
class CellBounds:
    """Upper ends for some limits, and patterns of known records that come near them.

    ``upper`` (k, k): whoever knows any records; ``ignorant`` (k, k): who knows none; ``sides``
    (phases, m, m): the largest bounds of hidden states on the left and on the right, by the phase
    of the target. ``leads`` has the largest end first.
    """

    upper: Array
    ignorant: Array
    sides: tuple[Array, Array]
    leads: tuple[Lead, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of both sides of a law, for any limits."""

    law: LoweredLaw
    left: "_Grid"
    right: "_Grid"
    marginals: Array
    error: float

    @classmethod
    def of(cls, law: LoweredLaw, width: float = WIDTH) -> "Cells":
        """Return the cells that messages of a law reach; refuse laws that have none."""
        left, right, marginals, error = _courses(law)
        return cls(law, _Grid(left, width), _Grid(right, width), marginals, error)

    def bounds(self, limits: Array) -> CellBounds:
        """Return upper ends for directed limits of one record, (k, k).

        Cost: gaps of unknown records from each cell, O(cells records rays m^2) for each round, and
        pairs of bins at the target.
        """
        law, limits = self.law, np.asarray(limits, dtype=np.float64)
        if not np.isfinite(limits).all() or limits.max() * (law.size // 2 + 2) > LARGEST_FACTOR:
            raise NotSupported(
                "limits of one record this large are not bounded against whoever knows any "
                "records; name one Adversary"
            )
        if not limits.any():
            nothing = np.zeros((law.phases, law.size, law.size))
            return CellBounds(np.zeros_like(limits), np.zeros_like(limits), (nothing, nothing), ())
        if limits.max() < LEAST:
            limits = np.where(limits > 0, LEAST, 0.0)
        diff = limits[np.ix_(law.symbols, law.symbols)]
        pairs = [(a, b) for a in range(law.states) for b in range(a + 1, law.states)]
        left, right = (_Elements(_Bounds(grid, diff), pairs) for grid in (self.left, self.right))
        upper, ignorant = np.zeros_like(limits), np.zeros_like(limits)
        leads = []
        for pair in (ordered for a, b in pairs for ordered in ((a, b), (b, a))):
            join = _Join(self, left, right, pair)
            value, phase, codes = join.largest()
            upper[pair] = (float(limits[pair]) + value) * (1 + 4 * STEP)
            ignorant[pair] = (float(limits[pair]) + join.open()) * (1 + 4 * STEP)
            patterns = left.pattern(codes[0]), right.pattern(codes[1])
            leads.append(Lead(float(upper[pair]), pair, phase, *patterns))
        leads.sort(key=lambda lead: -lead.upper)
        return CellBounds(
            upper, ignorant, (left.most[-np.arange(law.phases)], right.most), tuple(leads)
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Course:
    """One side of a target: kernels outwards, by the phase of the record they start from.

    ``kernels[j]`` (m, m) leads from a record of phase j to the next one outwards, of phase j + 1;
    entries have the relative ``error``. ``members[v]`` are the hidden states of symbol v.
    """

    kernels: Array
    error: float
    members: tuple[Places, ...]

    @property
    def size(self) -> int:
        """The number of hidden states."""
        return int(self.kernels.shape[1])

    @property
    def phases(self) -> int:
        """The number of kernels."""
        return len(self.kernels)

    @property
    def most(self) -> int:
        """The largest number of hidden states of a symbol."""
        return max(map(len, self.members))


def _courses(law: LoweredLaw) -> tuple[_Course, _Course, Array, float]:
    """Return the left and the right side, the marginals by phase, and their relative error.

    The marginals are those of the periodic law: an elimination on the product of the kernels, whose
    entries lose a rounding for each term, and O(m) times that in the law [grassmann1985]. The left
    kernels are reversed with them (docs, theory-engine: E15).
    """
    size, phases, kernels = law.size, law.phases, law.kernels
    if size > MOST_STATES:
        raise NotSupported(
            f"bounds against whoever knows any records are computed for at most {MOST_STATES} "
            f"hidden states, found {size}; use fewer, or name one Adversary"
        )
    if not (kernels > 0).all():
        raise NotSupported(
            "bounds against whoever knows any records need positive transitions between all hidden "
            "states; chain.mixed(1e-4) mixes them with uniform ones, which is another model and "
            "says so"
        )
    around = np.eye(size)
    for kernel in kernels:
        around = around @ kernel
    try:
        marginals = [stationary_law(around / around.sum(axis=1, keepdims=True))]
    except InvalidModel as refusal:
        raise NotSupported(str(refusal)) from refusal
    for kernel in kernels[:-1]:
        marginals.append(marginals[-1] @ kernel)
    error = 16 * size**2 * STEP + (2 * size + 1) * (phases + 1) * (KERNEL_ERROR + size * STEP)
    if (np.abs(np.log(law.start / marginals[0])) > 8 * error + 1e-12).any():
        raise NotSupported(
            "bounds against whoever knows any records need a series that starts in its stationary "
            "law (with public contexts: in the periodic law)"
        )
    table = np.array(marginals)
    turned = []
    for phase in range(phases):  # outwards on the left: from record t to t - 1
        t, before = -phase % phases, (-phase - 1) % phases
        turned.append((table[before][:, None] * kernels[before]).T / table[t][:, None])
    members = tuple(np.flatnonzero(law.symbols == v) for v in range(law.states))
    left = _Course(np.array(turned), KERNEL_ERROR + 2 * error + 2 * STEP, members)
    return left, _Course(kernels, KERNEL_ERROR, members), table, error


@dataclass(slots=True, eq=False)
class _Front:
    """Gaps that begin at known records of some cells, carried inwards record by record.

    ``message`` (corners, m, n): q at the corners of each box; ``shares`` (r, m, n): Pr[the known
    record is in the i-th state of its symbol | S]; ``phase`` (n,) of the record reached; ``passed``
    counts the records passed, the known one included; ``cells`` (n,) numbers where it began.
    """

    message: Array
    shares: Array
    phase: Places
    cells: Places
    passed: int = 0

    def cut(self, kept: Flags) -> None:
        """Keep some of the gaps."""
        self.message, self.shares = self.message[:, :, kept], self.shares[:, :, kept]
        self.phase, self.cells = self.phase[kept], self.cells[kept]

    def advance(self, course: _Course) -> Array:
        """Move a record inwards; return K (corners, m, m, n), weights of the next hidden state."""
        if self.passed >= LONGEST:
            raise NotSupported(
                f"regimes last longer than {LONGEST} records, and no bound settles; mix the kernel "
                "with a uniform one, or plan with Groups"
            )
        self.phase = (self.phase - 1) % course.phases
        kernels = np.moveaxis(course.kernels[self.phase], 0, -1)  # (m, m, n)
        if course.phases == 1:
            kernels = kernels[..., :1]
        spend(float(self.message.size * course.size * 4))
        weights = kernels * self.message[:, None]
        message = weights.sum(axis=2)
        self.message = message / message.max(axis=1, keepdims=True)
        shares = (kernels * self.shares[:, None]).sum(axis=2)
        self.shares = shares / shares.max(axis=1, keepdims=True)
        self.passed += 1
        return weights

    def error(self, course: _Course) -> float:
        """Return the relative error of messages and of the weights that they enter next."""
        return 2 * LIBM + (self.passed + 2) * (course.error + (course.size + 3) * STEP)

    def logs(self, course: _Course) -> tuple[Array, float]:
        """Return the logarithms of messages, and the error of their differences."""
        logs = np.log(self.message)
        slack = 4 * self.error(course) + 8 * LIBM * (1 + float(-logs.min(initial=0.0)))
        return logs, slack

    def contrast(self) -> Array:
        """Return how far hidden states differ in the log-odds of the known record's, (n,).

        The largest over i, j of osc over s of ln shares_i(s) / shares_j(s).
        """
        logs, most = np.log(self.shares), np.zeros(len(self.cells))
        for first in range(len(logs)):
            for second in range(first):
                odds = logs[first] - logs[second]
                most = np.maximum(most, odds.max(axis=0) - odds.min(axis=0))
        return most


def _spread(logs: Array) -> Array:
    """Return how far a message (corners, m, n) is from constant, at the worst corner."""
    return np.asarray((logs.max(axis=1) - logs.min(axis=1)).max(axis=0))


class _Grid:
    """The cells of one side that plain messages reach, whatever the limits.

    Cell number c has ``phase[c]``, ``symbol[c]`` and the lower corner ``corner[c]`` of its box
    (r - 1 logarithms of quotients). ``numbers[v]`` gives the number of a cell of symbol v by its
    phase and box, -1 where no message comes.
    """

    def __init__(self, course: _Course, width: float) -> None:
        """Make the cells that are reached from open ends and from far away."""
        self.course, self.width = course, width
        logs = np.log(course.kernels)
        spread = float((logs.max(axis=1) - logs.min(axis=1)).max())
        if spread > LARGEST_SPREAD:
            raise NotSupported(WIDE)
        self.reach = math.ceil((spread + 2 * SETTLED) / width) + 2
        dims = [len(states) - 1 for states in course.members]
        if course.phases * (2 * self.reach) ** max(dims) > MOST_BOXES:
            raise NotSupported(WIDE)
        shape = (2 * self.reach,)
        self.numbers = [np.full((course.phases, *shape * d), -1, dtype=np.int32) for d in dims]
        self.phase = self.symbol = np.zeros(0, dtype=np.intp)
        self.corner = np.zeros((0, max(dims)))
        self._fill()

    def __len__(self) -> int:
        return len(self.phase)

    def _fill(self) -> None:
        """Add cells until every image of a cell lies in cells."""
        course, done = self.course, 0
        phases = np.arange(course.phases)
        for symbol, states in enumerate(course.members):
            band = np.full((len(states) - 1, course.phases), 2 * SETTLED)
            self._add(symbol, phases, -band, band)
        while done < len(self):
            chosen = np.arange(done, min(len(self), done + self.batch))
            done = int(chosen[-1]) + 1
            front = self.front(chosen)
            while len(front.cells):
                front.advance(course)
                logs, slack = front.logs(course)
                for symbol in range(len(course.members)):
                    low, high = self.inside(logs, symbol)
                    self._add(symbol, front.phase, low - 2 * slack, high + 2 * slack)
                front.cut(_spread(logs) + slack > SETTLED)

    @property
    def batch(self) -> int:
        """The number of cells that are carried together."""
        size, corners = self.course.size, 2 ** (self.course.most - 1)
        return max(BATCH // int(corners * size * math.comb(2 * size - 2, size - 1)), 1)

    def _add(self, symbol: int, phase: Places, low: Array, high: Array) -> None:
        """Make cells of the boxes that meet ranges (dims, n) at phases (n,)."""
        numbers = self.numbers[symbol]
        for places, _ in self.boxes(phase, low, high):
            spend(SORTED * places.size)
            new = np.unique(places[:, numbers[tuple(places)] < 0], axis=1)
            count = new.shape[1]
            numbers[tuple(new)] = len(self) + np.arange(count)
            corner = np.zeros((count, self.corner.shape[1]))
            corner[:, : len(new) - 1] = ((new[1:] - self.reach) * self.width).T
            self.corner = np.concatenate([self.corner, corner])
            self.symbol = np.append(self.symbol, np.full(count, symbol))
            self.phase = np.append(self.phase, new[0])
            if len(self) > MOST_CELLS:
                raise NotSupported(WIDE)

    def boxes(self, phase: Places, low: Array, high: Array) -> Iterator[tuple[Places, Flags]]:
        """Yield phases and boxes (1 + dims, n') that meet ranges, and which of the n they meet."""
        first = np.floor(low / self.width).astype(np.intp) + self.reach
        last = np.floor(high / self.width).astype(np.intp) + self.reach
        most = (last - first).max(axis=1, initial=0)
        for steps in product(*(range(int(step) + 1) for step in most)):
            boxes = first + np.array(steps, dtype=np.intp)[:, None]
            meets: Flags = np.asarray((boxes <= last).all(axis=0))
            yield np.concatenate([phase[None, meets], boxes[:, meets]]), meets

    def cells(self, symbol: int, places: Places) -> Places:
        """Return the numbers of cells; a message outside of all is refused."""
        numbers = np.asarray(self.numbers[symbol][tuple(places)], dtype=np.intp)
        if (numbers < 0).any():
            raise NotSupported("a message leaves its cells, so that no bound is claimed")
        return numbers

    def inside(self, logs: Array, symbol: int) -> tuple[Array, Array]:
        """Return the least and largest quotients inside a symbol over the corners, (dims, n)."""
        states = self.course.members[symbol]
        quotients = logs[:, states[1:]] - logs[:, states[:1]]
        return quotients.min(axis=0), quotients.max(axis=0)

    def front(self, cells: Places) -> _Front:
        """Return the gaps that begin at some cells."""
        most, symbols = self.course.most, self.symbol[cells]
        message = np.zeros((2 ** (most - 1), self.course.size, len(cells)))
        shares = np.zeros((most, self.course.size, len(cells)))
        for symbol, states in enumerate(self.course.members):
            chosen = np.flatnonzero(symbols == symbol)
            low = self.corner[cells[chosen]].T  # (dims, n)
            for number, ends in enumerate(product((0, 1), repeat=most - 1)):
                message[number, states[0], chosen] = 1.0
                for place, state in enumerate(states[1:]):
                    message[number, state, chosen] = np.exp(low[place] + ends[place] * self.width)
            for place in range(most):
                # a symbol with fewer states repeats the last: its quotients are no news
                shares[place, states[min(place, len(states) - 1)], chosen] = 1.0
        return _Front(message, shares, self.phase[cells], cells)


def step_upper(weights: Array, distance: Array, error: float, extra: Array | float = 0.0) -> Array:
    """Return the bounds D one record inwards, the largest over the corners, rounded up: (m, m, n).

    ``weights`` K (corners, m, m, n) have the relative ``error``, ``distance`` C is (m, m, n);
    ``extra`` (n,) is what the inside of a box adds (docs, theory-engine: E5).
    """
    corners, size, _, count = weights.shape
    ends = rays(distance)  # (v, m, n)
    spend(float(corners * size * (size + 2) * len(ends) * count))
    sums = np.zeros((corners, size, len(ends), count))
    for state in range(size):
        sums += weights[:, :, state, None, :] * ends[None, None, :, state]
    sums /= weights.sum(axis=2)[:, :, None]
    turned = 1 / sums
    quotient = np.empty((size, size, count))
    for s in range(size):
        every = sums[:, s, None] * turned  # (corners, s', v, n)
        quotient[s] = every.max(axis=(0, 2))
    logs = np.log(quotient)
    slack = 4 * (error + ray_error(size) + (size + 4) * STEP)
    bound = np.maximum(logs + slack + (1 + np.abs(logs)) * LIBM + extra, 0.0) * (1 + 2 * STEP)
    bound[np.arange(size), np.arange(size)] = 0.0
    return np.asarray(bound)


class _Bounds:
    """Bounds of the cells of a side that every gap keeps, for some limits.

    ``open`` and ``far`` (phases, m, m) are those at an open end and where what is known is far off;
    ``cells`` (r, r, n) those between the states of each cell's symbol.
    """

    def __init__(self, grid: _Grid, diff: Array) -> None:
        """Raise bounds until nothing grows: short gaps first, then all."""
        self.grid, self.diff = grid, diff
        self.open = _endless(grid.course, diff, 0.0)
        self.far = _endless(grid.course, diff, SETTLED, self.open)
        self.cells = np.zeros((grid.course.most, grid.course.most, len(grid)))
        self._grown = np.ones((len(CAPS), len(grid)), dtype=bool)
        phases = np.arange(grid.course.phases)
        for symbol, states in enumerate(grid.course.members):
            band = np.full((len(states) - 1, len(phases)), SETTLED)
            bound = np.moveaxis(np.maximum(self.open, self.far), 0, -1)
            self._raise(symbol, phases, -band, band, bound)
        while self._grown.any():
            stage = int(self._grown.any(axis=1).argmax())
            group = min(max(CAPS[stage] // 2, 1) if CAPS[stage] else PHASES_AT_ONCE, PHASES_AT_ONCE)
            for first in reversed(range(0, grid.course.phases, group)):
                grown = self._grown[stage] & (grid.phase // group == first // group)
                if grown.any():
                    self._grown[stage][grown] = False
                    for _ in self.gaps(np.flatnonzero(grown), CAPS[stage], raising=True):
                        pass

    def _raise(self, symbol: int, phase: Places, low: Array, high: Array, bound: Array) -> None:
        """Raise the cells of a symbol that meet ranges at phases to bounds (m, m, n)."""
        states = self.grid.course.members[symbol]
        if len(states) < 2:
            return
        own, r = bound[np.ix_(states, states)], len(states)
        for places, meets in self.grid.boxes(phase, low, high):
            numbers = self.grid.cells(symbol, places)
            wanted = own[:, :, meets]
            over = (wanted > self.cells[:r, :r, numbers]).any(axis=(0, 1))
            if over.any():
                grain = GROWTH * GROWTH * self.diff.max()
                for x, y in product(range(r), repeat=2):
                    if x != y:
                        raised = wanted[x, y, over] * (1 + GROWTH) + grain
                        np.maximum.at(self.cells[x, y], numbers[over], raised)
                self._grown[:, numbers[over]] = True

    def gaps(
        self, chosen: Places, cap: int, *, raising: bool
    ) -> Iterator[tuple[_Front, Array, float, Array]]:
        """Carry gaps from cells inwards; yield fronts, logs of messages, their error, and bounds.

        ``cap``: records at most, 0 for all until a gap is as good as endless; with ``raising`` the
        cells that are met are raised.
        """
        for first in range(0, len(chosen), self.grid.batch):
            yield from self._carried(chosen[first : first + self.grid.batch], cap, raising)

    def _carried(
        self, chosen: Places, cap: int, raising: bool
    ) -> Iterator[tuple[_Front, Array, float, Array]]:
        grid, course = self.grid, self.grid.course
        front, cone = grid.front(chosen), self._at_known(chosen)
        extra = np.array([len(states) - 1 for states in course.members])[grid.symbol[chosen]]
        while len(front.cells):
            bend = BEND * cone.max(axis=(0, 1))
            if front.passed:
                odds = front.contrast() + 8 * front.error(course)
                bend = np.minimum(bend, 2 * np.tanh(odds / 4) * (1 + 1e-12))
            weights = front.advance(course)
            kappa = extra * (grid.width**2 / 8 * (1 + 1e-12)) * bend
            bound = step_upper(weights, cone, front.error(course), kappa)
            logs, slack = front.logs(course)
            if raising:
                for symbol in range(len(course.members)):
                    low, high = grid.inside(logs, symbol)
                    self._raise(symbol, front.phase, low - slack, high + slack, bound)
            yield front, logs, slack, bound
            if cap and front.passed >= cap:
                return
            endless = (bound <= np.moveaxis(self.far[front.phase], 0, -1)).all(axis=(0, 1))
            kept = (_spread(logs) + slack > SETTLED) | ~endless
            if not kept.all():
                front.cut(kept)
                bound, extra = bound[:, :, kept], extra[kept]
            cone = (self.diff[:, :, None] + bound) * (1 + STEP)

    def _at_known(self, chosen: Places) -> Array:
        """Return C at known records, (m, m, n): other hidden states are twins of the first one."""
        course = self.grid.course
        cone = np.empty((course.size, course.size, len(chosen)))
        for symbol, states in enumerate(course.members):
            places = np.zeros(course.size, dtype=np.intp)
            places[states] = np.arange(len(states))
            some = np.flatnonzero(self.grid.symbol[chosen] == symbol)
            cone[:, :, some] = self.cells[:, :, chosen[some]][places[:, None], places]
        return cone


BEND = 0.19246
"""2 / (6 sqrt 3), rounded up: how far a share s(1 - s) moves with its log-odds, twice."""


def _endless(course: _Course, diff: Array, eta: float, floor: Array | None = None) -> Array:
    """Return bounds by phase that no further step raises, at messages within eta of constant.

    Raised limits give them room, and steps at the true ones verify them (docs, theory-engine: E5
    (1), (2)); scaling bounds would prove nothing. At least ``floor``.
    """
    phases, size = course.phases, course.size
    apart = 1 - np.eye(size)

    def inner(limits: Array, phase: int, bounds: Array) -> Array:
        """Return the bounds at a record from those at the next one outwards."""
        cone = (limits + bounds[(phase + 1) % phases]) * (1 + STEP)
        extra = 2 * _band(float(cone.max()), eta)
        kernel = course.kernels[phase][None, :, :, None]
        return step_upper(kernel, cone[:, :, None], course.error, extra)[:, :, 0]

    for raise_ in RAISES:
        bounds = np.zeros((phases, size, size)) if floor is None else floor.copy()
        for turn in range(LONGEST // phases + 2):
            before = bounds.copy()
            for phase in reversed(range(phases)):
                further = inner(diff * (1 + raise_), phase, bounds)
                bounds[phase] = np.maximum(bounds[phase], further + ROOM * (1 + further) * apart)
            still = bool(np.abs(bounds - before).max() <= STILL * max(1.0, bounds.max()))
            if still or turn % (TURNS // phases + 1) == 0:
                held = (inner(diff, phase, bounds) <= bounds[phase] for phase in range(phases))
                if all(map(np.all, held)):
                    return bounds
            if still or bounds.max() * (size // 2 + 1) > LARGEST_FACTOR:
                break
    raise NotSupported(
        "no bound settles on this chain: its regimes last too long; mix the kernel with a uniform "
        "one, or plan with Groups"
    )


def _band(spread: float, eta: float) -> float:
    """Return J(a, eta) = 2 ln cosh((a + eta)/4) - 2 ln cosh((a - eta)/4), rounded up.

    It bounds what a message within eta of constant does to E[g | s], for osc ln g = a.
    """
    if not eta:
        return 0.0

    def log_cosh(x: float) -> float:
        return abs(x) + math.log1p(math.exp(-2 * abs(x)))

    value = 2 * (log_cosh((spread + eta) / 4) - log_cosh((spread - eta) / 4))
    return min(value + 64 * STEP * (1 + spread), eta * (1 + 4 * STEP))


@dataclass(frozen=True, slots=True, eq=False)
class _Bins:
    """Elements of a side at one phase, for an ordered pair of values of the target.

    An element is a message with its bounds. ``low`` and ``high`` (dims, n) hold the logarithms of
    the quotients inside the first and the second value, ``bound`` (r, r', n) the bounds of states
    of the first value against the second, and ``origin`` (n,) where the element begins. As a bin:
    ranges and largest bounds of all its elements, the origin of one with the largest bounds.
    """

    low: Array
    high: Array
    bound: Array
    origin: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.origin)

    @classmethod
    def joined(cls, parts: "list[_Bins]") -> "_Bins":
        """Return several lists of elements as one."""
        return cls(*(
            np.concatenate([getattr(part, name) for part in parts], axis=-1)
            for name in ("low", "high", "bound", "origin")
        ))  # fmt: skip

    def coarser(self, width: float) -> "tuple[_Bins, Places]":
        """Return bins of a width, and for each element the number of its bin."""
        code = np.zeros(len(self), dtype=np.int64)
        for row in np.floor((self.low + self.high) / (2 * width)):
            code = code * (2 * KEYS) + np.clip(row + KEYS, 0, 2 * KEYS - 1).astype(np.int64)
        order = np.lexsort((self.bound.sum(axis=(0, 1)), code))
        first = np.diff(code[order], prepend=-1) != 0
        starts = np.flatnonzero(first)
        number = np.empty(len(self), dtype=np.intp)
        number[order] = np.cumsum(first) - 1
        bins = _Bins(
            np.minimum.reduceat(self.low[:, order], starts, axis=1),
            np.maximum.reduceat(self.high[:, order], starts, axis=1),
            np.maximum.reduceat(self.bound[:, :, order], starts, axis=2),
            self.origin[order][np.append(starts[1:], len(self)) - 1],
        )
        return bins, number


class _Elements:
    """Elements of a side at the target: bins by phase and pair, and the gap that raised each cell.

    ``most`` (phases, m, m) are the largest bounds of all elements.
    """

    def __init__(self, bounds: _Bounds, pairs: list[tuple[int, int]]) -> None:
        """Collect the elements of all gaps, those of open and far ends among them."""
        self.bounds, grid = bounds, bounds.grid
        course = grid.course
        self.pairs = [*pairs, *((b, a) for a, b in pairs)]
        self._parts: dict[tuple[int, tuple[int, int]], list[_Bins]] = {}
        self._best = np.full(bounds.cells.shape, -1.0)
        self._origin = np.full(bounds.cells.shape, FAR, dtype=np.int64)
        self.most = np.maximum(bounds.open, bounds.far)
        phases = np.arange(course.phases)
        level = np.zeros((1, course.size, course.phases))
        for origin, ends, eta in ((OPEN, bounds.open, 0.0), (FAR, bounds.far, SETTLED)):
            codes = np.full(course.phases, origin, dtype=np.int64)
            self._add(phases, level, eta, np.moveaxis(ends, 0, -1), codes)
        for first in range(0, course.phases, PHASES_AT_ONCE):
            chosen = np.flatnonzero(grid.phase // PHASES_AT_ONCE == first // PHASES_AT_ONCE)
            for front, logs, slack, bound in bounds.gaps(chosen, 0, raising=False):
                codes = front.cells.astype(np.int64) * PASSED + front.passed
                self._trace(front.phase, logs, bound, codes)
                self._add(front.phase, logs, slack, bound, codes)

    def _add(
        self, phase: Places, logs: Array, slack: float, bound: Array,
        codes: npt.NDArray[np.int64],
    ) -> None:  # fmt: skip
        """Add elements at phases: logs of messages (corners, m, n), bounds (m, m, n)."""
        grid = self.bounds.grid
        order = np.argsort(phase, kind="stable")
        starts = np.flatnonzero(np.diff(phase[order], prepend=-1))
        for places in np.split(order, starts[1:]):
            here = int(phase[places[0]])
            some = bound[:, :, places]
            self.most[here] = np.maximum(self.most[here], some.max(axis=2))
            for pair in self.pairs:
                ranges = [grid.inside(logs[:, :, places], symbol) for symbol in pair]
                part = _Bins(
                    np.concatenate([low for low, _ in ranges]) - slack,
                    np.concatenate([high for _, high in ranges]) + slack,
                    some[np.ix_(*(grid.course.members[symbol] for symbol in pair))],
                    codes[places],
                )
                parts = self._parts.setdefault((here, pair), [])
                parts.append(part)
                if sum(map(len, parts)) > HELD:
                    parts[:] = [self.bins(here, pair)]

    def bins(self, phase: int, pair: tuple[int, int]) -> _Bins:
        """Return the bins of a phase and a pair."""
        every = _Bins.joined(self._parts[phase, pair])
        return every.coarser(self.bounds.grid.width / BINS)[0]

    def _trace(
        self, phase: Places, logs: Array, bound: Array, codes: npt.NDArray[np.int64]
    ) -> None:
        """Remember which gap brings the largest bound to each cell."""
        grid = self.bounds.grid
        for symbol, states in enumerate(grid.course.members):
            low, high = grid.inside(logs, symbol)
            for places, meets in grid.boxes(phase, low, high) if len(states) > 1 else ():
                numbers = grid.cells(symbol, places)
                for (x, s), (y, other) in product(enumerate(states), repeat=2):
                    value = bound[s, other, meets]
                    better = np.flatnonzero(value > self._best[x, y, numbers])
                    better = better[np.argsort(value[better], kind="stable")]  # the last one stays
                    self._best[x, y, numbers[better]] = value[better]
                    self._origin[x, y, numbers[better]] = codes[meets][better]

    def pattern(self, code: int) -> Known:
        """Return the known records of an element, by the gaps that raised the cells most."""
        records: list[tuple[int, int]] = []
        distance = 0
        while code >= 0 and len(records) < TRACED:
            cell, passed = divmod(code, PASSED)
            distance += passed
            records.append((distance, int(self.bounds.grid.symbol[cell])))
            best = self._best[:, :, cell]
            code = int(self._origin[:, :, cell].flat[int(best.argmax())])
        return tuple(records)


@dataclass(frozen=True, slots=True, eq=False)
class _Join:
    """Both sides at the target, for an ordered pair of its values."""

    cells: Cells
    left: _Elements
    right: _Elements
    pair: tuple[int, int]

    def largest(self) -> tuple[float, int, tuple[int, int]]:
        """Return ln lfp over all pairs of bins, the target's phase, and the origins of both."""
        best, where = 0.0, (0, (OPEN, OPEN))
        for phase in range(self.cells.law.phases):
            value, codes = self._at(phase, best)
            if value > best:
                best, where = value, (phase, codes)
        return best, *where

    def open(self) -> float:
        """Return ln lfp for someone who knows nothing."""
        members = [self.right.bounds.grid.course.members[symbol] for symbol in self.pair]
        dims = sum(map(len, members)) - 2
        ranges = np.zeros((dims, 1)), np.zeros((dims, 1))
        values = [
            self._value(
                phase, *ranges,
                (self.left.bounds.open[-phase] + self.right.bounds.open[phase])[np.ix_(*members)][
                    ..., None
                ],
            )[0]
            for phase in range(self.cells.law.phases)
        ]  # fmt: skip
        return float(max(values))

    def _at(self, phase: int, floor: float) -> tuple[float, tuple[int, int]]:
        """Return the largest ln lfp at a phase and both origins; a value below a floor may differ.

        Pairs of coarse bins come first. Only those above what some finest pair has are refined.
        """
        one = self.left.bins(-phase % self.cells.law.phases, self.pair)
        two = self.right.bins(phase, self.pair)
        levels, children = [(one, two)], []
        for level in range(COARSER):
            width = self.cells.left.width / BINS * 2 ** (level + 1)
            (one, above), (two, aside) = one.coarser(width), two.coarser(width)
            levels.append((one, two))
            children.append((_Children.of(above), _Children.of(aside)))
        levels.reverse()
        children.reverse()

        def values(level: int, rows: Places, columns: Places) -> Array:
            return self._values(phase, *levels[level], rows, columns)

        rows, columns = (part.reshape(-1) for part in np.indices(tuple(map(len, levels[0]))))
        rest = 0.0
        for level, (below, beside) in enumerate(children):
            ends = values(level, rows, columns)
            if not len(ends):
                return rest, (OPEN, OPEN)
            row, column = rows[[ends.argmax()]], columns[[ends.argmax()]]
            for deeper in range(level, COARSER):  # the leading pair of the leading pair, and so on
                row, column = _pairs(*children[deeper], row, column)
                leading = values(deeper + 1, row, column)
                row, column = row[[leading.argmax()]], column[[leading.argmax()]]
            floor = max(floor, float(leading.max()))
            kept = ends > floor * (1 + CLOSE)
            rest = max(rest, float(ends[~kept].max(initial=0.0)))
            rows, columns = _pairs(below, beside, rows[kept], columns[kept])
        ends = values(COARSER, rows, columns)
        if not len(ends) or ends.max() <= floor:
            row, column = row[0], column[0]
        else:
            row, column = rows[ends.argmax()], columns[ends.argmax()]
        one, two = levels[-1]
        best = max(rest, float(ends.max(initial=0.0)))
        return best, (int(one.origin[row]), int(two.origin[column]))

    def _values(self, phase: int, one: _Bins, two: _Bins, rows: Places, columns: Places) -> Array:
        """Return ln lfp for pairs of bins, rounded up."""
        parts = [np.zeros(0)]
        for first in range(0, len(rows), PAIRS_AT_ONCE):
            l, r = rows[first : first + PAIRS_AT_ONCE], columns[first : first + PAIRS_AT_ONCE]
            low, high = one.low[:, l] + two.low[:, r], one.high[:, l] + two.high[:, r]
            parts.append(self._value(phase, low, high, one.bound[:, :, l] + two.bound[:, :, r]))
        return np.concatenate(parts)

    def _value(self, phase: int, low: Array, high: Array, bound: Array) -> Array:
        """Return ln of the largest quotient of shares inside both values, (n,), rounded up.

        ``low``, ``high`` (dims, n) are the ranges of the logarithms of what both sides weigh states
        by. For each ray and each coordinate a mean is monotone in it: extremes are at corners.
        """
        above, below = between(bound * (1 + STEP))
        spend(8.0 * (above.size + below.size))
        law = np.log(self.cells.marginals[phase])
        means, dims = [], 0
        for symbol, table in zip(self.pair, (above, below), strict=True):
            states = self.right.bounds.grid.course.members[symbol]
            cut = slice(dims, dims + len(states) - 1)
            base = (law[states[1:]] - law[states[0]])[:, None]
            means.append(_means(table, base + low[cut], base + high[cut]))
            dims = cut.stop
        logs = np.log((means[0].max(axis=0) / means[1].min(axis=0)).max(axis=0))
        size = self.cells.law.size
        slack = 4 * (self.cells.error + ray_error(size) + 8 * (size + 4) * LIBM)
        span = max(np.abs(low).max(initial=0.0), np.abs(high).max(initial=0.0))
        slack += 4 * LIBM * float(np.abs(law).max() + span)
        logs = np.where(np.isnan(logs), math.inf, logs)  # products that overflow bound nothing
        return np.asarray(np.maximum(logs + slack + (1 + np.abs(logs)) * LIBM, 0.0))


def _means(table: Array, low: Array, high: Array) -> Array:
    """Return means of rays (v, r, n) at the corners of ranges of log-weights, (corners, v, n)."""
    means = []
    for corner in product((low, high), repeat=len(low)):
        weights = [np.ones(table.shape[2]), *(np.exp(end[i]) for i, end in enumerate(corner))]
        total = sum(weights)
        means.append(sum(table[:, i] * weight for i, weight in enumerate(weights)) / total)
    return np.array(means)


@dataclass(frozen=True, slots=True, eq=False)
class _Children:
    """The members of each bin among finer ones: ``order[first[b] : first[b] + count[b]]``."""

    order: Places
    first: Places
    count: Places

    @classmethod
    def of(cls, parent: Places) -> "_Children":
        """Return the children by the parent of each finer bin."""
        count = np.bincount(parent)
        return cls(np.argsort(parent, kind="stable"), np.cumsum(count) - count, count)


def _pairs(one: _Children, two: _Children, rows: Places, columns: Places) -> tuple[Places, Places]:
    """Return all pairs of the children of pairs of bins."""
    wide, times = two.count[columns], one.count[rows] * two.count[columns]
    within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    wide = np.repeat(wide, times)
    row, column = np.repeat(one.first[rows], times), np.repeat(two.first[columns], times)
    return one.order[row + within // wide], two.order[column + within % wide]
