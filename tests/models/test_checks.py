"""What is tested of a fitted chain: each check passes where it should, and fails where not."""

from typing import Any

import numpy as np
import pytest

from undertow import MarkovChain, ModelSet
from undertow.errors import InvalidModel
from undertow.models.checking import checks_of, differ, memory
from undertow.models.checks import Check, checks_from_list
from undertow.models.registry import model_from_dict, model_to_dict
from undertow.models.second_order import SecondOrderChain
from undertow.models.sequences import encode
from undertow.models.tallies import tally

CHAIN = MarkovChain([[0.9, 0.1], [0.3, 0.7]])
STICKY = MarkovChain([[0.98, 0.02], [0.05, 0.95]])


def outcomes(chain):
    return {check.name: check.outcome for check in chain.checks}


def fitted(*series, **more):
    return MarkovChain.fit([list(one) for one in series], public=True, **more)


def test_a_true_chain_passes():
    # null: the records follow the chain; 20 fits, each check at level 0.05: more than 5 failures
    # of one check have probability below 4e-4
    seen = [outcomes(fitted(CHAIN.simulate(1500, seed=s), CHAIN.simulate(1500, seed=99 + s)))
            for s in range(20)]  # fmt: skip
    for name in ("order", "memory", "time", "persons"):
        assert sum(one[name] == "failed" for one in seen) <= 5, name
    assert all(one["sample"] == "passed" and one["hours"] == "not tested" for one in seen)


def test_a_longer_memory_fails_the_order_and_the_memory():
    longer = SecondOrderChain([[[0.95, 0.05], [0.5, 0.5]], [[0.6, 0.4], [0.05, 0.95]]])
    chain = fitted(longer.simulate(8000, seed=1))
    assert outcomes(chain)["order"] == "failed"
    order = next(check for check in chain.checks if check.name == "order")
    assert isinstance(order.alternative, SecondOrderChain)
    # a trait that lasts: two regimes of 1,000 records each, of which one is mostly active
    calm, lively = MarkovChain([[0.95, 0.05], [0.5, 0.5]]), MarkovChain([[0.5, 0.5], [0.05, 0.95]])
    series = [one for s in range(4) for c in (calm, lively) for one in c.simulate(1000, seed=s)]
    assert outcomes(fitted(series))["memory"] == "failed"


def test_a_drift_fails_the_test_of_time():
    chain = fitted(CHAIN.simulate(3000, seed=1) + STICKY.simulate(3000, seed=2))
    time = next(check for check in chain.checks if check.name == "time")
    assert time.outcome == "failed"
    assert isinstance(time.alternative, ModelSet)
    halves: list[Any] = list(time.alternative.models)
    assert np.allclose(halves[0].transition, CHAIN.transition, atol=0.04)
    assert np.allclose(halves[1].transition, STICKY.transition, atol=0.02)


def test_persons_who_differ_are_noticed():
    chain = fitted(CHAIN.simulate(2000, seed=1), STICKY.simulate(2000, seed=2))
    assert outcomes(chain)["persons"] == "failed"
    assert outcomes(fitted(CHAIN.simulate(2000, seed=1)))["persons"] == "not tested"


def test_a_small_sample_suggests_its_region():
    sample = next(c for c in fitted(CHAIN.simulate(60, seed=1)).checks if c.name == "sample")
    assert sample.outcome == "failed"
    assert sample.alternative is not None
    region = fitted(CHAIN.simulate(60, seed=1)).region()
    assert outcomes(region)["sample"] == "passed"  # the region accounts for it


def test_counts_alone_leave_most_untested():
    chain = MarkovChain.from_counts([[900, 100], [90, 210]], public=True)
    assert outcomes(chain) == {
        "sample": "passed",
        "order": "not tested",
        "memory": "not tested",
        "time": "not tested",
        "hours": "not tested",
        "persons": "not tested",
    }


