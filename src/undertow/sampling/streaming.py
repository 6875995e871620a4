"""Flips, erasures and noise chains for one record after the other, as on a device.

The same rule as `undertow.sampling.flips`, written in whole numbers and without arrays: from the
same bytes both make the same outputs, record by record.
"""

from typing import Protocol

from undertow.channels import LocalMechanism, Redaction, XorNoise
from undertow.errors import InvalidInput
from undertow.sampling.flips import Start, Thresholds
from undertow.sampling.streams import Draws

__all__ = ["Step", "steps"]


class Step(Protocol):
    """What makes the output of the next record of a series."""

    def push(self, record: int) -> int | None:
        """Return the output of a record (numbers of states), None if it is erased."""
        ...


def steps(mechanism: LocalMechanism, draws: Draws) -> Step:
    """Return what randomises one series, record by record.

    >>> from undertow.sampling.streams import given
    >>> device = steps(Redaction([[.5, 0], [1, 1]]), given(b"\\x80\\x00", b""))
    >>> device.push(0), device.push(1)
    (0, None)
    """
    if isinstance(mechanism, Redaction):
        return _Erasures(mechanism, draws)
    if isinstance(mechanism, XorNoise):
        return _Noise(mechanism, draws)
    return _Flips(Thresholds.of(mechanism), draws)


class _Flips:
    """Every record through the same channel."""

    def __init__(self, table: Thresholds, draws: Draws) -> None:
        self._table, self._draws = table, draws

    def push(self, record: int) -> int:
        return _output(self._table, [record], self._draws)[0]


class _Erasures:
    """Every record through the erasures of its place; a protected one is erased in any case."""

    def __init__(self, mechanism: Redaction, draws: Draws) -> None:
        self._table, self._draws = Thresholds.of_erasures(mechanism), draws
        self._length, self._protect = mechanism.length, frozenset(mechanism.protect)
        self._place = 0

    def push(self, record: int) -> int | None:
        place, states = self._place, self._table.rows // self._length
        if place >= self._length:
            raise InvalidInput(
                f"the plan is for {self._length} records of a series, and all have come; begin a "
                "new stream for the next series"
            )
        erased = _output(self._table, [place * states + record], self._draws)[0] == 0
        self._place = place + 1
        return None if erased or place in self._protect else record


class _Noise:
    """A noise chain added to a series of two states."""

    def __init__(self, mechanism: XorNoise, draws: Draws) -> None:
        self._table, self._draws = Thresholds.of_noise(mechanism), draws
        self._start = Start.of_noise(mechanism)
        self._state: int | None = None

    def push(self, record: int) -> int:
        if self._state is None:
            self._state = int(self._start.draw(self._draws, 1)[0])
            self._draws.first.take(1)  # drawn for every record, not looked at for the first
        else:
            self._state = _output(self._table, [0, 1], self._draws)[self._state]
        return record ^ self._state


def _output(table: Thresholds, rows: list[int], draws: Draws) -> list[int]:
    """Return the outputs of some rows for one number, of which no more is drawn than is needed."""
    byte = int(draws.first.take(1)[0])
    number = byte << 56
    after = number + 2**56
    if any(number < border < after for row in rows for border in table.thresholds[row]):
        number += int.from_bytes(draws.further.take(7).tobytes(), "big")
    return [sum(border <= number for border in table.thresholds[row]) for row in rows]
