"""The sweep: one side, two sides and whole chains, against reference numbers and programs."""

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
    gaussian_profile,
    judge_chain,
    judge_one_side,
    judge_two_sides,
    known_sided_value,
    random_kernel,
    two_sided_delta,
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
    tangent_lines,
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


# --- one side -------------------------------------------------------------------------------------

ONE_SIDE = {
    # curve, records: delta at epsilon .5, 1, 1.5 of the pair (1, 0), then of (0, 1)
    ("pure", 1): ".3939176175 .2666415997 .0567989220 .4279196279 .2666415997 .0007390841",
    ("pure", 2): ".4010102150 .2718330229 .1585728260 .4279196279 .3033518050 .1015088863",
    ("pure", 3): ".4010102150 .2718330229 .1585728260 .4279196279 .3033518050 .1153273625",
    ("(1,1e-3)", 1): ".3947536599 .2679519581 .0588912953 .4287952471 .2679519581 .0027662063",
    ("(1,1e-3)", 2): ".4018545129 .2731494239 .1607836594 .4287952471 .3047048924 .1036532999",
    ("(1,1e-3)", 3): ".4018545129 .2731494239 .1607836594 .4287952471 .3047048924 .1174878601",
    ("profile", 1): ".0433157220 .0137550983 .0039263035 .0433157220 .0106632221 .0020509858",
    ("profile", 2): ".0624002351 .0249145465 .0084592488 .0571865798 .0167250284 .0054219444",
    ("profile", 3): ".0725132976 .0321638018 .0101759725 .0625780858 .0201221674 .0058036835",
    ("profile", 5): ".0776212610 .0332487812 .0110814436 .0625780858 .0209835658 .0058036835",
    ("profile", 8): ".0776212610 .0332487812 .0110814436 .0625780858 .0209835658 .0058036835",
}
CURVES = {"pure": PURE, "(1,1e-3)": APPROXIMATE, "profile": PROFILE}


@pytest.mark.parametrize(("name", "records"), ONE_SIDE)
def test_one_side_has_its_reference_values(name, records):
    values = [
        one_sided_value(CURVES[name], [P] * records, a, b, math.exp(epsilon))
        for a, b in ((1, 0), (0, 1))
        for epsilon in (0.5, 1, 1.5)
    ]
    expected = [float(value) for value in ONE_SIDE[name, records].split()]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1.1e-10)


@pytest.mark.parametrize(
    ("curve", "distance", "value", "expected"),
    [
        (PURE, 3, 1, (0.3110496374, 0.2737129167)),
        (PURE, 4, 0, (0.2495771099, 0.2839785869)),
        (PURE, 5, 1, (0.3085069279, 0.3072574261)),
        (APPROXIMATE, 3, 1, (0.3124116847, 0.2750315057)),
        (APPROXIMATE, 4, 0, (0.2508676061, 0.2853091247)),
        (APPROXIMATE, 5, 1, (0.3098660156, 0.3086150595)),
    ],
)
def test_a_known_value_has_its_reference_values(curve, distance, value, expected):
    found = [
        known_sided_value(curve, P, a, b, math.e, distance, value) for a, b in ((1, 0), (0, 1))
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1.1e-10)


def test_a_known_value_equals_its_bridges():
    rng = np.random.default_rng(3)
    kernel = random_kernel(rng, 3)
    ahead = [np.linalg.matrix_power(kernel, power)[:, 2] for power in range(4)]
    bridges = []
    for left in (2, 1):  # steps left after this one
        weighted = kernel * ahead[left]
        bridges.append(weighted / weighted.sum(axis=1, keepdims=True))
    one = one_sided_value(PROFILE, bridges, 0, 1, 1.7)
    other = known_sided_value(PROFILE, kernel, 0, 1, 1.7, 3, 2)
    assert one == pytest.approx(other, rel=1e-11)


def test_a_target_alone_has_the_delta_of_its_curve():
    assert one_sided_value(APPROXIMATE, [], 0, 1, math.e) == pytest.approx(1e-3, rel=1e-9)
    grid = GaussianGrid.of(1.0, step=0.003)
    value = one_sided_value(grid, [], 0, 1, math.e)
    assert gaussian_profile(1.0)(1.0) <= value <= gaussian_profile(1.0)(1.0) * (1 + 1e-4)


def test_a_gaussian_grid_agrees_with_tangents():
    grid = one_sided_value(GaussianGrid.of(0.5, step=0.005), [P] * 4, 1, 0, 2.0)
    lines = tangent_lines(gaussian_profile(0.5), excess=1e-6, most=200)
    tangents = one_sided_value(polygon_of_lines(lines), [P] * 4, 1, 0, 2.0)
    assert grid == pytest.approx(tangents, rel=1e-3)


@pytest.mark.parametrize("seed", range(24))
def test_one_side_is_the_program(seed):
    judge_one_side(seed)


# --- two sides ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("curve", "pair", "expected"),
    [
        (PURE, (1, 0), {0.5: 0.5473497306, 1: 0.4388678524, 2: 0.1806121033}),
        (PURE, (0, 1), {0.5: 0.5283885681, 1: 0.4107856868, 2: 0.1565519356}),
        (APPROXIMATE, (1, 0), {0.5: 0.5483643609, 1: 0.4403786741, 2: 0.1845406092}),
    ],
)
def test_two_sides_have_their_reference_bounds(curve, pair, expected):
    for epsilon, value in expected.items():
        found = two_sided_delta(curve, [P] * 2, [P] * 2, pair[0], pair[1], epsilon)
        assert found == pytest.approx(value, abs=2e-9)


def test_the_counterexample_to_exact_composition_is_an_upper_bound():
    flips = np.array([[0.9, 0.1], [0.1, 0.9]])
    curve = polygon_of_lines([(0.5, 0.1)])
    assert two_sided_delta(curve, [flips], [flips], 0, 1, 2.4727) == pytest.approx(
        0.3136340, abs=2e-6
    )


@pytest.mark.parametrize("seed", range(12))
def test_two_sides_are_never_below_the_program(seed):
    judge_two_sides(seed)
