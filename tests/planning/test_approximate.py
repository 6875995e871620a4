"""Plans with a delta: reference numbers, and that every plan is proved again from its noise."""

import math
from dataclasses import replace
from typing import Any

import pytest

import undertow as ut
from undertow.errors import InvalidInput, InvalidPlan, MethodRefused
from undertow.planning.coverage import check_proof

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
ACTIVE = ut.Count("active")


def hearts(q, r):
    return ut.MarkovChain([[1 - q, q], [r, 1 - r]])


def test_the_budget_for_a_library():
    budget = ut.dp_budget(CHAIN, limit=1.0, delta=1e-6)
    assert budget.epsilon == pytest.approx(0.25032578764, abs=1e-10)
    assert budget.delta == pytest.approx(1.655396686e-7, rel=1e-8)
    assert budget.sigma == pytest.approx(16.9133455890, rel=1e-9)
    assert budget.rho == pytest.approx(0.00152022137, rel=1e-8)
    ignorant = ut.dp_budget(CHAIN, limit=1.0, against="ignorant", delta=1e-6)
    assert ignorant.epsilon == pytest.approx(0.25048707011, abs=1e-10)
    assert ignorant.delta == pytest.approx(1.656602396e-7, rel=1e-8)
    assert ignorant.sigma == pytest.approx(16.9024523310, rel=1e-9)
    assert ignorant.rho == pytest.approx(0.00152218144, rel=1e-8)


@pytest.mark.parametrize(
    ("chain", "sigma"),
    [pytest.param(hearts(0.238402, 0.383117), 9.51944576, id="N5")],
)
def test_closed_noise_on_heart_rates(chain, sigma):
    plan = ut.calibrate(ut.Count(1), chain, limit=1.0, delta=1e-6, method="closed")
    assert plan.mechanism.sigma == pytest.approx(sigma, rel=1e-3)  # printed with few digits
    assert check_proof(plan).proves(1.0)


@pytest.mark.soak
def test_the_sweep_lies_between():
    plan = ut.calibrate(ACTIVE, CHAIN, 1.0, delta=1e-6, method="sweep")
    assert 16.50 < plan.mechanism.sigma < 16.59
    assert plan.leakage.valid_for == "any"
    assert check_proof(plan).proves(1.0)


def test_noise_for_one_of_several_releases_is_not_enough_for_all():
    plan = ut.calibrate(ACTIVE, CHAIN, 1.0, delta=1e-6, method="closed")
    with pytest.raises(InvalidPlan, match="leaks up to"):
        check_proof(replace(plan, releases=2))
    with pytest.raises(InvalidPlan, match="leaks up to"):
        check_proof(replace(plan, mechanism=plan.mechanism.with_amount(16.9)))


def test_queries_of_every_kind_have_gaussian_noise():
    base = ut.calibrate(ACTIVE, CHAIN, 1.0, delta=1e-6, method="closed").mechanism.sigma
    kinds: dict[Any, float] = {
        ut.Histogram(): math.sqrt(2),
        ut.Sum(0, 10, dict(zip(CHAIN.states, (0, 10), strict=True))): 10.0,
        ut.Query(len, sensitivity=3.0): 3.0,
    }
    for query, moved in kinds.items():
        plan = ut.calibrate(query, CHAIN, 1.0, delta=1e-6, method="closed")
        assert plan.mechanism.sigma == pytest.approx(moved * base, rel=1e-9)
    finite = ut.MarkovChain(CHAIN.transition, (0, 1), length=50)
    mean = ut.calibrate(ut.Mean(0, 10, {0: 0, 1: 10}), finite, 1.0, delta=1e-6, method="closed")
    assert mean.mechanism.sigma == pytest.approx(10 / 50 * base, rel=1e-6)


def test_discrete_gaussian_noise_is_proved_by_its_own_curve():
    plan = ut.calibrate(ACTIVE, CHAIN, 1.0, delta=1e-6, noise="discrete-gaussian")
    assert plan.mechanism.kind == "discrete-gaussian"
    assert plan.method == "closed"
    assert check_proof(plan).proves(1.0)
    same = ut.calibrate(ACTIVE, CHAIN, 1.0, delta=1e-6, noise="gaussian", method="closed")
    assert plan.mechanism.sigma == pytest.approx(same.mechanism.sigma, rel=2e-3)


