"""Attacks played out on a lowered law: exact forward passes, rounded outwards.

ln N(u) / N(u') - ln N~(u) / N~(u') for two histories u, u' of the target: N(u) sums the products of
the likelihoods over the series with u and the known values, N~(u) the same without likelihoods.
Sums of products of non-negative numbers: their errors are relative (`PositiveArray`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from undertow.bounds.core.arrays import FAINT, LIBM, STEP, PositiveArray
from undertow.bounds.core.sides import KERNEL_ERROR, start_error
from undertow.errors import InvalidInput, NotSupported
from undertow.models.lowered import LoweredLaw
from undertow.numerics import ROUNDOFF, Array

__all__ = ["Attack", "Interval", "play", "play_many", "play_open"]

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
    inside = (law.symbols == np.arange(law.states)[:, None]).astype(np.float64)  # (symbols, m)
    # records with the same likelihoods share a table (rows, m), so that runs are recognised; rows
    # are both histories with what is seen, and both without
    rows, codes = np.unique(attack.likelihoods, axis=0, return_inverse=True)
    codes = codes.reshape(-1).astype(np.intp)
    ones = np.ones((2, law.size))
    tables = [np.concatenate([ones * row, ones]) for row in rows[:, law.symbols]]
    first = attack.target
    given = {record: (value,) * 2 for record, value in attack.known.items()}
    pairs = enumerate(zip(*attack.histories, strict=True), start=first)
    for record, values in (*given.items(), *pairs):
        if record >= attack.records:
            raise InvalidInput(
                f"record {record} is given, but {attack.records} records are looked at; add a row "
                "of likelihoods for each record"
            )
        mask = inside[list(values)]  # (2, m)
        seen = ones if record in given else ones * attack.likelihoods[record, law.symbols]
        codes[record] = len(tables)
        tables.append(np.concatenate([mask * seen, mask]))
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
            power = factor.scaled(1, 2).power(length)
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


def play_many(
    law: LoweredLaw,
    likelihoods: Array,
    possible: Array,
    target: int,
    pair: tuple[int, int],
    error: float = LIBM,
) -> tuple[Array, Array]:
    """Return what many attacks on one record reveal, and bounds of the errors, shape (attacks,).

    ``likelihoods`` (attacks, records, symbols) are those of what is seen, ``possible`` is 1 where a
    value is possible given what is known and 0 elsewhere. -inf where an attack cannot occur. Cost
    O(attacks records m^2).

    >>> law = LoweredLaw(np.array([[[.9, .1], [.1, .9]]]), np.arange(2), np.array([.5, .5]))
    >>> seen = np.exp([[[1.0, 0.0], [1.0, 0.0]]])
    >>> values, errors = play_many(law, seen, np.ones((1, 2, 2)), 0, (0, 1))
    >>> round(float(values[0]), 6)
    1.776137
    """
    count, records, _ = likelihoods.shape
    tables = np.stack([likelihoods * possible, possible])  # with what is seen and without
    tables = np.stack([tables, tables])  # (values, seen, attacks, records, symbols)
    for place, value in enumerate(pair):
        others = np.arange(law.states) != value
        tables[place, :, :, target, others] = 0.0
    rows = tables.reshape(4 * count, records, -1)[:, :, law.symbols]
    message = PositiveArray(
        law.start * rows[:, 0], np.zeros((4 * count, 1), dtype=np.int64), start_error(law) + error
    )
    for record in range(1, records):
        message = message.scaled(1)
        message = PositiveArray(
            (message.values @ law.kernel(record - 1)) * rows[:, record], message.exponent,
            message.error + KERNEL_ERROR + error + (law.size + 1) * STEP,
        )  # fmt: skip
    logs, errors = message.scaled(1).sum(axis=1).log()
    logs, errors = logs.reshape(4, count), errors.reshape(4, count)
    with np.errstate(invalid="ignore"):
        values = (logs[0] - logs[1]) - (logs[2] - logs[3])
    occurs = np.isfinite(logs).all(axis=0)
    sizes = np.where(occurs, np.abs(np.where(np.isfinite(logs), logs, 0.0)).sum(axis=0), 0.0)
    slack = np.where(occurs, errors.sum(axis=0), 0.0) + 8 * ROUNDOFF * (1 + sizes)
    return np.where(occurs, values, -math.inf), slack


def play_open(
    law: LoweredLaw, likelihoods: Array, pair: tuple[int, int], error: float = LIBM
) -> tuple[Array, float]:
    """Return what each record reveals to someone who knows nothing, and a bound of the errors.

    ``likelihoods`` (records, symbols) are those of what is seen, the same whichever record is the
    target. Shape (records,); two passes, cost O(records m^2).

    >>> law = LoweredLaw(np.array([[[.9, .1], [.1, .9]]]), np.arange(2), np.array([.5, .5]))
    >>> play_open(law, np.exp([[1.0, 0.0], [1.0, 0.0]]), (0, 1))[0].round(6).tolist()
    [1.776137, 1.776137]
    """
    records = len(likelihoods)
    rows = likelihoods[:, law.symbols]
    fore, back = np.empty((records, law.size)), np.ones((records, law.size))
    plain = np.empty((records, law.size))
    fore[0], plain[0] = law.start * rows[0], law.start
    for record in range(1, records):
        message = (fore[record - 1] @ law.kernel(record - 1)) * rows[record]
        fore[record] = message / message.max()
        plain[record] = plain[record - 1] @ law.kernel(record - 1)
    for record in range(records - 2, -1, -1):
        message = law.kernel(record) @ (rows[record + 1] * back[record + 1])
        back[record] = message / message.max()
    masses = [
        [table[:, law.symbols == value].sum(axis=1) for value in pair]
        for table in (fore * back, plain)
    ]
    if not all((mass > FAINT).all() for one in masses for mass in one):
        raise NotSupported("likelihoods of the values of some records lie too far apart")
    logs = np.log(np.array(masses))  # (seen or not, value, records)
    values = (logs[0, 0] - logs[0, 1]) - (logs[1, 0] - logs[1, 1])
    steps = records * (KERNEL_ERROR + error + (law.size + 3) * STEP)
    slack = 4 * (start_error(law) + steps + law.size * STEP)
    return values, slack + 16 * ROUNDOFF * (1 + float(np.abs(logs).max()))
