"""Flips, erasures and noise chains with exactly the planned probabilities, many records at once.

Every record has a uniform 64-bit number; its first byte is drawn, and the other seven only if it
leaves the output open. An output has the numbers between two thresholds of its row, so its
probability is a multiple of 2^-64. docs/vectors/README.md has the rule for other languages.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, count
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput, InvalidPlan
from undertow.mechanisms import LocalMechanism, RandomizedResponse, Redaction, XorNoise
from undertow.sampling.streams import ByteArray, ByteSource, Draws

__all__ = [
    "FULL",
    "Codes",
    "Start",
    "Step",
    "Thresholds",
    "draw",
    "erase",
    "flip",
    "noise",
    "steps",
]


Codes = npt.NDArray[np.uint8 | np.uint16]
"""Numbers of states or outputs."""

FULL = 2**64
"""The threshold that every 64-bit number is below: probability 1."""

PIECE = 2**18
"""Records handled at a time: what a piece needs stays in the cache, and bounds the memory."""

_REST = 2**56 - 1


class Thresholds:
    """Rows of thresholds: output j has the numbers U from threshold j - 1 up to threshold j.

    ``thresholds[row][j]`` is the probability of the outputs 0 .. j, times 2^64; the last output
    has the rest. The output is the number of thresholds that are at most U. ``open`` is what
    `first_bytes` holds where the first byte does not decide.

    >>> table = Thresholds.of(RandomizedResponse.binary(.25, .5))
    >>> [threshold / FULL for row in table.thresholds for threshold in row]
    [0.75, 0.5]
    """

    def __init__(self, thresholds: Iterable[Sequence[int]]) -> None:
        """Check the thresholds and make the tables of first bytes."""
        self.thresholds = tuple(tuple(int(one) for one in row) for row in thresholds)
        widths = {len(row) for row in self.thresholds}
        ordered = all(list(row) == sorted(row) for row in self.thresholds)
        within = all(0 <= one <= FULL for row in self.thresholds for one in row)
        if len(widths) != 1 or not ordered or not within:
            raise InvalidPlan("thresholds are rows of equal length, increasing, within 0 .. 2^64")
        self.rows, self.outputs = len(self.thresholds), widths.pop() + 1
        self.open = self.outputs
        flat = [[min(one, FULL - 1) for one in row] for row in self.thresholds]
        shape = (len(flat), self.outputs - 1)
        self._exact = np.array(flat, dtype=np.uint64).reshape(shape)  # (rows, thresholds)
        # 2^64 does not fit 64 bits: such thresholds are marked, no number reaches them
        self._full = np.array(self.thresholds, dtype=object).reshape(shape) == FULL
        # the byte in which a threshold lies, and whether it lies inside
        self._byte = (self._exact >> np.uint64(56)).astype(np.uint16)  # (rows, thresholds)
        self._byte[self._full] = 256
        self._inside = ((self._exact & np.uint64(_REST)) > 0) & ~self._full

    @classmethod
    def of(cls, channel: RandomizedResponse) -> "Thresholds":
        """Return the thresholds of a channel, a row for each state."""
        return cls(_cumulative(row, f"row {x} of the channel") for x, row in enumerate(
            channel.matrix.tolist()
        ))  # fmt: skip

    @classmethod
    def of_erasures(cls, mechanism: Redaction) -> "Thresholds":
        """Return the thresholds of erasures, a row for each record and state; 0 is erased."""
        states = mechanism.probabilities.shape[1]
        return cls(
            [_whole(probability, f"the probability of erasing record {n // states}")]
            for n, probability in enumerate(mechanism.probabilities.ravel().tolist())
        )

    @classmethod
    def of_noise(cls, mechanism: XorNoise) -> "Thresholds":
        """Return the thresholds of a noise chain, a row for each of its two states."""
        return cls([[FULL - _whole(mechanism.rho0, "rho0")], [_whole(mechanism.rho1, "rho1")]])

    def first_bytes(self) -> Codes:
        """Return the output of every row and first byte, or `open`; one line of 256 per row.

        >>> Thresholds([[FULL // 2 + 1]]).first_bytes()[126:130].tolist()
        [0, 0, 2, 1]
        """
        table = np.empty((self.rows, 256), dtype=_dtype(self.outputs + 1))
        after = self._byte + self._inside  # the first byte that lies wholly beyond the threshold
        for row in range(self.rows):
            # (258,): how many thresholds lie wholly below each first byte
            passed = np.bincount(after[row], minlength=258).cumsum()
            table[row] = passed[:256]
            table[row, self._byte[row][self._inside[row]]] = self.open
        return table.ravel()  # (rows * 256,)

    def decide(self, rows: npt.NDArray[Any], numbers: npt.NDArray[np.uint64]) -> npt.NDArray[Any]:
        """Return the outputs of whole 64-bit numbers."""
        # (numbers, thresholds)
        passed = (self._exact[rows] <= numbers[:, None]) & ~self._full[rows]
        return np.asarray(passed.sum(axis=1))

    def border(self, row: int) -> tuple[int, bool]:
        """Return the byte of a row's only threshold (256: beyond all), and whether it is inside."""
        return int(self._byte[row, 0]), bool(self._inside[row, 0])

    def borders(self) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.bool_]]:
        """Return `border` of all rows."""
        return self._byte[:, 0], self._inside[:, 0]


def flip(table: Thresholds, records: Codes, source: ByteSource) -> Codes:
    """Return an output for every record (the number of its state), independently.

    Takes one first byte per record, and seven further ones per undecided record. Linear; memory
    for the outputs and one piece.

    >>> from undertow.sampling.streams import draws
    >>> table = Thresholds.of(RandomizedResponse.binary(0, 1))
    >>> flip(table, np.array([0, 1, 0], dtype=np.uint8), draws()).tolist()
    [0, 0, 0]
    """
    outputs: Codes = np.empty(records.size, dtype=_dtype(table.outputs + 1))
    # two outputs by one comparison, where bytes hold both thresholds (256 would wrap around)
    two = table.rows == 2 and table.outputs == 2 and records.dtype == np.uint8
    quick = two and max(table.border(0)[0], table.border(1)[0]) < 256
    bytes_of = None if quick else table.first_bytes()
    for start in range(0, records.size, PIECE):
        piece, out = records[start : start + PIECE], outputs[start : start + PIECE]
        first = source.firsts(start, start + piece.size)
        if bytes_of is None:
            undecided = _binary(table, piece, first, out)
        else:
            undecided = _looked_up(table, bytes_of, piece, first, out)
        if undecided.size:
            numbers = _numbers(first[undecided], source.furthers(start + undecided))
            out[undecided] = table.decide(piece[undecided], numbers)
    return outputs


def _binary(table: Thresholds, piece: Codes, first: ByteArray, out: Codes) -> npt.NDArray[np.intp]:
    """Fill in the outputs that first bytes decide, of two; return the undecided places."""
    (low, low_inside), (high, high_inside) = table.border(0), table.border(1)
    border = piece * np.uint8((high - low) % 256)  # (piece,): arithmetic of bytes, modulo 256
    border += np.uint8(low)
    np.greater_equal(first, border, out=out.view(np.bool_))
    equal = np.flatnonzero(first == border)  # all else is decided by the first byte
    if low_inside and high_inside:
        return equal
    kept: npt.NDArray[np.bool_] = np.array([low_inside, high_inside])[piece[equal]]
    return equal[kept]


def _looked_up(
    table: Thresholds, bytes_of: Codes, piece: Codes, first: ByteArray, out: Codes
) -> npt.NDArray[np.intp]:
    """Fill in the outputs that first bytes decide, by row and byte; return the undecided places."""
    place = np.left_shift(piece, 8, dtype=np.uint16 if table.rows <= 256 else np.uint32)
    place |= first  # (piece,): 256 row + byte, the place in the raveled table
    np.take(bytes_of, place, out=out, mode="clip")
    return np.flatnonzero(out == table.open)


def erase(
    table: Thresholds, records: Codes, length: int, source: ByteSource,
    places: npt.NDArray[np.int64] | None = None,
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """Return which records are erased; series of ``length`` records follow each other.

    ``places`` says which record of its series each is; by default all series are whole.

    >>> from undertow.sampling.streams import draws
    >>> table = Thresholds.of_erasures(Redaction([[0, 0], [1, 1]]))
    >>> erase(table, np.array([0, 1, 1, 0], dtype=np.uint8), 2, draws()).tolist()
    [False, True, False, True]
    """
    states = table.rows // length
    erased = np.empty(records.size, dtype=np.bool_)
    byte, inside = table.borders()
    for start in range(0, records.size, PIECE):
        piece, out = records[start : start + PIECE], erased[start : start + PIECE]
        # (piece,): whole series follow each other, so the place in its series is the remainder
        here = np.arange(start, start + piece.size) % length
        rows = (here if places is None else places[start : start + PIECE]) * states + piece
        first, border = source.firsts(start, start + piece.size), byte[rows]
        np.less(first, border, out=out)
        undecided = np.flatnonzero((first == border) & inside[rows])
        if undecided.size:
            numbers = _numbers(first[undecided], source.furthers(start + undecided))
            out[undecided] = table.decide(rows[undecided], numbers) == 0
    return erased


@dataclass(frozen=True, slots=True)
class Start:
    """The stationary probability that noise begins with a flip: a fraction, not a dyadic number.

    >>> Start.of_noise(XorNoise(.25, .5))
    Start(flips=1, of=3)
    """

    flips: int
    of: int

    @classmethod
    def of_noise(cls, mechanism: XorNoise) -> "Start":
        """Return rho0 / (rho0 + rho1) in lowest terms."""
        rho0, rho1 = Fraction(mechanism.rho0), Fraction(mechanism.rho1)
        share = rho0 / (rho0 + rho1)
        return cls(share.numerator, share.denominator)

    def draw(
        self, source: ByteSource, series: npt.NDArray[np.intp], attempt: int = 0
    ) -> npt.NDArray[np.bool_]:
        """Return whether each of some series begins with a flip; eight bytes each.

        A number V below floor(2^64 flips / of) is a flip, one above is none; the equal one (it
        has probability 2^-64) leaves the remainder to the next eight bytes.
        """
        numbers = np.ascontiguousarray(source.starts(series, attempt)).view(">u8").ravel()
        border, rest = divmod(self.flips * FULL, self.of)
        if border == FULL:
            return np.ones(series.size, dtype=np.bool_)
        states = numbers < border  # (series,)
        # Pr[V < border] + 2^-64 rest / of = flips / of: the equal one is decided by what is left
        for place in np.flatnonzero(numbers == border) if rest else ():
            one = series[place : place + 1]
            states[place] = Start(rest, self.of).draw(source, one, attempt + 1)[0]
        return states


def noise(
    mechanism: XorNoise, lengths: Sequence[int] | npt.NDArray[np.int64], source: ByteSource,
    at: npt.NDArray[np.int64] | None = None, state: int | None = None,
) -> npt.NDArray[np.uint8]:  # fmt: skip
    """Return the noise (1: flip) of series that follow each other, each a chain of its own.

    The starts of all series are drawn first. Then every record takes one first byte (the first
    record of a series does not look at it), which says where each state of the noise would go: a
    record is undecided if either is. So all records are drawn at once, and the states follow from
    the last record whose map is constant and the swaps since.

    ``at`` (in order) are the steps whose noise is wanted, by default all. ``state`` is the noise
    just before the first series, which then goes on and does not begin. Linear in the steps.

    >>> from undertow.sampling.streams import draws
    >>> noise(XorNoise(0, 1), [3, 2], draws()).tolist()
    [0, 0, 0, 0, 0]
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    filled = sizes[sizes > 0]
    total = int(filled.sum())
    going = 0 if state is None else 1  # the first series that begins here
    begins = (np.cumsum(filled) - filled)[going:]  # (series that begin,): their first steps
    starts = Start.of_noise(mechanism).draw(source, np.arange(going, filled.size))
    table = Thresholds.of_noise(mechanism)
    maps = _maps(table)
    flips = np.empty(total if at is None else at.size, dtype=np.uint8)
    state = state or 0
    for start in range(0, total, PIECE):
        stop = min(start + PIECE, total)
        first = source.firsts(start, stop)
        inside = slice(*np.searchsorted(begins, [start, stop]))
        goes = maps[first]  # (piece,)
        # a series begins in its own state, whatever the one before it ended in
        goes[begins[inside] - start] = np.where(starts[inside], _ONE, _ZERO)
        undecided = np.flatnonzero(goes == _OPEN)
        if undecided.size:
            numbers = _numbers(first[undecided], source.furthers(start + undecided))
            # both states see the same number, as if either had been the one of the noise
            ends = [table.decide(np.full(undecided.size, row), numbers) for row in (0, 1)]
            goes[undecided] = ends[0] + 2 * ends[1]
        states = _followed(goes, state)
        state = int(states[-1])  # goes on into the next piece
        if at is None:
            flips[start:stop] = states
        else:
            wanted = slice(*np.searchsorted(at, [start, stop]))
            flips[wanted] = states[at[wanted] - start]
    return flips


def draw(
    mechanism: LocalMechanism, codes: Codes, source: ByteSource,
    steps: Sequence[int] | npt.NDArray[np.int64], places: npt.NDArray[np.int64] | None = None,
    state: int | None = None,
) -> tuple[Codes, npt.NDArray[np.bool_] | None]:  # fmt: skip
    """Return the outputs of series that follow each other, and which of them are erased.

    None where none can be. ``steps`` counts those of each series. ``places`` says of erasures which
    record of its series each is, of a noise chain which of all steps; by default all are there.
    ``state`` is that of `noise`. An erased record has the number 0.

    >>> from undertow.sampling.streams import draws
    >>> codes = np.array([1, 1, 0, 1], dtype=np.uint8)
    >>> [part.tolist() for part in draw(Redaction([[0, 0], [1, 1]]), codes, draws(), [2, 2])]
    [[1, 0, 0, 0], [False, True, False, True]]
    """
    if isinstance(mechanism, RandomizedResponse):
        return flip(Thresholds.of(mechanism), codes, source), None
    if isinstance(mechanism, XorNoise):
        return codes ^ noise(mechanism, steps, source, places, state), None
    length = mechanism.length
    erased = erase(Thresholds.of_erasures(mechanism), codes, length, source, places)
    for one in mechanism.protect:  # erased whatever the table says
        erased[slice(one, None, length) if places is None else places == one] = True
    return np.where(erased, codes.dtype.type(0), codes), erased


_ZERO, _SWAP, _STAY, _ONE, _OPEN = range(5)
"""Maps of two states, where 0 goes plus twice where 1 goes; or not decided yet."""


def _maps(table: Thresholds) -> npt.NDArray[np.uint8]:
    """Return the map that each first byte stands for."""
    ends = table.first_bytes().reshape(2, 256)  # (states of the noise, first bytes)
    maps: npt.NDArray[np.uint8] = np.asarray(ends[0] + 2 * ends[1], dtype=np.uint8)
    maps[(ends == table.open).any(axis=0)] = _OPEN
    return maps


def _followed(goes: npt.NDArray[np.uint8], state: int) -> npt.NDArray[np.uint8]:
    """Return the states under successive maps."""
    constant = (goes == _ZERO) | (goes == _ONE)
    # (piece,): whether the number of swaps up to here is odd
    swaps = np.bitwise_xor.accumulate((goes == _SWAP).astype(np.uint8))
    # (piece,): the last constant map up to here forgets all before it; -1 where there is none
    last = np.maximum.accumulate(np.where(constant, np.arange(goes.size, dtype=np.int32), -1))
    # the state there, with the swaps up to there undone: all swaps up to here can follow it
    since = np.where(last < 0, state, (goes[last] == _ONE) ^ swaps[last])
    return np.asarray(since ^ swaps, dtype=np.uint8)


def _numbers(first: ByteArray, further: ByteArray) -> npt.NDArray[np.uint64]:
    """Return 64-bit numbers, first byte foremost, completed by seven further bytes each."""
    whole = np.empty((first.size, 8), dtype=np.uint8)  # (numbers, bytes)
    whole[:, 0] = first
    whole[:, 1:] = further
    return whole.view(">u8").ravel().astype(np.uint64)  # (numbers,)


def _whole(probability: float, what: str) -> int:
    """Return a probability as a whole number of 2^-64, or refuse it."""
    exact = Fraction(probability) * FULL
    if exact.denominator != 1:
        raise InvalidPlan(
            f"{what} is not a whole multiple of 2^-64, so no number of random bits has that "
            "probability; plans made by calibrate(...) have whole multiples of 2^-53"
        )
    return exact.numerator


def _cumulative(row: list[float], what: str) -> list[int]:
    parts = [_whole(probability, f"an entry of {what}") for probability in row]
    if sum(parts) != FULL:
        raise InvalidPlan(
            f"{what} does not sum to exactly one; make the diagonal 1 minus the other entries, "
            "all of them whole multiples of 2^-53, as calibrate(...) does"
        )
    return list(accumulate(parts[:-1]))


def _dtype(values: int) -> type[np.uint8] | type[np.uint16]:
    return np.uint8 if values <= 256 else np.uint16


_ONE_SERIES = np.zeros(1, dtype=np.intp)

Step = Callable[[int], int | None]
"""Function that returns the output of the next record (numbers of states), None if erased."""


def steps(mechanism: LocalMechanism, draws: Draws) -> Step:
    """Return a randomiser of one series, record by record.

    >>> from undertow.sampling.streams import single_draws
    >>> device = steps(Redaction([[0, 0], [1, 1]]), single_draws())
    >>> device(0), device(1)
    (0, None)
    """
    if isinstance(mechanism, Redaction):
        return _erasures(mechanism, draws)
    if isinstance(mechanism, XorNoise):
        return _noise(mechanism, draws)
    table = Thresholds.of(mechanism)  # every record through the same channel
    return lambda record: _output(table, [record], draws)[0]


def _erasures(mechanism: Redaction, draws: Draws) -> Step:
    """Erase records by the probabilities of their places; protected ones always."""
    table, length, places = Thresholds.of_erasures(mechanism), mechanism.length, count()
    states, protect = table.rows // length, frozenset(mechanism.protect)

    def push(record: int) -> int | None:
        place = next(places)
        if place >= length:
            raise InvalidInput(
                f"the plan is for {length} records of a series, and all have come; begin a new "
                "stream for the next series"
            )
        erased = _output(table, [place * states + record], draws)[0] == 0
        return None if erased or place in protect else record

    return push


def _noise(mechanism: XorNoise, draws: Draws) -> Step:
    """Add a noise chain to a series of two states."""
    table, start = Thresholds.of_noise(mechanism), Start.of_noise(mechanism)
    state: int | None = None

    def push(record: int) -> int:
        nonlocal state
        if state is None:
            state = int(start.draw(draws, _ONE_SERIES)[0])
            draws.first.take(1)  # drawn for every record, not looked at for the first
        else:
            state = _output(table, [0, 1], draws)[state]
        return record ^ state

    return push


def _output(table: Thresholds, rows: list[int], draws: Draws) -> list[int]:
    """Return the outputs of some rows for one number, of which no more is drawn than is needed."""
    byte = int(draws.first.take(1)[0])
    number = byte << 56  # the least number with this first byte, and one after the largest
    after = number + 2**56
    if any(number < border < after for row in rows for border in table.thresholds[row]):
        number += int.from_bytes(draws.further.take(7).tobytes(), "big")
    return [sum(border <= number for border in table.thresholds[row]) for row in rows]
