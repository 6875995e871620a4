"""The numbers behind Gaussian leakages: one block of dependent records, and how far floats err.

What an adversary learns from linear statistics of Gaussian records is a regression coefficient:
the weight of X_i when the statistic is regressed on X_K and X_i. Here stand the block of records
in units that make variances close to 1, the exact evaluation of one coefficient, and the margins
within which floating-point eliminations over the block are right, whatever K is.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from undertow.bounds.gaussian.laws import Law, integers, to_float
from undertow.models.definite import gamma
from undertow.numerics import Array, Keyed, down, up

__all__ = ["Form", "FormValue", "GaussianBlock", "settle"]

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
        found = self.law.precision
        return _margin(gamma(2 * self.size + 10) + found.error, self.size, found.least)

    def margin(self, share: float) -> Array:
        """Return, per target, how far the form's value may be from what eliminations say.

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
        found = block.evaluate(target, known)
        upper = max(upper, found.upper)
        if found.lower > best.lower:
            best = found
    return best, upper


def _solved(matrix: Array, right: Array) -> Array:
    return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)


def _margin(moved: float, trace: float, least: float) -> float:
    """Return e (1 + sqrt(trace / half the least eigenvalue))^2, inf unless e is small enough."""
    if not moved * trace * 2 < least:
        return math.inf
    return _ROOM * moved * (1 + math.sqrt(2 * trace / least)) ** 2
