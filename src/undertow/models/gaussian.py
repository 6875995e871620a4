"""Gaussian records: real numbers whose dependence is a covariance matrix."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.labels import along, square, values_of
from undertow.models.base import Model
from undertow.models.fitting.checks import untested
from undertow.models.records import fitted_origin
from undertow.models.validation import fields, number, numbers, warn_fitted, whole
from undertow.numerics import (
    ROUNDOFF,
    SYMMETRY,
    Array,
    Keyed,
    check_count,
    check_number,
    check_positive,
    freeze,
)
from undertow.queries import BaseQuery

__all__ = [
    "GaussianClass",
    "MultivariateGaussian",
    "blocks",
    "exponents",
    "gamma",
    "least_eigenvalue_lower",
    "real_ends",
]


def gamma(operations: float) -> float:
    """Return an upper bound on the relative error of a number of successive roundings.

    k u / (1 - k u) with u the unit roundoff; inf where that means nothing any more.

    >>> gamma(10) < 1.2e-15
    True
    """
    share = operations * ROUNDOFF
    return share / (1 - share) * (1 + 4 * ROUNDOFF) if share < 0.5 else math.inf


def least_eigenvalue_lower(matrix: Array) -> float:
    """Return a positive number below all eigenvalues of a symmetric matrix, or 0.

    If Cholesky's algorithm in floating-point arithmetic succeeds on A - s I, then A - s I + E is
    positive semidefinite for some E of norm at most g / (1 - g) times its trace, g = gamma(n + 1),
    hence every eigenvalue of A is at least s less that norm [rump2006]. The shift s is near the
    least eigenvalue that LAPACK finds; 0 means that nothing was proved: the matrix is not positive
    definite, or too close to one that is not. Cost O(n^3). Rounded down.

    >>> 0.49 < least_eigenvalue_lower(np.array([[1.0, 0.5], [0.5, 1.0]])) < 0.5
    True
    >>> least_eigenvalue_lower(np.array([[1.0, 1.0], [1.0, 1.0]]))
    0.0
    """
    size = len(matrix)
    estimate = float(np.linalg.eigvalsh(matrix)[0])
    if not estimate > 0:
        return 0.0
    error = gamma(size + 3)
    for share in (1 - 2.0**-7, 0.9, 0.5):
        shift = share * estimate
        moved = matrix - shift * np.eye(size)  # A - s I
        try:
            np.linalg.cholesky(moved)
        except np.linalg.LinAlgError:
            continue
        trace = float(np.abs(np.diag(matrix)).sum()) * (1 + gamma(size)) + size * shift
        # s less the norm of E [rump2006]
        bound = shift - (error / (1 - error) + 4 * ROUNDOFF) * trace
        if bound > 0:
            return bound * (1 - 8 * ROUNDOFF)
    return 0.0


def exponents(variances: Array) -> npt.NDArray[np.int64]:
    """Return whole numbers k with 1/2 <= variance / 4^k < 2: the exact change of units to 2^k.

    >>> exponents(np.array([1.0, 400.0, 0.1])).tolist()
    [0, 4, -2]
    """
    half = np.frexp(variances)[1] - 1  # variance = m 2^half with 1 <= m < 2
    return np.asarray(np.ceil(half / 2), dtype=np.int64)


def blocks(matrix: Array) -> list[list[int]]:
    """Return the connected components of the records, linked by entries other than 0.

    >>> blocks(np.array([[1.0, 0.0, 0.2], [0.0, 1.0, 0.0], [0.2, 0.0, 1.0]]))
    [[0, 2], [1]]
    """
    linked, left = matrix != 0, np.ones(len(matrix), dtype=bool)
    groups: list[list[int]] = []
    for first in range(len(matrix)):
        if not left[first]:
            continue
        inside = np.zeros(len(matrix), dtype=bool)
        inside[first] = True
        fresh = inside
        while fresh.any():
            fresh = linked[fresh].any(axis=0) & ~inside
            inside = inside | fresh
        left &= ~inside
        groups.append(np.flatnonzero(inside).tolist())
    return groups


@dataclass(frozen=True, slots=True, eq=False)
class MultivariateGaussian(Keyed, Model):
    """Records X_0 .. X_{n-1} that are jointly Gaussian with a known mean and covariance.

    Parameters
    ----------
    mean
        n numbers, or one for all records. No leakage of a linear statistic depends on it.
    covariance
        A symmetric positive definite matrix (n, n). Records that determine each other exactly make
        it singular, which is refused.
    spread
        The largest difference of two values of one record that an attacker compares, for
        mechanisms that do not say so themselves (`MetricDP`); None means any difference.

    >>> family = MultivariateGaussian([100, 86.8], [[225, 137.2], [137.2, 416.6]])
    >>> family.correlations.round(3)
    array([[1.   , 0.448],
           [0.448, 1.   ]])
    """

    kind: ClassVar[str] = "gaussian"
    family: ClassVar[str] = "gaussian"

    mean: Array
    covariance: Array
    spread: float | None

    def __init__(self, mean: Any, covariance: Any, spread: float | None = None) -> None:
        """Validate, make exactly symmetric, and freeze."""
        covariance, names = square(covariance, None, "covariance")
        mean, _ = along(mean, names, "mean")
        matrix = _covariance(covariance)
        set_ = object.__setattr__
        set_(self, "covariance", matrix)
        set_(self, "mean", _mean(mean, len(matrix)))
        set_(self, "spread", None if spread is None else check_positive(spread, "spread"))

    def _key(self) -> tuple[object, ...]:
        return self.mean.tobytes(), self.covariance.tobytes(), self.spread

    @property
    def length(self) -> int:
        """The number of records."""
        return len(self.covariance)

    @property
    def states(self) -> tuple[()]:
        """Empty: the records are numbers, not states."""
        return ()

    @property
    def sds(self) -> Array:
        """The standard deviations, rounded to nearest."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def correlations(self) -> Array:
        """The correlation matrix, rounded to nearest."""
        return _correlations(self.covariance)

    @property
    def largest_correlation(self) -> float:
        """The largest correlation of two records in absolute value, rounded to nearest.

        >>> MultivariateGaussian(0, [[1, -.5], [-.5, 1]]).largest_correlation
        0.5
        """
        return float(np.abs(self.correlations - np.eye(self.length)).max())

    def dependent_records(self) -> int:
        """Return the size of the largest connected component of non-zero covariances."""
        return max(map(len, blocks(self.covariance)))

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the law itself."""
        return [self]

    def describe(self) -> str:
        """Return the model in one sentence."""
        limit = "" if self.spread is None else f", two values at most {self.spread:g} apart"
        return (
            f"{self.length} jointly Gaussian records with correlations up to "
            f"{self.largest_correlation:.4g} in absolute value{limit}"
        )

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "kind": self.kind,
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            "spread": self.spread,
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "MultivariateGaussian":
        """Return the model described by `law_dict`."""
        read = fields(description, "a Gaussian model", ("mean", "covariance"), ("kind", "spread"))
        spread = read.get("spread")
        return cls(
            numbers(read["mean"]),
            numbers(read["covariance"]),
            None if spread is None else number(spread, "spread"),
        )

    @staticmethod
    def bounded(
        n: int, rho: float, sds: Any = None, spread: float | None = None
    ) -> "GaussianClass":
        """Return the class of all Gaussian models with correlations of at most ``rho``.

        ``sds`` are the standard deviations of the n records, by default all equal.

        >>> MultivariateGaussian.bounded(3, .275).describe()
        'any 3 jointly Gaussian records of equal variance, correlations up to 0.275'
        """
        return GaussianClass(n, rho, sds, spread)

    @classmethod
    def fit(
        cls, rows: Any, *, spread: float | None = None, public: bool = False
    ) -> "MultivariateGaussian":
        """Return the model with the mean and covariance of independent rows of n numbers.

        Each row is one draw of all n records, such as one family; more than n rows are needed.
        The covariance has the divisor (rows - 1). The fit itself is not private: it warns, unless
        the rows are ``public``.

        >>> rows = [[1.0, 2.1], [2.0, 3.9], [3.0, 6.2], [4.0, 7.7]]
        >>> MultivariateGaussian.fit(rows, public=True).mean
        array([2.5  , 4.975])
        """
        table = _rows(rows)
        centred = table - table.mean(axis=0)  # (rows, n)
        constant = np.flatnonzero((table == table[0]).all(axis=0))
        if constant.size:
            raise InvalidModel(
                f"column {int(constant[0])} is the same in all rows: its record has no variance; "
                "leave it out"
            )
        covariance = centred.T @ centred / (len(table) - 1)
        try:
            model = cls(table.mean(axis=0), covariance, spread)
        except InvalidModel:  # its message would tell what the rows are like
            raise InvalidModel(
                "the columns of the rows determine each other, or nearly so: no covariance of "
                "independent rows can be inverted; leave a column out, or add rows"
            ) from None
        warn_fitted(public, stacklevel=2)
        fitted = model.with_origin(fitted_origin(public))
        return fitted.with_checks(untested(public, "normal law", "independent rows"))


@dataclass(frozen=True, slots=True)
class GaussianClass(Model):
    """All jointly Gaussian models of n records whose correlations are at most ``rho``.

    Correlations may have either sign; only positive definite matrices count. ``sds`` are the
    standard deviations, None where they are equal and otherwise unknown. ``spread`` as in
    `MultivariateGaussian`.

    >>> GaussianClass(2, .4483, sds=[15.0, 20.41]).sds
    (15.0, 20.41)
    """

    kind: ClassVar[str] = "gaussian-class"
    family: ClassVar[str] = "gaussian"

    length: int
    rho: float
    sds: tuple[float, ...] | None
    spread: float | None

    def __init__(self, n: int, rho: float, sds: Any = None, spread: float | None = None) -> None:
        """Check that such models exist."""
        size = check_count(n, "n (records)", 1)
        limit = check_number(rho, "rho")
        if not 0 <= limit < 1:
            raise InvalidModel(
                f"rho bounds correlations in absolute value and lies in [0, 1), found {limit}; "
                "for records that may be copies of each other use Groups(n)"
            )
        deviations = None
        if sds is not None:
            listed = freeze(sds)
            if listed.shape != (size,):
                raise InvalidModel(f"{size} records need {size} sds, found shape {listed.shape}")
            deviations = tuple(check_positive(sd, f"sd of record {i}")
                               for i, sd in enumerate(listed.tolist()))  # fmt: skip
        set_ = object.__setattr__
        set_(self, "length", size)
        set_(self, "rho", limit)
        set_(self, "sds", deviations)
        set_(self, "spread", None if spread is None else check_positive(spread, "spread"))

    @property
    def states(self) -> tuple[()]:
        """Empty: the records are numbers, not states."""
        return ()

    def several(self) -> bool:
        """Return whether records may be correlated in more than one way."""
        return self.rho > 0

    def dependent_records(self) -> int:
        """Return the number of records, unless correlations are zero."""
        return self.length if self.rho else 1

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the law whose correlations are all as large as they may be."""
        low, high = real_ends(query)
        sds = np.array(self.sds or [(high - low) / 4] * self.length)
        correlations = np.full((self.length, self.length), self.rho)
        np.fill_diagonal(correlations, 1.0)
        covariance = correlations * sds[:, None] * sds
        return [MultivariateGaussian((low + high) / 2, covariance, self.spread)]

    def describe(self) -> str:
        """Return the model in one sentence."""
        variance = "equal variance" if self.sds is None else "known variances"
        limit = "" if self.spread is None else f", two values at most {self.spread:g} apart"
        return (
            f"any {self.length} jointly Gaussian records of {variance}, correlations up to "
            f"{self.rho:g}{limit}"
        )

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "kind": self.kind,
            "n": self.length,
            "rho": self.rho,
            "sds": None if self.sds is None else list(self.sds),
            "spread": self.spread,
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "GaussianClass":
        """Return the class described by `law_dict`."""
        read = fields(
            description, "a class of Gaussian models", ("n", "rho"), ("kind", "sds", "spread")
        )
        sds, spread = read.get("sds"), read.get("spread")
        return cls(
            whole(read["n"], "n"),
            number(read["rho"], "rho"),
            None if sds is None else numbers(sds),
            None if spread is None else number(spread, "spread"),
        )


