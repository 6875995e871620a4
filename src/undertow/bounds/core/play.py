"""Attacks played out on a lowered law: exact forward passes, rounded outwards.

An attack names an adversary, two histories of the target (of one record, or of a window) and a
product likelihood: what is seen of each record, by its symbol. Its log-likelihood ratio is

    ln N(u) / N(u') - ln N~(u) / N~(u'),   N(u) = Pr-weighted sum over the series with history u and
                                           the known values of the product of the likelihoods,

N~ the same with the known values alone. Sums of products of non-negative numbers: their errors are
relative and travel with them (`PositiveArray`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from undertow.bounds.core.arrays import LIBM, STEP, PositiveArray
from undertow.bounds.core.sides import KERNEL_ERROR, start_error
from undertow.models.lowered import LoweredLaw
from undertow.numerics import ROUNDOFF, Array

__all__ = ["Attack", "Interval", "play"]

RUN = 24
"""Records in a row that are alike from which powers of one matrix are taken (cost)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """What an attack reveals lies between both ends; (-inf, -inf) if it cannot occur."""

    lower: float
    upper: float


@dataclass(frozen=True, slots=True, eq=False)
class Attack:
    """One adversary, two histories, and the likelihood of what is seen of each record.

    ``known`` has the values of known records; ``histories`` the two values of the target, or of the
    records of a window that begins with it; ``likelihoods`` (records, symbols) those of what is
    seen, up to a factor for each record, with a relative ``error``. Those of known records are not
    looked at.
    """

    target: int
    known: Mapping[int, int]
    histories: tuple[tuple[int, ...], tuple[int, ...]]
    likelihoods: Array
    error: float = LIBM

    @property
    def records(self) -> int:
        """The number of records that are looked at."""
        return len(self.likelihoods)


def play(law: LoweredLaw, attack: Attack) -> Interval:
    """Return what an attack reveals on a law, rounded both ways.

    Cost O(records m^2), for runs of records that are alike O(m^3 log records).

    >>> law = LoweredLaw(np.array([[[.9, .1], [.1, .9]]]), np.arange(2), np.array([.5, .5]))
    >>> seen = Attack(0, {}, ((0,), (1,)), np.exp([[1.0, 0.0], [1.0, 0.0]]))
    >>> round(play(law, seen).lower, 6)
    1.776137
    """
    inside = law.symbols == np.arange(law.states)[:, None]  # (symbols, m)
    size, records = law.size, attack.records
    # (records, m): alike rows share a number, so that runs are told
    seen = attack.likelihoods[:, law.symbols]
    ones = np.ones((2, size))
    tables: list[Array] = []
    codes = np.empty(records, dtype=np.intp)
    numbers: dict[bytes, int] = {}
    first, last = attack.target, attack.target + len(attack.histories[0]) - 1
    for record in range(records):
        if record in attack.known:
            row = inside[attack.known[record]].astype(np.float64)
            table = np.stack([row] * 4)
        elif first <= record <= last:
            values = [history[record - first] for history in attack.histories]
            mask = inside[values].astype(np.float64)  # (2, m)
            table = np.concatenate([mask * seen[record], mask])
        else:
            table = np.concatenate([ones * seen[record], ones])
        key = table.tobytes()
        if key not in numbers:
            numbers[key] = len(tables)
            tables.append(table)
        codes[record] = numbers[key]
    totals = _forward(law, np.array(tables), codes, attack.error)
    if totals is None:
        return Interval(-math.inf, -math.inf)
    logs, errors = totals.log()
    logs, errors = logs[:, 0], errors[:, 0]
    if not np.isfinite(logs).all():
        return Interval(-math.inf, -math.inf)
    value = float((logs[0] - logs[1]) - (logs[2] - logs[3]))
    slack = float(errors.sum()) + 8 * ROUNDOFF * (1 + float(np.abs(logs).sum()))
    return Interval(value - slack, value + slack)


def _forward(
    law: LoweredLaw, tables: Array, codes: npt.NDArray[np.intp], error: float
) -> PositiveArray | None:
    """Return the sums over all series, (rows, 1), None where a row is impossible.

    ``tables`` (codes, rows, m) are the factors of a record with each code.
    """
    first = tables[codes[0]]
    message = PositiveArray(
        law.start * first, np.zeros((len(first), 1), dtype=np.int64), start_error(law) + error
    )
    record, count = 1, len(codes)
    while True:
        if not (message.values > 0).any(axis=1).all():
            return None
        message = message.scaled(1)
        if record >= count:
            break
        length = 1
        if law.phases == 1:
            ends = np.flatnonzero(codes[record:] != codes[record])
            length = int(ends[0]) if ends.size else count - record
        table, kernel = tables[codes[record]], law.kernel(record - 1)
        if length >= RUN:
            factor = PositiveArray(
                kernel * table[:, None, :], np.zeros((len(table), 1, 1), dtype=np.int64),
                KERNEL_ERROR + error + STEP,
            )  # fmt: skip
            if not factor.values.any(axis=(1, 2)).all():
                return None
            power = _power(factor.scaled(1, 2), length)
            message = PositiveArray(
                np.einsum("rs,rsz->rz", message.values, power.values),
                message.exponent + power.exponent[:, 0],
                message.error + power.error + law.size * STEP,
            )  # fmt: skip
            record += length
            continue
        message = PositiveArray(
            (message.values @ kernel) * table, message.exponent,
            message.error + KERNEL_ERROR + error + (law.size + 1) * STEP,
        )  # fmt: skip
        record += 1
    return message.sum(axis=1)


def _power(matrix: PositiveArray, exponent: int) -> PositiveArray:
    """Return a power of matrices, each with its own scale."""
    power: PositiveArray | None = None
    square = matrix
    while True:
        if exponent % 2:
            power = square if power is None else (power @ square).scaled(1, 2)
        exponent //= 2
        if not exponent:
            break
        square = (square @ square).scaled(1, 2)
    return power if power is not None else matrix


def likelihoods(records: int, symbols: int, seen: Sequence[tuple[int, Array]]) -> Array:
    """Return a table of likelihoods, 1 where nothing is looked at, (records, symbols)."""
    table = np.ones((records, symbols))
    for record, row in seen:
        table[record] = row
    return table
