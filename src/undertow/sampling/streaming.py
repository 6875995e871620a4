"""Flips, erasures and noise chains for one record after the other, as on a device.

The same rule as `undertow.sampling.flips`, written in whole numbers and without arrays: from the
same bytes both make the same outputs, record by record.
"""

from collections.abc import Callable
from itertools import count

import numpy as np

from undertow.errors import InvalidInput
from undertow.mechanisms import LocalMechanism, Redaction, XorNoise
from undertow.sampling.flips import Start, Thresholds
from undertow.sampling.streams import Draws

__all__ = ["Step", "steps"]


_ONE_SERIES = np.zeros(1, dtype=np.intp)

Step = Callable[[int], int | None]
"""Function that returns the output of the next record (numbers of states), None if erased."""


def steps(mechanism: LocalMechanism, draws: Draws) -> Step:
    """Return a randomiser of one series, record by record.

    >>> from undertow.sampling.streams import given
    >>> device = steps(Redaction([[.5, 0], [1, 1]]), given(b"\\x80\\x00", b""))
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
