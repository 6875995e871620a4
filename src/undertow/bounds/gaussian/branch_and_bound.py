"""The worst known set of a Gaussian block by branch and bound, for blocks of any size.

A node fixes a target i and decides some records as known or unknown; R are the undecided. With Q
the inverse covariance after the decided unknown records are eliminated, G the covariance of X_R
given the known records and the target, x the coefficients of a row and y = Q_Ri, knowing all but
T of R gives the coefficient c - y_T Q_TT^-1 x_T. In the metric of G this is an orthogonal
projection, so every choice of T lies within

    (c_all + c_none) / 2  +-  sqrt(x G x . y G y) / 2,

where c_all knows all of R and c_none none of it. Several rows share y, and their radii add up to
sqrt(y G y . sum |x_r G x_s|) / 2. Deciding a record either way changes all of this by rank one, in
O(r^2), and for one record's two outcomes the bounds cost O(1): the record to branch on is the one
whose two outcomes leave the least above the threshold.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.bounds.gaussian.numbers import FormValue, GaussianBlock
from undertow.numerics import GAP, Array, up

__all__ = ["EFFORT", "branch_and_bound"]

EFFORT = 2
"""How hard to search; each step more costs about four times as much."""

_UNIT = 2.5e7
"""Numbers that a search at effort 0 may compute (a cost limit, about a quarter of a second)."""

_BATCH = 2**20
"""Numbers per batch of nodes (memory)."""

_LEAVES = 512
"""Adversaries within rounding of the worst that are evaluated exactly (a cost limit: beyond it the
interval is wider by their margin)."""

_HALVINGS = 4
"""Thresholds tried, at a quarter of the cost each, where the search did not close."""

Ints = npt.NDArray[np.intp]


@dataclass(slots=True)
class _Nodes:
    """A batch of nodes of one target with equally many undecided records; nodes come first.

    ``names`` are the undecided records; ``primal`` and ``dual`` are Q_RR and G, ``x`` and ``p`` the
    rows' coefficients and covariances given the target, ``y`` and ``q`` the same for the target;
    ``most`` and ``none`` are the coefficients where all of R is known and where none is.
    """

    bound: Array
    names: Ints
    known: npt.NDArray[np.bool_]
    primal: Array
    dual: Array
    x: Array
    p: Array
    y: Array
    q: Array
    most: Array
    none: Array
    wide: Array
    tall: Array

    def take(self, chosen: Ints | npt.NDArray[np.bool_]) -> "_Nodes":
        """Return some of the nodes."""
        return _Nodes(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @staticmethod
    def joined(parts: "list[_Nodes]") -> "_Nodes":
        """Return several batches as one."""
        columns = ([getattr(part, field.name) for part in parts] for field in fields(_Nodes))
        return _Nodes(*map(np.concatenate, columns))


@dataclass(frozen=True, slots=True)
class _Limits:
    """What rounding may have hidden, for one target; see `GaussianBlock.margin`."""

    value: float
    wide: float
    tall: float
    step: float
    reach: float
    band: float


class _TreeSearch:
    """The trees of all targets, with the best adversary so far."""

    def __init__(self, block: GaussianBlock, start: FormValue) -> None:
        self.block = block
        self.best = start
        self.share = block.dual + block.primal
        self.margins = block.margin(self.share)
        self.norm = float(np.abs(block.covariance).sum(axis=1).max()) * (1 + 1e-12)
        self.cost, self.leaves = 0.0, 0
        self.rows = len(block.form.rows)
        self.roots = np.array([self._root(i, whole=False).bound[0] for i in range(block.size)])
        self.slack = 2 * max(self._limits(i).band for i in range(block.size))

    def threshold(self) -> float:
        """Return the level at which a node cannot matter: the best, with room for rounding."""
        return up(self.best.lower + max(GAP * self.best.lower, self.slack))

    def prove(self, level: float | None, budget: float) -> tuple[bool, float]:
        """Search until nothing exceeds the level (None: the best found), or the budget is spent.

        Returns whether it was proved, and the largest bound of what is left.
        """
        left = self.cost + budget
        for target in np.argsort(-self.roots):
            aim = self.threshold() if level is None else level
            if self.roots[target] <= aim:
                break
            if not self._tree(int(target), level, left):
                return False, float(self.roots[target])
        done = self.threshold() if level is None else level
        return self.best.lower <= done, done

    def _tree(self, target: int, level: float | None, left: float) -> bool:
        """Search one target's tree; return whether nothing in it exceeds the level."""
        limits, todo = self._limits(target), [self._root(target)]
        while todo:
            nodes = todo.pop()
            aim = self.threshold() if level is None else level
            if not (nodes.bound > aim).all():
                nodes = nodes.take(nodes.bound > aim)
            count, size = nodes.names.shape
            if not count:
                continue
            # numbers of one node: two matrices, x and p, wide
            each = 2.0 * size**2 + 2 * self.rows * size + self.rows**2
            self.cost += count * each
            if self.cost > left or (level is not None and self.best.lower > level):
                return False
            if not size:
                if not self._settled(nodes, target, level):
                    return False
                continue
            parts = [part for part in self._children(nodes, target, limits, aim) if len(part.bound)]
            if len(parts) == 2 and sum(len(part.bound) for part in parts) * each <= _BATCH:
                parts = [_Nodes.joined(parts)]
            todo += sorted(parts, key=lambda part: float(part.bound.max()))
        return True

    def _settled(self, nodes: _Nodes, target: int, level: float | None) -> bool:
        """Return whether fully decided nodes, evaluated exactly, do not exceed the level."""
        self.leaves += len(nodes.bound)
        if self.leaves > _LEAVES:
            return False
        found = [self.block.evaluate(target, np.flatnonzero(row).tolist()) for row in nodes.known]
        self.best = max([self.best, *found], key=lambda each: each.lower)
        aim = self.threshold() if level is None else level
        return all(each.upper <= aim for each in found)

    def _root(self, target: int, *, whole: bool = True) -> _Nodes:
        """Return the node of a target at which nothing is decided, with its matrices or without."""
        block, i = self.block, target
        matrix, inverse = block.covariance, block.law.precision.matrix
        unit = float(block.scale[i])
        rows, cross = block.form.rows * unit, block.products * unit
        rest = np.delete(np.arange(block.size), i)
        share = matrix[rest, i] / matrix[i, i]  # (n - 1,): regression of the others on the target
        p = cross[:, rest] - cross[:, [i]] * share  # (rows, n - 1): Cov(row, X_j | X_i)
        # (rows, rows): Cov(row, row | X_i)
        wide = block.variances * unit**2 - np.outer(cross[:, i], cross[:, i]) / matrix[i, i]
        kept = rest if whole else rest[:0]
        square = np.ix_(kept, kept)  # no matrices where only the bound of the root is wanted
        nodes = _Nodes(
            bound=np.zeros(1),
            names=rest[None],
            known=np.zeros((1, block.size), dtype=bool),
            # matrices get a first axis, the nodes
            primal=inverse[square][None],
            dual=(matrix[square] - np.outer(share[: len(kept)], matrix[i, kept]))[None],
            x=rows[None][:, :, rest],
            p=p[None],
            y=inverse[rest, i][None],
            q=share[None],
            most=rows[None][:, :, i],
            none=(cross[:, i] / matrix[i, i])[None],
            wide=wide[None],
            tall=np.array([inverse[i, i] - 1 / matrix[i, i]]),
        )
        nodes.bound = self._bounds(nodes, self._limits(target))
        return nodes

    def _limits(self, target: int) -> _Limits:
        """Return the margins of one target."""
        block = self.block
        # (n,): Q_jj, rounded up
        precisions = np.diag(block.law.precision.matrix) * (1 + 2 * block.law.precision.error)
        own = float(precisions[target])
        total = float(block.deviations.sum()) * float(block.scale[target]) * (1 + 1e-12)
        value = float(self.margins[target])
        # how far |y| may err: see `GaussianBlock.primal`
        step = block.primal * math.sqrt(own * float(precisions.sum())) * (1 + 1e-9)
        # how far the sum of |x_r| may err
        reach = block.primal * total * math.sqrt(float(precisions.sum())) * (1 + 1e-9)
        wide = self.share * total**2
        band = value + math.sqrt(self.norm) * step * math.sqrt(total**2 + wide)
        band += math.sqrt(self.norm) * reach * math.sqrt(own * (1 + self.share))
        return _Limits(value, wide, self.share * own, step, reach, band)

    def _bounds(self, nodes: _Nodes, limits: _Limits) -> Array:
        """Return upper bounds on the form over all completions of the nodes."""
        caps = self.block.form.caps
        middle = np.abs(nodes.most + nodes.none) / 2  # (nodes, rows): |c_all + c_none| / 2
        tall = np.maximum(nodes.tall, 0) + limits.tall  # (nodes,): y G y, rounded up
        near = self.norm * (np.sqrt((nodes.y**2).sum(axis=1)) + limits.step) ** 2
        tall = np.minimum(tall, near)  # y G y <= norm(G) |y|^2, and norm(G) <= norm(covariance)
        wide = np.abs(nodes.wide).sum(axis=(1, 2)) + limits.wide  # (nodes,): sum |x_r G x_s|
        length = np.sqrt((nodes.x**2).sum(axis=2)).sum(axis=1)  # (nodes,): sum of |x_r|
        wide = np.minimum(wide, self.norm * (length + limits.reach) ** 2)
        together = middle.sum(axis=1) + np.sqrt(tall * wide) / 2  # (nodes,): all rows share y
        each = np.maximum(np.einsum("brr->br", nodes.wide), 0) + limits.wide  # (nodes, rows): x G x
        # row by row, each below its cap
        apart = np.minimum(middle + np.sqrt(each * tall[:, None]) / 2, caps).sum(axis=1)
        return np.asarray((np.minimum(together, apart) + limits.value) * (1 + 1e-12))

    def _children(self, nodes: _Nodes, target: int, limits: _Limits, aim: float) -> "list[_Nodes]":
        """Return both outcomes of each node's branching record, as far as they matter."""
        pick = _choice(nodes, aim)
        parts = []
        for known in (True, False):
            part = _decided(nodes, pick, known=known)
            part.bound = np.minimum(self._bounds(part, limits), part.bound)
            if known:
                self._offer(target, part.none, part.known, None)
            else:
                self._offer(target, part.most, part.known, part.names)
            kept = np.flatnonzero(part.bound > aim)
            parts.append(_reduced(part.take(kept), pick[kept], known=known))
        return parts

    def _offer(
        self, target: int, coefficients: Array, known: npt.NDArray[np.bool_], names: Ints | None
    ) -> None:
        """Keep the best of these adversaries if it beats the best so far."""
        values = np.minimum(np.abs(coefficients), self.block.form.caps).sum(axis=1)  # (nodes,)
        top = int(values.argmax())
        if values[top] > self.best.upper:
            chosen = set(np.flatnonzero(known[top]).tolist())
            chosen |= set() if names is None else set(names[top].tolist())
            found = self.block.evaluate(target, chosen)
            if found.lower > self.best.lower:
                self.best = found


