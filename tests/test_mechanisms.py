"""Descriptions of randomisation, and what is taken over from OpenDP."""

import math

import numpy as np
import opendp.prelude as dp
import pytest

import undertow as ut
from undertow.errors import InvalidInput, NotSupported
from undertow.integrations import from_opendp
from undertow.mechanisms import MetricDP

dp.enable_features("contrib")

QUERIES = [
    ut.Count("a"),
    ut.Histogram(),
    ut.Sum(0, 3),
    ut.Mean(0, 3),
    ut.Linear(np.array([1.0, -2.0]), spread=2),
    ut.Query(len),
]
NOISES = [ut.Laplace, ut.DiscreteLaplace]


# --- any epsilon-DP algorithm ---------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, None, "half"])
def test_bad_levels_are_refused(epsilon):
    with pytest.raises(InvalidInput, match="epsilon must be"):
        ut.PureDP(epsilon)


@pytest.mark.parametrize("unit", ["persons", "", None, 1])
def test_bad_units_are_refused(unit):
    with pytest.raises(InvalidInput, match="unit must be 'record' or 'person'"):
        ut.PureDP(1.0, unit=unit)


# --- d-privacy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, None, "half"])
def test_bad_rates_and_spreads_are_refused(value):
    with pytest.raises(InvalidInput, match="rate must be"):
        MetricDP(value)
    with pytest.raises(InvalidInput, match="spread must be"):
        MetricDP(1.0).dp_epsilon(value)


# --- noise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "length", "sensitivity"),
    list(zip(QUERIES, [None, None, None, 6, None, None], [1, 2, 3, 0.5, 4, 1], strict=True)),
    ids=lambda value: type(value).__name__ if not isinstance(value, int | float) else None,
)
def test_levels_are_sensitivity_over_scale(query, length, sensitivity):
    noise = ut.Laplace(query, scale=4)
    assert noise.scale == 4.0
    assert noise.dp_epsilon(length) == sensitivity / 4
    assert noise.level_upper(length) > sensitivity / 4
    assert noise.level_upper(length) == pytest.approx(sensitivity / 4, rel=1e-14)
    assert ut.PureDP(0.3).level_upper() == 0.3


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scale", [0, -2.0, math.inf, math.nan, None, "wide"])
def test_bad_scales_are_refused(noise, scale):
    with pytest.raises(InvalidInput, match="noise scale must be"):
        noise(ut.Count("a"), scale)


@pytest.mark.parametrize("query", QUERIES[2:], ids=lambda query: type(query).__name__)
def test_discrete_noise_needs_whole_numbers(query):
    with pytest.raises(InvalidInput, match=f"{type(query).__name__} is real, use Laplace"):
        ut.DiscreteLaplace(query, 4.0)


# --- OpenDP ---------------------------------------------------------------------------------------


def integers(size=None, bounds=None):
    return dp.vector_domain(dp.atom_domain(T=int, bounds=bounds), size=size)


def noisy_count(noise=None):
    query = dp.t.make_count(integers(), dp.symmetric_distance())
    return query >> (noise or dp.m.then_laplace(scale=4.0))


def test_a_replaced_record_is_two_steps_of_the_symmetric_distance():
    measurement = noisy_count()
    assert measurement.map(1) == 0.25
    assert ut.PureDP.from_opendp(measurement) == ut.PureDP(0.5)


def test_a_replaced_record_is_two_steps_of_insert_delete():
    ordered = dp.t.make_unordered(integers(), dp.insert_delete_distance())
    measurement = ordered >> dp.t.then_count() >> dp.m.then_laplace(scale=4.0)
    assert str(measurement.input_metric).startswith("InsertDelete")
    assert ut.PureDP.from_opendp(measurement) == ut.PureDP(0.5)


@pytest.mark.parametrize("metric", [dp.change_one_distance(), dp.hamming_distance()], ids=str)
def test_a_replaced_record_is_one_change(metric):
    bounded = dp.t.make_metric_unbounded(integers(size=10, bounds=(0, 3)), metric)
    measurement = bounded >> dp.t.then_sum() >> dp.m.then_laplace(scale=6.0)
    assert measurement.map(1) == pytest.approx(0.5, rel=1e-12)  # a sum moves by 3
    found = ut.PureDP.from_opendp(measurement)
    assert found.epsilon == measurement.map(1)
    assert found.unit == "record"


def test_compositions_and_geometric_noise_are_pure():
    assert ut.PureDP.from_opendp(noisy_count(dp.m.then_geometric(scale=4.0))).epsilon == 0.5
    both = dp.c.make_composition([noisy_count(), noisy_count()])
    assert ut.PureDP.from_opendp(both).epsilon == pytest.approx(1.0, rel=1e-12)


def test_the_level_is_what_the_exchange_takes():
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
    budget = ut.dp_budget(chain, limit=1.0)
    measurement = noisy_count(dp.m.then_laplace(scale=2.0000001 / budget))
    assert ut.leakage(ut.PureDP.from_opendp(measurement), chain).proves(1.0)
    bolder = noisy_count(dp.m.then_laplace(scale=1.9 / budget))
    assert not ut.leakage(ut.PureDP.from_opendp(bolder), chain).proves(1.0)