def test_gaussian_records_are_exact():
    """Section 8 of the theory: a family, M = 20, sigma = 60."""
    from undertow.bounds.curves.leakages import record_mu
    from undertow.bounds.gaussian.leakages import statistic_of

    model = ut.MultivariateGaussian(0, [[1, 0.9, 0], [0.9, 1, 0.3], [0, 0.3, 1]])
    noise = ut.Gaussian(ut.Linear([1, 1, 1], spread=1.0), sigma=3.0)
    found = record_mu(statistic_of(noise.query, model, "any"), noise, model, "any")
    # by hand, record 1 given record 0: c = 2.578947..., nothing of it is left to hide
    c = 1 + 0.3 / (1 - 0.81)
    rest = 1 - 0.09 / (1 - 0.81)
    assert found.upper == pytest.approx(c / math.sqrt(9 + rest), rel=1e-8)
    plan = ut.calibrate(
        ut.Linear([1, 1, 1], spread=1.0), model, 1.0, delta=1e-6, noise="gaussian", missing="none"
    )
    assert plan.method == "exact"
    assert plan.leakage.upper <= 1.0
    looser = ut.leakage(plan.mechanism, model, delta=1e-6)
    assert looser.upper == pytest.approx(plan.leakage.upper, rel=1e-9)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"noise": "gaussian"}, "at delta 0"),
        ({"method": "closed"}, "needs a delta"),
        ({"delta": 1e-6, "noise": "gaussian", "method": "quilt"}, "knows no gaussian noise"),
        ({"delta": 1e-6, "releases": 3, "method": "exact"}, "about one answer"),
        (
            {"delta": 1e-6, "noise": "gaussian", "method": "exact", "against": "ignorant"},
            "two of them reveal",
        ),
    ],
)
def test_refusals_teach(more, reason):
    with pytest.raises(MethodRefused, match=reason):
        ut.calibrate(ACTIVE, CHAIN, limit=1.0, **more)


@pytest.mark.parametrize(
    "more", [{"delta": 1.0}, {"delta": -1e-6}, {"noise": "cauchy"}, {"releases": 0}]
)
def test_bad_questions_are_refused(more):
    with pytest.raises(InvalidInput):
        ut.calibrate(ACTIVE, CHAIN, limit=1.0, **more)


def test_a_series_has_no_delta():
    with pytest.raises(InvalidInput, match="leave delta out"):
        ut.calibrate(ut.Series(), CHAIN, limit=1.0, delta=1e-6)  # type: ignore[call-overload]


def test_the_words_of_a_plan_never_say_that_all_is_lost():
    plan = ut.calibrate(ACTIVE, CHAIN, 1.0, delta=1e-6, method="closed")
    said = str(plan)
    assert "more than a factor 5.44 with probability at most 2e-6" in said
    assert "sigma 16.9" in said


def test_edited_plans_with_a_delta_are_refused():
    import json

    from undertow.plan import checksum

    plan = ut.calibrate(ACTIVE, CHAIN, 1.0, delta=1e-6, method="closed")
    for change in ({"delta": 1e-5}, {"delta": 0.0}, {"releases": 0}, {"noise": "cauchy"}):
        body = {**json.loads(plan.to_json()), **change}
        body["checksum"] = checksum(body)
        with pytest.raises(InvalidPlan):
            ut.Plan.from_json(json.dumps(body))


@pytest.mark.parametrize("apart", [0.1, 1e-6, 1e-12, 1e-14])
def test_nearly_equal_gaussian_records_are_never_understated(apart):
    """Three records, two of them nearly one: solving for a conditional law loses most digits."""
    from mpmath import mp, mpf, sqrt  # type: ignore[import-untyped]

    from undertow.bounds.curves.leakages import record_mu
    from undertow.bounds.gaussian.leakages import statistic_of

    r = 1 - apart
    model = ut.MultivariateGaussian(0, [[1, r, 0.3], [r, 1, 0.3], [0.3, 0.3, 1]])
    noise = ut.Gaussian(ut.Linear([1, 1, 1], spread=1.0), sigma=0.5)
    found = record_mu(statistic_of(noise.query, model, "any"), noise, model, "any")
    mp.dps = 60
    r, s, sigma = mpf(r), mpf(0.3), mpf(0.5)
    # target 0: nothing known, record 2 known, and record 1 known (a small determinant)
    nothing = (1 + r + s) / sqrt(sigma**2 + 2 + 2 * s - (r + s) ** 2)
    beta = (r - s * s) / (1 - s * s)
    third = (1 + beta) / sqrt(sigma**2 + 1 - s * s - beta * beta * (1 - s * s))
    assert found.upper >= max(nothing, third)
    assert found.lower <= found.upper
