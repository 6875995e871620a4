"""Whether outputs and truth belong together: as many series, as long, of the same persons."""

import datetime as dt
from typing import Any

import numpy as np

from undertow.auditing.hidden import Observed
from undertow.data.codes import Coded
from undertow.data.grid import PERSON, TIME
from undertow.errors import InvalidInput

__all__ = ["as_data", "check_match", "check_possible"]


def as_data(outputs: Any, truth: Any) -> Any:
    """Return a sanitised frame as `Data` with the roles that the truth has; all else as it is.

    >>> as_data([0, 1], [0, 1])
    [0, 1]
    """
    frame = hasattr(type(outputs), "columns") and not hasattr(type(outputs), "answers")
    if not frame or not hasattr(type(truth), "answers"):
        return outputs
    from undertow.data.rewriting import column_of, is_frame
    from undertow.data.table import Data

    if not is_frame(outputs):
        return outputs
    grid = truth.grid
    every = grid.step
    if every is not None and grid.clock:
        every = dt.timedelta(microseconds=every)
    return Data(
        outputs, value=column_of(outputs).name, person=grid.person, time=grid.time, every=every
    )


def check_match(read: Coded, true: Coded, outputs: Any, truth: Any) -> None:
    """Refuse a truth that is not of the records whose outputs these are.

    >>> from undertow.data.codes import Rule, coded
    >>> rule = Rule((0, 1))
    >>> check_match(coded([0, 1], rule), coded([0, 1], rule), [0, 1], [0, 1])
    """
    if len(read.lengths) != len(true.lengths):
        raise InvalidInput(
            f"there are outputs of {len(read.lengths)} series, and the truth has "
            f"{len(true.lengths)}; pass the records that were randomised"
        )
    wrong = np.flatnonzero((read.lengths != true.lengths) | (read.spans != true.spans))
    if wrong.size:
        series = int(wrong[0])
        raise InvalidInput(
            f"series {series} (counting from 0) has {int(read.lengths[series])} outputs and "
            f"{int(true.lengths[series])} true records over {int(read.spans[series])} and "
            f"{int(true.spans[series])} steps of time; pass the records that were randomised"
        )
    if all(hasattr(type(one), "answers") for one in (outputs, truth)):
        _check_rows(outputs, truth)


def check_possible(outputs: Observed, true: Coded) -> None:
    """Refuse a truth that cannot have led to the outputs, by place.

    >>> from undertow import MarkovChain, RandomizedResponse
    >>> from undertow.auditing.hidden import observe
    >>> from undertow.data.codes import Rule, coded
    >>> sure, chain = RandomizedResponse([[1, 0], [0, 1]]), MarkovChain([[.9, .1], [.3, .7]])
    >>> records = coded([0, 1], Rule((0, 1)))
    >>> check_possible(observe(records, sure, chain), records)
    """
    codes = outputs.there(outputs.codes)  # (records,): rows of the emission
    never = outputs.hidden.own[codes, true.codes] <= 0
    if never.any():
        at = int(np.argmax(never))
        series = int(np.searchsorted(np.cumsum(true.lengths), at, side="right"))
        record = at - int(true.lengths[:series].sum())
        raise InvalidInput(
            f"the output of record {record} of series {series} (counting from 0) cannot come from "
            "the true record there; pass the records that were randomised"
        )


def _check_rows(outputs: Any, truth: Any) -> None:
    """Refuse tables whose rows are of different persons or times, by row."""
    frames = []
    for data in (outputs, truth):
        names = [PERSON] if data.moment is None else [PERSON, TIME]
        (found,) = data.source.collect(data.grid.windowed(data.rows()).select(names))
        listed = [found[name].to_list() for name in names]
        if data.grid.person is not None:
            listed[0] = data.source.columns[data.grid.person].persons(listed[0])
        frames.append(listed)
    first, second = frames
    if len(first) != len(second):
        raise InvalidInput("outputs and truth must both have a column of times, or neither")
    for ours, theirs in zip(first, second, strict=True):
        for row, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if str(one) != str(other):
                raise InvalidInput(
                    f"row {row} (counting from 0) of the outputs is not of the person and time of "
                    "that row of the truth; pass both with the rows in the same order"
                )
