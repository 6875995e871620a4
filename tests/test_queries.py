"""What is asked: answers on plain lists, sensitivities by trying every replacement."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

import undertow as ut
from undertow.errors import InvalidInput, NotSupported

STATES = ("idle", "walk", "run")
FOREIGN = [None, math.nan, "IDLE", "", b"idle", 3, 2.5, ["idle"], {"idle": 1}, {"idle"}, object]


# --- counts and histograms ------------------------------------------------------------------------


def test_a_count_takes_one_state_or_several():
    assert ut.Count("walk").states == ("walk",)
    assert ut.Count(["walk", "run"]).states == ("walk", "run")
    assert set(ut.Count({"walk", "run"}).states) == {"walk", "run"}
    assert ut.Count(0).states == (0,)
    assert ut.Count("walk") == ut.Count(["walk"]) != ut.Count("run")
    assert hash(ut.Count("walk")) == hash(ut.Count(("walk",)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        ut.Count("walk").states = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([], "at least one state"),
        ((), "at least one state"),
        (set(), "at least one state"),
        (["walk", "walk"], "named twice"),
        ([1, True], "named twice"),
    ],
)
def test_bad_counts_are_refused(states, message):
    with pytest.raises(InvalidInput, match=message):
        ut.Count(states)


@pytest.mark.parametrize("foreign", FOREIGN, ids=repr)
def test_foreign_values_are_in_no_state(foreign):
    records = ["idle", foreign, "walk", foreign]
    assert ut.Count(["idle", "walk", "run"]).evaluate(records, STATES) == 2
    assert ut.Histogram().evaluate(records, STATES) == [1, 1, 0]


def test_equal_numbers_are_the_same_state():
    records = [1, 1.0, True, np.int64(1), np.float64(1.0), "1", 1.5, 0]
    assert ut.Count(1).evaluate(records, (0, 1)) == 5
    assert ut.Histogram().evaluate(records, (0, 1)) == [1, 5]


def test_sensitivities_of_counts_by_trying_every_replacement():
    series = list(itertools.product([*STATES, None], repeat=3))
    for query in (ut.Count("walk"), ut.Count(["idle", "run"]), ut.Histogram()):
        worst = 0
        for records in series:
            before = np.atleast_1d(query.evaluate(records, STATES))
            for place, value in itertools.product(range(3), [*STATES, None]):
                other = [*records[:place], value, *records[place + 1 :]]
                after = np.atleast_1d(query.evaluate(other, STATES))
                worst = max(worst, int(np.abs(after - before).sum()))
        assert worst == query.sensitivity()


# --- sums, means, weights -------------------------------------------------------------------------


def test_ranges_bound_sums_and_means():
    assert ut.Sum(-2, 5).sensitivity() == 7.0
    assert ut.Sum(-2, 5).sensitivity(length=9) == 7.0
    assert ut.Mean(-2, 5).sensitivity(length=10) == 0.7
    assert ut.Sum(0, 1) == ut.Sum(0, 1) != ut.Sum(0, 2)
    queries: set[object] = {ut.Mean(0, 1), ut.Sum(0, 1)}
    assert len(queries) == 2


@pytest.mark.parametrize("query", [ut.Sum, ut.Mean])
@pytest.mark.parametrize(
    ("lower", "upper"),
    [(1, 1), (2, 1), (0, math.inf), (-math.inf, 0), (math.nan, 1), (0, math.nan)],
)
def test_empty_and_infinite_ranges_are_refused(query, lower, upper):
    with pytest.raises(InvalidInput, match=r"lower must be below upper and both finite, found"):
        query(lower, upper)


@pytest.mark.parametrize("bounds", [("a", 1), (None, 1), (0, [1, 2])], ids=str)
def test_ranges_that_are_not_numbers_are_refused(bounds):
    with pytest.raises(InvalidInput):
        ut.Sum(*bounds)


def test_a_mean_needs_the_number_of_records():
    with pytest.raises(InvalidInput, match="give the model a length"):
        ut.Mean(0, 1).sensitivity()
    with pytest.raises(InvalidInput, match="at least 1"):
        ut.Mean(0, 1).sensitivity(length=0)


def test_weights_are_copied_and_frozen():
    weights = np.array([1.0, -3.0])
    query = ut.Linear(weights, spread=2)
    weights[0] = 99.0
    assert query.weights.tolist() == [1.0, -3.0]
    assert query.sensitivity() == 6.0
    assert query.spread == 2.0
    with pytest.raises(ValueError, match="read-only"):
        query.weights[0] = 1.0


@pytest.mark.parametrize(
    ("weights", "spread", "message"),
    [
        ([], 1, "non-empty list of finite numbers"),
        ([[[1.0]]], 1, "non-empty list of finite numbers"),
        ([[]], 1, "non-empty list of finite numbers"),
        (1.0, 1, "non-empty list of finite numbers"),
        ([1.0, math.nan], 1, "finite numbers"),
        ([1.0, math.inf], 1, "finite numbers"),
        ([0.0, 0.0], 1, "all weights are zero"),
        (["a"], 1, "numbers are required"),
        ([1.0], 0, "spread must be positive"),
        ([1.0], math.inf, "spread must be positive and finite"),
        ([1.0], None, "spread must be a number"),
    ],
)
def test_bad_weights_are_refused(weights, spread, message):
    with pytest.raises(InvalidInput, match=message):
        ut.Linear(weights, spread)


def test_a_matrix_of_weights_asks_for_several_sums():
    query = ut.Linear([[1.0, -2.0, 0.0], [0.5, 0.5, 0.5]], spread=2.0, lower=0.0)
    assert query.sensitivity() == 5.0  # record 1: |-2| + .5, times the spread
    assert (query.records, query.outputs) == (3, 2)
    assert (ut.Linear([1.0, 2.0], 1.0).records, ut.Linear([1.0, 2.0], 1.0).outputs) == (2, 1)
    with pytest.raises(NotSupported, match="a Linear of its own"):
        query.lattice()


# --- any function ---------------------------------------------------------------------------------


def test_any_function_with_a_vouched_sensitivity():
    query = ut.Query(max, sensitivity=5)
    assert query.sensitivity() == 5.0
    assert query.function is max
    assert ut.Query(len).sensitivity() == 1.0


@pytest.mark.parametrize(
    ("function", "sensitivity", "message"),
    [
        ("max", 1, "needs a function"),
        (None, 1, "needs a function"),
        (max, 0, "sensitivity must be positive"),
        (max, math.nan, "sensitivity must be positive and finite"),
        (max, "one", "sensitivity must be a number"),
    ],
)
def test_bad_functions_are_refused(function, sensitivity, message):
    with pytest.raises(InvalidInput, match=message):
        ut.Query(function, sensitivity)
