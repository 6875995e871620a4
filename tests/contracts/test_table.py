"""The contract of `leakage`: lower <= oracle <= upper over the whole table, refusals included.

The gate asks the rows in which every pair of levels occurs, answered where some row with that pair
is answered; the soak asks the full product. Nothing is patched: the functions are those that ship.
"""

import itertools
import math

import numpy as np
import pytest

from tests.contracts.covering import covering, pairs_of
from tests.contracts.table import (
    AT_DELTA,
    DELTA,
    FACTORS,
    LEVELS,
    MECHANISMS,
    MODELS,
    Row,
    any_length,
    ask,
    delta_at,
    refusal,
    subject,
    truth,
    unbounded,
)
from tests.golden.replay import replayed
from undertow.errors import UndertowError

ROUNDING = 1e-12
"""What sums of positive floats in the oracle may be off, relative to the leakage or to 1."""

PROGRAM = 2e-9
"""What a linear program may be below its optimum."""

GRID = 1e-6
"""How much the grid of a released sum may add to its sensitivity."""

ROWS = [Row(*levels) for levels in itertools.product(*LEVELS)]
ANSWERED = [row for row in ROWS if refusal(row) is None]
REFUSED = [row for row in ROWS if refusal(row) is not None]


def quick(row):
    """Leave to the soak what takes seconds: Gaussian curves on endless chains of three states."""
    return not (row.mechanism in AT_DELTA and row.model in SLOW and row.secret != "person")


SLOW = ("three states, endless", "hidden, endless", "hidden")


def gate(rows):
    """Choose rows with every pair of levels, among those that are quick."""
    listed = [row for row in rows if quick(row)]
    return [
        listed[i] for i in covering([tuple(getattr(row, f) for f in FACTORS) for row in listed])
    ]


def only_refused():
    """Refused rows with the pairs of levels that no answered row has."""
    answered = set().union(*pairs_of([levels_of(row) for row in ANSWERED]))
    return [row for row in REFUSED if not pairs_of([levels_of(row)])[0] <= answered]


def levels_of(row):
    return tuple(getattr(row, factor) for factor in FACTORS)


def interval(row):
    """The certified interval contains the truth, and the witness attains its lower end."""
    subj, leak = subject(row.model), ask(row)
    assert 0 <= leak.lower <= leak.upper
    if row.mechanism in AT_DELTA:
        between_deltas(row, leak)
        assert math.isfinite(leak.upper) or unbounded(row)
    else:
        attained, most = truth(row)
        assert leak.upper >= attained * (1 - ROUNDING) - ROUNDING
        assert leak.lower <= most * (1 + ROUNDING) + PROGRAM
        assert leak.upper <= general(row, attained) * (1 + GRID) or unbounded(row)
    if leak.witness is None:
        return
    seen = replayed(leak.witness, MECHANISMS[row.mechanism].make(subj), subj.model, leak.delta)
    if seen is not None:
        assert seen >= leak.lower * (1 - 1e-9) - 1e-9
        assert seen <= leak.upper * (1 + ROUNDING) + ROUNDING


def general(row, attained):
    """Every record at its level: what no bound on so many records may exceed."""
    subj = subject(row.model)
    if math.isinf(attained):  # a record that is shown
        return math.inf
    if subj.model.length is None or row.secret == "person" or any_length(row):
        return math.inf
    level = np.max(MECHANISMS[row.mechanism].limits(subj))
    return subj.records * level if math.isfinite(level) else math.inf


def between_deltas(row, leak):
    """The delta at the upper end is at most the one asked for, and at the lower end at least."""
    if math.isfinite(leak.upper):
        assert delta_at(row, leak.upper) <= DELTA * (1 + 1e-9)
    exact = row.mechanism != "concentrated level" and subject(row.model).whole
    if exact and leak.lower > 0:
        assert delta_at(row, leak.lower - 1e-7) >= DELTA * (1 - 1e-9)


@pytest.mark.parametrize("row", gate(ANSWERED), ids=str)
def test_interval(row):
    interval(row)


@pytest.mark.parametrize("row", gate(only_refused()), ids=str)
def test_refusal(row):
    with pytest.raises(UndertowError) as refused:
        ask(row)
    assert refused.type is refusal(row)
    assert len(str(refused.value)) > 20


@pytest.mark.soak
@pytest.mark.parametrize("model", MODELS)
def test_product(model):
    for row in ROWS:
        if row.model != model:
            continue
        if refusal(row) is None:
            interval(row)
        else:
            test_refusal(row)


def test_every_pair_is_covered():
    chosen = [*gate(ANSWERED), *gate(only_refused())]
    covered = set().union(*pairs_of([levels_of(row) for row in chosen]))
    possible = set().union(*pairs_of([levels_of(row) for row in ROWS if quick(row)]))
    assert covered == possible
    assert len(chosen) < len(ROWS) / 20
