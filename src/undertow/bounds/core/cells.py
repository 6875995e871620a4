"""Upper ends against whoever knows any records, at every length: cells of plain messages.

At a known record only the quotients of the plain message inside its symbol matter. Boxes of them
(cells) carry bounds D that hold for every pattern of known records beyond; gaps of unknown records
lead from cell to cell until nothing grows (docs, theory-engine: E5, and E15 for cycles of kernels).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
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

__all__ = ["CellBounds", "Cells", "Known", "any_upper"]

Places = npt.NDArray[np.intp]

WIDTH = 0.1
"""Width of a box, in logarithms of quotients (cost; wider boxes, wider bounds)."""

SETTLED = 1e-3
"""Spread of the logarithm of a plain message from which a gap is bounded as endless (cost)."""

CAPS = (2, 8, 32, 128, 0)
"""Unknown records of the gaps that are closed first; 0: all of them (cost)."""

LONGEST = 20_000
"""Unknown records after which a gap must have settled (cost)."""

GROWTH = 1e-4
"""What a bound of a cell is raised by beside what it must hold, relative (cost, width)."""

MOST_BOXES = 2_000_000
"""Boxes of a symbol at most (memory)."""

BINS = 4
"""Bins of the join in a box's width (cost, width)."""

COARSER = 4
"""Doublings of the bins with which the join begins (cost)."""

MOST_PAIRS = 2_000_000
"""Pairs of bins that are joined at once (memory)."""

BATCH = 4_000_000
"""Numbers of a table of quotients that are held at once (memory)."""

RAISES = (1e-5, 1e-4, 1e-3, 1e-2)
"""What limits are raised by to find bounds that a further step does not raise, relative; each
after the last one failed."""

TURNS = 64
"""Steps after which endless bounds are tried (cost)."""

STILL = 1e-14
"""Change of a bound in a step below which the search for an endless one ends."""

KEYS = 2**9
"""Bins on either side of 0, for each quotient (those beyond share the last one)."""

HELD = 20_000
"""Elements of a phase that are held before they are put in bins (memory)."""

CLOSE = 5e-4
"""What pairs of bins may add to the largest value without being refined, relative (cost)."""

PASSED = 2**16
"""More records than any gap passes: codes of origins."""

TRACED = 24
"""Known records of a pattern that is traced back at most (cost)."""

OPEN, FAR = -1, -2
"""Origins of elements that no known record bounds: nothing is known beyond, or it is far off."""


def any_upper(law: LoweredLaw, limits: Array, width: float = WIDTH) -> Array:
    """Return upper ends of what is revealed of one value against another, shape (k, k).

    They hold for every target, whatever is known of the other records, and every number of records
    of the stationary law (of a cycle of kernels: the law that is periodic, from any phase on).

    >>> law = LoweredLaw(np.array([[[.9, .1], [.1, .9]]]), np.arange(2), np.array([.5, .5]))
    >>> bool(any_upper(law, np.array([[0, 1.0], [1.0, 0]]))[0, 1] >= 2.552)
    True
    """
    return Cells.of(law, width).bounds(limits).upper


@dataclass(frozen=True, slots=True, eq=False)
class _Course:
    """One side of a target: kernels outwards, by the phase of the record they start from.

    ``kernels[j]`` (m, m) leads from a record of phase j to the next one outwards, of phase j + 1;
    entries have the relative ``error``. ``members[v]`` are the hidden states of symbol v.
    """

    kernels: Array
    symbols: Places
    error: float
    members: tuple[Places, ...]

    @property
    def size(self) -> int:
        return len(self.symbols)

    @property
    def phases(self) -> int:
        return len(self.kernels)


def _courses(law: LoweredLaw) -> tuple[_Course, _Course, Array, float]:
    """Return the left and the right side, the marginals by phase, and their relative error.

    The marginals are those of the periodic law: an elimination on the product of the kernels, whose
    entries lose a rounding for each term, and O(m) times that in the law [grassmann1985]. The left
    kernels are reversed with them (docs, theory-engine: E15).
    """
    size, phases = law.size, law.phases
    kernels = np.asarray(law.kernels, dtype=np.float64)
    if size > MOST_STATES:
        raise NotSupported(
            f"bounds against whoever knows any records are computed for at most {MOST_STATES} "
            f"hidden states, found {size}; use fewer, or name one Adversary"
        )
    if not (kernels > 0).all():
        raise NotSupported(
            "bounds against whoever knows any records need positive transitions between all hidden "
            "states; a chain of (1 - 1e-4) * transition + 1e-4 / m is another model that has them"
        )
    around = np.eye(size)
    for kernel in kernels:
        around = around @ kernel
    marginals = [_stationary(around / around.sum(axis=1, keepdims=True))]
    for kernel in kernels[:-1]:
        marginals.append(marginals[-1] @ kernel)
    loss = (phases + 1) * (KERNEL_ERROR + size * STEP)
    error = 16 * size**2 * STEP + (2 * size + 1) * loss
    if (np.abs(np.log(law.start / marginals[0])) > 8 * error + 1e-9).any():
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
    left = _Course(np.array(turned), law.symbols, KERNEL_ERROR + 2 * error + 2 * STEP, members)
    right = _Course(kernels, law.symbols, KERNEL_ERROR, members)
    return left, right, table, error


