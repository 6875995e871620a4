"""Integrations: guarantees of other libraries, and a plan as a measurement of OpenDP."""

import math
import sys
from dataclasses import dataclass, replace
from typing import Any

import opendp.prelude as dp
import pytest

import undertow as ut
from tests.cli.calls import call, call_json
from tests.oracles.samples import laplace_p_value
from undertow.errors import InvalidInput, NotSupported
from undertow.integrations import from_opendp, from_tumult, plan_to_opendp, to_opendp

P = [[0.882, 0.118], [0.305, 0.695]]
CHAIN = ut.MarkovChain(P, states=("inactive", "active"))
ROWS = "0.882,0.118;0.305,0.695"
INTEGERS = dp.vector_domain(dp.atom_domain(T=int))


@pytest.fixture(autouse=True)
def features():
    """What OpenDP asks its users to say, for one test."""
    dp.enable_features("contrib", "honest-but-curious")
    yield
    dp.disable_features("honest-but-curious")


def context(unit, loss, domain=INTEGERS, parts=2):
    return dp.Context.compositor(
        data=[1, 2, 3, 4], privacy_unit=unit, privacy_loss=loss, split_evenly_over=parts,
        domain=domain,
    )  # fmt: skip


# --- OpenDP in ------------------------------------------------------------------------------------


def test_every_distance_means_one_replaced_record():
    def noisy(space):
        return space >> dp.m.then_laplace(scale=1.0)

    symmetric = dp.t.make_count(INTEGERS, dp.symmetric_distance())
    ordered = dp.t.make_unordered(INTEGERS, dp.insert_delete_distance()) >> dp.t.then_count()
    sized = dp.vector_domain(dp.atom_domain(T=int), size=4)
    changed = dp.t.make_metric_unbounded(sized, dp.change_one_distance())
    summed = changed >> dp.t.then_clamp((0, 1)) >> dp.t.then_sum()
    aligned = dp.t.make_unordered(sized, dp.hamming_distance()) >> dp.t.then_metric_unbounded()
    aligned = aligned >> dp.t.then_clamp((0, 1)) >> dp.t.then_sum()
    found = [from_opendp(noisy(one)) for one in (symmetric, ordered, summed, aligned)]
    # OpenDP cannot see that a replaced record moves a count by 1, where it may be added or removed
    assert [one.level_upper() for one in found] == [2.0, 2.0, 1.0, 1.0]


def test_queries_and_contexts():
    pure = context(dp.unit_of(contributions=1), dp.loss_of(epsilon=1.0))
    assert from_opendp(pure.query().count().laplace()) == ut.PureDP(1.0)
    assert from_opendp(pure) == ut.PureDP(2.0)
    assert from_opendp(pure, unit="person") == ut.PureDP(2.0, unit="person")
    several = context(dp.unit_of(contributions=3), dp.loss_of(epsilon=1.0))
    assert from_opendp(several) == ut.PureDP(1.0)  # three contain one removed and one added
    assert from_opendp(several, unit="person") == ut.PureDP(2.0, unit="person")
    rough = context(dp.unit_of(contributions=1), dp.loss_of(rho=0.1))
    assert from_opendp(rough) == ut.ZCDP(0.1, neighbours="add-remove")
    assert from_opendp(rough, "person") == ut.ZCDP(0.1, unit="person", neighbours="add-remove")
    both = context(dp.unit_of(contributions=2), dp.loss_of(epsilon=1.0, delta=1e-6))
    assert from_opendp(both) == ut.ApproximateDP(1.0, 1e-6)
    with pytest.raises(NotSupported, match="contributes"):
        from_opendp(pure.query().count().laplace(), unit="person")
    with pytest.raises(InvalidInput, match="a Context or one of its queries"):
        from_opendp("laplace")


# --- Tumult in ------------------------------------------------------------------------------------


@dataclass
class PureDPBudget:
    epsilon: float


@dataclass
class ApproxDPBudget:
    epsilon: float
    delta: float


@dataclass
class RhoZCDPBudget:
    rho: float


@dataclass
class AddOneRow:
    pass


@dataclass
class AddMaxRows:
    max_rows: int


@dataclass
class AddRowsWithID:
    id_column: str = "id"


def test_budgets_of_tumult():
    just = from_tumult(PureDPBudget(0.5), AddOneRow())
    assert 1.0 <= just.level_upper() <= 1.0 + 1e-15
    assert from_tumult(PureDPBudget(0.5)) == just
    assert from_tumult(ApproxDPBudget(0.5, 0), AddMaxRows(3)) == just
    person = from_tumult(PureDPBudget(0.5), AddRowsWithID(), unit="person")
    assert (person.unit, person.level_upper()) == ("person", just.level_upper())
    rough = from_tumult(RhoZCDPBudget(0.1), AddRowsWithID)
    assert (rough.neighbours, rough.unit) == ("add-remove", "record")
    assert 0.1 <= rough.rho <= 0.1 + 1e-15
    both = from_tumult(ApproxDPBudget(1.0, 1e-6), AddMaxRows(3), unit="person")
    assert both.one_step().delta(1.0 + 1e-12) >= 1e-6
    assert both.curve().delta(1.5) > 1e-6  # one replaced is twice as much
    with pytest.raises(InvalidInput, match="AddRowsWithID or AddMaxRows"):
        from_tumult(PureDPBudget(0.5), AddOneRow(), unit="person")
    with pytest.raises(InvalidInput, match="found 'AddTable'"):
        from_tumult(PureDPBudget(0.5), "AddTable")
    with pytest.raises(InvalidInput, match="found float"):
        from_tumult(0.5)
    with pytest.raises(InvalidInput, match="without its numbers"):
        from_tumult(PureDPBudget)


