"""Real answers as whole steps: what a record may move, and what a released sum is."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.queries import STEPS, Lattice
from undertow.sampling.answers import lattice_amount

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=200)
CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=(0, 1))
DAY = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=(0, 1), length=24)
ends = st.floats(-1e6, 1e6)
anything = st.one_of(
    st.floats(), st.integers(), st.text(max_size=3), st.none(), st.booleans(), st.binary(max_size=2)
)


@law(LAWS, 20, one=ends, two=ends, first=anything, second=anything, steps=st.integers(1, STEPS))
def test_no_record_moves_a_sum_by_more_than_its_steps(one, two, first, second, steps):
    if not one < two:
        return
    lattice = ut.Sum(one, two, steps=steps).lattice()
    moved = lattice.place(first) - lattice.place(second)
    assert abs(moved) <= steps
    assert 0 <= lattice.place(first) <= steps


def test_missing_values_count_as_the_number_nearest_to_0():
    assert ut.Sum(0, 10).lattice().place(None) == 0
    assert ut.Sum(-10, -2, steps=8).lattice().missing == 8  # the end nearest to 0
    assert ut.Sum(-5, 5, steps=10).lattice().missing == 5
    assert ut.Sum(2, 10, steps=8).lattice().place(math.nan) == 0
    assert ut.Mean(-9, -1, steps=8).lattice().place("x") == 8
    assert ut.Sum(2, 10, steps=8).lattice().place("7") == 0  # a text is a text
    assert ut.Sum(0, 10, steps=10).lattice().place(np.float32(7)) == 7
    numbered = ut.Sum(-4, 4, {"a": -3, "b": 2, "c": 4}, steps=8).lattice()
    assert (numbered.places, numbered.missing, numbered.moved) == ((1, 6, 8), 6, 7)
    with pytest.raises(InvalidInput, match="steps"):
        ut.Sum(0, 10, steps=0)


def test_infinite_values_are_clipped():
    lattice = Lattice(0.0, 1.0, 10, 3)
    assert lattice.place(math.inf) == 10
    assert lattice.place(-math.inf) == 0
    assert lattice.place(10**400) == 3  # beyond all floats: foreign


@law(
    LAWS,
    20,
    weights=st.lists(st.floats(-50, 50), min_size=1, max_size=6),
    spread=st.floats(0.1, 9),
    lower=st.floats(-5, 5),
)
def test_linear_statistics_keep_to_their_lattice(weights, spread, lower):
    if not max(map(abs, weights)) * spread > 1e-90:  # no noise is as small
        return
    query = ut.Linear(weights, spread, lower)
    lattice = query.lattice()
    assert lattice.weights is not None
    assert max(abs(w) for w in lattice.weights) == lattice.steps
    values = [lower + spread * (t % 3) / 2 for t in range(len(weights))]
    plan = ut.calibrate(query, ut.Groups(1), 50.0)
    found = ut.release(plan, ut.Data(values, ungrouped=True), insecure_seed=1).value
    wanted = float(np.dot(weights, values))
    noise = plan.mechanism.scale * 60
    assert abs(found - wanted) <= noise + 1e-5 * query.sensitivity() * len(weights)


def test_a_linear_statistic_needs_a_range_to_be_released():
    plan = ut.calibrate(ut.Linear([1.0, 2.0], spread=1.0), ut.Groups(1), 1.0)
    with pytest.raises(NotSupported, match="say where it begins"):
        ut.release(plan, [0.5, 0.5])
    with pytest.raises(InvalidInput, match="2 weights do not fit 3 records"):
        ut.release(
            ut.calibrate(ut.Linear([1.0, 2.0], spread=1.0, lower=0.0), ut.Groups(3), 1.0), [1, 1, 1]
        )


@pytest.mark.parametrize("query", [ut.Sum(0, 1), ut.Sum(-3, 17.5), ut.Mean(0, 1)])
def test_noise_in_steps_keeps_the_level(query):
    plan = ut.calibrate(query, DAY, limit=1.0)
    steps = plan.query.lattice().moved
    level = Fraction(steps) / Fraction(lattice_amount(plan.mechanism, 24))
    assert level <= Fraction(plan.dp_epsilon)
    assert level >= Fraction(plan.dp_epsilon) * (1 - Fraction(1, 10**12))


def test_released_sums_and_means_are_near_the_truth():
    """60 scales away with probability e^-60: a failure is a defect."""
    series = [0, 1, 1, 0, None, math.nan, 7, "x"] * 3
    for query, truth in ((ut.Sum(0, 1), 6.0), (ut.Mean(0, 1), 6.0 / 24)):
        plan = ut.calibrate(query, DAY, limit=1.0)
        out = ut.release(plan, series)
        assert isinstance(out.value, float)
        assert abs(out.value - truth) < 60 * plan.mechanism.scale


def test_real_plans_travel():
    for query in (
        ut.Sum(0, 5, {0: 1.5, 1: 4}, steps=100),
        ut.Mean(0, 5),
        ut.Linear([1.0] * 24, 2.0, -1.0),
    ):
        plan = ut.calibrate(query, DAY, limit=1.0)
        assert ut.Plan.from_json(plan.to_json()) == plan


# --- the unit of privacy --------------------------------------------------------------------------


def test_a_person_is_hidden_by_noise_for_all_its_records():
    plan = ut.calibrate(ut.Count(1), DAY, limit=2.0, secret=ut.Person())
    assert plan.mechanism.scale == 12.0
    assert (plan.unit, plan.method, plan.leakage.method) == ("person", "group", "person")
    assert plan.leakage.proves(2.0)
    assert "between any two histories of one person" in plan.guarantee()
    assert ut.Plan.from_json(plan.to_json()) == plan
    informed = ut.calibrate(ut.Count(1), DAY, 2.0, "informed", secret=ut.Person())
    assert informed.mechanism.scale == 12.0
    assert ut.calibrate(ut.Histogram(), DAY, 2.0, secret=ut.Person()).mechanism.scale == 24.0


def test_what_a_person_plan_refuses():
    with pytest.raises(MethodRefused, match="give the chain a length"):
        ut.calibrate(ut.Count(1), CHAIN, 1.0, secret=ut.Person())
    with pytest.raises(MethodRefused, match="leave method"):
        ut.calibrate(ut.Count(1), DAY, 1.0, method="exact", secret=ut.Person())
    with pytest.raises(InvalidInput, match=r"Window\(12\), Person\(\)"):
        ut.calibrate(ut.Count(1), DAY, 1.0, secret="family")  # type: ignore[call-overload]
    plan = ut.calibrate(ut.Count(1), DAY, 1.0, secret=ut.Person())
    assert isinstance(ut.release(plan, [1] * 20).value, int)  # fewer records are covered
    with pytest.raises(InvalidInput, match="at most 24 records of a person, and one has 25"):
        ut.release(plan, [1] * 25)