def _stationary(matrix: Array) -> Array:
    try:
        return stationary_law(matrix)
    except InvalidModel as refusal:
        raise NotSupported(str(refusal)) from refusal


@dataclass(slots=True, eq=False)
class _Front:
    """Gaps that begin at known records of some cells, carried inwards record by record.

    ``message`` (corners, m, n): q at the corners of each box; ``shares`` (r, m, n): Pr[the known
    record is in the i-th state of its symbol | S]; ``cells`` (n,) are numbers of cells; ``passed``
    counts the records passed, the known one included.
    """

    message: Array
    shares: Array
    cells: Places
    symbols: Places
    passed: int = 0

    def cut(self, kept: npt.NDArray[np.bool_]) -> "_Front":
        """Return some of the gaps."""
        return _Front(
            self.message[:, :, kept], self.shares[:, :, kept], self.cells[kept],
            self.symbols[kept], self.passed,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """The cells of one side that plain messages reach, whatever the limits.

    Cell number c of phase j has ``symbol[j][c]`` and the lower corner ``corner[j][c]`` (r - 1
    logarithms of quotients, NaN beyond those of its symbol). ``table[j][v]`` gives the number of a
    cell by its box.
    """

    course: _Course
    width: float
    reach: int
    symbol: list[Places]
    corner: list[Array]
    table: list[list[npt.NDArray[np.int32]]]

    @classmethod
    def of(cls, course: _Course, width: float) -> "_Grid":
        """Return the cells that are reached from an open end and from far away, outwards in."""
        logs = np.log(course.kernels)
        spread = float((logs.max(axis=1) - logs.min(axis=1)).max())
        reach = math.ceil((spread + SETTLED) / width) + 2
        dims = [max(len(states) - 1, 0) for states in course.members]
        if (2 * reach) ** max(dims) > MOST_BOXES:
            raise NotSupported(
                "the hidden states of one symbol differ too much, or are too many, for the cells "
                "of their messages; mix the kernel with a uniform one, or use fewer hidden states"
            )
        phases = range(course.phases)
        table = [[np.full((2 * reach,) * d, -1, dtype=np.int32) for d in dims] for _ in phases]
        grid = cls(
            course, width, reach, [np.zeros(0, dtype=np.intp) for _ in phases],
            [np.zeros((0, max(max(dims), 1))) for _ in phases], table,
        )  # fmt: skip
        grid._fill()
        return grid

    @property
    def most(self) -> int:
        """The largest number of hidden states of a symbol."""
        return max(len(states) for states in self.course.members)

    def _fill(self) -> None:
        """Add cells until every image of a cell lies in cells."""
        fresh: list[list[int]] = [[] for _ in range(self.course.phases)]
        for phase in range(self.course.phases):
            for symbol, states in enumerate(self.course.members):
                band = np.full((len(states) - 1, 1), SETTLED)
                fresh[phase] += self._add(phase, symbol, -band, band)
        while any(fresh):
            for phase in reversed(range(self.course.phases)):
                cells, fresh[phase] = fresh[phase], []
                if not cells:
                    continue
                front = self.front(phase, np.array(cells, dtype=np.intp))
                reached = phase
                while len(front.cells):
                    reached = (reached - 1) % self.course.phases
                    self.advance(front, reached)
                    logs = np.log(front.message)
                    for symbol in range(len(self.course.members)):
                        low, high = self.inside(logs, symbol)
                        fresh[reached] += self._add(reached, symbol, low - 1e-9, high + 1e-9)
                    front = front.cut(_spread(logs) > SETTLED)
                    self.check(front)

    def check(self, front: _Front) -> None:
        """Refuse gaps that never settle."""
        if front.passed > LONGEST:
            raise NotSupported(
                f"regimes last longer than {LONGEST} records: no bound settles; mix the kernel "
                "with a uniform one, or plan with Groups"
            )

    def _add(self, phase: int, symbol: int, low: Array, high: Array) -> list[int]:
        """Make cells of the boxes between two ends (dims, n); return the numbers of new ones."""
        table = self.table[phase][symbol]
        new = np.zeros((0, int(table.ndim == 0 and table[()] < 0)), dtype=np.intp)
        if table.ndim:
            boxes = np.concatenate([box for box, _ in self.boxes(low, high)], axis=1)  # (dims, n)
            new = np.unique(boxes[:, table[tuple(boxes)] < 0], axis=1)
        numbers = len(self.symbol[phase]) + np.arange(new.shape[1])
        table[tuple(new) if table.ndim else ...] = numbers if len(numbers) or table.ndim else table
        corner = np.full((len(numbers), self.corner[phase].shape[1]), np.nan)
        corner[:, : len(new)] = ((new - self.reach) * self.width).T
        self.symbol[phase] = np.append(self.symbol[phase], np.full(len(numbers), symbol))
        self.corner[phase] = np.concatenate([self.corner[phase], corner])
        return list(numbers.tolist())

    def boxes(self, low: Array, high: Array) -> Iterator[tuple[Places, npt.NDArray[np.bool_]]]:
        """Yield the boxes (dims, n') that meet ranges, and which of the n ranges each is for."""
        first = np.floor(low / self.width).astype(np.intp) + self.reach
        last = np.floor(high / self.width).astype(np.intp) + self.reach
        most = (last - first).max(axis=1, initial=0)
        for steps in product(*(range(int(step) + 1) for step in most)):
            boxes = first + np.array(steps, dtype=np.intp)[:, None]
            meets = (boxes <= last).all(axis=0)
            yield boxes[:, meets], meets

    def inside(self, logs: Array, symbol: int) -> tuple[Array, Array]:
        """Return the least and largest quotients inside a symbol over the corners, (dims, n)."""
        states = self.course.members[symbol]
        quotients = logs[:, states[1:]] - logs[:, states[:1]]
        return quotients.min(axis=0), quotients.max(axis=0)

    def front(self, phase: int, cells: Places) -> _Front:
        """Return the gaps that begin at cells of a phase."""
        symbols, most = self.symbol[phase][cells], self.most
        message = np.zeros((2 ** (most - 1), self.course.size, len(cells)))
        shares = np.zeros((most, self.course.size, len(cells)))
        for symbol, states in enumerate(self.course.members):
            chosen = np.flatnonzero(symbols == symbol)
            low = self.corner[phase][cells[chosen]].T  # (dims, n)
            message[:, states[0], chosen] = 1.0
            for number, ends in enumerate(product((0, 1), repeat=most - 1)):
                for place, state in enumerate(states[1:]):
                    message[number, state, chosen] = np.exp(low[place] + ends[place] * self.width)
            for place in range(most):
                # symbols with fewer states repeat their last one: its quotients are no news
                shares[place, states[min(place, len(states) - 1)], chosen] = 1.0
        return _Front(message, shares, cells, symbols)

    def advance(self, front: _Front, phase: int) -> Array:
        """Carry gaps to a record of a phase; return K (corners, m, m, n), weights of the next one.

        Messages are rescaled at each record; each loses `message_error` of its size.
        """
        kernel = self.course.kernels[phase]
        weights = kernel[None, :, :, None] * front.message[:, None]
        message = weights.sum(axis=2)
        front.message = message / message.max(axis=1, keepdims=True)
        shares = np.tensordot(front.shares, kernel, axes=(1, 1)).swapaxes(1, 2)
        front.shares = shares / shares.max(axis=1, keepdims=True)
        front.passed += 1
        return weights

    def message_error(self, passed: int) -> float:
        """Return the relative error of messages after so many records."""
        return 2 * LIBM + (passed + 1) * (self.course.error + (self.course.size + 3) * STEP)

    def lookup(self, phase: int, symbol: int, boxes: Places) -> Places:
        """Return the numbers of the cells of boxes, which all are there."""
        numbers = np.asarray(self.table[phase][symbol][tuple(boxes)], dtype=np.intp)
        if (numbers < 0).any():
            raise NotSupported("messages leave their cells: no bound is claimed")
        return numbers


def _spread(logs: Array) -> Array:
    """Return how far a message (corners, m, n) is from constant, at the worst corner."""
    return np.asarray((logs.max(axis=1) - logs.min(axis=1)).max(axis=0))


def step_upper(weights: Array, distance: Array, error: float, kappa: Array | float = 0.0) -> Array:
    """Return the bounds D one record inwards, the largest over the corners, rounded up: (m, m, n).

    ``weights`` K (corners, m, m, n) have the relative ``error``, ``distance`` C is (m, m, n);
    ``kappa`` (n,) is what the inside of a box adds (docs, theory-engine: E5).
    """
    corners, size, _, count = weights.shape
    ends = rays(distance)  # (v, m, n)
    spend(float(corners * size * len(ends) * size * count))
    sums = np.zeros((corners, size, len(ends), count))
    for state in range(size):
        sums += weights[:, :, state, None, :] * ends[None, None, :, state]
    sums /= weights.sum(axis=2)[:, :, None]
    turned = 1 / sums
    bound = np.zeros((size, size, count))
    slack = 4 * (error + ray_error(size) + (size + 4) * STEP)
    for s in range(size):
        for other in range(size):
            if s != other:
                quotient = (sums[:, s] * turned[:, other]).reshape(-1, count).max(axis=0)
                log = np.log(quotient)
                raised = log + slack + (1 + np.abs(log)) * LIBM + kappa
                bound[s, other] = np.maximum(raised, 0.0) * (1 + 2 * STEP)
    return bound


def _spread_join(spread: Array | float, eta: float) -> float:
    """Return J(a, eta) = 2 ln cosh((a + eta)/4) - 2 ln cosh((a - eta)/4), rounded up."""
    most = float(np.max(spread))

    def log_cosh(x: float) -> float:
        return abs(x) + math.log1p(math.exp(-2 * abs(x)))

    value = 2 * (log_cosh((most + eta) / 4) - log_cosh((most - eta) / 4))
    return min(value + 64 * STEP * (1 + most), eta * (1 + 4 * STEP))


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """Bounds by phase, (phases, m, m): at an open end, and where what is known is far off."""

    open: Array
    far: Array


def _endless(course: _Course, diff: Array) -> _Ends:
    """Return bounds that a further step does not raise, at an open end and far away, verified.

    Raised limits give them room (docs, theory-engine: E5 (1), (2)); scaling them would prove
    nothing.
    """
    bounds = []
    for eta in (0.0, SETTLED):
        for number, raise_ in enumerate(RAISES):
            settled = _settled(course, diff, eta, 1 + raise_)
            if settled is not None:
                bounds.append(settled)
                break
            if number == len(RAISES) - 1:
                raise NotSupported("no bound settles on this chain; regimes last too long")
    open_, far = bounds
    if not (far >= open_).all():
        far = np.maximum(far, open_)
        if not _holds(course, diff, SETTLED, far):
            raise NotSupported("no bound settles on this chain; regimes last too long")
    return _Ends(open_, far)


def _inner(course: _Course, diff: Array, eta: float, phase: int, outer: Array) -> Array:
    """Return bounds at a record of a phase from those at the next one outwards."""
    cone = (diff + outer) * (1 + STEP)
    kernel = course.kernels[phase][None, :, :, None]
    raised = 2 * _spread_join(cone.max(), eta) if eta else 0.0
    return step_upper(kernel, cone[:, :, None], course.error, raised)[:, :, 0]


def _settled(course: _Course, diff: Array, eta: float, raise_: float) -> Array | None:
    """Return bounds that steps at raised limits lead to and that hold, None if none are found."""
    phases, size = course.phases, course.size
    bounds = np.zeros((phases, size, size))
    for turn in range(LONGEST // phases + 2):
        before = bounds.copy()
        for phase in reversed(range(phases)):
            outer = bounds[(phase + 1) % phases]
            bounds[phase] = _inner(course, diff * raise_, eta, phase, outer)
        still = np.abs(bounds - before).max() <= STILL * max(1.0, float(bounds.max()))
        if still or turn % (TURNS // phases + 1) == 0:
            if _holds(course, diff, eta, bounds):
                return bounds
            if still:
                return None
        if not bounds.max() * (size // 2 + 1) < LARGEST_FACTOR:
            return None
    return None


def _holds(course: _Course, diff: Array, eta: float, bounds: Array) -> bool:
    """Tell whether no step raises bounds."""
    phases = course.phases
    return all(
        (_inner(course, diff, eta, phase, bounds[(phase + 1) % phases]) <= bounds[phase]).all()
        for phase in range(phases)
    )


@dataclass(slots=True, eq=False)
class _Bounds:
    """Bounds of the cells of a side for some limits: the search for them.

    ``cells[j]`` (r, r, n) are bounds between the states of each cell's symbol; ``sources[j]`` the
    origin of the bound of each, a cell's code and the records passed.
    """

    grid: _Grid
    diff: Array
    ends: _Ends
    grain: float
    cells: list[Array] = field(default_factory=list)
    grown: list[list[npt.NDArray[np.bool_]]] = field(default_factory=list)

    @classmethod
    def closed(cls, grid: _Grid, diff: Array) -> "_Bounds":
        """Return bounds that every gap keeps."""
        most, counts = grid.most, [len(symbol) for symbol in grid.symbol]
        grain = GROWTH * GROWTH * float(diff.max())
        bounds = cls(grid, diff, _endless(grid.course, diff), grain)
        bounds.cells = [np.zeros((most, most, count)) for count in counts]
        bounds.grown = [[np.ones(count, dtype=bool) for count in counts] for _ in CAPS]
        bounds._start()
        while True:
            stage = next((s for s, flags in enumerate(bounds.grown) if any(map(np.any, flags))), -1)
            if stage < 0:
                return bounds
            for phase in reversed(range(grid.course.phases)):
                chosen = np.flatnonzero(bounds.grown[stage][phase])
                if len(chosen):
                    bounds.grown[stage][phase][:] = False
                    for _ in bounds.gaps(phase, chosen, CAPS[stage], raising=True):
                        pass

    def _start(self) -> None:
        """Raise the cells next to a constant message to the bounds of open and far ends."""
        grid = self.grid
        for phase in range(grid.course.phases):
            for symbol, states in enumerate(grid.course.members):
                band = np.full((len(states) - 1, 1), SETTLED)
                both = np.maximum(self.ends.open[phase], self.ends.far[phase])
                self._raise(phase, symbol, -band, band, both[:, :, None])

    def _raise(self, phase: int, symbol: int, low: Array, high: Array, bound: Array) -> None:
        """Raise the cells of a symbol that meet ranges to bounds (m, m, n)."""
        states = self.grid.course.members[symbol]
        if len(states) < 2:
            return
        own = bound[np.ix_(states, states)]
        r, cells = len(states), self.cells[phase]
        for boxes, meets in self.grid.boxes(low, high):
            numbers = self.grid.lookup(phase, symbol, boxes)
            wanted = own[:, :, meets]
            over = (wanted > cells[:r, :r, numbers]).any(axis=(0, 1))
            if over.any():
                places = numbers[over]
                raised = wanted[:, :, over] * (1 + GROWTH) + self.grain
                for x in range(r):
                    for y in range(r):
                        if x != y:
                            np.maximum.at(cells[x, y], places, raised[x, y])
                for flags in self.grown:
                    flags[phase][places] = True

    def gaps(
        self, phase: int, chosen: Places, cap: int, *, raising: bool
    ) -> Iterator[tuple[int, _Front, Array, Array]]:
        """Carry gaps from cells inwards; yield phase, front, logs of messages and bounds.

        ``cap``: unknown records at most, 0 for all until the gap is as good as endless; with
        ``raising`` the cells that are met are raised.
        """
        grid = self.grid
        size = grid.course.size
        batch = max(BATCH // (2 ** (grid.most - 1) * size * math.comb(2 * size - 2, size - 1)), 1)
        for first in range(0, len(chosen), batch):
            yield from self._carried(phase, chosen[first : first + batch], cap, raising=raising)

    def _carried(
        self, phase: int, chosen: Places, cap: int, *, raising: bool
    ) -> Iterator[tuple[int, _Front, Array, Array]]:
        grid, course = self.grid, self.grid.course
        front = grid.front(phase, chosen)
        extra = np.array([len(states) - 1 for states in course.members])[front.symbols]
        cone = self._at_known(phase, chosen, front.symbols)
        reached = phase
        while len(front.cells):
            reached = (reached - 1) % course.phases
            known = front.passed == 0
            cap_log = 0.0 if known else _contrast(front.shares)
            weights = grid.advance(front, reached)
            error = grid.message_error(front.passed) + course.error
            bend = 0.19246 * cone.max(axis=(0, 1))  # 2 / (6 sqrt 3), rounded up
            if not known:
                bend = np.minimum(bend, 2 * np.tanh((cap_log + 8 * error) / 4) * (1 + 1e-12))
            kappa = extra * (grid.width**2 / 8 * (1 + 1e-12)) * bend
            bound = step_upper(weights, cone, error, kappa)
            logs = np.log(front.message)
            pad = 4 * error + 8 * LIBM * (1 + np.abs(logs).max(initial=0.0))
            if raising:
                for symbol in range(len(course.members)):
                    low, high = grid.inside(logs, symbol)
                    self._raise(reached, symbol, low - pad, high + pad, bound)
            yield reached, front, logs, bound
            if cap and front.passed >= cap:
                return
            within = (bound <= self.ends.far[reached][:, :, None]).all(axis=(0, 1))
            kept = (_spread(logs) + pad > SETTLED) | ~within
            if not kept.all():
                front, bound, extra = front.cut(kept), bound[:, :, kept], extra[kept]
            grid.check(front)
            cone = (self.diff[:, :, None] + bound) * (1 + STEP)

    def _at_known(self, phase: int, chosen: Places, symbols: Places) -> Array:
        """Return C at known records, (m, m, n): other hidden states are twins of the first one."""
        course = self.grid.course
        cone = np.empty((course.size, course.size, len(chosen)))
        for symbol, states in enumerate(course.members):
            places = np.zeros(course.size, dtype=np.intp)
            places[states] = np.arange(len(states))
            some = np.flatnonzero(symbols == symbol)
            cells = self.cells[phase][:, :, chosen[some]]
            cone[:, :, some] = cells[places[:, None], places]
        return cone


def _contrast(shares: Array) -> Array:
    """Return the largest difference between hidden states of the log-odds of the known one, (n,).

    ``shares`` (r, m, n): max over i, j of osc over s of ln shares_i(s) / shares_j(s).
    """
    with np.errstate(divide="ignore"):
        logs = np.log(shares)
    most = np.zeros(shares.shape[2])
    for first in range(len(logs)):
        for second in range(first):
            odds = logs[first] - logs[second]
            most = np.maximum(most, odds.max(axis=0) - odds.min(axis=0))
    return most


Known = tuple[tuple[int, int], ...]
"""Known records of a side: distance from the target, outwards, and value."""


@dataclass(frozen=True, slots=True, eq=False)
class _Bins:
    """Elements of a side at one phase, for two values of the target, in bins of what it weighs.

    An element is a message with its bounds. ``low`` and ``high`` (dims, n) hold the logarithms of
    the quotients inside both values; ``up`` (r, r', n) bounds states of the first value against
    the second one, ``down`` (r', r, n) the opposite; ``up_from``, ``down_from`` (n,) say where the
    element with the largest bounds begins.
    """

    low: Array
    high: Array
    up: Array
    down: Array
    up_from: Places
    down_from: Places

    @classmethod
    def joined(cls, parts: "list[_Bins]") -> "_Bins":
        """Return several lists of elements as one."""
        return cls(
            np.concatenate([part.low for part in parts], axis=1),
            np.concatenate([part.high for part in parts], axis=1),
            np.concatenate([part.up for part in parts], axis=2),
            np.concatenate([part.down for part in parts], axis=2),
            np.concatenate([part.up_from for part in parts]),
            np.concatenate([part.down_from for part in parts]),
        )

    def coarser(self, width: float) -> "tuple[_Bins, Places]":
        """Return bins of a width, and for each element the number of its bin."""
        key = np.floor((self.low + self.high) / (2 * width)).astype(np.int64)
        code = np.zeros(key.shape[1], dtype=np.int64)
        for row in key:
            code = code * (2 * KEYS) + np.clip(row + KEYS, 0, 2 * KEYS - 1)
        _, number = np.unique(code, return_inverse=True)
        number = number.reshape(-1).astype(np.intp)
        order = np.argsort(number, kind="stable")
        starts = np.flatnonzero(np.diff(number[order], prepend=-1))
        bins = _Bins(
            np.minimum.reduceat(self.low[:, order], starts, axis=1),
            np.maximum.reduceat(self.high[:, order], starts, axis=1),
            np.maximum.reduceat(self.up[:, :, order], starts, axis=2),
            np.maximum.reduceat(self.down[:, :, order], starts, axis=2),
            _leading(self.up_from, self.up, number, len(starts)),
            _leading(self.down_from, self.down, number, len(starts)),
        )
        return bins, number

    def __len__(self) -> int:
        return len(self.up_from)


def _leading(sources: Places, bounds: Array, number: Places, count: int) -> Places:
    """Return the source of the element with the largest sum of bounds in each bin."""
    order = np.argsort(bounds.sum(axis=(0, 1)), kind="stable")
    leading = np.empty(count, dtype=np.intp)
    leading[number[order]] = sources[order]  # the last one stays
    return leading


@dataclass(slots=True, eq=False)
class _Elements:
    """What a side may bring to a target: bins by phase and pair, and what raised each cell."""

    bounds: _Bounds
    pairs: list[tuple[int, int]]
    bins: dict[tuple[int, tuple[int, int]], list[_Bins]] = field(default_factory=dict)
    best: list[Array] = field(default_factory=list)
    source: list[npt.NDArray[np.int64]] = field(default_factory=list)
    most: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, bounds: _Bounds, pairs: list[tuple[int, int]]) -> "_Elements":
        """Return the elements of all gaps, those of open and far ends among them."""
        grid = bounds.grid
        phases, size = grid.course.phases, grid.course.size
        elements = cls(bounds, pairs)
        elements.best = [np.full(cells.shape, -1.0) for cells in bounds.cells]
        elements.source = [np.full(cells.shape, FAR, dtype=np.int64) for cells in bounds.cells]
        elements.most = np.maximum(bounds.ends.open, bounds.ends.far)
        for phase in range(phases):
            for code, ends, eta in ((OPEN, bounds.ends.open, 0.0), (FAR, bounds.ends.far, SETTLED)):
                logs = np.zeros((2, size, 1))
                elements._add(
                    phase,
                    logs - np.array([eta, -eta])[:, None, None] / 2,
                    ends[phase][:, :, None],
                    np.array([code]),
                    eta,
                )
        for phase in range(phases):
            chosen = np.arange(len(grid.symbol[phase]))
            for reached, front, logs, bound in bounds.gaps(phase, chosen, 0, raising=False):
                codes = (front.cells * phases + phase) * PASSED + front.passed
                pad = 4 * grid.message_error(front.passed) + 8 * LIBM * (
                    1 + float(np.abs(logs).max(initial=0.0))
                )
                elements._trace(reached, logs, bound, codes)
                elements._add(reached, logs, bound, codes, pad)
        return elements

    def _add(self, phase: int, logs: Array, bound: Array, codes: Places, pad: float) -> None:
        """Add elements at a phase: logs of messages (corners, m, n), bounds (m, m, n)."""
        grid = self.bounds.grid
        self.most[phase] = np.maximum(self.most[phase], bound.max(axis=2))
        for pair in self.pairs:
            ends = [grid.inside(logs, symbol) for symbol in pair]
            low = np.concatenate([end[0] for end in ends]) - pad
            high = np.concatenate([end[1] for end in ends]) + pad
            one, two = (grid.course.members[symbol] for symbol in pair)
            sources = np.asarray(codes, dtype=np.intp)
            part = _Bins(
                low, high, bound[np.ix_(one, two)], bound[np.ix_(two, one)], sources, sources
            )
            parts = self.bins.setdefault((phase, pair), [])
            parts.append(part)
            if sum(map(len, parts)) > HELD:
                merged, _ = _Bins.joined(parts).coarser(grid.width / BINS)
                parts[:] = [merged]

    def _trace(self, phase: int, logs: Array, bound: Array, codes: Places) -> None:
        """Remember which gap brings the largest bound to each cell."""
        grid = self.bounds.grid
        for symbol, states in enumerate(grid.course.members):
            if len(states) < 2:
                continue
            low, high = grid.inside(logs, symbol)
            for boxes, meets in grid.boxes(low, high):
                numbers = grid.lookup(phase, symbol, boxes)
                for x, state in enumerate(states):
                    for y, other in enumerate(states):
                        value = bound[state, other, meets]
                        better = value > self.best[phase][x, y, numbers]
                        order = np.flatnonzero(better)[np.argsort(value[better], kind="stable")]
                        self.best[phase][x, y, numbers[order]] = value[order]
                        self.source[phase][x, y, numbers[order]] = codes[meets][order]

    def finest(self, phase: int, pair: tuple[int, int]) -> _Bins:
        """Return the bins of a phase and a pair."""
        merged, _ = _Bins.joined(self.bins[phase, pair]).coarser(self.bounds.grid.width / BINS)
        return merged

    def pattern(self, code: int) -> Known:
        """Return the known records of an element, by the gaps that raised the cells most."""
        grid, records = self.bounds.grid, []
        distance, phases = 0, grid.course.phases
        while code >= 0 and len(records) < TRACED:
            passed, place = code % PASSED, code // PASSED
            phase, cell = place % phases, place // phases
            distance += passed
            records.append((distance, int(grid.symbol[phase][cell])))
            best = self.best[phase][:, :, cell]
            x, y = np.unravel_index(int(best.argmax()), best.shape)
            code = int(self.source[phase][x, y, cell])
        return tuple(records)


@dataclass(frozen=True, slots=True, eq=False)
class CellBounds:
    """Upper ends for some limits, and patterns of known records that come near them.

    ``upper`` (k, k): whoever knows any records; ``ignorant`` (k, k): who knows none. ``leading``
    lists, for pairs of values with the largest ends, the phase of the target and known records on
    the left and on the right.
    """

    upper: Array
    ignorant: Array
    leading: tuple[tuple[tuple[int, int], int, Known, Known], ...]
    left_most: Array
    right_most: Array


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of both sides of a law, for any limits."""

    law: LoweredLaw
    left: _Grid
    right: _Grid
    marginals: Array
    error: float

    @classmethod
    def of(cls, law: LoweredLaw, width: float = WIDTH) -> "Cells":
        """Return the cells that messages of a law reach; refuse laws that have none."""
        left, right, marginals, error = _courses(law)
        return cls(law, _Grid.of(left, width), _Grid.of(right, width), marginals, error)

    def bounds(self, limits: Array) -> CellBounds:
        """Return upper ends for directed limits of one record, (k, k).

        Cost: gaps of unknown records from each cell, O(cells records rays m^2) for each round, and
        pairs of bins at the target.
        """
        law = self.law
        if not np.isfinite(limits).all() or limits.max() * (law.size // 2 + 2) > LARGEST_FACTOR:
            raise NotSupported("limits of one record this large are not bounded here")
        diff = np.asarray(limits, dtype=np.float64)[np.ix_(law.symbols, law.symbols)]
        pairs = [(a, b) for a in range(law.states) for b in range(a + 1, law.states)]
        sides = [_Elements.of(_Bounds.closed(g, diff), pairs) for g in (self.left, self.right)]
        upper = np.zeros((law.states, law.states))
        ignorant = np.zeros((law.states, law.states))
        leading: list[tuple[float, tuple[int, int], int, Known, Known]] = []
        for pair in pairs:
            join = _Join(self, sides[0], sides[1], pair)
            for place in (0, 1):
                value, phase, codes = join.largest(place)
                ends = pair if place == 0 else pair[::-1]
                own = float(limits[ends])
                upper[ends] = (own + value) * (1 + 4 * STEP)
                ignorant[ends] = (own + join.open(place)) * (1 + 4 * STEP)
                patterns = [s.pattern(int(c)) for s, c in zip(sides, codes, strict=True)]
                leading.append((upper[ends], ends, phase, patterns[0], patterns[1]))
        leading.sort(key=lambda row: -row[0])
        order = [-t % law.phases for t in range(law.phases)]
        return CellBounds(
            upper, ignorant, tuple(row[1:] for row in leading),
            sides[0].most[order], sides[1].most,
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class _Join:
    """Both sides at the target, for two of its values: the largest end over all pairs of bins."""

    cells: Cells
    left: _Elements
    right: _Elements
    pair: tuple[int, int]

    def largest(self, place: int) -> tuple[float, int, tuple[int, int]]:
        """Return ln lfp of one value over the other, the target's phase, and both origins."""
        best, where = 0.0, (0, (OPEN, OPEN))
        for phase in range(self.cells.law.phases):
            value, codes = self._at(phase, place, best)
            if value > best:
                best, where = value, (phase, codes)
        return best, *where

    def open(self, place: int) -> float:
        """Return ln lfp for someone who knows nothing."""
        best = 0.0
        for phase in range(self.cells.law.phases):
            one, two = self.cells.left.course, self.cells.right.course
            opposite = -phase % one.phases
            bound = self.left.bounds.ends.open[opposite] + self.right.bounds.ends.open[phase]
            pair = self.pair if place == 0 else self.pair[::-1]
            first, second = (two.members[symbol] for symbol in pair)
            table = bound[np.ix_(first, second)][:, :, None] * (1 + STEP)
            zeros = [np.zeros((len(states) - 1, 1)) for states in (first, second)]
            base = self._base(phase, pair)
            value = self._value(table, (zeros[0], zeros[0]), (zeros[1], zeros[1]), base)
            best = max(best, float(value[0]))
        return best

    def _base(self, phase: int, pair: tuple[int, int]) -> tuple[Array, Array]:
        """Return the logarithms of the quotients of marginals inside both values."""
        law = np.log(self.cells.marginals[phase])
        members = [self.cells.right.course.members[symbol] for symbol in pair]
        first, second = (law[states[1:], None] - law[states[:1], None] for states in members)
        return first, second

    def _at(self, phase: int, place: int, floor: float) -> tuple[float, tuple[int, int]]:
        """Return the largest ln lfp at a phase, if above a floor, and both origins."""
        opposite = -phase % self.cells.law.phases
        width = self.cells.left.width / BINS
        levels: list[tuple[_Bins, _Bins]] = []
        parents: list[tuple[Places, Places]] = []
        one, two = self.left.finest(opposite, self.pair), self.right.finest(phase, self.pair)
        for level in range(COARSER + 1):
            levels.append((one, two))
            if level < COARSER:
                (one, above), (two, aside) = (
                    b.coarser(width * 2 ** (level + 1)) for b in (one, two)
                )
                parents.append((above, aside))
        levels.reverse()
        parents.reverse()
        rows, columns = (
            grid.reshape(-1) for grid in np.indices((len(levels[0][0]), len(levels[0][1])))
        )
        best, codes, left_over = floor, (OPEN, OPEN), 0.0
        for level, (one, two) in enumerate(levels):
            values = self._values(phase, place, one, two, rows, columns)
            if level == COARSER:
                top = int(values.argmax()) if len(values) else -1
                if top >= 0 and values[top] > best:
                    best = float(values[top])
                    sources = [b.up_from if place == 0 else b.down_from for b in (one, two)]
                    codes = int(sources[0][rows[top]]), int(sources[1][columns[top]])
                break
            floor = max(
                floor, self._descend(phase, place, levels, parents, level, rows, columns, values)
            )
            kept = values > floor * (1 + CLOSE)
            left_over = max(left_over, float(values[~kept].max(initial=0.0)))
            rows, columns = _children(parents[level], rows[kept], columns[kept])
        return max(best, min(left_over, floor * (1 + CLOSE))), codes

    def _descend(
        self, phase: int, place: int, levels: "list[tuple[_Bins, _Bins]]",
        parents: list[tuple[Places, Places]], level: int, rows: Places, columns: Places,
        values: Array,
    ) -> float:  # fmt: skip
        """Return the value of a finest pair, by the leading children of the leading pair."""
        if not len(values):
            return 0.0
        top = values.argmax()
        row, column = rows[top : top + 1], columns[top : top + 1]
        for below in range(level, COARSER):
            row, column = _children(parents[below], row, column)
            one, two = levels[below + 1]
            values = self._values(phase, place, one, two, row, column)
            top = values.argmax()
            row, column = row[top : top + 1], column[top : top + 1]
        return float(values[top])

    def _values(
        self, phase: int, place: int, one: _Bins, two: _Bins, rows: Places, columns: Places
    ) -> Array:
        """Return ln lfp for pairs of bins, rounded up."""
        pair = self.pair if place == 0 else self.pair[::-1]
        base = self._base(phase, pair)
        dims = [len(part) for part in base]
        cut = slice(0, dims[0]) if place == 0 else slice(dims[1], None)
        rest = slice(dims[0], None) if place == 0 else slice(0, dims[1])
        parts = []
        most = max(MOST_PAIRS // (4 * (sum(dims) + 2) ** 2), 1)
        for first in range(0, len(rows), most):
            l, r = rows[first : first + most], columns[first : first + most]
            tables = (one.up, two.up) if place == 0 else (one.down, two.down)
            bound = (tables[0][:, :, l] + tables[1][:, :, r]) * (1 + STEP)
            low, high = one.low[:, l] + two.low[:, r], one.high[:, l] + two.high[:, r]
            parts.append(self._value(bound, (low[cut], high[cut]), (low[rest], high[rest]), base))
        return np.concatenate(parts) if parts else np.zeros(0)

    def _value(
        self, bound: Array, first: tuple[Array, Array], second: tuple[Array, Array],
        base: tuple[Array, Array],
    ) -> Array:  # fmt: skip
        """Return ln of the largest quotient of shares inside two values, (n,), rounded up.

        For each ray the shares of states enter monotonically, coordinate by coordinate: extremes
        are at the corners of their ranges.
        """
        above, below = between(bound)
        spend(float(above.size + below.size) * 8)
        tops = _shares(above, first, base[0]).max(axis=0)
        bottoms = _shares(below, second, base[1]).min(axis=0)
        logs = np.log((tops / bottoms).max(axis=0))
        size = len(bound) + bound.shape[1]
        slack = 4 * (self.cells.error + ray_error(size) + 8 * (size + 4) * LIBM)
        return np.asarray(np.maximum(logs + slack + (1 + np.abs(logs)) * LIBM, 0.0))


def _shares(table: Array, ends: tuple[Array, Array], base: Array) -> Array:
    """Return means of rays (v, r, n) at the corners of ranges of shares, (corners, v, n)."""
    means = []
    for corner in product((0, 1), repeat=len(base)):
        weights = [np.ones(table.shape[2])]
        weights += [np.exp(base[i] + ends[end][i]) for i, end in enumerate(corner)]
        total = np.zeros(table.shape[2])
        mean = np.zeros((len(table), table.shape[2]))
        for place, weight in enumerate(weights):
            total = total + weight
            mean = mean + table[:, place] * weight
        means.append(mean / total)
    return np.array(means)


def _children(
    parents: tuple[Places, Places], rows: Places, columns: Places
) -> tuple[Places, Places]:
    """Return all pairs of the children of pairs of bins."""
    lists = []
    for parent, chosen in zip(parents, (rows, columns), strict=True):
        order = np.argsort(parent, kind="stable")
        starts = np.searchsorted(parent[order], np.arange(parent.max(initial=-1) + 2))
        lists.append((order, starts[chosen], starts[chosen + 1] - starts[chosen]))
    (left, l0, ln), (right, r0, rn) = lists
    times = ln * rn
    pair = np.repeat(np.arange(len(rows)), times)
    within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    return left[l0[pair] + within // rn[pair]], right[r0[pair] + within % rn[pair]]
