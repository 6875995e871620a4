"""Data in, private answer out: any value may be in the data, none may be in a message."""

import dataclasses
import datetime
import decimal
import math
import traceback
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import undertow as ut
from undertow.errors import InvalidInput, NotSupported, UndertowError

P = [[0.9, 0.1], [0.3, 0.7]]
CHAIN = ut.MarkovChain(P, states=("idle", "active"))
TEN = ut.MarkovChain(P, states=("idle", "active"), length=10)
COUNT = ut.calibrate(ut.Count("active"), CHAIN, limit=1.0)
COUNT_TEN = ut.calibrate(ut.Count("active"), TEN, limit=1.0)
HISTOGRAM = ut.calibrate(ut.Histogram(), CHAIN, limit=1.0)
VALUES = {"idle": 1.5, "active": 9.25}
SUM = ut.calibrate(ut.Sum(0, 10, VALUES), CHAIN, limit=1.0)
MEAN = ut.calibrate(ut.Mean(0, 10, VALUES), TEN, limit=1.0)
READINGS = ut.MultivariateGaussian(np.full(10, 5.0), np.eye(10))
WEIGHTS = [1.0, -2.0, 0.5, *[0.0] * 7]
LINEAR = ut.calibrate(ut.Linear(WEIGHTS, 10.0, 0.0, VALUES), TEN, limit=1.0)
REAL = {"Sum": SUM, "Mean": MEAN, "Linear": LINEAR}
QUERY = ut.calibrate(ut.Query(len), CHAIN, limit=1.0)
CANARY = "canary-8f3a1c"
SEED = 20  # noise is added to the exact answer, so the same seed shows differences of answers


def exact(plan, data):
    """The answer without noise: the same seed on a series of no state gives the noise alone."""
    nothing = [None] * (plan.length or len(data))
    found: Any = ut.release(plan, data, insecure_seed=SEED).value
    noise: Any = ut.release(plan, nothing, insecure_seed=SEED).value
    if isinstance(found, dict):
        return {state: found[state] - noise[state] for state in found}
    return found - noise


# --- answers --------------------------------------------------------------------------------------


def test_a_histogram_has_one_whole_number_per_state():
    out = ut.release(HISTOGRAM, ["idle", "active", "idle"])
    assert isinstance(out.value, dict)
    assert list(out.value) == ["idle", "active"]
    assert {type(number) for number in out.value.values()} == {int}
    assert exact(HISTOGRAM, ["idle", "active", "idle", None]) == {"idle": 2, "active": 1}


def test_noise_may_carry_an_answer_below_zero():
    """Cutting off is left to the reader: it would bias the answer, and costs no privacy."""
    values: Any = [ut.release(COUNT, [None]).value for _ in range(200)]  # all >= 0 once in 10^40
    assert min(values) < 0 < max(values)


def test_secure_releases_differ_and_seeded_ones_repeat():
    loud = dataclasses.replace(COUNT, mechanism=ut.DiscreteLaplace(COUNT.query, 1e12))  # type: ignore[arg-type]
    secure = {ut.release(loud, ["active"]).value for _ in range(8)}
    assert len(secure) == 8  # two of them are equal with a probability below 10^-11
    seeded = [ut.release(loud, ["active"], insecure_seed=7) for _ in range(3)]
    assert len({out.value for out in seeded}) == 1
    assert ut.release(loud, ["active"], insecure_seed=8).value != seeded[0].value
    assert {out.randomness for out in seeded} == {"insecure, seed 7"}


@pytest.mark.parametrize("seed", [-1, 1.5, True, "7"])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(InvalidInput, match="seed must be"):
        ut.release(COUNT, ["idle"], insecure_seed=seed)


# --- any value may be in the data -----------------------------------------------------------------

FOREIGN = [
    None,
    math.nan,
    math.inf,
    np.nan,
    pd.NA,
    pd.NaT,
    decimal.Decimal("sNaN"),
    "Active",
    "active ",
    "",
    b"active",
    0,
    1,
    True,
    2.5,
    1j,
    ["active"],
    ("active",),
    {"active"},
    {"active": 1},
    np.array(["active"]),
    datetime.datetime(2020, 1, 1),
    object(),
    float,
    ut.Count("active"),
]


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda value: type(value).__name__)
def test_foreign_and_missing_values_are_in_no_state(foreign):
    series = ["active", foreign, "idle", foreign, "active"]
    assert exact(COUNT, series) == 2
    assert exact(HISTOGRAM, series) == {"idle": 1, "active": 2}


class Grudging:
    """Equal in hash to a state, and unwilling to be compared."""

    def __hash__(self):
        return hash("active")

    def __eq__(self, other):
        raise RuntimeError(CANARY)


def test_values_that_refuse_comparison_are_in_no_state():
    assert exact(COUNT, ["active", Grudging()]) == 1


