"""The worst adversary of a statistic of Gaussian records: closed forms first, then searches."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from undertow.adversaries import Adversary, Against, every_adversary, within
from undertow.models.gaussian import (
    MultivariateGaussian,
    blocks,
    exponents,
    gamma,
    least_eigenvalue_lower,
)
from undertow.numerics import GAP, ROUNDOFF, Array, Keyed, down, up

__all__ = [
    "EFFORT",
    "MOST_SETS",
    "Factor",
    "Form",
    "FormValue",
    "GaussianBlock",
    "Law",
    "Precision",
    "all_known_sets",
    "branch_and_bound",
    "count_sets",
    "gaussian_factor",
    "integers",
    "sets_cost",
    "settle",
    "to_float",
]


@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """The inverse covariance, with |error of entry (j, k)| <= error sqrt(Q_jj Q_kk).

    ``least`` lies below all eigenvalues of the inverse scaled to a diagonal of 1.
    """

    matrix: Array
    error: float
    least: float


@dataclass(frozen=True, eq=False)
class Law:
    """The covariance of a block of records, record j measured in units of 2^halves[j]."""

    covariance: Array
    halves: npt.NDArray[np.int64]

    @classmethod
    def of(cls, covariance: Array, records: Sequence[int]) -> "Law":
        """Return the law of some of the records.

        >>> Law.of(np.array([[400.0, 0.0], [0.0, 1.0]]), [0]).covariance
        array([[1.5625]])
        """
        part = covariance[np.ix_(records, records)]  # (n, n) of the block
        halves = exponents(np.diag(part))
        return cls(np.ldexp(part, -(halves[:, None] + halves)), halves)

    @property
    def size(self) -> int:
        """The number of records."""
        return len(self.covariance)

    @cached_property
    def least(self) -> float:
        """A positive number below all eigenvalues of the covariance.

        Models are proved positive definite when they are made, by far more than 1e-300; so are
        their blocks, whose eigenvalues are no smaller.
        """
        return max(least_eigenvalue_lower(self.covariance), 1e-300)

    @cached_property
    def whole(self) -> tuple[npt.NDArray[Any], int]:
        """The covariance as whole numbers over a power of two."""
        return integers(self.covariance)

    @cached_property
    def precision(self) -> Precision:
        """The inverse of the covariance, corrected once, and how good it is.

        For an approximate inverse P with residual R = I - Sigma P the inverse is P + Q R, and
        |Q e_j| <= sqrt(Q_jj / least eigenvalue) bounds each entry of Q R. Cost O(n^3).
        """
        matrix, size = self.covariance, self.size
        inverse: Array = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        inverse = inverse + inverse @ _residual(matrix, inverse)[0]  # one step of Newton: P + P R
        inverse = (inverse + inverse.T) / 2
        residual, rounding = _residual(matrix, inverse)
        far = np.abs(residual) * (1 + 1e-12) + rounding  # (n, n): |R| at most
        units = np.sqrt(np.maximum(np.diag(inverse), 1e-300))  # (n,): sqrt(P_jj)
        # (n,): |Q e_j| |R e_k| / sqrt(Q_jj)
        moved = np.sqrt((far**2).sum(axis=0) / self.least) * (1 + 1e-9)
        error = float((2 * moved / units).max()) * (1 + 1e-12)
        if not error < 0.25 or np.diag(inverse).min() <= 0:
            return Precision(np.asarray(inverse), math.inf, 0.0)
        scaled = inverse / units[:, None] / units  # (n, n), diagonal 1
        least = least_eigenvalue_lower((scaled + scaled.T) / 2) - size * (error + 8 * ROUNDOFF)
        return Precision(np.asarray(inverse), error, max(least, 0.0))


def _residual(matrix: Array, inverse: Array) -> tuple[Array, Array]:
    """Return I - matrix @ inverse, and a bound on its rounding errors, entry by entry.

    The leading bits of both factors, as few as make all sums of products exact, are multiplied
    apart from the rest, whose products are so much smaller that their rounding hardly matters.
    """
    size = len(matrix)
    bits = (52 - math.ceil(math.log2(size + 1))) // 2
    first, second = _leading(matrix, bits, axis=1), _leading(inverse, bits, axis=0)
    rest, more = matrix - first, inverse - second
    small = first @ more + rest @ inverse  # first @ second below is exact: so few bits
    residual = (np.eye(size) - first @ second) - small
    sizes = np.abs(first) @ np.abs(more) + np.abs(rest) @ np.abs(inverse)
    return residual, gamma(2 * size + 8) * sizes + 2 * ROUNDOFF * np.abs(residual)


def _leading(values: Array, bits: int, axis: int) -> Array:
    """Return the values rounded to so many bits below the largest of their row or column."""
    top = np.frexp(np.abs(values).max(axis=axis, keepdims=True))[1]
    anchor = np.ldexp(0.75, top.astype(np.int64) + 53 - bits)
    return np.asarray((values + anchor) - anchor)


def integers(values: Array) -> tuple[npt.NDArray[Any], int]:
    """Return whole numbers N and p with values = N / 2^p, exactly.

    >>> integers(np.array([0.5, -3.0]))
    (array([4503599627370496, -27021597764222976], dtype=object), 53)
    """
    mantissas, powers = np.frexp(values)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    powers = powers.astype(np.int64) - 53
    used = powers[whole != 0]
    least = min(int(used.min()), 0) if used.size else 0
    pairs = zip(whole.ravel().tolist(), powers.ravel().tolist(), strict=True)
    flat = np.empty(values.size, dtype=object)
    flat[:] = [number << (power - least) if number else 0 for number, power in pairs]
    return flat.reshape(values.shape), -least


def to_float(number: int, power: int) -> float:
    """Return number 2^power to within one rounding.

    >>> to_float(3, -1)
    1.5
    """
    excess = max(0, abs(number).bit_length() - 64)
    return math.ldexp(float(number >> excess), power + excess)


_ROOM = 1.25
"""Factor on every margin, for products of two of them and for the rounding of the margins."""


@dataclass(frozen=True, slots=True, eq=False)
class Form(Keyed):
    """A statistic: sum over rows r of min(caps[r], |coefficient of X_i in rows[r] . X|).

    One row of weights and no cap is a linear query; several rows are one with several outputs,
    whose leakages add; the identity is every record by itself, as d-private algorithms in l1 see
    them; caps are the clipping of the records.
    """

    kind: ClassVar[str] = "form"

    rows: Array
    caps: Array

    @classmethod
    def linear(cls, weights: Array) -> "Form":
        """Return the form of a linear query: its outputs' coefficients, in absolute value."""
        rows = np.atleast_2d(weights)  # (rows, n)
        return cls(rows, np.full(len(rows), np.inf))

    @classmethod
    def apart(cls, weights: Array, *, clipped: bool) -> "Form":
        """Return the form that sees every record by itself, weighed, and clipped or not."""
        weights = np.abs(weights)
        caps = weights if clipped else np.full(len(weights), np.inf)
        return cls(np.diag(weights), caps)

    def _key(self) -> tuple[object, ...]:
        return self.rows.shape, self.rows.tobytes(), self.caps.tobytes()

    @property
    def alone(self) -> bool:
        """Whether every row weighs one record, and no record twice."""
        used = self.rows != 0  # (rows, n)
        return bool((used.sum(axis=1) == 1).all() and (used.sum(axis=0) <= 1).all())