def real_ends(query: BaseQuery) -> tuple[float, float]:
    """Return the two values of a real record that are furthest apart under a query.

    >>> from undertow.queries import Linear, Sum
    >>> real_ends(Sum(0, 10)), real_ends(Linear([1, 1], spread=4))
    ((0.0, 10.0), (-2.0, 2.0))
    """
    if query.ends is not None:
        return query.ends
    spread = getattr(query, "spread", None)
    if spread is None:
        raise NotSupported(
            f"Gaussian records have no states, so a {type(query).__name__} of them has no data to "
            "be drawn; audit a plan for a Sum, Mean or Linear"
        )
    return -spread / 2, -spread / 2 + spread


def _covariance(values: Any) -> Array:
    """Return an exactly symmetric copy, or say which entry is wrong."""
    matrix = freeze(values)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InvalidModel(
            f"covariance must be a square matrix, one row for each record, found {matrix.shape}"
        )
    for i, j in np.argwhere(~np.isfinite(matrix)):
        raise InvalidModel(f"entry ({i}, {j}) of the covariance is not a finite number")
    variances = np.diag(matrix)
    for i in np.flatnonzero(variances <= 0):
        raise InvalidModel(
            f"the variance of record {i} is {variances[i]}; it must be positive: leave out records "
            "that are certain"
        )
    if not 1e-280 < variances.min() <= variances.max() < 1e280:
        raise InvalidModel("variances beyond 1e-280 .. 1e280: measure the records in other units")
    sds = np.sqrt(variances)
    units = sds[:, None] * sds  # (n, n): s_i s_j
    for i, j in np.argwhere(np.abs(matrix - matrix.T) > SYMMETRY * units):
        raise InvalidModel(
            f"the covariance is not symmetric: entry ({i}, {j}) is {matrix[i, j]}, entry "
            f"({j}, {i}) is {matrix[j, i]}"
        )
    even = freeze((matrix + matrix.T) / 2)
    for i, j in np.argwhere(np.triu(np.abs(even) >= units, 1)):
        raise InvalidModel(_too_close(even, int(i), int(j)))
    halves = exponents(variances)
    if not least_eigenvalue_lower(np.ldexp(even, -(halves[:, None] + halves))):
        least = float(np.linalg.eigvalsh(_correlations(even))[0])
        nearly = (
            "it is singular, or closer to singular than rounding can tell: some record is a "
            "linear function of others; leave it out, or use Groups"
        )
        raise InvalidModel(
            "the covariance is not positive definite: "
            + (nearly if least > -1e-9 else "the least eigenvalue of its correlation matrix is "
               f"{least:.6g}; no records have these correlations together")
        )  # fmt: skip
    return even