# --- any sequence may hold the data ---------------------------------------------------------------


@pytest.mark.parametrize("empty", [[], (), np.array([]), pd.Series([], dtype=object)], ids=repr)
def test_an_empty_series_is_refused(empty):
    with pytest.raises(InvalidInput, match="the series has no records"):
        ut.release(COUNT, empty)


@pytest.mark.parametrize("text", ["active", "", b"active"])
def test_one_string_is_not_a_series(text):
    with pytest.raises(InvalidInput, match="found one string"):
        ut.release(COUNT, text)


@pytest.mark.parametrize("thing", [None, 5, 2.5, object()])
def test_what_is_not_a_series_is_refused(thing):
    with pytest.raises(InvalidInput, match="a series of records is required, found"):
        ut.release(COUNT, thing)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"active": [1, 2], "idle": [3, 4]}),
        {"active": [1, 2], "idle": [3, 4]},
        pl.DataFrame({"active": [1, 2], "idle": [3, 4]}),
        np.array([["active"], ["idle"]]),
    ],
    ids=["pandas", "dict", "polars", "numpy-2d"],
)
def test_tables_are_not_series(table):
    with pytest.raises(InvalidInput):
        ut.release(COUNT, table)


@pytest.mark.parametrize("records", [11, 500])
def test_the_wrong_number_of_records_is_refused(records):
    with pytest.raises(NotSupported, match=rf"series have {records} records.* of 10 records"):
        ut.release(COUNT_TEN, ["idle"] * records)
    assert exact(COUNT_TEN, ["active"] * 10) == 10


@pytest.mark.parametrize("records", [1, 9])
def test_fewer_records_are_a_part_of_the_series(records):
    """What all algorithms of a level leak on ten records bounds any that looks at fewer."""
    assert COUNT_TEN.leakage.valid_for == "any"
    assert ut.release(COUNT_TEN, ["idle"] * records).proof == COUNT_TEN.leakage
    whole = ut.calibrate(ut.Count("active"), TEN, limit=1.0, method="exact")
    quieter = ut.calibrate(ut.Count("active"), TEN, limit=0.9, method="exact")
    quieter = dataclasses.replace(quieter, limit=1.0)
    for plan in (quieter, whole):
        assert ut.release(plan, ["idle"] * records).proof.valid_for in ("windows", "any")


# --- real answers on a lattice --------------------------------------------------------------------

FINE = 1e-4  # a lattice step is 6e-7, and there are ten of them


@pytest.mark.parametrize(
    ("query", "records", "answer"),
    [
        (ut.Sum(0, 10), [1.5, 2.25, 10.0, 0.0], 13.75),
        (ut.Sum(0, 10), [11.0, -3.0, 1e300, -1e300, math.inf, -math.inf], 30.0),
        (ut.Sum(0, 10), [None, math.nan, "x", b"y", [], {}, 1j, 3.0], 3.0),
        (ut.Sum(0, 10), [True, np.float32(2.0), np.int8(3), decimal.Decimal(1)], 7.0),
        (ut.Mean(0, 10), [2.5] * 4, 1.0),
        (ut.Linear(WEIGHTS, 10.0, 0.0), [3.0, 2.0, 8.0, *[9.0] * 7], 3.0),
        (ut.Linear(WEIGHTS, 10.0, 0.0), [], 0.0),
    ],
    ids=["sum", "clipped", "foreign", "kinds", "mean", "linear", "linear-missing"],
)
def test_real_answers_about_readings_lie_on_the_lattice(query, records, answer):
    """A model of the readings themselves; a missing one counts as the end nearest to 0."""
    plan = ut.calibrate(query, READINGS, limit=1.0)
    records = records + [None] * (10 - len(records))
    assert exact(plan, records) == pytest.approx(answer, abs=FINE)
    assert type(ut.release(plan, records).value) is float


@pytest.mark.parametrize(
    ("plan", "records", "answer"),
    [
        (SUM, ["active", "idle", "active"], 2 * 7.75),
        (SUM, ["active", None, "x", b"y", [], {}, 1j, 3.0], 7.75),
        (MEAN, ["active"] * 4 + [None] * 6, 3.1),
        (LINEAR, ["active", "active", "idle", *["active"] * 7], -7.75),
    ],
    ids=["sum", "foreign", "mean", "linear"],
)
def test_real_answers_lie_on_the_lattice(plan, records, answer):
    """States count as their numbers, missing records as the number nearest to 0."""
    assert exact(plan, records) == pytest.approx(answer, abs=FINE)
    assert type(ut.release(plan, records).value) is float


class Secretive:
    """Refuses to be a number, and says why."""

    def __float__(self):
        raise RuntimeError(CANARY)