@dataclass(frozen=True, slots=True)
class FormValue:
    """A certified value of the form for one adversary: target and known records (of the block)."""

    lower: float
    upper: float
    target: int
    known: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class GaussianBlock:
    """Records that depend on each other, and a form of them.

    ``form`` weighs the records in the units of the law; the value for target i is multiplied by
    ``scale[i]`` to be one of the records as they were.
    """

    law: Law
    form: Form

    @classmethod
    def of(cls, law: Law, form: Form) -> "GaussianBlock":
        """Return the block of a law and a form of its records in their own units.

        Rows that do not weigh these records are left out.
        """
        used = form.rows.any(axis=1)  # (rows,)
        return cls(law, Form(np.ldexp(form.rows[used], law.halves), form.caps[used]))

    @property
    def size(self) -> int:
        """The number of records."""
        return self.law.size

    @property
    def covariance(self) -> Array:
        """The covariance in the units of the law."""
        return self.law.covariance

    @cached_property
    def scale(self) -> Array:
        """What a coefficient of each target is multiplied by to be in its own units."""
        return np.asarray(np.ldexp(np.ones(self.size), -self.law.halves))

    @property
    def sure(self) -> bool:
        """Whether rounding is under control: margins hold for eliminations of any kind."""
        return math.isfinite(self.dual) and math.isfinite(self.primal)

    @cached_property
    def products(self) -> Array:
        """Cov(row r, X_j), shape (rows, n), rounded to nearest."""
        return np.asarray(self.form.rows @ self.covariance)

    @cached_property
    def variances(self) -> Array:
        """Cov(row r, row s), shape (rows, rows), rounded to nearest."""
        return np.asarray(self.products @ self.form.rows.T)

    @cached_property
    def deviations(self) -> Array:
        """The standard deviations of the rows, rounded up."""
        weights = np.abs(self.form.rows)  # (rows, n)
        # (rows,): rounding of w Sigma w
        error = gamma(2 * self.size + 2) * ((weights @ np.abs(self.covariance)) * weights).sum(1)
        return np.asarray(np.sqrt(np.maximum(np.diag(self.variances), 0) + 2 * error) * (1 + 1e-12))

    @cached_property
    def dual(self) -> float:
        """The margin of eliminations on the covariance; see `margin`. inf where none holds.

        Eliminating known records from the covariance of the records and of the rows in floating
        point is exact for entries moved by at most e s_j s_k, s the standard deviations, e a few
        roundings per record (backward stability [higham2002], with sum_l |L_jl| |U_lk| <= s_j s_k
        because conditional variances only fall). A Schur complement of moved entries E differs by
        exactly (1, -B) E (1, -B')^T, with B and B' the regression coefficients before and after,
        so that sum_k |B_fk| s_k <= s_f sqrt(trace / least eigenvalue).
        """
        weights, sds = np.abs(self.form.rows), np.sqrt(np.diag(self.covariance)) * (1 - 1e-12)
        # (rows, n): of Cov(row, X_j)
        touched = gamma(2 * self.size + 2) * (weights @ np.abs(self.covariance))
        spread = np.maximum(self.deviations[:, None] * sds, 1e-300)  # (rows, n): s_r s_j
        started = float((touched / spread).max(initial=0.0))
        # the same for Cov(row, row), (rows, rows)
        crossed = (
            touched @ weights.T / np.maximum(self.deviations[:, None] * self.deviations, 1e-300)
        )
        started = max(started, float(crossed.max(initial=0.0)))
        trace = float(np.trace(self.covariance))
        return _margin(gamma(2 * self.size + 10) + started, trace, self.law.least)

    @cached_property
    def primal(self) -> float:
        """The margin of eliminations on the inverse covariance: the same with Q for covariance."""
        precision = self.law.precision
        return _margin(gamma(2 * self.size + 10) + precision.error, self.size, precision.least)

    def margin(self, share: float) -> Array:
        """Return, per target, the error of the form's value by eliminations.

        Each row's coefficient errs by at most ``share`` (`dual`, `primal`, or their sum) times the
        row's standard deviation times sqrt(Q_ii): it is the covariance of the row and of (Q X)_i
        that the elimination leaves, whose variances are the row's and Q_ii (1 + error).
        """
        units = np.full(self.size, 1 / math.sqrt(self.law.least))
        if math.isfinite(self.law.precision.error):
            # (n,): sqrt(Q_ii), at most 1 / sqrt(least eigenvalue)
            units = np.sqrt(np.diag(self.law.precision.matrix) * (1 + 2 * self.law.precision.error))
        total = float(self.deviations.sum()) * (1 + 1e-12)
        return np.asarray(share * total * units * self.scale)

    def values(self, coefficients: Array, targets: Any) -> Array:
        """Return the form from the coefficients (..., rows) of these targets; rounded to nearest.

        Coefficients are those of the scaled records.
        """
        # (..., rows), in the records' units
        share = np.abs(coefficients) * self.scale[targets][..., None]
        return np.asarray(np.minimum(share, self.form.caps).sum(axis=-1))

    def evaluate(self, target: int, known: Iterable[int]) -> FormValue:
        """Return the certified value for one adversary.

        With S = K and i, solve Sigma_SS y = e_i in floating point, correct y once, and compute the
        residual r and z = Sigma_US y exactly, in whole numbers: the coefficients of X_U on X_i are
        z up to |r| sqrt(Sigma_kk / least eigenvalue). Cost O(|S|^3 + n |S|).
        """
        known = tuple(sorted(known))
        inside = [*known, target]
        if len(inside) == self.size:
            return self._total(target, known, {}, 0.0)
        part = self.covariance[np.ix_(inside, inside)]
        unit = np.zeros(len(inside))
        unit[-1] = 1.0
        whole, power = self.law.whole
        columns = whole[:, inside]  # (n, known + 1), whole numbers
        try:
            one, shift = integers(_solved(part, unit))
            left = [to_float((int(u) << (power + shift)) - image, -power - shift)
                    for u, image in zip(unit, (columns @ one)[inside], strict=True)]  # fmt: skip
            more, deeper = integers(_solved(part, np.array(left)))
        except np.linalg.LinAlgError:  # singular, as far as elimination can tell
            return FormValue(0.0, float(self.form.caps.sum()) * (1 + 1e-9), target, known)
        low = max(shift, deeper)
        # (n,): Sigma y, exactly
        images: Any = columns @ (one * (1 << (low - shift)) + more * (1 << (low - deeper)))
        rest = [to_float((int(u) << (power + low)) - image, -power - low)
                for u, image in zip(unit, images[inside], strict=True)]  # fmt: skip
        # |r| / sqrt(least eigenvalue)
        error = math.sqrt(math.fsum(v * v for v in rest) / self.law.least)
        unknown = [k for k in range(self.size) if k not in set(inside)]
        betas = {k: to_float(images[k], -power - low) for k in unknown}
        return self._total(target, known, betas, error * (1 + 1e-9) + 1e-300)

    def _total(
        self, target: int, known: tuple[int, ...], betas: dict[int, float], error: float
    ) -> FormValue:
        """Return the form from the coefficients of the unknown records, outwards."""
        unknown = list(betas)
        rows, unit = self.form.rows, float(self.scale[target])
        spread = np.sqrt(np.diag(self.covariance)[unknown]) * (1 + 1e-12)
        slopes = np.array([betas[k] for k in unknown])
        terms = np.column_stack([rows[:, target], rows[:, unknown] * slopes])  # (rows, 1 + unknown)
        rounding = gamma(len(unknown) + 8) * np.abs(terms).sum(axis=1)  # (rows,)
        slack = (rounding + error * (np.abs(rows[:, unknown]) @ spread)) * unit * (1 + 1e-9)
        values = np.abs(terms.sum(axis=1)) * unit  # (rows,)
        lower = float(np.minimum(np.maximum(values - slack, 0.0), self.form.caps).sum())
        upper = float(np.minimum(values + slack, self.form.caps).sum())
        count = len(rows)
        return FormValue(max(down(lower, count + 4), 0.0), up(upper, count + 4), target, known)