def _too_close(matrix: Array, i: int, j: int) -> str:
    rho = matrix[i, j] / math.sqrt(matrix[i, i]) / math.sqrt(matrix[j, j])
    if abs(rho) > 1 + SYMMETRY:
        return (
            f"entry ({i}, {j}) of the covariance is a correlation of {rho:.6g}; correlations lie "
            "between -1 and 1"
        )
    return (
        f"entry ({i}, {j}) of the covariance is a correlation of {rho:.0f}: records {i} and {j} "
        "determine each other; leave one out, or use Groups"
    )


def _correlations(matrix: Array) -> Array:
    sds = np.sqrt(np.diag(matrix))
    correlations = matrix / sds[:, None] / sds
    np.fill_diagonal(correlations, 1.0)
    return np.asarray(correlations)


def _mean(values: Any, size: int) -> Array:
    mean = freeze(values)
    if mean.ndim == 0:
        mean = freeze(np.full(size, float(mean)))
    if mean.shape != (size,) or not np.isfinite(mean).all():
        raise InvalidModel(
            f"mean must be one finite number, or {size} of them, one for each record; found shape "
            f"{mean.shape}"
        )
    return mean


def _rows(rows: Any) -> Array:
    table = freeze(values_of(rows))  # a column for each record, in their order
    if table.ndim != 2 or not table.size:
        raise InvalidInput("rows must be a table: one row for each draw of all records")
    if len(table) <= table.shape[1]:
        raise InvalidInput(
            f"{table.shape[1]} records need at least {table.shape[1] + 1} rows for a covariance "
            f"that can be inverted, found {len(table)}"
        )
    for i, j in np.argwhere(~np.isfinite(table)):
        raise InvalidInput(
            f"row {i} has no finite number in column {j}; leave the row out or fill it in"
        )
    return table
