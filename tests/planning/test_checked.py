"""A plan carries the checks of its model, and what each failure costs it."""

import pytest

import undertow as ut
from tests.accepting import broken
from undertow import diagnostics
from undertow.models.fitting.checks import Check
from undertow.models.second_order import SecondOrderChain
from undertow.planning.acceptance import joint_mechanism

LONGER = SecondOrderChain([[[0.95, 0.05], [0.5, 0.5]], [[0.6, 0.4], [0.05, 0.95]]])
LIVELY = ut.MarkovChain([[0.7, 0.3], [0.4, 0.6]])
STICKY = ut.MarkovChain([[0.88, 0.12], [0.2, 0.8]])


def of(plan, name):
    return next(check for check in plan.checks if check.name == name)


@pytest.fixture(scope="module")
def drifting():
    series = LIVELY.simulate(3000, seed=1) + STICKY.simulate(3000, seed=2)
    return ut.MarkovChain.fit(series, public=True)


def test_a_failure_costs_what_the_plan_leaks_under_the_alternative(drifting):
    plan = ut.calibrate(ut.Count(1), drifting, limit=1.0, accept=broken(drifting))
    time = of(plan, "time")
    truth = ut.leakage(plan.mechanism, time.alternative)
    level = ut.leakage(ut.PureDP(plan.mechanism.level_upper()), time.alternative)
    assert time.leakage == (0.0, level.upper)
    assert 1.0 < truth.lower <= level.upper  # the sticky half leaks more than is allowed
    assert "this plan leaks at most" in time.summary()
    assert of(plan, "hours").leakage is None
    assert "checked    time: failed" in str(plan)


def test_longer_memory_is_priced_by_attack_and_bound():
    chain = ut.MarkovChain.fit(LONGER.simulate(8000, seed=1), public=True)
    order = of(ut.calibrate(ut.Series(), chain, limit=2.0, accept=broken(chain)), "order")
    assert order.leakage[0] > 2.0
    assert order.leakage[1] > order.leakage[0]


def test_a_plan_file_keeps_its_checks(drifting):
    plan = ut.calibrate(ut.Count(1), drifting, limit=1.0, accept=broken(drifting))
    again = ut.Plan.from_json(plan.to_json())
    assert again == plan
    assert again.checks == plan.checks
    cases = [case.name for case in diagnostics.robustness(again, factors=())]
    assert "check: time" in cases


def test_a_stated_model_has_none():
    plan = ut.calibrate(ut.Count(1), LIVELY, limit=1.0)
    assert plan.checks == ()
    assert '"checks"' not in plan.to_json()


@pytest.mark.parametrize("asked", [{"releases": 4}, {"delta": 1e-6, "noise": "gaussian"}])
def test_several_releases_are_priced_together(drifting, asked):
    method = "closed" if "delta" in asked else "best"
    plan = ut.calibrate(
        ut.Count(1), drifting, limit=1.0, method=method, accept=broken(drifting), **asked
    )
    time = of(plan, "time")
    assert time.leakage[1] > 1.0
    if "releases" in asked:  # the level of all of them, not the count of one
        assert joint_mechanism(plan).epsilon >= 4 * plan.dp_epsilon
        assert time.leakage[1] == ut.leakage(joint_mechanism(plan), time.alternative).upper
    else:  # by the closed exchange, of the worse half
        worse = max(
            ut.calibrate(
                ut.Count(1), half, time.leakage[1], method="closed", **asked
            ).mechanism.sigma
            for half in time.alternative.models
        )
        assert worse == pytest.approx(plan.mechanism.sigma, rel=1e-6)


def test_gaussian_releases_together_have_all_their_mu():
    plan = ut.calibrate(ut.Count(1), LIVELY, 1.0, method="closed", delta=1e-6, releases=9)
    assert joint_mechanism(plan).mu == pytest.approx(3 / plan.mechanism.sigma)
    plan = ut.calibrate(
        ut.Count(1), LIVELY, 1.0, method="closed", delta=1e-6, releases=9,
        noise="discrete-gaussian",
    )  # fmt: skip
    assert joint_mechanism(plan).rho == pytest.approx(9 * plan.mechanism.rho_upper(None))


def test_sets_and_other_fits_say_what_they_were_fitted_to(drifting):
    """No model that was fitted passes for one that was stated."""
    calm = ut.MarkovChain.fit(LIVELY.simulate(3000, seed=3), public=True)
    either = ut.ModelSet([calm, drifting])
    both = ut.calibrate(ut.Count(1), either, limit=1.0, accept=broken(either))
    assert of(both, "time").outcome == "failed"  # of one of them
    series = LIVELY.simulate(400, seed=1)
    with pytest.warns(UserWarning, match="disclosure"):
        day = ut.MarkovChain.fit_by_context(series, ["day", "night"] * 200)
    with pytest.warns(UserWarning, match="disclosure"):
        longer = SecondOrderChain.fit(series, prior=1.0)
    with pytest.warns(UserWarning, match="disclosure"):
        heights = ut.MultivariateGaussian.fit([[1, 2.1], [2, 3.9], [3, 6.2], [4, 7.7]])
    for model in (day.periodic(length=24), day.over(["day"] * 9), longer, heights):
        assert {check.basis for check in model.checks} == {"not private"}
        tested = {check.name for check in model.checks if check.outcome != "not tested"}
        assert tested <= ({"sample", "memory", "time"} if model is longer else set())


def test_a_person_plan_needs_no_price(drifting):
    series = LIVELY.simulate(300, seed=1) + STICKY.simulate(300, seed=2)
    chain = ut.MarkovChain.fit(series, length=600, public=True)
    plan = ut.calibrate(ut.Count(1), chain, limit=1.0, secret=ut.Person())
    assert plan.checks
    assert all(check.leakage is None for check in plan.checks)


def test_an_alternative_without_a_bound_stays_without_a_price():
    other = ut.Groups(3)
    check = Check("made up", "failed", "for the test", "public", other)
    chain = LIVELY.with_checks([check])
    plan = ut.calibrate(ut.Series(), chain, limit=2.0, accept=["made up"])
    priced = of(plan, "made up").leakage
    assert priced is None or priced[0] <= priced[1]


def test_a_comparison_says_what_was_checked(drifting):
    table = ut.compare(ut.Count(1), drifting, 1.0, methods=["exchange", "group"])
    assert [check.name for check in table.checks][:2] == ["sample", "order"]
    assert any(check.leakage for check in table.checks)
    assert "checked: time: failed" in str(table)
    assert table.to_dict()["checks"][0]["name"] == "sample"


def test_a_report_cannot_be_without_them(drifting):
    out = ut.release(
        ut.calibrate(ut.Count(1), drifting, limit=1.0, accept=broken(drifting)), [0, 1] * 50
    )
    text = out.report().text()
    assert "Checks of the model" in text
    assert "failed: the first half of the records moves otherwise" in text
    assert "this plan leaks at most" in " ".join(text.split())
    assert "computed from public records" in text
    found = {one["name"]: one for one in out.report().to_dict()["checks"]}
    assert found["time"]["outcome"] == "failed"
    assert found["time"]["leakage"][1] > 1.0
    stated = ut.release(ut.calibrate(ut.Count(1), LIVELY, limit=1.0), [0, 1] * 50)
    text = " ".join(stated.report().text().split())
    assert "nothing: a model that is stated, not fitted, has no checks" in text
