"""The sweep of chains: every adversary, reference numbers, laws."""

import math

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st

from tests.bounds.approximate.sweep_programs import (
    ACTIVITY,
    APPROXIMATE,
    PROFILE,
    PURE,
    P,
    judge_chain,
    judge_one_side,
    judge_two_sides,
)
from tests.grids import law
from tests.strategies import laws
from undertow import MarkovChain
from undertow.bounds.curves.sweep import (
    GaussianGrid,
    one_sided_value,
    polygon_of_lines,
    sweep_bound,
    sweep_delta,
    sweep_epsilon,
)
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.errors import InvalidInput, NotSupported

# --- chains ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("against", "seed"),
    [("any", 1), ("any", 5), ("ignorant", 2), ("ignorant", 3)],
)
def test_every_adversary_on_a_short_chain_is_covered(seed, against):
    judge_chain(seed, against)


def test_the_gaussian_certificate():
    bound = sweep_bound(GaussianGrid.of(1 / 16.58), ACTIVITY, 1.0, "any")
    assert 9.7e-7 < bound.delta_upper <= 9.89e-7
    assert bound.window.pair == (1, 0)
    assert bound.window.left == bound.window.right == (10, 1)  # as for the count itself
    assert bound.reach == 30
    assert bound.eta == pytest.approx(6.8e-7, rel=0.01)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [pytest.param(4, 1e-6, 3.504)],
)
def test_gaussian_noise_of_the_table_suffices(epsilon, delta, sigma):
    assert sweep_delta(GaussianGrid.of(1 / sigma, step=0.0075), ACTIVITY, epsilon, "any") <= delta
    less = GaussianGrid.of(1 / (0.99 * sigma), step=0.0075)
    assert sweep_delta(less, ACTIVITY, epsilon, "any") > delta


def test_the_class_of_sigma_17():
    delta = sweep_delta(GaussianGrid.of(1 / 17, step=0.0075), ACTIVITY, 1.0, "any")
    assert 5.458e-7 < delta < 5.93e-7  # below: attained by a count


def test_gaussian_noise_against_the_ignorant():
    grid = GaussianGrid.of(1 / 16.452, step=0.0075)
    assert 9.9e-7 < sweep_delta(grid, ACTIVITY, 1.0, "ignorant") <= 1e-6


def test_plain_gaussian_noise_does_not_protect():
    epsilon = sweep_epsilon(GaussianGrid.of(1 / 4.22467889), ACTIVITY, 1e-6, "any")
    assert 3.45 < epsilon <= 3.504


PURE_AT = {  # epsilon' at delta 1e-9, 1e-6, 1e-4, 1e-3, 1e-2
    0.05: (0.192471, 0.192468, 0.192209, 0.189843, 0.167893),
    0.2: (0.793454, 0.793443, 0.792456, 0.785836, 0.741531),
    0.5: (1.985826, 1.984926, 1.974130, 1.943695, 1.831053),
    1: (3.474873, 3.474644, 3.462493, 3.415012, 3.246071),
    2: (5.430934, 5.430905, 5.427987, 5.401067, 5.203397),
    4: (8.057753, 8.057738, 8.056237, 8.042487, 7.927540),
}


@pytest.mark.parametrize("level", [4])
def test_pure_algorithms_gain_little_from_delta(level):
    curve = polygon_of_lines([(level, 0.0)])
    for delta, expected in zip((1e-9, 1e-6, 1e-4, 1e-3, 1e-2), PURE_AT[level], strict=True):
        assert sweep_epsilon(curve, ACTIVITY, delta, "any") == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("factor", [2])
def test_a_single_point_of_a_profile(factor):
    expected = {2: 4.576, 10: 3.552, 100: 3.4644}[factor]
    curve = polygon_of_lines([(1.0, 1e-6)])
    found = sweep_epsilon(curve, ACTIVITY, factor * 1e-6, "any")
    assert found == pytest.approx(expected, abs=5e-4)


def test_as_delta_vanishes_the_sweep_is_the_pure_exchange():
    short = MarkovChain(P, length=8)
    exact = exchange_leakage(1.0, short).upper
    assert exact - 1e-7 <= sweep_epsilon(PURE, short, 1e-12, "any") <= exact + 3e-6
    ignorant = sweep_epsilon(PURE, ACTIVITY, 1e-12, "ignorant")
    assert ignorant == pytest.approx(3.458264743769, abs=3e-6)


PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
LAWS = settings(max_examples=10, deadline=None, phases=PHASES)


