"""What one likelihood tells of a record, for all values of the known ones: sums over all series.

**Theorem** (docs, theory-memory). Let a law of ordered values be attractive
(`undertow.models.attractive`), and let raising record t from x to y > x multiply a likelihood by at
most w_t(y) / w_t(x). Then whatever is known, the likelihood F = prod of w_t(x_t) over unknown
records tells a high value of the target from a low one best,

    max ln E[f | u, x_K] / E[f | u', x_K] = ln N(u) / N(u') - ln N~(u) / N~(u'),      u > u',

    N(u) = sum over x with x_i = u and the known x_K of Pr[x] prod of w_t(x_t) over the target and
           the unknown records,

N~ the same with all weights 1. Where the law is not attractive it is what this F attains, and no
bound. Here N for all values of target and known records at once: `Sums`; of chains by products
of matrices between these records (`chain_sums`), of networks by one elimination
(`undertow.bounds.attractive.networks`).

**Rounding.** N is a sum of products of non-negative numbers, so its error is relative: with
u = 2^-53 a step over m hidden states takes m products and sums, a weight and a scale, at most m + 8
roundings, a weight e^-a has an error of 4 a u of its own. Scales are powers of two and
exact. Nothing vanishes: an entry below 2^-500 of the largest is refused, and a product of two
others is an ordinary number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from undertow.bounds.hidden.perron import perron
from undertow.errors import NotSupported
from undertow.models.lowered import LoweredLaw
from undertow.numerics import ROUNDOFF, Array

__all__ = [
    "DEEPEST",
    "MOST_CASES",
    "Best",
    "Sums",
    "best_case",
    "chain_sums",
    "check_cases",
    "check_range",
]

DEEPEST = 60.0
"""Largest logarithm of a weight: beyond it likelihoods lie too far apart to be held."""

MOST_CASES = 2**12
"""Values of the known records that are all tried (cost)."""

FAINT = 2.0**-500
"""Least entry beside a largest one of 1 that is still told apart from 0."""

RARE = 1e-100
"""Least positive step of a chain: with `FAINT` and `DEEPEST` no product vanishes."""


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """ln N for each value of the target and all values of the known records.

    ``logs`` has shape (values, cases), -inf where the case cannot occur; a case is a number whose
    digits, the first known record first, are their values. ``error`` bounds that of each entry.
    """

    logs: Array
    error: float


@dataclass(frozen=True, slots=True)
class Best:
    """The largest log-ratio of two values, and the values of the known records that attain it."""

    value: float
    error: float
    known: tuple[int, ...]

    @property
    def lower(self) -> float:
        """What is attained, rounded down."""
        return max(self.value - self.error, 0.0)

    @property
    def upper(self) -> float:
        """The same, rounded up."""
        return max(self.value + self.error, 0.0)


def check_cases(size: int, known: int) -> None:
    """Refuse known records whose values are too many to try."""
    if size**known > MOST_CASES:
        raise NotSupported(
            f"{known} known records have {size**known} values, too many to try: at most "
            f"{MOST_CASES}; ask about fewer known records"
        )


def best_case(seen: Sums, plain: Sums, pair: tuple[int, int], shape: Sequence[int]) -> Best | None:
    """Return the worst values of the known records, None if both values never occur together.

    ``pair`` is the value and the other one, ``shape`` the number of values of each known record.
    """
    first, second = pair
    with np.errstate(invalid="ignore"):
        odds = seen.logs - plain.logs  # (values, cases)
        found = odds[first] - odds[second]
    found = np.where(np.isnan(found), -math.inf, found)
    case = int(found.argmax())
    value = float(found[case])
    if not math.isfinite(value):
        return None
    known = tuple(int(digit) for digit in np.unravel_index(case, tuple(shape))) if shape else ()
    logs = [abs(float(each.logs[v, case])) for each in (seen, plain) for v in pair]
    return Best(value, 2 * (seen.error + plain.error) + 8 * ROUNDOFF * (1 + max(logs)), known)


def chain_sums(
    law: LoweredLaw, weights: Array, target: int, known: Sequence[int], records: int | None
) -> Sums:
    """Return the sums of a chain of hidden states over all series of so many records.

    ``weights`` (phases, m) is at most 1: an unknown record at distance d from the target has row d
    modulo phases, and the target row 0. ``records`` None stands for a series that never ends: what
    follows the last record that matters is then a Perron vector, whose error is counted. Cost
    O(m^3 log n) for each known record, and m^2 for each of their values.

    >>> law = LoweredLaw(np.array([[[.9, .1], [.1, .9]]]), np.arange(2), np.array([.5, .5]))
    >>> weights = np.exp([[-1.0, 0.0]])
    >>> seen = chain_sums(law, weights, 0, (), None)
    >>> plain = chain_sums(law, np.ones((1, 2)), 0, (), None)
    >>> found = best_case(seen, plain, (1, 0), ())
    >>> round(found.value, 6), found.error < 1e-12  # half of 4.499453 + 1, a target at an end
    (2.749727, True)
    """
    depth = check_range(law, weights)
    anchors = sorted((target, *known))
    hidden, states = law.size, int(law.symbols[-1]) + 1
    inside = law.symbols == np.arange(states)[:, None]  # (values, m)
    message, scale = law.start[None], np.zeros(1, dtype=np.int64)  # (cases, m), (cases,)
    before = 0
    for number, anchor in enumerate(anchors):
        way = _way(law, weights, target, before, anchor, first=number == 0)
        message, scale = _scaled(message @ way.matrix, scale + way.scale)
        masks = inside * weights[0] if anchor == target else inside
        # each case in turn with every value of this record: (cases, values, m)
        message = (message[:, None] * masks).reshape(-1, hidden)
        scale, before = np.repeat(scale, states), anchor
    end, slack = _end(law, weights, target, before, records)
    message, scale = _scaled(message * end.matrix, scale + end.scale)
    with np.errstate(divide="ignore"):
        logs = np.log(message.sum(axis=1)) + scale * math.log(2.0)
    table = logs.reshape((states,) * len(anchors))
    table = np.moveaxis(table, anchors.index(target), 0).reshape(states, -1)
    steps = (before if records is None else records) + 2 * len(anchors) + 8
    roundings = steps * (hidden + 8 + 4 * depth) + 8.0 * hidden**2  # the start: its elimination
    finite = np.abs(table[np.isfinite(table)]).max(initial=1.0)
    return Sums(table, 2 * ROUNDOFF * (roundings + float(finite)) + slack)


@dataclass(frozen=True, slots=True, eq=False)
class _ScaledMatrix:
    """A matrix or a message times 2^scale; its largest entry lies in [1/2, 1)."""

    matrix: Array
    scale: int = 0


def check_range(law: LoweredLaw, weights: Array) -> float:
    """Return the largest -ln of a weight; refuse numbers that could vanish on the way."""
    depth = -math.log(float(weights.min())) if weights.min() > 0 else math.inf
    if depth > DEEPEST:
        raise NotSupported(f"ratios above e^{DEEPEST:g} are not told apart here")
    if any(float(part[part > 0].min()) < RARE for part in (law.kernels, law.start)):
        raise NotSupported(f"a probability below {RARE:g} is too rare for exact arithmetic")
    return depth


def _scaled(
    message: Array, scale: "npt.NDArray[np.int64]"
) -> tuple[Array, "npt.NDArray[np.int64]"]:
    """Return messages, one a row, with their largest entries between a half and one."""
    powers = np.frexp(message.max(axis=1))[1].astype(np.int64)  # (cases,); 0 of an empty row
    message = np.ldexp(message, -powers[:, None])
    _faint(message)
    return message, scale + powers


def _faint(message: Array) -> None:
    if ((message > 0) & (message < FAINT)).any():
        raise NotSupported("likelihoods of the values of some records lie too far apart")


def _times(first: _ScaledMatrix, second: _ScaledMatrix) -> _ScaledMatrix:
    """Return a product of two matrices, or of a matrix and a message."""
    made = first.matrix @ second.matrix
    power = int(np.frexp(made.max())[1])
    made = np.ldexp(made, -power)
    _faint(made)
    return _ScaledMatrix(made, first.scale + second.scale + power)


def _power(matrix: _ScaledMatrix, exponent: int) -> _ScaledMatrix:
    made, square = _ScaledMatrix(np.eye(len(matrix.matrix))), matrix
    while exponent:
        if exponent % 2:
            made = _times(made, square)
        exponent //= 2
        if exponent:
            square = _times(square, square)
    return made


def _unknown(law: LoweredLaw, weights: Array, target: int, places: range) -> _ScaledMatrix:
    """Return the product of weight and step, over unknown records in order: diag(w_t) T_t."""

    def factor(place: int) -> _ScaledMatrix:
        row = weights[abs(place - target) % len(weights)]  # (m,)
        return _ScaledMatrix(row[:, None] * law.kernel(place))

    made = _ScaledMatrix(np.eye(law.size))
    if len(law.kernels) > 1:
        for place in places:
            made = _times(made, factor(place))
        return made
    turns = len(weights)
    period = _ScaledMatrix(np.eye(law.size))
    for place in places[:turns]:
        period = _times(period, factor(place))
    made = _power(period, len(places) // turns) if len(places) >= turns else made
    for place in places[len(places) - len(places) % turns :]:
        made = _times(made, factor(place))
    return made


def _way(
    law: LoweredLaw, weights: Array, target: int, before: int, anchor: int, *, first: bool
) -> _ScaledMatrix:
    """Return what leads from a record, or from the start, to the next one that matters."""
    if first:
        return _unknown(law, weights, target, range(anchor))
    # on one side of the target distances rise or fall by one: the phases alternate either way
    step = _ScaledMatrix(law.kernel(before))
    return _times(step, _unknown(law, weights, target, range(before + 1, anchor)))


def _end(
    law: LoweredLaw, weights: Array, target: int, last: int, records: int | None
) -> tuple[_ScaledMatrix, float]:
    """Return the message of all records after the last one that matters, and its own error."""
    hidden = law.size
    plain = bool((weights == 1.0).all())
    if records is None:
        if plain:
            return _ScaledMatrix(np.ones(hidden)), 0.0
        period = np.eye(hidden)
        for more in range(len(weights)):
            row = weights[abs(last + 1 + more - target) % len(weights)]
            period = period @ (law.kernels[0] * row)  # T diag(w)
        vector, width = perron(period)
        _faint(vector)
        return _ScaledMatrix(vector), width
    if plain or last == records - 1:
        return _ScaledMatrix(np.ones(hidden)), 0.0
    final = weights[abs(records - 1 - target) % len(weights)]
    steps = _times(
        _ScaledMatrix(law.kernel(last)),
        _unknown(law, weights, target, range(last + 1, records - 1)),
    )
    return _times(steps, _ScaledMatrix(final)), 0.0