def test_the_ratio_of_likelihoods_is_the_one_of_its_definition():
    tables = np.array([[[90, 10], [9, 21]], [[60, 40], [5, 25]]])
    pooled = tables.sum(axis=0)
    expected = sum(
        2 * tables[c, x, y] * np.log(tables[c, x, y] / tables[c, x].sum()
                                     / (pooled[x, y] / pooled[x].sum()))
        for c in range(2) for x in range(2) for y in range(2)
    )  # fmt: skip
    found = differ(tables)
    assert found.degrees == 2
    assert found.statistic == pytest.approx(expected)


def test_autocorrelations_are_those_of_the_series():
    series = np.array(STICKY.simulate(5000, seed=4))
    found = memory(tally(series, (0, 1)), STICKY)
    centred = series - series.mean()
    rho = [1.0] + [(centred[:-k] * centred[k:]).mean() / centred.var() for k in range(1, 300)]
    sums = 1 + 2 * np.cumsum(rho[1:])
    assert found.measured == pytest.approx(sums[found.lags - 1])
    assert found.lags >= 5 * sums[found.lags - 1] > found.lags - 10
    assert found.modelled == pytest.approx((1 + 0.93) / (1 - 0.93))  # (1 + l) / (1 - l)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_chains_own_sum_is_that_of_its_powers(size):
    rows = np.random.default_rng(size).dirichlet(np.ones(size), size)
    chain, pi = MarkovChain(rows), MarkovChain(rows).initial
    powers = chain.powers(400)
    sums = [
        1 + 2 * sum((powers[k][s, s] - pi[s]) / (1 - pi[s]) for k in range(1, 401))
        for s in range(size)
    ]
    series = chain.simulate(2000, seed=1)
    found = memory(tally(encode(series, tuple(range(size))).codes, tuple(range(size))), chain)
    assert min(abs(found.modelled - value) for value in sums) < 1e-9


def test_what_public_records_say_is_public():
    with pytest.warns(UserWarning, match="disclosure"):
        private = MarkovChain.fit(CHAIN.simulate(500, seed=1))
    assert {check.basis for check in private.checks} == {"not private"}
    assert "NOT PRIVATE" in private.checks[0].origin
    assert {check.basis for check in fitted(CHAIN.simulate(500, seed=1)).checks} == {"public"}


def test_files_keep_the_checks_of_every_model():
    chain = fitted(CHAIN.simulate(3000, seed=1) + STICKY.simulate(3000, seed=2))
    for model in (chain, chain.region(), ModelSet([CHAIN]).with_checks(chain.checks)):
        again = model_from_dict(model_to_dict(model))
        assert again.checks == model.checks
        assert again == model  # what was tested does not change what the model says
    assert "checks" not in model_to_dict(CHAIN)
    assert CHAIN.checks == ()


def test_what_is_no_check_is_refused():
    good = Check("time", "passed", "no drift").to_dict()
    for bad in (
        {**good, "outcome": "perhaps"},
        {**good, "basis": "hearsay"},
        {**good, "more": 1},
        {**good, "leakage": [1.0]},
        {**good, "leakage": [True, 2.0]},
        {**good, "alternative": {"kind": "wish"}},
        {key: value for key, value in good.items() if key != "words"},
    ):
        with pytest.raises(ValueError, match=r"check|leakage|kind|found"):
            checks_from_list([bad])
    several: list[Any] = [{}, [good] * 33]
    for wrong in several:
        with pytest.raises(InvalidModel, match="list of at most 32"):
            checks_from_list(wrong)


def test_hours_of_the_day_are_tested_where_there_are_any():
    series = np.array(CHAIN.simulate(4800, seed=5) + STICKY.simulate(4800, seed=6))
    hours = np.repeat(np.arange(24), 400)
    chain = fitted(series.tolist())
    timed = tally(series, (0, 1), hours=hours)
    object.__setattr__(chain, "tally", timed)
    found = {check.name: check.outcome for check in checks_of(chain, "public")}
    assert found["hours"] == "failed"