def test_the_command_line_says_which_neighbours_it_assumed():
    asked = ["leakage", "--transition", ROWS, "--epsilon", 1]
    told = call_json(*asked)
    assert (told["neighbours"], told["neighbours_assumed"]) == ("replace", True)
    assert told["upper"] == pytest.approx(3.474873, abs=1e-6)
    told = call_json(*asked, "--neighbours", "add-remove")
    assert (told["neighbours"], told["neighbours_assumed"]) == ("add-remove", False)
    assert told["upper"] == pytest.approx(5.430934, abs=1e-6)
    words = " ".join(call(*asked).stdout.split())
    assert "was taken to be for one record replaced" in words
    assert "--neighbours add-remove" in words


# --- OpenDP out -----------------------------------------------------------------------------------


FIXED = ut.MarkovChain(P, (0, 1), length=100)
GAUSSIAN: Any = ut.Gaussian(ut.Count("active"), 9.0)
OUT = [
    (ut.Count("active"), CHAIN),
    (ut.Histogram(), CHAIN),
    (ut.Transitions(), CHAIN),
    (ut.Sum(0, 10, {"inactive": 1, "active": 8}), CHAIN),
    (ut.Mean(0, 1), FIXED),
]


def test_gaussian_noise_is_a_measurement_of_the_same_rho():
    for query in (ut.Count("active"), ut.Histogram()):
        noise = ut.DiscreteGaussian(query, sigma=7.3)
        found = to_opendp(noise, CHAIN.states)
        assert found.map(1) == pytest.approx(noise.rho_upper(), rel=1e-12)
        assert from_opendp(found) == ut.ZCDP(found.map(1))


@pytest.mark.parametrize(("query", "model"), OUT)
def test_a_plan_is_a_measurement_of_the_same_level(query, model):
    plan = ut.calibrate(query, model, 1.0, method="exchange")
    found = plan_to_opendp(plan)
    assert str(found.input_metric) == "ChangeOneDistance()"
    assert found.map(1) == pytest.approx(plan.dp_epsilon, rel=1e-12)
    assert from_opendp(found) == ut.PureDP(found.map(1))
    records = list(model.states) * 50
    answer = found(records)
    here = ut.release(plan, records).value
    assert type(answer) is type(here)


def test_its_noise_has_the_law_of_the_plan():
    """Null: discrete Laplace noise of the plan's scale; 5,000 draws, false alarms below 1e-9."""
    plan = ut.calibrate(ut.Count("active"), CHAIN, 1.0)
    found, records = plan_to_opendp(plan), ["inactive", "active", "unknown"] * 10
    noise = [found(records) - 10 for _ in range(5000)]

    assert laplace_p_value(noise, plan.noise.scale) > 1e-9
    for factor in (0.7, 1.3):
        assert laplace_p_value(noise, factor * plan.noise.scale) < 1e-9


def test_what_has_no_measurement_says_why():
    three = ut.MarkovChain([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]], ("a", "b", "c"))
    refusals = [
        (ut.calibrate(ut.TopK(1), CHAIN, 1.0), "another level"),
        (replace(ut.calibrate(ut.Count("active"), CHAIN, 1.0),
                 mechanism=GAUSSIAN), "discrete-gaussian"),
        (ut.calibrate(ut.Histogram(), three, 1.0, missing="a"), "public sum"),
        (ut.calibrate(ut.Histogram(), CHAIN, 1.0, missing="active"), "public sum"),
        (ut.calibrate(ut.Sum(-1, 1, {"inactive": 0, "active": 1}), CHAIN, 1.0), "a length"),
        (ut.calibrate(ut.Linear([1.0, 2.0], 3.0, lower=0.0),
                      ut.MarkovChain(P, (0, 1), length=2), 1.0), "weighted sum"),
        (ut.calibrate(ut.Query(max), FIXED, 1.0, method="exchange"), "lattice"),
        (ut.calibrate(ut.Histogram(), ut.MarkovChain(P, ("on", 1)), 1.0), "all texts"),
        (ut.calibrate(ut.Series(), CHAIN, 2.0), "sanitize"),
    ]  # fmt: skip
    for plan, reason in refusals:
        with pytest.raises(NotSupported, match=reason):
            plan_to_opendp(plan)
    plan = ut.calibrate(ut.Count("active"), CHAIN, 1.0)
    dp.disable_features("honest-but-curious")
    with pytest.raises(NotSupported, match="enable_features"):
        plan_to_opendp(plan)
    assert math.isclose(plan.rho, plan.dp_epsilon**2 / 2, rel_tol=1e-12)


def test_without_opendp_plans_and_reports_work_and_the_rest_names_the_extra(monkeypatch):
    measurement = dp.t.make_count(INTEGERS, dp.symmetric_distance()) >> dp.m.then_laplace(scale=4.0)
    plan = ut.calibrate(ut.Count("active"), CHAIN, limit=1.0)
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    report = ut.release(plan, ["active", "inactive"] * 20).report()
    assert "opendp" not in (report.text() + report.html() + report.to_json()).lower()
    for use in (lambda: from_opendp(measurement), lambda: plan_to_opendp(plan)):
        with pytest.raises(NotSupported, match=r"pip install 'undertow\[opendp\]'$"):
            use()