def settle(
    block: GaussianBlock,
    candidates: list[tuple[float, int, tuple[int, ...]]],
    error: float,
    limit: int,
) -> tuple[FormValue, float]:
    """Return the best candidate, certified, and an upper end for all of them.

    Each candidate is (value, target, known) with a value right to ``error``. Those that could be
    the largest are evaluated, at most ``limit`` of them; the rest lie below by their margin.
    """
    ordered = sorted(candidates, reverse=True)
    best = block.evaluate(*ordered[0][1:])
    upper = best.upper
    for place, (value, target, known) in enumerate(ordered[1:], start=1):
        if value + error <= best.lower:
            break
        if place >= limit:
            upper = max(upper, up(value + error))
            break
        adversary = block.evaluate(target, known)
        upper = max(upper, adversary.upper)
        if adversary.lower > best.lower:
            best = adversary
    return best, upper


def _solved(matrix: Array, right: Array) -> Array:
    return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)


def _margin(moved: float, trace: float, least: float) -> float:
    """Return e (1 + sqrt(trace / half the least eigenvalue))^2, inf unless e is small enough."""
    if not moved * trace * 2 < least:
        return math.inf
    return _ROOM * moved * (1 + math.sqrt(2 * trace / least)) ** 2


EFFORT = 2
"""Effort of the search; each step costs about four times as much as the one before."""

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
    """Margin of rounding for one target; see `GaussianBlock.margin`."""

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
        values = [self.block.evaluate(target, np.flatnonzero(row).tolist()) for row in nodes.known]
        self.best = max([self.best, *values], key=lambda each: each.lower)
        aim = self.threshold() if level is None else level
        return all(each.upper <= aim for each in values)

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
            value = self.block.evaluate(target, chosen)
            if value.lower > self.best.lower:
                self.best = value