def branch_and_bound(
    block: GaussianBlock, start: FormValue, effort: int = EFFORT
) -> tuple[FormValue, float]:
    """Return the worst adversary found, certified, and an upper end for all of them.

    Typical blocks of 60 records close within seconds. Where the effort does not suffice to close
    the interval, thresholds between its ends are tried, so that the upper end is a proved one all
    the same. The result depends on the effort, never on the clock. ``start`` is some certified
    adversary.

    >>> from undertow.bounds.gaussian.laws import Law
    >>> from undertow.bounds.gaussian.numbers import Form
    >>> covariance = np.array([[1, .9, 0], [.9, 1, .3], [0, .3, 1]])
    >>> block = GaussianBlock.of(Law.of(covariance, range(3)), Form.linear(np.ones(3)))
    >>> worst, upper = branch_and_bound(block, block.evaluate(0, ()))
    >>> round(worst.lower, 9), worst.target, worst.known, upper < worst.lower + 1e-9
    (2.578947368, 1, (0,), True)
    """
    search, budget = _TreeSearch(block, start), _UNIT * 4.0**effort
    proved, upper = search.prove(None, budget)
    if proved:
        spent = search.cost
        for slack in (3 * float(search.margins.max()), 0.0):  # less and less room for ties
            if search.slack <= GAP * search.best.lower:
                break
            search.slack = slack
            proved, tighter = search.prove(None, 2 * spent)
            if not proved:
                break
            upper = min(upper, tighter)
        return search.best, max(upper, search.best.upper)
    upper = float(search.roots.max())
    failed = search.best.upper
    for _ in range(_HALVINGS):
        level = (max(failed, search.threshold()) + upper) / 2
        if search.prove(level, budget / 4)[0]:
            upper = level
        else:
            failed = level
    return search.best, max(upper, search.best.upper)


