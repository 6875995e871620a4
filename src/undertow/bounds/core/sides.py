"""One side of a target against one adversary: messages of what is known, pairwise bounds.

Inwards from the far end, record by record: q_j(s) = Pr[known values beyond j | S_j = s] (to the
left jointly with S_j: nothing is reversed) and the bounds D_j, the smaller of the pairwise step and
the signed sweep (docs, theory-engine: E2, E3). All values of known records are carried at once.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from undertow.bounds.core.arrays import STEP, PositiveArray, add_upper
from undertow.bounds.core.steps import block_step, metric_closure, signed_sweep, step
from undertow.errors import InvalidModel, NotSupported
from undertow.models.chains import stationary_law
from undertow.models.lowered import LoweredLaw
from undertow.numerics import Array

__all__ = ["KERNEL_ERROR", "Outer", "Side", "side", "start_error"]

SWEPT = 24
"""Unknown records that a signed sweep looks through at most (cost; bounds hold beyond)."""

MOST_CASES = 2**12
"""Values of the known records of a side that are all tried (cost)."""

LONGEST = 4096
"""Records of a side that are walked one by one (cost)."""

SETTLING = 2000
"""Steps after which the bounds of an endless side must have settled (cost)."""

MOST_BLOCK, LARGEST_PAIRS = 4, 16
"""Records passed at once at most, and hidden states times symbols up to which two are (cost)."""

NEAR = 48
"""Records from the target up to which blocks are tried (cost; single steps bound beyond)."""

PADDING = 1e-7
"""What limits are raised by, relative, to find bounds that a further step does not raise."""

GRAIN = 1e-13
"""What limits are raised by besides, absolute: a few hundred roundings."""

KERNEL_ERROR = 2 * STEP
"""Relative error of an entry of a kernel: rows that sum to 1 up to rounding are meant to."""


def start_error(law: LoweredLaw) -> float:
    """Return the relative error of the start: an elimination on m states [grassmann1985]."""
    return 16.0 * law.size**2 * STEP


@dataclass(frozen=True, slots=True, eq=False)
class Outer:
    """The record next to the target: the kernel from it inwards, its weights and bounds.

    ``kernel`` (s, z), ``weights`` (cases, z) are q, on one symbol if the record is known, and
    ``bounds`` (cases, z, z') hold the record's own limits if it is not.
    """

    kernel: Array
    weights: PositiveArray
    bounds: Array


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One side of a target, for all possible values of its known records.

    ``values`` (cases, known) has their values, outwards; ``weights`` (cases, m) the plain message
    at the target, ``bounds`` (cases, m, m) its D. ``outer`` is the next record, None at an end.
    """

    values: npt.NDArray[np.intp]
    weights: PositiveArray
    bounds: Array
    outer: Outer | None


@dataclass(frozen=True, slots=True, eq=False)
class _Front:
    """A record on the way inwards: its weights w, bounds C, and the inward kernel from it."""

    weights: PositiveArray
    bounds: Array
    kernel: Array
    known: bool
    cases: int


def side(
    law: LoweredLaw,
    limits: Array,
    target: int,
    known: Mapping[int, int] | Collection[int],
    direction: int,
    records: int | None,
) -> Side:
    """Return one side of a target: messages and pairwise bounds, by the values of known records.

    Parameters
    ----------
    law
        The lowered law; record t is led to t + 1 by ``law.kernel(t)``, and record 0 has its start.
    limits
        The directed metric of one unknown record, (k, k).
    target
        The record that is wanted, or the window's record at this side's end.
    known
        Records that are known: with their values, or all values of each (cost: k for each).
    direction
        1 for the records after the target, -1 for those before it.
    records
        The number of records; None: any number after the target.

    >>> law = LoweredLaw(np.array([[[.9, .1], [.1, .9]]]), np.arange(2), np.array([.5, .5]))
    >>> right = side(law, np.array([[0, 1.0], [1.0, 0]]), 0, (), 1, 2)
    >>> round(float(right.bounds[0, 0, 1]), 6)
    0.776137
    """
    size = law.size
    diff = limits[np.ix_(law.symbols, law.symbols)]  # 0 inside a symbol
    given = dict(known) if isinstance(known, Mapping) else dict.fromkeys(known)
    beyond = {t: v for t, v in given.items() if (t - target) * direction > 0}
    weights, bounds, last = _far_end(law, diff, target, beyond, direction, records)
    values = np.zeros((1, 0), dtype=np.intp)
    fronts: list[_Front] = []
    blocks = _block_lengths(law)
    for distance in range(last, 0, -1):
        record = target + direction * distance
        if record in beyond:
            if len(bounds) * (law.states if beyond[record] is None else 1) > MOST_CASES:
                raise NotSupported(
                    f"{len(beyond)} known records on a side have too many values to try: at most "
                    f"{MOST_CASES}; ask about fewer known records"
                )
            values, weights, bounds = _split(law, values, weights, bounds, beyond[record])
        else:
            bounds = add_upper(diff, bounds)
        kernel = law.kernel(record - 1) if direction > 0 else law.kernel(record).T
        front = _Front(weights, bounds, kernel, record in beyond, len(values))
        fronts.append(front)
        joint = PositiveArray.of(kernel, KERNEL_ERROR)
        inner = PositiveArray(
            kernel * weights.values[:, None, :], weights.exponent[:, None, :],
            weights.error + KERNEL_ERROR + STEP,
        ).scaled(1, 2)  # fmt: skip
        narrow = step(inner, bounds)
        message = PositiveArray(
            weights.values @ kernel.T, weights.exponent,
            weights.error + joint.error + size * STEP,
        ).scaled(1)  # fmt: skip
        for length in blocks if distance <= NEAR else ():
            narrow = np.minimum(narrow, _by_block(law, diff, fronts, length))
        # where the sweep adds something: at the target, next to it, and at known records
        inwards = record - direction
        if distance <= 2 or inwards in beyond:
            narrow = np.minimum(narrow, _swept(law, limits, fronts, message))
        narrow = metric_closure(narrow)
        weights, bounds = message, narrow
    outer = None
    if fronts:
        near = fronts[-1]
        outer = Outer(near.kernel, near.weights, near.bounds)
    return Side(values, weights, bounds, outer)


def _far_end(
    law: LoweredLaw, diff: Array, target: int, beyond: Mapping[int, int | None], direction: int,
    records: int | None,
) -> tuple[PositiveArray, Array, int]:  # fmt: skip
    """Return the message and the bounds at the record where a side begins, and its distance."""
    size = law.size
    farthest = max((abs(t - target) for t in beyond), default=0)
    open_ = np.zeros((1, size, size))
    if direction > 0:
        ones = PositiveArray.of(np.ones((1, size)))
        if records is not None and records - 1 - target <= farthest + LONGEST:
            return ones, open_, records - 1 - target
        near = max(farthest, 1)  # the join needs the next record
        settled = _endless(law, diff, target + near)[0]
        return ones, settled[None], near
    start = PositiveArray.of(law.start[None], start_error(law))
    if target <= farthest + LONGEST or law.phases > 1 or not _stationary(law):
        return start, _closed(law.start), target
    # within 5 errors of the stationary law, and so is every later law: ratios to it contract
    left = PositiveArray.of(law.start[None], 12 * start_error(law))
    settled = _settled(law, [law.kernel(0).T], diff, left)[0]
    return left, settled[None], max(farthest, 1)


def _closed(law: Array) -> Array:
    """Return the bounds where nothing lies beyond: 0, unbound where a state cannot occur."""
    possible = law > 0
    bounds = np.where(possible[:, None] & possible, 0.0, math.inf)
    np.fill_diagonal(bounds, 0.0)
    return np.asarray(bounds[None])


def _stationary(law: LoweredLaw) -> bool:
    """Tell whether the start is the stationary law, up to the errors of both.

    That one step hardly changes it proves nothing of many steps.
    """
    try:
        stationary = stationary_law(law.kernel(0))
    except InvalidModel:
        return False
    return bool((np.abs(law.start - stationary) <= 4 * start_error(law) * stationary).all())


def _endless(law: LoweredLaw, diff: Array, record: int) -> list[Array]:
    """Return bounds D at a record and those of its cycle, for any number of records beyond."""
    kernels = [law.kernel(record + phase) for phase in range(law.phases)]
    return _settled(law, kernels, diff, PositiveArray.of(np.ones((1, law.size))))


def _settled(
    law: LoweredLaw, kernels: list[Array], diff: Array, weights: PositiveArray
) -> list[Array]:
    """Return bounds D for each inward kernel of a cycle that a further step does not raise.

    ``weights`` is the plain message, which no step changes. From D = 0 at limits raised by a
    little; scaling D itself would prove nothing. inf where they do not settle in time.
    """
    size, count = law.size, len(kernels)
    lengths = [1, *_block_lengths(law)]
    start = [np.zeros((1, size, size)) for _ in kernels]

    def inwards(phase: int, limits: Array, bounds: list[Array]) -> Array:
        """Return the bounds of one record from those beyond."""
        narrow: Array = np.full((1, size, size), math.inf)
        for length in lengths:
            block = [kernels[(phase + more) % count] for more in range(length)]
            cone = add_upper(limits, bounds[(phase + length) % count])
            further = block_step(block, law.symbols, limits, weights, cone, KERNEL_ERROR)
            if further is not None:
                narrow = np.minimum(narrow, further)
        return metric_closure(narrow)

    # the constant is above what the roundings of a step add, at small limits too
    raised, bounds = np.where(diff > 0, diff * (1 + PADDING) + GRAIN, 0.0), start
    for turn in range(SETTLING // count + 2):
        before = list(bounds)
        for phase in reversed(range(count)):
            bounds[phase] = inwards(phase, raised, bounds)
        moved = max(
            float(np.nan_to_num(np.abs(one - two), nan=0.0).max())
            for one, two in zip(bounds, before, strict=True)
        )
        if moved <= GRAIN / 8 or (turn % 16 == 15 and moved < PADDING):
            held = [inwards(phase, diff, bounds) for phase in range(count)]
            if all((one <= two).all() for one, two in zip(held, bounds, strict=True)):
                return [bound[0] for bound in bounds]
    unbound = np.full((size, size), math.inf)
    np.fill_diagonal(unbound, 0.0)
    return [unbound] * count


def _split(
    law: LoweredLaw, values: npt.NDArray[np.intp], weights: PositiveArray, bounds: Array,
    value: int | None,
) -> tuple[npt.NDArray[np.intp], PositiveArray, Array]:  # fmt: skip
    """Return the cases with each value of a known record that is possible, and its states alone."""
    choices = range(law.states) if value is None else (value,)
    tables, rows, cones, digits = [], [], [], []
    for choice in choices:
        inside = law.symbols == choice
        table = weights.values * inside
        possible = (table > 0).any(axis=1)
        cone = np.where(inside[:, None] & inside, bounds, math.inf)
        cone[:, np.arange(law.size), np.arange(law.size)] = 0.0
        tables.append(table[possible])
        rows.append(np.broadcast_to(weights.exponent, (len(table), 1))[possible])
        cones.append(np.broadcast_to(cone, (len(table), *cone.shape[1:]))[possible])
        column = np.full((len(values), 1), choice, dtype=np.intp)
        digits.append(np.hstack([column, values])[possible])
    table = PositiveArray(np.concatenate(tables), np.concatenate(rows), weights.error)
    return np.concatenate(digits), table, np.concatenate(cones)


def _block_lengths(law: LoweredLaw) -> list[int]:
    """Return how many records are also passed at once: two, and as many as leave no zero.

    Zeros of a chain of order m are gone after m records.
    """
    if law.plain:
        return []  # nothing is hidden: the sweep is exact
    lengths = {2} if law.size * law.states <= LARGEST_PAIRS else set()
    product = law.kernel(0)
    for length in range(2, MOST_BLOCK + 1):
        if (product > 0).all():
            break
        product = product @ law.kernel(length - 1)
        if (product > 0).all():
            lengths.add(length)
    return sorted(lengths)


def _by_block(law: LoweredLaw, diff: Array, fronts: list[_Front], length: int) -> Array | float:
    """Return bounds at a record by a block of records outwards, inf where it is cut short."""
    block = fronts[: -length - 1 : -1]
    if len(block) < length or any(front.known for front in block[:-1]):
        return math.inf
    end, kernels = block[-1], [front.kernel for front in block]
    bound = block_step(kernels, law.symbols, diff, end.weights, end.bounds, KERNEL_ERROR)
    return math.inf if bound is None else bound


def _swept(law: LoweredLaw, limits: Array, fronts: list[_Front], message: PositiveArray) -> Array:
    """Return bounds at a record by the signed sweep outwards to the next known record."""
    kernels: list[Array] = []
    end = fronts[-1]
    for front in reversed(fronts[-SWEPT:]):
        kernels.append(front.kernel)
        end = front
        if front.known:
            break
    size, level = law.size, float(limits.max())
    pairs = [(s, t) for s in range(size) for t in range(size) if s != t]
    cases = len(message.values)
    unbound = np.full((cases, size, size), math.inf)
    unbound[:, np.arange(size), np.arange(size)] = 0.0
    if not math.isfinite(level) or end.cases != cases:
        return unbound
    logs = signed_sweep(
        kernels, law.symbols, level, end.weights, end.bounds, pairs, KERNEL_ERROR
    )  # fmt: skip
    # joint masses: D = ln mu + ln q(s') / q(s), on the scale of the messages at the sweep's end
    plain = PositiveArray.of(end.weights.values, end.weights.error)
    for kernel in reversed(kernels):
        plain = PositiveArray(
            plain.values @ kernel.T, plain.exponent,
            plain.error + KERNEL_ERROR + size * STEP,
        ).scaled(1)  # fmt: skip
    upper, lower = plain.log_upper(), plain.log_lower()
    first, second = (np.array(part) for part in zip(*pairs, strict=True))
    with np.errstate(invalid="ignore"):
        ceilings = logs + upper[:, second] - lower[:, first]
    slack = 8 * STEP * (1 + np.abs(logs) + np.abs(upper[:, second]) + np.abs(lower[:, first]))
    ceilings = np.where(np.isfinite(ceilings), np.maximum(ceilings + slack, 0.0), math.inf)
    unbound[:, first, second] = ceilings
    return unbound