@law(LAWS, 1, data=st.data())
def test_laws_of_the_sweep(data):
    size = data.draw(st.integers(2, 3))
    rows = np.array([data.draw(laws(size, zeros=False)) for _ in range(size)])
    rows = np.maximum(rows / rows.sum(axis=1, keepdims=True), 0.02)
    rows /= rows.sum(axis=1, keepdims=True)
    level, delta = data.draw(st.floats(0.1, 2)), data.draw(st.sampled_from([0.0, 1e-6, 1e-3]))
    epsilon = data.draw(st.floats(0.1, 3))
    curve = polygon_of_lines([(level, delta)])
    chain = MarkovChain(rows, length=4)
    found = sweep_delta(curve, chain, epsilon, "any")
    slack = 1e-3 * found + 1e-12  # bounds: how far slopes are refined may differ
    # relabelling states changes nothing; neither does reading backwards
    order = data.draw(st.permutations(range(size)))
    assert abs(sweep_delta(curve, MarkovChain(rows[np.ix_(order, order)], length=4), epsilon, "any")
               - found) <= slack  # fmt: skip
    assert abs(sweep_delta(curve, chain.reverse(), epsilon, "any") - found) <= slack
    # whoever may know more, more records, less privacy of the algorithm, smaller epsilon: worse
    assert sweep_delta(curve, chain, epsilon, "ignorant") <= found + slack
    assert sweep_delta(curve, MarkovChain(rows, length=3), epsilon, "any") <= found + slack
    assert found <= sweep_delta(curve, chain, 0.9 * epsilon, "any") + slack
    larger = polygon_of_lines([(1.1 * level, delta)])
    assert found <= sweep_delta(larger, chain, epsilon, "any") + slack
    # Theorem 2 from below: the target's own output
    own = float((curve.g - math.exp(epsilon) * curve.u).max())
    assert found >= own - 1e-12


def test_independent_records_leak_what_the_algorithm_does():
    chain = MarkovChain([[0.3, 0.7], [0.3, 0.7]])
    assert sweep_delta(APPROXIMATE, chain, 1.0, "any") == pytest.approx(1e-3, rel=1e-6)
    assert sweep_epsilon(PURE, chain, 1e-9, "any") == pytest.approx(1.0, abs=1e-6)


def test_a_chain_of_one_state_leaks_nothing():
    chain = MarkovChain([[1.0, 0.0], [0.5, 0.5]])
    assert sweep_delta(PURE, chain, 1.0, "any") == 0.0
    assert sweep_epsilon(PURE, chain, 1e-6, "any") == 0.0


def test_a_least_epsilon_is_enough_and_hardly_more():
    chain = MarkovChain(P, length=5)
    epsilon = sweep_epsilon(PROFILE, chain, 1e-2, "any")
    assert sweep_delta(PROFILE, chain, epsilon, "any") <= 1e-2
    assert sweep_delta(PROFILE, chain, 0.9999 * epsilon, "any") > 1e-2


@pytest.fixture(scope="module")
def endless():
    return sweep_delta(APPROXIMATE, ACTIVITY, 3.0, "any")


def test_a_long_series_is_any_length(endless):
    assert sweep_delta(APPROXIMATE, MarkovChain(P, length=500), 3.0, "any") == endless


@pytest.mark.parametrize("length", [12])
def test_a_shorter_series_leaks_no_more(length, endless):
    shorter = sweep_delta(APPROXIMATE, MarkovChain(P, length=length), 3.0, "any")
    assert shorter <= endless * (1 + 1e-5)


def test_what_the_sweep_cannot_do_is_refused():
    with pytest.raises(NotSupported, match="start"):
        sweep_delta(PURE, MarkovChain(P, start=[1, 0]), 1.0, "any")
    with pytest.raises(NotSupported, match="one transition matrix"):
        sweep_delta(PURE, MarkovChain([P, P], start=[0.5, 0.5]), 1.0, "any")
    with pytest.raises(NotSupported, match="together"):
        sweep_delta(PURE, MarkovChain([[0.0, 1.0], [1.0, 0.0]]), 1.0, "any")
    with pytest.raises(NotSupported, match="against"):
        sweep_delta(PURE, ACTIVITY, 1.0, "informed")
    with pytest.raises(InvalidInput, match="delta"):
        sweep_epsilon(PURE, ACTIVITY, 0.0, "any")
    with pytest.raises(InvalidInput, match="twice"):
        one_sided_value(PURE, [P], 1, 1, 1.0)


def test_a_periodic_chain_of_finite_length():
    chain = MarkovChain([[0.0, 1.0], [1.0, 0.0]], length=3)  # all records tied together
    curve = polygon_of_lines([(0.3, 1e-3)])
    # three records move together: the curve composed three times
    tripled = curve(curve(curve(np.linspace(0, 1, 200_001))))
    expected = float((tripled - math.exp(0.5) * np.linspace(0, 1, 200_001)).max())
    found = sweep_delta(curve, chain, 0.5, "ignorant")
    assert found == pytest.approx(expected, abs=1e-5)


# --- long runs ------------------------------------------------------------------------------------


@pytest.mark.soak
def test_thousands_of_programs(lines):
    for seed in range(1000, 4000):
        judge_one_side(seed)
    for seed in range(1000, 2000):
        judge_two_sides(seed)
    for seed in range(1000, 1300):
        judge_chain(seed, "any")
        judge_chain(seed, "ignorant")
    lines += [
        "## Sweeps against linear programs",
        "",
        "3,000 one-sided, 1,000 two-sided, 600 chains",
    ]