def _choice(nodes: _Nodes, aim: float) -> Ints:
    """Return the record to branch on: its two outcomes leave the least above the level.

    For several rows the sum of their values with the signs of the present ones stands for the form.
    """
    signs = np.where(nodes.most + nodes.none < 0, -1.0, 1.0)  # (nodes, rows)
    x = np.einsum("br,brj->bj", signs, nodes.x)  # (nodes, undecided)
    p = np.einsum("br,brj->bj", signs, nodes.p)  # (nodes, undecided)
    most = (signs * nodes.most).sum(axis=1)[:, None]  # (nodes, 1): stands for all rows
    none = (signs * nodes.none).sum(axis=1)[:, None]  # (nodes, 1)
    wide, tall = np.abs(nodes.wide).sum(axis=(1, 2))[:, None], nodes.tall[:, None]  # (nodes, 1)
    # pivots of eliminating j and of conditioning on j, (nodes, undecided)
    own, other = np.einsum("bjj->bj", nodes.primal), np.einsum("bjj->bj", nodes.dual)
    y, q = nodes.y, nodes.q

    def above(middle: Array, wider: Array, taller: Array) -> Array:
        room = np.sqrt(np.maximum(wider, 0) * np.maximum(taller, 0))
        return np.asarray(np.maximum((np.abs(middle) + room) / 2 - aim, 1e-9 * aim))

    # each outcome is a rank-one change of c, x G x and y G y
    unknown = above(most - x * y / own + none, wide - x**2 / own, tall - y**2 / own)
    known = above(most + none - p * q / other, wide - p**2 / other, tall - q**2 / other)
    return np.asarray((unknown * known).argmin(axis=1))  # (nodes,)


