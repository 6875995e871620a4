"""A second, plain bracket for chains of order two on two symbols, against any, every length.

Floats, no rounding care: it confirms numbers, it certifies nothing. One symbol per record tilts all
unknown records by e^{theta x} (attractive laws: PureDP, counts, flips), or one of several outputs
does (flips on any law). States are pairs s = (a, x) = (x_{t-1}, x_t), index 2 a + x. The *right*
message of a pattern of known records and outputs is r(s) = Pr[pattern to the right | S_i = s], r~
the same without outputs; the left message l uses the reversed kernel. Then for 1v0

    leak = theta + ln (sum_{x=1} pi l r / sum_{x=0} pi l r)
                 - ln (sum_{x=1} pi l~ r~ / sum_{x=0} pi l~ r~).

A record known to be v leaves the two states (0, v), (1, v): all that lies beyond is one projective
pair (rho_0, rho_1), and (rho~_0, rho~_1). Sets of those are boxes in (alpha, alpha~), alpha =
ln rho_1 / rho_0. With everything else fixed e^leak is linear-fractional in (rho_0, rho_1), and in
(rho~_0, rho~_1): its maximum over a box is at a corner, and over all positive combinations of some
vectors at one of them. So a side is a finite list of *points* (r, r~), and the upper end is
the largest leak over all pairs of a left and a right point. The lower end is the same over points
that are attained: patterns with at most a few known records and an open end.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.oracles.memory import pair_matrix, perron, swapped

Floats = npt.NDArray[np.float64]

EDGE = 500.0
"""Where the real line ends for a message in logarithms."""


@dataclass(frozen=True)
class Setting:
    """A chain in one direction, and how far and how finely is searched.

    ``tilts``, shape (outputs, 2), weigh the values of an unknown record; ``own`` is the target's.
    """

    transition: Floats
    tilts: Floats
    own: float
    reach: int = 30  # gaps are shorter; from here on a side is far
    rounds: int = 2  # J: how often boxes are mapped before the target
    merge: float = 1e-5
    cell: float = 1e-6  # points of a side that agree so far are merged, the bad way
    grain: float = 1e-3  # messages that agree so far have one representative in the lower end
    pick: float = 3e-3  # and so have points at the target


def bracket(transition: Any, theta: float, **how: Any) -> tuple[float, float]:
    """(lower, upper) for 1v0 where all unknown records are tilted by e^{theta x}."""
    tilts = np.exp(theta * np.array([[0.0, 1.0]]))
    return _ends(Setting(np.asarray(transition, dtype=float), tilts, theta, **how))


def bracket_down(transition: Any, theta: float, **how: Any) -> tuple[float, float]:
    """(lower, upper) for 0v1: the names of the symbols are exchanged."""
    return bracket(swapped(np.asarray(transition, dtype=float)), theta, **how)


def words(transition: Any, rho0: float, rho1: float, **how: Any) -> tuple[float, float]:
    """(lower, upper) for 1v0 of flips on any law, over all words of outputs."""
    channel = np.array([[1 - rho0, rho1], [rho0, 1 - rho1]])  # (output, value)
    own = math.log((1 - rho1) / rho0)
    return _ends(Setting(np.asarray(transition, dtype=float), channel, own, **how))


# --- one side -------------------------------------------------------------------------------------


def _kernels(transition: Floats) -> tuple[Floats, Floats, Floats]:
    """The stationary law of the pairs, their kernel, and its reversal."""
    kernel = pair_matrix(transition)
    pi = perron(kernel.T)
    return pi, kernel, kernel.T * pi[None] / pi[:, None]


def _gaps(kernel: Floats, tilts: Floats, reach: int) -> list[Floats]:
    """For l = 0..reach: products of T D over all words of l outputs, (words, 4, 4), scaled."""
    symbol = np.arange(4) % 2
    steps = kernel[None] * tilts[:, symbol][:, None, :]  # (output, 4, 4): T D
    found = [np.eye(4)[None]]
    for _ in range(reach):
        last = np.einsum("wij,ojk->woik", found[-1], steps).reshape(-1, 4, 4)
        found.append(last / last.max(axis=(1, 2), keepdims=True))
    return found


@dataclass(frozen=True)
class _Side:
    """All maps of one side: ``gaps`` (T D)^l by words, ``plain`` T^l, for l = 0..reach."""

    kernel: Floats
    gaps: list[Floats]
    plain: list[Floats]

    @classmethod
    def of(cls, kernel: Floats, setting: Setting) -> "_Side":
        none = np.ones((1, 2))
        return cls(
            kernel,
            _gaps(kernel, setting.tilts, setting.reach),
            [gap[:1] for gap in _gaps(kernel, none, setting.reach)],
        )

    def onto(self, gap: int, value: int) -> tuple[Floats, Floats]:
        """(words, 4, 2) and (4, 2): from a state to those of a known value, after a gap."""
        ends = [value, 2 + value]  # (0, v), (1, v)
        return (self.gaps[gap] @ self.kernel)[..., ends], (self.plain[gap] @ self.kernel)[0][
            :, ends
        ]


def _pair(alpha: Floats) -> Floats:
    """(rho_0, rho_1) with sum 1 from alpha = ln rho_1 / rho_0, ends included: shape (..., 2)."""
    with np.errstate(over="ignore"):
        one = 1 / (1 + np.exp(-alpha))
        zero = 1 / (1 + np.exp(alpha))
    return np.stack([zero, one], axis=-1)


def _alpha(zero: Floats, one: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(one) - np.log(zero))


def _range(images: Floats) -> tuple[Floats, Floats]:
    return images.min(axis=0), images.max(axis=0)


def _boxes(side: _Side, setting: Setting) -> dict[int, Floats]:
    """For each known value the boxes (alpha low, high, alpha~ low, high) of all beyond it."""
    # every message; ends at infinity would make 0/0 of the right side's map of rank one
    whole = np.array([[-EDGE, EDGE, -EDGE, EDGE]])
    boxes = {0: whole, 1: whole}
    for turn in range(6 + setting.rounds):
        found: dict[int, list[Floats]] = {0: [], 1: []}
        for here in (0, 1):
            rows = [here, 2 + here]  # the states (0, here), (1, here)
            for gap, there in itertools.product(range(setting.reach), (0, 1)):
                tilted, plain = (maps[..., rows, :] for maps in side.onto(gap, there))
                found[here].append(_image(boxes[there], tilted, plain))
            for gap in range(setting.reach):  # open: the series ends after the gap
                sums = side.gaps[gap].sum(axis=2)[:, rows]  # (words, 2)
                low, high = _range(_alpha(sums[:, 0], sums[:, 1]))
                found[here].append(np.array([[low, high, 0.0, 0.0]]))
            far = [
                _range(_alpha(maps[-1][:, rows[0]], maps[-1][:, rows[1]]).ravel())
                for maps in (side.gaps, side.plain)
            ]
            found[here].append(np.array([[*far[0], *far[1]]]))
        every = {here: np.concatenate(some) for here, some in found.items()}
        if turn < 6:  # wide: one box around everything that is finite, others by themselves
            boxes = {here: _hulls(some) for here, some in every.items()}
        else:
            boxes = {here: _merged(some, setting.merge) for here, some in every.items()}
    return boxes


def _image(boxes: Floats, tilted: Floats, plain: Floats) -> Floats:
    """Images of boxes under (words, 2, 2) and (2, 2) maps: the hull over words, per box."""
    corners = _pair(boxes[:, :2])  # (box, end, 2)
    images = np.einsum("wij,bej->wbei", tilted, corners)
    ends = _alpha(images[..., 0], images[..., 1])  # (word, box, end)
    plains = np.einsum("ij,bej->bei", plain, _pair(boxes[:, 2:]))
    tildes = _alpha(plains[..., 0], plains[..., 1])  # (box, end)
    return np.stack(
        [ends.min(axis=(0, 2)), ends.max(axis=(0, 2)), tildes.min(axis=1), tildes.max(axis=1)],
        axis=1,
    )


def _hulls(boxes: Floats) -> Floats:
    """One hull of the boxes with finite ends; those at +-inf are kept as they are."""
    sure = np.isinf(boxes).all(axis=1) & (boxes[:, 0] == boxes[:, 1]) & (boxes[:, 2] == boxes[:, 3])
    rest = boxes[~sure]
    hull = np.array([[rest[:, 0].min(), rest[:, 1].max(), rest[:, 2].min(), rest[:, 3].max()]])
    return np.concatenate([hull, np.unique(boxes[sure], axis=0)])


def _merged(boxes: Floats, width: float) -> Floats:
    """Hulls of the boxes whose four ends fall into one cell."""
    sure = np.isinf(boxes).any(axis=1)
    kept = [np.unique(boxes[sure], axis=0)]
    finite = boxes[~sure]
    _, group = np.unique(np.floor(finite / width), axis=0, return_inverse=True)
    group = group.ravel()
    hulls = np.empty((group.max() + 1, 4))
    hulls[:, ::2], hulls[:, 1::2] = math.inf, -math.inf
    for column in range(4):
        reduce = np.maximum if column % 2 else np.minimum
        reduce.at(hulls[:, column], group, finite[:, column])
    return np.concatenate([*kept, hulls])


# --- points at the target -------------------------------------------------------------------------


def _points(
    side: _Side, boxes: dict[int, Floats], setting: Setting, near: int
) -> tuple[Floats, Floats]:
    """The corners (r, r~), each (points, 4), of all patterns whose gap is at least ``near``."""
    tops, plains = [], []
    for gap, there in itertools.product(range(near, setting.reach), (0, 1)):
        tilted, plain = side.onto(gap, there)
        ends = np.einsum("wij,bej->bwei", tilted, _pair(boxes[there][:, :2]))  # (b, words, 2, 4)
        tildes = np.einsum("ij,bej->bei", plain, _pair(boxes[there][:, 2:]))  # (b, 2, 4)
        ends = ends.reshape(len(ends), -1, 4)
        top = np.repeat(ends[:, :, None], 2, axis=2)  # every corner with every corner
        tilde = np.repeat(tildes[:, None], ends.shape[1], axis=1)
        tops.append(top.reshape(-1, 4))
        plains.append(tilde.reshape(-1, 4))
    for gap in range(setting.reach):
        sums = side.gaps[gap].sum(axis=2)  # (words, 4)
        tops.append(sums)
        plains.append(np.ones_like(sums))
    columns = np.concatenate(list(side.gaps[-1].transpose(0, 2, 1)))  # (words 4, 4)
    for column in side.plain[-1][0].T:
        tops.append(columns)
        plains.append(np.broadcast_to(column, columns.shape))
    return np.concatenate(tops), np.concatenate(plains)


def _coordinates(tops: Floats, plains: Floats) -> Floats:
    """(main, r inside 1, -r inside 0, -r~ inside 1, r~ inside 0): leak grows with each."""
    with np.errstate(divide="ignore"):
        top, plain = np.log(tops), np.log(plains)  # states 00, 01, 10, 11
    main = (top[:, 1] - top[:, 0]) - (plain[:, 1] - plain[:, 0])
    return np.stack(
        [main, top[:, 3] - top[:, 1], top[:, 0] - top[:, 2], plain[:, 1] - plain[:, 3],
         plain[:, 2] - plain[:, 0]], axis=1,
    )  # fmt: skip


def _thinned(points: Floats, cell: float, upwards: bool) -> Floats:
    """One point per cell of the inner ratios: their largest values and main, or the best main."""
    _, group = np.unique(np.floor(points[:, 1:] / cell), axis=0, return_inverse=True)
    group = group.ravel()
    if upwards:
        found = np.full((group.max() + 1, 5), -math.inf)
        np.maximum.at(found, group, points)
        return found
    order = np.lexsort((-points[:, 0], group))
    first = np.unique(group[order], return_index=True)[1]
    return np.asarray(points[order[first]])


def _leaks(left: Floats, right: Floats, pi: Floats, own: float) -> Floats:
    """The leak of every left point with every right point."""
    both = left[:, None] + right[None]  # logs of products add
    with np.errstate(over="ignore"):
        seen = np.log(pi[1] + pi[3] * np.exp(both[..., 1])) - np.log(
            pi[0] + pi[2] * np.exp(-both[..., 2])
        )
        plain = np.log(pi[1] + pi[3] * np.exp(-both[..., 3])) - np.log(
            pi[0] + pi[2] * np.exp(both[..., 4])
        )
    return np.asarray(own + both[..., 0] + seen - plain)


def _joined(
    left: Floats, right: Floats, pi: Floats, own: float, floor: float, upwards: bool
) -> float:
    """The largest leak of a left and a right point: coarse cells first, then only what may exceed.

    Rounding a point up in its cell never lowers its leak, so points whose coarse leak with every
    partner stays below ``floor`` can be dropped.
    """
    if upwards:
        for cell in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001):
            sides = [left, right]
            for one in (0, 1):
                group = np.unique(np.floor(sides[one][:, 1:] / cell), axis=0, return_inverse=True)[
                    1
                ]
                group = group.ravel()
                coarse = np.full((group.max() + 1, 5), -math.inf)
                np.maximum.at(coarse, group, sides[one])
                other = _thinned(sides[1 - one], cell, upwards=True)
                # leaks are symmetric in the two sides: logs of both are added
                best = np.array([_leaks(row[None], other, pi, own).max() for row in coarse])
                sides[one] = sides[one][best[group] >= floor]
                if not len(sides[one]):
                    return floor
            left, right = sides
    largest = -math.inf
    for part in np.array_split(left, 1 + len(left) * len(right) // 2_000_000):
        if len(part):
            largest = max(largest, float(_leaks(part, right, pi, own).max()))
    return largest


# --- the two ends ---------------------------------------------------------------------------------


def _ends(setting: Setting) -> tuple[float, float]:
    pi, kernel, back = _kernels(setting.transition)
    right, left = _Side.of(kernel, setting), _Side.of(back, setting)
    lower = _lower(right, left, pi, setting)
    boxes = {"right": _boxes(right, setting), "left": _boxes(left, setting)}
    # the left neighbour is not known: all four states are possible
    points = [
        _thinned(_coordinates(*_points(side, box, setting, near)), setting.cell, upwards=True)
        for side, box, near in ((left, boxes["left"], 1), (right, boxes["right"], 0))
    ]
    upper = _joined(points[0], points[1], pi, setting.own, lower, upwards=True)
    # the left neighbour is known to be v: only (v, 0) and (v, 1) survive, and the sides add
    tops, plains = _points(right, boxes["right"], setting, 0)
    for value in (0, 1):
        tilted, plain = left.onto(0, value)
        rows = [2 * value, 2 * value + 1]
        box = boxes["left"][value]
        ends = np.einsum("ij,bej->bei", tilted[0][rows], _pair(box[:, :2]))
        tildes = np.einsum("ij,bej->bei", plain[rows], _pair(box[:, 2:]))
        gain = (
            _alpha(ends[..., 0], ends[..., 1]).max(axis=1)
            - _alpha(tildes[..., 0], tildes[..., 1]).min(axis=1)
        ).max()
        beside = (_alpha(tops[:, rows[0]], tops[:, rows[1]])
                  - _alpha(plains[:, rows[0]], plains[:, rows[1]])).max()  # fmt: skip
        upper = max(upper, setting.own + float(gain) + float(beside))
    return lower, upper


def _lower(right: _Side, left: _Side, pi: Floats, setting: Setting) -> float:
    """The best attack with an open end and at most ``rounds`` known records on a side."""
    beyond = []
    for side in (right, left):
        points: dict[int, Floats] = {}
        for here in (0, 1):
            rows = [here, 2 + here]
            sums = np.concatenate([gap.sum(axis=2)[:, rows] for gap in side.gaps])
            alphas = _alpha(sums[:, 0], sums[:, 1])
            points[here] = np.stack([alphas, np.zeros_like(alphas)], axis=1)
        for _ in range(setting.rounds):
            further: dict[int, Floats] = {}
            for here in (0, 1):
                rows = [here, 2 + here]
                found = [points[here]]
                for gap, there in itertools.product(range(setting.reach), (0, 1)):
                    tilted, plain = (maps[..., rows, :] for maps in side.onto(gap, there))
                    images = np.einsum("wij,bj->wbi", tilted, _pair(points[there][:, 0]))
                    alphas = _alpha(images[..., 0], images[..., 1])
                    tildes = _pair(points[there][:, 1]) @ plain.T
                    tilde = np.broadcast_to(_alpha(tildes[:, 0], tildes[:, 1]), alphas.shape)
                    found.append(np.stack([alphas.ravel(), tilde.ravel()], axis=1))
                every = np.concatenate(found)
                _, first = np.unique(
                    np.round(np.nan_to_num(every, posinf=1e3, neginf=-1e3) / setting.grain),
                    axis=0,
                    return_index=True,
                )
                further[here] = every[first]
            points = further
        beyond.append(points)
    sides = []
    for side, points, near in ((left, beyond[1], 1), (right, beyond[0], 0)):
        tops = [gap.sum(axis=2) for gap in side.gaps[:-1]]
        plains = [np.ones_like(top) for top in tops]
        for gap, there in itertools.product(range(near, setting.reach), (0, 1)):
            tilted, plain = side.onto(gap, there)
            tops.append(np.einsum("wij,bj->bwi", tilted, _pair(points[there][:, 0])).reshape(-1, 4))
            tilde = _pair(points[there][:, 1]) @ plain.T
            plains.append(np.repeat(tilde, len(tilted), axis=0))
        sides.append(_coordinates(np.concatenate(tops), np.concatenate(plains)))
    thin = [_thinned(points, setting.pick, upwards=False) for points in sides]
    best = _joined(thin[0], thin[1], pi, setting.own, -math.inf, upwards=False)
    for value in (0, 1):  # the left neighbour is known
        rows = [2 * value, 2 * value + 1]
        tilted, plain = left.onto(0, value)
        seen = _pair(beyond[1][value][:, 0]) @ tilted[0][rows].T
        tilde = _pair(beyond[1][value][:, 1]) @ plain[rows].T
        gain = _alpha(seen[:, 0], seen[:, 1]) - _alpha(tilde[:, 0], tilde[:, 1])
        main = sides[1][:, 0]
        if value:  # r(1, 1) / r(1, 0) from the coordinates
            main = main + sides[1][:, 1] + sides[1][:, 2] + sides[1][:, 3] + sides[1][:, 4]
        best = max(best, setting.own + float(gain.max()) + float(main.max()))
    return best
