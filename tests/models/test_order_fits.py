"""Chains of order two fitted to records, and orders compared."""

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

import undertow as ut
from tests.accepting import broken
from undertow import diagnostics
from undertow.errors import DisclosureWarning, InvalidInput, InvalidModel, NotSupported
from undertow.models import SecondOrderChain
from undertow.models.registry import model_from_dict, model_to_dict

TRUTH = ut.MarkovChain.second_order(
    [[[0.9, 0.1], [0.4, 0.6]], [[0.8, 0.2], [0.1, 0.9]]], ("a", "b")
)
FOLDER = Path(os.environ.get("UNDERTOW_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture(scope="module")
def series():
    return TRUTH.simulate(4000, seed=3)


def test_runs_of_three_are_counted(series):
    fitted = ut.MarkovChain.fit(series, order=2, public=True)
    joined = "".join(series)
    assert fitted.counts[0, 1, 1] == sum(joined[i : i + 3] == "abb" for i in range(len(joined)))
    assert np.abs(fitted.transition - TRUTH.transition).max() < 0.1
    assert fitted == ut.MarkovChain.second_order(fitted.transition, ("a", "b"))
    low, high = np.moveaxis(fitted.intervals(0.999), -1, 0)
    assert ((low < TRUTH.transition) & (TRUTH.transition < high)).all()


def test_what_was_checked_travels_with_the_model(series):
    fitted = ut.MarkovChain.fit(series, order=2, public=True)
    outcomes = {check.name: check.outcome for check in fitted.checks}
    assert outcomes["sample"] == outcomes["memory"] == outcomes["time"] == "passed"
    assert outcomes["order"] == outcomes["persons"] == "not tested"
    read = model_from_dict(json.loads(json.dumps(model_to_dict(fitted))))
    assert read == fitted
    assert read.checks == fitted.checks
    assert "counts" not in model_to_dict(fitted)
    assert all(check.basis == "public" for check in fitted.checks)


def test_a_memory_beyond_two_records_fails_the_check():
    slow = ut.HiddenChain([[0.99, 0.005, 0.005], [0.02, 0.5, 0.48], [0.02, 0.48, 0.5]], (0, 0, 1))
    fitted = ut.MarkovChain.fit(slow.simulate(6000, seed=4), order=2, public=True)
    (memory,) = [check for check in fitted.checks if check.name == "memory"]
    assert memory.outcome == "failed"
    assert "chain of order two" in memory.words


def test_fits_of_order_two_refuse_and_warn(series):
    with pytest.raises(InvalidModel, match="prior"):
        ut.MarkovChain.fit(list("abab"), order=2, public=True)
    assert "rest on the prior" in ut.MarkovChain.fit(
        list("abab"), order=2, prior=1.0, public=True
    ).describe()  # fmt: skip
    with pytest.raises(InvalidInput, match="order must be 1, 2 or"):
        ut.MarkovChain.fit(series, order=3, public=True)  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match="private fit is of order 1"):
        ut.MarkovChain.fit(  # type: ignore[call-overload]
            series, order=2, private=0.1, ledger=None
        )
    with pytest.raises(NotSupported, match="region"):
        ut.MarkovChain.fit(series, order=2, public=True).region()
    with pytest.warns(DisclosureWarning):
        ut.MarkovChain.fit(series, order=2)


def test_hidden_states_are_fitted_as_the_command_does():
    short = TRUTH.simulate(400, seed=5)
    fitted = ut.MarkovChain.fit(short, order="hidden", public=True)
    assert fitted == ut.HiddenChain.fit(short, attractive=True, public=True)
    assert {check.outcome for check in fitted.checks} == {"not tested"}
    assert ut.calibrate(ut.Count("a"), fitted, 2.0).leakage.upper <= 2.0
    with pytest.raises(InvalidInput, match="leave it out"):
        ut.MarkovChain.fit(short, order="hidden", prior=1.0, public=True)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def table(series):
    return diagnostics.orders(series, orders=(1, 2, 3), hidden=(), public=True)


def test_the_order_with_the_least_bic_is_the_true_one(series, table):
    assert table.best is table.plannable is table["order 2"]
    one, two, three = table
    # ln L of order one is that of its counts, given the first three records
    pairs = list(itertools.pairwise(series[2:]))
    counts = np.array([[pairs.count((x, y)) for y in "ab"] for x in "ab"])
    shares = counts / counts.sum(axis=1, keepdims=True)
    assert one.log_likelihood == pytest.approx((counts * np.log(shares)).sum())
    assert one.bic == pytest.approx(2 * np.log(4000) - 2 * one.log_likelihood)
    assert three.log_likelihood >= two.log_likelihood >= one.log_likelihood
    assert (one.parameters, two.parameters, three.parameters) == (2, 4, 8)


def test_noise_is_proved_or_said_to_be_needed(table):
    for case in table:
        low, high = case.scale
        leak = ut.leakage(ut.PureDP(1.001 / low), _asked(case), "ignorant")
        assert leak.lower > 1.0  # less noise is exceeded by an attack
        if high is not None:
            assert ut.leakage(ut.PureDP(1 / high), _asked(case), "ignorant").upper <= 1.0 + 1e-9
            assert low <= high <= 1.005 * low
    assert table["order 2"].certified
    assert "at least" in str(table) or table["order 3"].certified


def _asked(case):
    two = isinstance(case.model, SecondOrderChain)
    return ut.HiddenChain.of(case.model) if two else case.model


def test_a_plan_is_tried_under_every_order(series):
    chain = ut.MarkovChain.fit(series, public=True)
    plan = ut.calibrate(ut.Count("b"), chain, 1.0, against="ignorant", accept=broken(chain))
    table = diagnostics.orders(series, orders=(1, 2), hidden=(), plan=plan, public=True)
    assert table["order 1"].leakage.upper <= 1.001  # the first records are left out
    assert table["order 2"].leakage.lower > 1.3
    assert table.to_dict()["cases"][1]["lower"] == table["order 2"].leakage.lower


def test_counts_alone_compare_two_orders(series, table):
    chain = ut.MarkovChain.fit(series, public=True)
    found = diagnostics.orders(chain, public=True)
    assert [case.name for case in found] == ["order 1", "order 2"]
    # the first two records are given, not the first three
    assert [c.bic for c in found] == pytest.approx([c.bic for c in [*table][:2]], abs=5)
    assert "pieces" in found.notes[0]
    counts = ut.MarkovChain.from_counts([[8, 2], [3, 7]], public=True)
    with pytest.raises(NotSupported, match="pass the records"):
        diagnostics.orders(counts, public=True)


def test_comparisons_refuse_and_warn(series):
    with pytest.raises(InvalidInput, match="orders from 1"):
        diagnostics.orders(series, orders=(9,), public=True)
    with pytest.raises(InvalidInput, match="plan must be a Plan"):
        diagnostics.orders(series, plan="plan", public=True)  # type: ignore[arg-type]
    with pytest.warns(DisclosureWarning):
        diagnostics.orders(series[:300], orders=(1,), hidden=())


def test_activity_has_the_orders_that_were_measured():
    path = FOLDER / "activity" / "activity.csv.gz"
    if not path.is_file():
        pytest.skip("no activity data")
    data = ut.Data(path, value="steps", state="steps > 0")
    table = diagnostics.orders(data, starts=4, public=True)
    measured = [13215, 12739, 12497, 12408, 12156, 12197]  # missing records split the series
    assert [case.bic for case in table] == pytest.approx(measured, abs=3)
    low = [case.scale[0] for case in table if case.scale is not None]
    assert low[:4] == pytest.approx([4.00, 5.67, 7.54, 9.27], abs=0.01)
    assert 12 < low[4] < 13.5
    assert 11 < low[5] < 13.5
    assert [case.certified for case in table] == [True, True, False, False, True, True]
    assert table.best.name == "2 hidden per state"
    assert table.plannable.name == "2 hidden, attractive"