def _decided(nodes: _Nodes, pick: Ints, *, known: bool) -> _Nodes:
    """Return the nodes with one more record decided, but with the matrices of the parents.

    A known record is conditioned on, a rank-one change of the dual; an unknown one is eliminated
    from the primal. The last undecided record takes the place of the decided one.
    """
    every = np.arange(len(pick))
    matrix = nodes.dual if known else nodes.primal
    pivot = matrix[every, pick, pick]
    share = matrix[every, :, pick] / pivot[:, None]  # (nodes, undecided)
    own = (nodes.p if known else nodes.x)[every, :, pick]  # (nodes, rows)
    side = (nodes.q if known else nodes.y)[every, pick]  # (nodes,)
    x, p, y, q, now = nodes.x, nodes.p, nodes.y, nodes.q, nodes.known
    if known:
        p, q = p - own[:, :, None] * share[:, None, :], q - share * side[:, None]  # conditioned on
        now = now.copy()
        now[every, nodes.names[every, pick]] = True
    else:
        x, y = x - own[:, :, None] * share[:, None, :], y - share * side[:, None]  # eliminated
    rate = own / pivot[:, None]  # (nodes, rows)
    moved = rate * side[:, None]  # (nodes, rows): the change of the coefficients
    return _Nodes(
        bound=nodes.bound,
        names=_without(nodes.names, pick),
        known=now,
        primal=nodes.primal,
        dual=nodes.dual,
        x=_without(x, pick),
        p=_without(p, pick),
        y=_without(y, pick),
        q=_without(q, pick),
        most=nodes.most if known else nodes.most - moved,
        none=nodes.none - moved if known else nodes.none,
        # (nodes, rows, rows)
        wide=nodes.wide - own[:, :, None] * rate[:, None, :],
        tall=nodes.tall - side**2 / pivot,
    )


def _without(values: npt.NDArray[Any], pick: Ints) -> npt.NDArray[Any]:
    """Return the values with the last one of each node in the place of the picked one."""
    found, every = values.copy(), np.arange(len(pick))
    found[every, ..., pick] = values[every, ..., -1]
    return found[..., :-1]


def _reduced(nodes: _Nodes, pick: Ints, *, known: bool) -> _Nodes:
    """Return the nodes with the matrices that belong to them; their own copies are used up."""
    every = np.arange(len(pick))
    for name in ("primal", "dual"):
        matrix: Array = getattr(nodes, name)
        changes = name == ("dual" if known else "primal")
        column = matrix[every, :, pick] if changes else None
        pivot = matrix[every, pick, pick]
        matrix[every, pick] = matrix[every, -1]
        matrix[every, :, pick] = matrix[every, :, -1]
        matrix = matrix[:, :-1, :-1]  # (nodes, undecided - 1, undecided - 1)
        if column is not None:
            column[every, pick] = column[every, -1]
            column = column[:, :-1]
            matrix -= (column / pivot[:, None])[:, :, None] * column[:, None, :]  # Schur complement
        setattr(nodes, name, matrix)
    return nodes
