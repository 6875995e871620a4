"""What is tested of a fitted chain: each check passes where it should, and fails where not."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from undertow import MarkovChain, ModelSet
from undertow.errors import InvalidModel
from undertow.models.fitting.checks import NAMES, Check, checks_from_list
from undertow.models.fitting.hypotheses import (
    DOUBT,
    MATTERS,
    POWER,
    Difference,
    Hypothesis,
    checks_of,
    decide,
    differ,
)
from undertow.models.fitting.tally import tally
from undertow.models.registry import model_from_dict, model_to_dict
from undertow.models.second_order import SecondOrderChain

CHAIN = MarkovChain([[0.9, 0.1], [0.3, 0.7]])
STICKY = MarkovChain([[0.98, 0.02], [0.05, 0.95]])


def outcomes(chain):
    return {check.name: check.outcome for check in chain.checks}


def fitted(*series, **more):
    return MarkovChain.fit([list(one) for one in series], public=True, **more)


def true_chains(number, seed):
    """Draw chains of order one of varied shape, and one to three series of varied length each."""
    randomness = np.random.default_rng(seed)
    for place in range(number):
        size = 2 + place % 3
        rows = 0.97 * randomness.dirichlet(np.full(size, randomness.choice([0.5, 1, 3])), size)
        rows += 0.03 / size
        if place % 2:  # one that lasts
            rows = 0.7 * rows + 0.3 * np.eye(size)
        chain, length = MarkovChain(rows), (300, 1500, 3000)[(place // 3) % 3]
        yield [chain.simulate(length, seed=10_000 * seed + 10 * place + j)
               for j in range(1 + place % 4)]  # fmt: skip


def failures(number, seed):
    """Return how many fits of true chains fail some check, and how often each does."""
    by_name, together = dict.fromkeys(NAMES, 0), 0
    for series in true_chains(number, seed):
        failed = [n for n, outcome in outcomes(fitted(*series)).items() if outcome == "failed"]
        together += bool(failed)
        for name in failed:
            by_name[name] += 1
    return together, by_name


def test_all_checks_together_fail_a_true_chain_in_one_fit_of_twenty():
    """Null: some check fails with probability 5%; 240 true chains; false alarms below 1e-3."""
    together, by_name = failures(240, seed=1)
    assert together <= stats.binom.isf(1e-3, 240, DOUBT), by_name
    assert by_name["sample"] == 0


def test_the_power_is_that_of_a_departure_that_matters():
    # halves whose odds of staying are MATTERS times those of the chain, and as many times smaller
    tilted = []
    for factor in (MATTERS, 1 / MATTERS):
        stay = np.diag(CHAIN.transition) * factor
        stay = stay / (stay + 1 - np.diag(CHAIN.transition))
        tilted.append(MarkovChain([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]]))
    level, seen, said = DOUBT / 4, 0, []
    for seed in range(60):
        halves = [one.simulate(600, seed=7 * seed + at) for at, one in enumerate(tilted)]
        test = differ(fitted(halves[0] + halves[1]).tally.halves)
        seen += test.p_value < level
        said.append(test.power(level))
    power = float(np.mean(said))
    assert 0.3 < power < 0.99
    assert abs(seen / 60 - power) < 0.2  # four standard errors


def test_few_records_pass_nothing():
    chain = fitted(CHAIN.simulate(150, seed=3), CHAIN.simulate(150, seed=4))
    found = {check.name: check for check in chain.checks}
    for name in ("order", "time", "persons"):
        assert found[name].outcome == "not tested"
        assert "too few to tell" in found[name].words
        assert found[name].p_value is not None
    many = fitted(CHAIN.simulate(3000, seed=3), CHAIN.simulate(3000, seed=4))
    assert all(outcomes(many)[name] == "passed" for name in ("order", "memory", "time", "persons"))


def test_failures_are_decided_together():
    # 0.02 by itself fails; among four it does not, and after a smaller one it does
    def test(name, p_value):
        return Hypothesis(name, Difference(9.0, 1, p_value, departure=99.0))

    def outcome(*values):
        return [c.outcome for c in decide([test(str(v), v) for v in values], "public")]

    assert outcome(0.02) == ["failed"]
    assert outcome(0.02, 0.5, 0.5, 0.5) == ["passed"] * 4
    assert outcome(0.02, 1e-6, 0.5) == ["failed", "failed", "passed"]
    assert outcome(0.012, 0.012, 0.012, 0.012) == ["failed"] * 4
    assert POWER == 0.8


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


def test_a_small_sample_is_no_failure_and_the_region_accounts_for_it():
    chain = fitted(CHAIN.simulate(60, seed=1))
    assert outcomes(chain)["sample"] == "not tested"
    assert outcomes(chain.region())["sample"] == "passed"


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