def branch_and_bound(
    block: GaussianBlock, start: FormValue, effort: int = EFFORT
) -> tuple[FormValue, float]:
    """Return the worst adversary found, certified, and an upper end for all of them.

    Typical blocks of 60 records close within seconds. Where the effort does not suffice to close
    the interval, thresholds between its ends are tried, so that the upper end is a proved one all
    the same. The result depends on the effort, never on the clock. ``start`` is some certified
    adversary.

    >>> from undertow.bounds.gaussian.search import Law
    >>> from undertow.bounds.gaussian.search import Form
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
    rest, every = values.copy(), np.arange(len(pick))
    rest[every, ..., pick] = values[every, ..., -1]
    return rest[..., :-1]


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


MOST_SETS = 5e8
"""Numbers that looking at all known sets may compute (a cost limit, about ten seconds): 24 records
with one row of weights, 20 with a row for each record."""

_BATCH_SETS = 2**15
"""Numbers per array and level, so that the arrays of a batch stay in the processor's cache."""

_TIES = 512
"""Adversaries within rounding of the worst that are evaluated exactly (a cost limit: beyond it
the interval is wider by their margin)."""


@dataclass(slots=True)
class _Batch:
    """Conditional laws for many known sets: records 0 .. level - 1 are decided.

    Nodes run along the last axis. ``columns`` holds Cov(X_j, X_k | X_K) for all j and the
    undecided k, ``variance`` the diagonal (inf for known j), ``cross`` Cov(row, X_j | X_K).
    """

    level: int
    columns: Array
    variance: Array
    cross: Array
    codes: npt.NDArray[np.int64]

    def known(self) -> "_Batch":
        """Return the same sets with the next record added to each."""
        level, pivot = self.level, self.columns[:, 0]  # pivot (n, sets): Cov(X_j, X_level | X_K)
        share = pivot / pivot[level]  # (n, sets)
        variance = self.variance - share * pivot
        variance[level] = np.inf
        return _Batch(
            level + 1,
            # (n, undecided - 1, sets)
            self.columns[:, 1:] - share[:, None] * pivot[level + 1 :],
            variance,
            # (rows, n, sets)
            self.cross - share * self.cross[:, level][:, None],
            # bit k: record k is known
            self.codes | (1 << level),
        )

    def unknown(self) -> "_Batch":
        """Return the same sets with the next record left out."""
        return replace(self, level=self.level + 1, columns=self.columns[:, 1:])

    def joined(self, other: "_Batch") -> "_Batch":
        """Return both batches as one."""
        return _Batch(
            self.level,
            np.concatenate([self.columns, other.columns], axis=2),
            np.concatenate([self.variance, other.variance], axis=1),
            np.concatenate([self.cross, other.cross], axis=2),
            np.concatenate([self.codes, other.codes]),
        )