def test_values_that_refuse_to_be_numbers_are_missing():
    plan = ut.calibrate(ut.Sum(0, 10), READINGS, limit=1.0)
    records = [1.0, Secretive(), 2.0, *[None] * 7]
    assert exact(plan, records) == pytest.approx(3.0, abs=FINE)
    assert exact(SUM, ["active", Secretive()]) == pytest.approx(7.75, abs=FINE)


def test_a_sum_takes_whole_steps_only():
    """What is released is lower * rows + step * whole number: no trace of floating-point noise."""
    plan = ut.calibrate(ut.Sum(0, 16, VALUES, steps=2**10), CHAIN, limit=1.0)
    for _ in range(50):
        steps = ut.release(plan, ["idle", "active", "idle"]).value * 2**10 / 16
        assert steps == round(steps)


@pytest.mark.parametrize(("missing", "counts"), [("any", 1.5), ("none", 1.5), ("active", 9.25)])
def test_missing_counts_as_declared(missing, counts):
    plan = dataclasses.replace(SUM, missing=missing)
    records, whole = ["active", None, "x", math.nan], ["active"] * 4
    seeded = [ut.release(plan, r, insecure_seed=SEED).value for r in (records, whole)]
    assert seeded[1] - seeded[0] == pytest.approx(3 * (9.25 - counts), abs=FINE)


def test_a_linear_statistic_needs_its_range():
    plan = ut.calibrate(ut.Linear(WEIGHTS, 10.0, values=VALUES), TEN, limit=1.0)
    with pytest.raises(NotSupported, match="lower="):
        ut.release(plan, [1.0] * 10)


# --- what cannot be released ----------------------------------------------------------------------


def test_the_answer_of_a_function_is_refused():
    with pytest.raises(NotSupported, match="no declared lattice"):
        ut.release(QUERY, [0.5] * 10)


def test_a_histogram_needs_named_states():
    plan = ut.calibrate(ut.Histogram(), ut.Groups(3), limit=1.0)
    with pytest.raises(NotSupported, match="a model that names the states"):
        ut.release(plan, ["idle"])


@pytest.mark.parametrize("plan", [None, "plan", COUNT.mechanism, COUNT.to_json()])
def test_what_is_not_a_plan_is_refused(plan):
    with pytest.raises(InvalidInput, match="a Plan is required, found"):
        ut.release(plan, ["idle"])


def test_a_count_on_groups_is_released():
    plan = ut.calibrate(ut.Count("active"), ut.Groups(3), limit=1.0)
    assert exact(plan, ["active", "idle", "active"]) == 2


# --- nothing of the data in a message -------------------------------------------------------------


class Canary:
    def __repr__(self):
        return CANARY

    __str__ = __repr__


SECRETS = [CANARY, Canary(), [CANARY], 8531602947, {CANARY: CANARY}]


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: type(secret).__name__)
@pytest.mark.parametrize(
    "plan", [COUNT_TEN, *REAL.values(), QUERY], ids=lambda p: type(p.query).__name__
)
def test_no_error_shows_a_value(plan, secret):
    series: Any = [[secret] * n for n in (1, 10, 11)] + [(secret, 1.5), np.array([secret], object)]
    for data in series:
        try:
            out = ut.release(plan, data)
        except UndertowError as error:
            text = "".join(traceback.format_exception_only(error)) + repr(error)
        else:
            text = f"{out.report()}{out.report().html()}{out.report().to_json()}{out!r}"
        assert CANARY not in text
        assert "8531602947" not in text


# --- what a release says of itself ----------------------------------------------------------------


def test_a_release_says_what_it_is():
    out = ut.release(COUNT, ["active"] * 40, source="a diary study")
    assert dataclasses.asdict(out).keys() >= {
        "value", "plan", "randomness", "rows", "persons", "release_id", "entry", "source",
    }  # fmt: skip
    assert (out.rows, out.persons, out.entry, out.source) == (40, 1, None, "a diary study")
    assert out.error_bar() == COUNT.accuracy(0.05)
    assert out.error_bar(0.5) == COUNT.accuracy(0.5)
    assert out.error_bar(0.5) < out.error_bar()


@pytest.mark.parametrize(
    "plan", [COUNT, COUNT_TEN, HISTOGRAM, *REAL.values()], ids=lambda p: type(p.query).__name__
)
def test_releases_reveal_nothing_but_the_answer(plan):
    """Series of one length, as different as can be, differ in the value only."""
    series: list[list[Any]] = [
        ["active"] * 10,
        ["idle"] * 10,
        [None] * 10,
        ["no such state"] * 10,
        [[], {}, math.nan, CANARY, b"", 1, 2.5, object(), Canary(), "active"],
    ]
    told = [dataclasses.replace(ut.release(plan, data), value=None, made="") for data in series]
    seen = set(map(repr, told))
    assert len(seen) == 1
