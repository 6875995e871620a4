"""Both sides of a target on a chain: which windows must be tried, and how far records matter.

Theorem 4: the curve C of the target with its *inner* side takes the place of G at the start of the
sweep of the *outer* side. Theorem 5: records beyond a reach d cost at most an additive eta in
epsilon, because whoever knows more is answered by whoever knows the record at distance d as well.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.approximate.lines import Lines, Samples, lifted
from undertow.bounds.approximate.nodes import Nodes
from undertow.bounds.approximate.polygons import GaussianGrid, Polygon
from undertow.bounds.approximate.sides import Ints, Options, SideKernels, option_values
from undertow.bounds.chains.known import extremes, ordered_pairs
from undertow.bounds.chains.side_laws import start_error
from undertow.errors import InvalidInput, NotSupported
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, check_count, log_ratio, pad_log
from undertow.progress import spend

__all__ = ["AttainedWindow", "ChainSides", "Curve", "SweptOrder", "choose_windows"]

Curve = Polygon | GaussianGrid

MAX_REACH = 128
"""Records swept on one side at most (a cost limit; a larger eta is charged instead)."""

MAX_ROWS = 24
"""Positions of the target tried apart; in longer series neighbours share the larger rooms."""

MAX_NODES = 6000
"""Nodes for the kinks of one curve; beyond, kinks are rounded away upwards (a cost limit)."""

SIMPLER = 0.02
"""Tolerance of the curve in that of its values: values are differences of larger numbers."""

NEGLIGIBLE_ETA = 1e-6
"""Share of epsilon that truncation may cost; the reach is the first that does (upper side)."""

_RATIO, _OPTION = 12.0, 75.0
"""Work of a ratio of two probabilities, and of an option of a side, in multiplications."""

Room = int | None
"""How many records lie on a side; None for more than the reach."""


@dataclass(frozen=True, slots=True)
class AttainedWindow:
    """What a bound is attained for: the pair, and (distance, value) known on either side.

    A side of which nothing is known has value None.
    """

    pair: tuple[int, int]
    left: tuple[int, int | None]
    right: tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class ChainSides:
    """The sides of a chain, the rooms (left, right) to try, and what truncation costs."""

    left: SideKernels
    right: SideKernels
    rows: tuple[tuple[Room, Room], ...]
    reach: int
    eta: float
    mirrored: bool


def choose_windows(
    chain: MarkovChain, epsilon: float, against: Against, reach: int | None
) -> ChainSides:
    """Return the windows whose bounds together cover every target of the chain.

    All states must be visited and the start stationary. Rooms are as large as the length allows:
    more records never give less, as a test may ignore them.
    """
    if against not in ("any", "ignorant"):
        raise NotSupported("the sweep is built for against='any' and 'ignorant'")
    if not chain.homogeneous or not isinstance(chain.start, str):
        raise NotSupported(
            "the sweep needs one transition matrix and a stationary start; the closed exchange "
            "serves chains with a given start or differing steps"
        )
    forward = np.asarray(chain.transition)
    weights = chain.initial
    # (from, to) read backwards: pi_y P(y, x) / pi_x
    backward = (forward * weights[:, None]).T / weights[:, None]
    backward /= backward.sum(axis=1, keepdims=True)
    most = MAX_REACH if chain.length is None else min(MAX_REACH, chain.length - 1)
    if reach is None:
        reach, eta = _choose_reach(forward, backward, NEGLIGIBLE_ETA * epsilon, most)
    else:
        reach = min(check_count(reach, "reach", 1), most)
        *_, eta = _etas(forward, backward, reach)
    rows = _rows(chain.length, reach)
    beyond = any(room is None for row in rows for room in row)
    if against == "ignorant" or not beyond:
        eta = 0.0
    if not math.isfinite(eta):
        raise NotSupported(
            "some values never become possible together, however far a known record is, so no "
            "finite reach bounds a series of this length; the closed exchange serves such chains"
        )
    mirrored = bool(np.allclose(forward, backward, rtol=1e-12, atol=0.0))
    if mirrored:
        rows = tuple(row for row in rows if _size(row[0]) <= _size(row[1]))
    return ChainSides(
        SideKernels((backward,) * reach), SideKernels((forward,) * reach), rows, reach,
        eta + start_error(chain), mirrored,
    )  # fmt: skip


def _size(room: Room) -> float:
    return math.inf if room is None else float(room)


def _etas(forward: Array, backward: Array, most: int) -> Iterator[float]:
    """Yield for reach 1 .. most how far ln P^d(a, z)/P^d(b, z) oscillates, both sides added."""
    value, other = ordered_pairs(len(forward))
    products = [np.eye(len(forward))] * 2
    for step in range(1, most + 1):
        spend(_RATIO * len(value) * len(forward))
        total = 2.0 * pad_log(step, len(forward))
        for side, kernel in enumerate((forward, backward)):
            products[side] = products[side] @ kernel
            if (products[side] <= 0).any():
                total = math.inf
                continue
            ratios = log_ratio(products[side][value], products[side][other])  # (pairs, z)
            low, high = extremes(ratios, axis=1)
            total += float((high - low).max()) + pad_log(step, len(forward))
        yield total


def _choose_reach(
    forward: Array, backward: Array, negligible: float, most: int
) -> tuple[int, float]:
    for reach, eta in enumerate(_etas(forward, backward, most), start=1):
        if eta <= negligible or reach == most:
            break
    return reach, eta


def _rows(length: int | None, reach: int) -> tuple[tuple[Room, Room], ...]:
    """Return the rooms (left, right) of all targets, neighbouring targets joined if many."""
    if length is None or length - 1 >= 2 * (reach + 1):
        return ((None, None),)
    others = length - 1
    size = -(-length // MAX_ROWS)
    rows = []
    for first in range(0, length, size):
        last = min(first + size - 1, others)
        left, right = others - first, last
        rows.append((left if left <= reach else None, right if right <= reach else None))
    return tuple(dict.fromkeys(rows))


def side_options(side: SideKernels, room: Room, against: Against, pair: tuple[int, int]) -> Options:
    """Return what may be known on a side with that many records."""
    states, reach = side.size, len(side.kernels)
    last = reach if room is None else room
    distances, columns = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if against == "any":
        distances = np.repeat(np.arange(1, last + 1), states)
        columns = np.tile(np.arange(states), last)
    if room is not None:  # nothing known; in a room beyond reach the known cover it (Theorem 5)
        distances, columns = np.append(distances, room), np.append(columns, states)
    elif against != "any":
        distances, columns = np.append(distances, reach), np.append(columns, states + 1)
    spend(_OPTION * len(distances))
    return side.options(distances, columns, *pair)


@dataclass(slots=True)
class SweptOrder:
    """One order of the sides: curves of the inner one, swept on along the outer one."""

    curve: Curve
    inner: SideKernels
    outer: SideKernels
    against: Against
    pairs: list[tuple[int, int]]
    samples: Samples | None = None
    starts: dict[tuple[Room, int], tuple[Nodes, Array, Lines, Options]] = field(
        default_factory=dict
    )

    def _start(self, room: Room, pair: int) -> tuple[Nodes, Array, Lines, Options]:
        """Return nodes for the outer side, the curve there, its lines and the inner options."""
        if (room, pair) not in self.starts:
            if self.samples is None:
                self.samples = Samples.begun(
                    self.curve.nodes(len(self.inner.kernels)), self.inner, self.pairs,
                    self.curve.steepest, free=True,
                )  # fmt: skip
            tolerance = self.curve.tolerance
            options = [side_options(self.inner, room, self.against, ends) for ends in self.pairs]
            self.samples.refine(options, tolerance)
            for at in range(len(self.pairs)):
                size, exact = SIMPLER * tolerance, self.samples.lines(at, options[at])
                lines = exact.simplified(size)
                while len(lines.slope) * len(self.outer.kernels) > MAX_NODES and size < 1e-2:
                    size *= 4.0
                    lines = exact.simplified(size)
                nodes = self.curve.nodes(len(self.outer.kernels), lines.kinks)
                self.starts[room, at] = nodes, lifted(nodes, lines), lines, options[at]
        return self.starts[room, pair]

    def outer_options(self, room: Room, pair: int) -> Options:
        """Return what may be known on the outer side."""
        return side_options(self.outer, room, self.against, self.pairs[pair])

    def values(self, room: Room, pair: int, options: Options, g: float) -> tuple[Array, Array]:
        """Return the bound at slope g for every outer option (rounded up), and where it is met."""
        nodes, start, _, _ = self._start(room, pair)
        values, places = option_values(nodes, start, self.outer, self.pairs[pair], options, g)
        return np.minimum(values + nodes.slack * (1.0 + g), 1.0), places

    def inner_option(self, room: Room, pair: int, place: float) -> tuple[int, int | None]:
        """Return the inner option behind the line that is met at a place."""
        _, _, lines, options = self._start(room, pair)
        return shown(options, int(lines.option[int(lines.line(place))]), self.inner.size)


def shown(options: Options, which: int, states: int) -> tuple[int, int | None]:
    """Return an option as (distance, value), value None where nothing is known."""
    column = int(options.column[which])
    return int(options.distance[which]), column if column < states else None


def possible_pairs(chain: MarkovChain) -> list[tuple[int, int]]:
    """Return all ordered pairs of states as plain numbers."""
    value, other = ordered_pairs(chain.size)
    if not len(value):
        raise InvalidInput("a chain with one state has nothing to tell apart")
    return [(int(x), int(y)) for x, y in zip(value, other, strict=True)]


def alive_after(values: Array, alive: Ints, threshold: float) -> Ints:
    """Return the options whose bound still exceeds a threshold; it only falls with g."""
    return np.asarray(alive[values > threshold])