def count_sets(records: int) -> float:
    """Return the number of sets of records, or a number that no search can go through.

    >>> count_sets(3), count_sets(1100) > 1e300
    (8.0, True)
    """
    return 2.0 ** min(records, 1000)


def sets_cost(block: GaussianBlock) -> float:
    """Return how many numbers looking at all known sets computes."""
    return float(len(block.form.rows) * block.size * count_sets(block.size))


def all_known_sets(block: GaussianBlock) -> tuple[FormValue, float]:
    """Return the worst adversary of a block, certified, and an upper end for all of them.

    Every subset K of the records is visited once; conditioning on one more record is a rank-one
    change of the conditional covariances, shared by all targets and by all supersets, so that
    the whole costs O(rows n 2^n). Known sets whose value lies within the margin of the largest are
    evaluated exactly. Theorem: docs, theory of Gaussian records.

    >>> from undertow.bounds.gaussian.search import Law
    >>> from undertow.bounds.gaussian.search import Form
    >>> covariance = np.array([[1, .9, 0], [.9, 1, .3], [0, .3, 1]])
    >>> sums = Form(np.ones((1, 3)), np.array([np.inf]))
    >>> worst, upper = all_known_sets(GaussianBlock.of(Law.of(covariance, range(3)), sums))
    >>> round(worst.lower, 9), worst.target, worst.known
    (2.578947368, 1, (0,))
    """
    matrix, size = block.covariance, block.size
    error = float(block.margin(block.dual).max())  # eliminations on the covariance, whatever K is
    most = max(1, _BATCH_SETS // (size * len(block.form.rows)))
    todo = [
        _Batch(
            0, matrix[:, :, None], np.diag(matrix)[:, None].copy(), block.products[:, :, None],
            np.zeros(1, dtype=np.int64),
        )
    ]  # fmt: skip
    best = -1.0
    kept: list[tuple[float, int, int]] = []
    while todo:
        batch = todo.pop()
        first, second = batch.unknown(), batch.known()
        if first.level < size:
            small = 2 * len(batch.codes) <= most
            todo.extend([first.joined(second)] if small else [first, second])
            continue
        for leaf in (first, second):
            values = _values(block, leaf)
            top = float(values.max())
            if top < best - 2 * error:
                continue
            best = max(best, top)
            kept += _largest(values, leaf.codes, best - 2 * error)
            if len(kept) > 4 * _TIES:
                kept = _thinned(kept, best - 2 * error)
    records = range(size)
    candidates = [
        (value, target, tuple(k for k in records if code >> k & 1))
        for value, target, code in _thinned(kept, best - 2 * error)
    ]
    return settle(block, candidates, error, _TIES)


def _values(block: GaussianBlock, leaf: _Batch) -> Array:
    """Return the form's value for every target (rows) and known set (columns)."""
    if len(block.form.rows) == 1:
        share = np.abs(leaf.cross[0]) / leaf.variance * block.scale[:, None]  # (n, sets)
        return np.asarray(np.minimum(share, block.form.caps[0]))
    shares = np.abs(leaf.cross) / leaf.variance  # (rows, n, sets); 0 for a target that is known
    shares *= block.scale[:, None]
    return np.asarray(np.minimum(shares, block.form.caps[:, None, None], out=shares).sum(axis=0))


def _largest(
    values: Array, codes: npt.NDArray[np.int64], least: float
) -> list[tuple[float, int, int]]:
    """Return values of at least ``least``, the largest where they are many; no known target."""
    targets = np.arange(len(values))[:, None]  # (n, 1)
    # places in (n, sets), row by row
    flat = np.flatnonzero((values >= least) & (codes >> targets & 1 == 0))
    if len(flat) > _TIES:
        flat = flat[np.argsort(values.ravel()[flat])[::-1][: _TIES + 1]]
    places = [divmod(int(place), values.shape[1]) for place in flat]
    return [(float(values[i, j]), i, int(codes[j])) for i, j in places]


def _thinned(kept: list[tuple[float, int, int]], least: float) -> list[tuple[float, int, int]]:
    """Return the largest candidates: enough to settle, and one more that stands for the rest."""
    return sorted((entry for entry in kept if entry[0] >= least), reverse=True)[: _TIES + 1]


_FEW_SETS = 2e5
"""Numbers up to which all known sets are looked at without searching (a cost limit)."""

_ENOUGH = 1e-6
"""Relative width at which an interval of a factor counts as exact (upper side): no search goes on
to narrow a closed form that rounding has widened less than that."""

_EVALUATED = 512
"""Adversaries that are evaluated one by one, exactly (a cost limit)."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A certified interval of a form's largest value, and the adversary that attains ``lower``.

    ``records`` is how many records depend on each other where the worst one may be.
    """

    lower: float
    upper: float
    target: int
    known: tuple[int, ...]
    records: int

    @property
    def exact(self) -> bool:
        """Whether both ends agree as far as anyone needs."""
        return _close(self.lower, self.upper, _ENOUGH)


@lru_cache(maxsize=64)
def gaussian_factor(
    model: MultivariateGaussian, form: Form, against: Against = "any", effort: int = EFFORT
) -> Factor:
    """Return the largest value of a form over the adversaries, as a certified interval.

    For target i and known K the form is built from the coefficients of X_i in the regression of
    its rows on X_K and X_i. Independent blocks of records are searched one by one: by closed form
    where knowing less is provably worse (`_dominated`, `_attractive`), over all known sets where
    they are few, by branch and bound otherwise. The result depends on the effort, never on the
    clock.

    >>> model = MultivariateGaussian(0, [[1, .9, 0], [.9, 1, .3], [0, .3, 1]])
    >>> worst = gaussian_factor(model, Form.linear(np.ones(3)))
    >>> round(worst.upper, 9), worst.target, worst.known
    (2.578947368, 1, (0,))
    """
    factors: list[Factor] = []
    for records, law in _laws(model):
        if isinstance(against, Adversary) and against.target not in records:
            continue
        block = GaussianBlock.of(law, Form(form.rows[:, records], form.caps))
        worst, upper = _worst(block, within(against, records), effort)
        known = tuple(records[k] for k in worst.known)
        factors.append(Factor(worst.lower, upper, records[worst.target], known, len(records)))
    best = max(factors, key=lambda each: each.lower)
    return Factor(
        best.lower,
        max(each.upper for each in factors),
        best.target,
        best.known,
        max(each.records for each in factors),
    )


@lru_cache(maxsize=16)
def _laws(model: MultivariateGaussian) -> list[tuple[list[int], Law]]:
    """Return the independent blocks of a model, with the inverses that will be made of them."""
    return [(records, Law.of(model.covariance, records)) for records in blocks(model.covariance)]


def _worst(block: GaussianBlock, against: Against, effort: int) -> tuple[FormValue, float]:
    """Return the worst adversary of a block, certified, and an upper end for all of them."""
    if not len(block.form.rows):
        return FormValue(0.0, 0.0, 0, ()), 0.0
    if isinstance(against, Adversary):
        value = block.evaluate(against.target, against.known)
        return value, value.upper
    if against == "informed" or block.size == 1:
        return _informed(block)
    start, upper = _ignorant(block)
    if against == "ignorant":
        return start, upper
    start = max(start, _informed(block)[0], key=lambda each: each.lower)
    ignorant, upper = upper, max(_dominated(block), start.upper)
    if _close(start.lower, upper, _ENOUGH):
        return start, upper
    if not block.sure:
        return _meet(_near_singular(block, start), upper)
    upper = max(min(upper, _attractive(block, ignorant)), start.upper)
    if _close(start.lower, upper, _ENOUGH):
        return start, upper
    if sets_cost(block) <= _FEW_SETS:
        return _meet(all_known_sets(block), upper)
    worst, found_upper = branch_and_bound(block, start, effort)
    upper = min(upper, found_upper)
    if not _close(worst.lower, upper, 2 * GAP) and sets_cost(block) <= MOST_SETS:
        return _meet(all_known_sets(block), upper)
    return worst, max(upper, worst.upper)


def _informed(block: GaussianBlock) -> tuple[FormValue, float]:
    """Return the worst target for an adversary who knows all other records: its own weights."""
    # (n,): all others known, own weights
    values = block.values(block.form.rows.T, np.arange(block.size))
    target = int(values.argmax())
    value = block.evaluate(target, [k for k in range(block.size) if k != target])
    return value, max(up(float(values[target]), len(block.form.rows) + 4), value.upper)


def _ignorant(block: GaussianBlock) -> tuple[FormValue, float]:
    """Return the worst target for an adversary who knows nothing: Cov(row, X_i) / Var(X_i)."""
    variances = np.diag(block.covariance)  # (n,)
    values = block.values((block.products / variances).T, np.arange(block.size))  # (n,)
    sizes = np.abs(block.form.rows) @ np.abs(block.covariance) / variances  # (rows, n)
    errors = gamma(block.size + len(block.form.rows) + 8) * sizes.sum(axis=0) * block.scale
    candidates: list[tuple[float, int, tuple[int, ...]]] = [
        (float(value), i, ()) for i, value in enumerate(values)
    ]
    return settle(block, candidates, float(errors.max()), _EVALUATED)


def _dominated(block: GaussianBlock) -> float:
    """Return the value of the ignorant adversary if weak dependence makes it the worst, else inf.

    For a form that sees every record by itself, weights v: if v_s Sigma_ss >= sum over j != s of
    v_j |Sigma_js| for every s, no adversary learns more than an ignorant one. Proof: with M the
    comparison matrix (diagonal of Sigma, minus the absolute values elsewhere), |Sigma_SS^-1| <=
    M_SS^-1, and sum_U v_j |Sigma_js| <= (v_S M_SS)_s, so the unknown records' coefficients on X_i
    satisfy sum_U v_j |beta_j| <= v_i. Learning one more record k changes beta_j by gamma_jk
    beta_k, where the gamma_jk are such coefficients on X_k: sum v_j |gamma_jk| <= v_k, so that no
    more is gained than v_k |beta_k|, which is lost. Equal variances and correlations of at most
    1 / (n - 1) satisfy it. Cost O(n^2). Rounded up.
    """
    if not block.form.alone:
        return math.inf
    weights = np.abs(block.form.rows).sum(axis=0)
    sizes = np.abs(block.covariance) * weights[:, None]  # (n, n): v_j |Sigma_js|
    own = np.diag(sizes)
    # (n,): sum over j != s, rounded up
    others = (sizes.sum(axis=0) - own) * (1 + gamma(2 * block.size + 4))
    if not (own * (1 - gamma(4)) >= others + gamma(block.size) * own).all():
        return math.inf
    free = Form(block.form.rows, np.full(len(block.form.caps), np.inf))
    return _ignorant(GaussianBlock(block.law, free))[1]


def _attractive(block: GaussianBlock, ignorant: float) -> float:
    """Return the value of the ignorant adversary if it is the worst by attraction, else inf.

    If the inverse covariance Q has no positive entry off its diagonal (an M-matrix), perhaps after
    some records have changed their sign, and no row has weights of both signs then, eliminating an
    unknown record u adds -Q_ju w_u / Q_uu >= 0 to every other coefficient and keeps Q an M-matrix:
    the more is unknown, the more is learned. Entries that rounding leaves slightly positive, as in
    Markov sequences, where they are 0, widen the result by their margin, twice. Rounded up.
    """
    covariance, inverse = block.covariance, block.law.precision
    # (n,): the only choice that can make Q attractive
    signs = np.where(covariance[0] < 0, -1.0, 1.0)
    turned = block.form.rows * signs  # (rows, n)
    same = (turned >= 0).all(axis=1) | (turned <= 0).all(axis=1)
    if not same.all():
        return math.inf
    units = np.sqrt(np.diag(inverse.matrix))
    # (n, n), diagonal 1 before it is left out
    scaled = inverse.matrix * signs[:, None] * signs / units[:, None] / units
    np.fill_diagonal(scaled, -1.0)
    above = float(scaled.max(initial=-1.0)) + 4 * inverse.error
    if above <= 0:
        return ignorant
    moved = 2 * above + inverse.error  # an M-matrix lies so near
    if not 4 * moved * block.size < inverse.least:
        return math.inf
    share = moved * (1 + math.sqrt(2 * block.size / inverse.least)) ** 2
    return up(ignorant + 2 * float(block.margin(2 * share).max()))


def _near_singular(block: GaussianBlock, start: FormValue) -> tuple[FormValue, float]:
    """Return certified ends for a covariance too close to singular for eliminations.

    All known sets where conditioning is still safe; all adversaries one by one where they are few;
    otherwise |Cov(row, X_i | X_K)| / Var(X_i | X_K) <= sd(row) / sd(X_i | X_K), which is at most
    sd(row) / sqrt(least eigenvalue).
    """
    if math.isfinite(block.dual) and sets_cost(block) <= MOST_SETS:
        return all_known_sets(block)
    if block.size * count_sets(block.size - 1) <= _EVALUATED:
        corners = [
            block.evaluate(each.target, each.known) for each in every_adversary("any", block.size)
        ]
        return max(corners, key=lambda each: each.lower), max(each.upper for each in corners)
    # (rows,): sd(row) / sd(X_i | X_K), at most
    reach = block.deviations / math.sqrt(block.law.least) * (1 + 1e-9)
    values = block.values(np.tile(reach, (block.size, 1)), np.arange(block.size))
    return start, max(up(float(values.max()), len(reach) + 4), start.upper)


def _meet(worst: tuple[FormValue, float], upper: float) -> tuple[FormValue, float]:
    return worst[0], max(min(worst[1], upper), worst[0].upper)


def _close(lower: float, upper: float, width: float) -> bool:
    return math.isfinite(upper) and upper - lower <= width * upper