def gaussian():
    return noisy_count(dp.m.then_gaussian(scale=4.0))


NOT_PURE = {
    "ZeroConcentratedDivergence": gaussian,
    "SmoothedMaxDivergence": lambda: dp.c.make_zCDP_to_approxDP(gaussian()),
    r"Approximate\(MaxDivergence\)": lambda: dp.c.make_fix_delta(
        dp.c.make_zCDP_to_approxDP(gaussian()), 1e-6
    ),
    "not pure": lambda: dp.c.make_approximate(noisy_count()),
    "from_opendp": lambda: dp.c.make_pureDP_to_zCDP(noisy_count()),
}


@pytest.mark.parametrize("reason", NOT_PURE)
def test_weaker_guarantees_are_refused(reason):
    with pytest.raises(NotSupported, match=reason):
        ut.PureDP.from_opendp(NOT_PURE[reason]())


def test_guarantees_of_every_kind_are_read():
    """Adding and removing are composed: (2e, d (1 + e^e)), never (2e, 2d)."""
    zcdp = from_opendp(gaussian())
    assert (zcdp.rho, zcdp.neighbours) == (0.03125, "add-remove")
    # two steps of Gaussian noise are one of twice the mu, and group zCDP says 4 rho at most
    for epsilon in (0.5, 1.0, 3.0):
        assert zcdp.curve().delta(epsilon) <= ut.ZCDP(4 * 0.03125).curve().delta(epsilon) * 1.001
        assert zcdp.curve().delta(epsilon) >= ut.GDP(0.5).curve().delta(epsilon)
    profile = from_opendp(dp.c.make_zCDP_to_approxDP(gaussian()))
    assert isinstance(profile, ut.Profile)
    assert profile.curve().delta(2.0) < 1e-2
    point = from_opendp(dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian()), 1e-6))
    level = point.epsilon
    assert point.curve().delta(2.0001 * level) == pytest.approx(
        1e-6 * (1 + math.exp(level)), rel=1e-3
    )
    both = from_opendp(dp.c.make_approximate(gaussian()))
    assert both.curve().delta(2.0) == pytest.approx(zcdp.curve().delta(2.0), rel=1e-9)
    assert from_opendp(noisy_count()) == ut.PureDP.from_opendp(noisy_count())


class Losses:
    """A privacy loss distribution, as accountants have it: that of Gaussian noise."""

    def get_delta_for_epsilon(self, epsilon):
        return ut.GDP(0.3).curve().delta(epsilon)


def test_an_accountant_is_read():
    chain = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], length=3)
    accountant, noise = ut.Profile(Losses()), ut.GDP(0.3)
    assert accountant.curve().delta(1.0) == noise.curve().delta(1.0)
    # a curve known by its function goes through tangents, a Gaussian one does not
    found = ut.leakage(accountant, chain, delta=1e-4).upper
    assert found >= ut.leakage(noise, chain, delta=1e-4).upper * (1 - 1e-3)
    assert found <= ut.leakage(noise, chain, delta=1e-4).upper * 1.05


def test_a_library_that_is_asked_for_the_budget_keeps_the_limit():
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
    budget = ut.dp_budget(chain, limit=1.0, delta=1e-6)
    measurement = noisy_count(dp.m.then_gaussian(scale=2.0000001 * budget.sigma))
    asked = from_opendp(measurement)
    leak = ut.leakage(ut.GDP(math.sqrt(2 * asked.rho), neighbours="add-remove"), chain, delta=1e-6)
    assert leak.upper <= 1.0


SCALARS = {
    "AbsoluteDistance": lambda: dp.m.make_laplace(
        dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=4.0
    ),
    "L1Distance": lambda: dp.m.make_laplace(integers(), dp.l1_distance(T=int), scale=4.0),
    "DiscreteDistance": lambda: dp.m.make_randomized_response_bool(prob=0.75),
}


@pytest.mark.parametrize("metric", SCALARS)
def test_metrics_that_know_no_records_are_refused(metric):
    with pytest.raises(NotSupported, match=rf"{metric}.* does not say what a replaced record is"):
        ut.PureDP.from_opendp(SCALARS[metric]())


@pytest.mark.parametrize(
    "thing",
    [None, "measurement", 0.5, noisy_count, dp.t.make_count(integers(), dp.symmetric_distance())],
    ids=["none", "string", "number", "function", "transformation"],
)
def test_what_is_not_a_measurement_is_refused(thing):
    with pytest.raises(InvalidInput, match="an OpenDP Measurement, a Context or"):
        ut.PureDP.from_opendp(thing)


def test_persons_must_be_mapped_by_the_caller():
    with pytest.raises(NotSupported, match=r"PureDP\(measurement\.map\(d_in\), unit='person'\)"):
        ut.PureDP.from_opendp(noisy_count(), unit="person")
    assert ut.PureDP(noisy_count().map(6), unit="person").epsilon == 1.5


def test_a_measurement_without_noise_is_refused():
    with pytest.raises(InvalidInput, match="positive and finite, found inf"):
        ut.PureDP.from_opendp(noisy_count(dp.m.then_laplace(scale=0.0)))
