"""The numbers of the papers: first from brute force written down again here, then from `calibrate`.

An oracle that cannot reproduce the references is no oracle, so the oracles come first.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.contracts.chains import FAMILIES, example, stationary
from tests.facts import ACTIVITY, half_unit
from tests.grids import thinned
from tests.oracles import chains as oracles
from undertow.bounds.enumeration import (
    additive_noise_likelihood,
    chain_joint,
    mechanism_leakage,
)
from undertow.bounds.published import lange_constant, ratio_constant, zhao_budget, zhao_constant
from undertow.errors import Infeasible, InvalidInput, MethodRefused

P = ACTIVITY["transition"]
CHAIN = ut.MarkovChain(P, ("inactive", "active"))
OBSERVED = ut.MarkovChain(P, ("inactive", "active"), length=ACTIVITY["observed_length"])
ACTIVE = ut.Count("active")
HEART = [[1 - 0.089380, 0.089380], [0.109241, 1 - 0.109241]]  # chakrabarti2022, figure 4 (b)
RATIO = 4.598492  # the exact value of what Theorem 7.3 bounds, activity chain

GRID = [  # 100 records, epsilon 1, P = [[1-q, q], [1-p, p]]: MQMApprox, MQMExact
    (0.1, 0.9, "49.220197", "31.737789"),
    (0.1, 0.5, "20.183209", "9.897617"),
    (0.3, 0.8, "20.069259", "10.120014"),
]
FIGURE_2 = [  # wang2016: 5 states, pi .05, gap .1, 5,000 records; ln epsilon: sigma, L1 error
    (1, "48.286520", ".096573"),
    (2, "14.576334", ".029153"),
    (3, "4.290714", ".008581"),
]
SCALES = [  # activity chain, 15,264 records; epsilon: quilt any, MQMExact, MQMApprox
    (0.5, "38.163500", "36.341450", "59.981827"),
    (1.0, "15.939252", "14.813018", "26.054191"),
    (4.0, "2.042375", "1.539605", "4.438628"),
    (12.0, "0.135108", "0.118294", "0.934326"),
    (20.0, "0.064929", "0.060777", "0.459267"),
]
PUBLISHED = [(12.0, "0.252910", "0.734950"), (20.0, "0.083654", "0.106830")]  # Lange, Zhao
STATIONARY = ("stationary", "sticky", "negative", "wavering")
LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=60)


def printed(found, text):
    """To the printed digits."""
    assert found == pytest.approx(float(text), abs=1.001 * half_unit(text))


def scale(query, model, epsilon, who, method, **more):
    return ut.calibrate(query, model, epsilon, against=who, method=method, **more).mechanism.scale


def grid(q, p, length=None):
    return ut.MarkovChain([[1 - q, q], [1 - p, p]], length=length)


# --- the oracles, against each other and against the references -----------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_two_enumerations_of_the_leakage_agree(family):
    chain = example(family, 3, 4)
    table = additive_noise_likelihood([1, 0, 1], 0.7, 4)
    assert np.array_equal(table, oracles.noisy_answer(3, 4, 0.7, oracles.counted((0, 2))))
    for who in ("any", "ignorant", "informed"):
        expected = mechanism_leakage(chain.joint, table, who).leakage
        assert oracles.leakage(chain.joint, table, who) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("conditional", [False, True], ids=["open", "conditional"])
@pytest.mark.parametrize("family", STATIONARY)
@pytest.mark.parametrize(("k", "n"), [(2, 6), (3, 5)])
def test_influences_from_powers_are_those_of_the_joint(family, k, n, conditional):
    chain = example(family, k, n, seed=1)
    for epsilon in (0.4, 1.5, 4.0, 12.0):
        one = oracles.quilt_by_enumeration(chain.joint, epsilon, conditional=conditional)
        two = oracles.quilt_by_powers(chain.transition, n, epsilon, conditional=conditional)
        assert one == pytest.approx(two, rel=1e-9)


masses = st.dictionaries(st.integers(-6, 6), st.integers(1, 9), min_size=1, max_size=6)


@LAWS
@given(masses, masses)
def test_two_ways_to_w_infinity_agree(one, two):
    laws = [
        {value: Fraction(mass, sum(law.values())) for value, mass in law.items()}
        for law in (one, two)
    ]
    w = oracles.w_infinity(*laws)
    assert w == oracles.w_infinity_by_quantiles(*laws) == oracles.w_infinity(*laws[::-1])
    assert (w == 0) == (laws[0] == laws[1])


@pytest.mark.parametrize("family", FAMILIES)
def test_two_ways_to_the_law_of_a_count_agree(family):
    model = example(family, 3, 4).model()
    for target in range(4):
        every = oracles.answer_laws(model, target, oracles.counted((0, 2)))
        assert every == oracles.count_laws(model, target, (0, 2))


def test_the_oracles_give_the_grid():
    for q, p, approx, exact in GRID:
        matrix = [[1 - q, q], [1 - p, p]]
        printed(oracles.quilt_approx(*oracles.mixing_numbers(matrix), 100, 1.0), approx)
        printed(oracles.quilt_by_powers(matrix, 100, 1.0), exact)


def test_the_oracles_give_figure_2():
    """A node in the middle needs the most: beyond some distance from the ends all are alike."""
    for power, sigma, _ in FIGURE_2:
        printed(oracles.quilt_approx(0.05, 0.1, 601, math.exp(power), [300]), sigma)


@pytest.mark.parametrize(
    ("epsilon", "any_", "exact", "approx"),
    [pytest.param(*row, marks=[pytest.mark.soak] * (row[0] not in (1.0, 20.0))) for row in SCALES],
)
def test_the_oracles_give_the_activity_scales(epsilon, any_, exact, approx):
    """90 records say it as 15,264 do (170 where the noise is large)."""
    n = 90 if epsilon > 0.5 else 170
    printed(oracles.quilt_by_powers(P, n, epsilon, conditional=True), any_)
    printed(oracles.quilt_by_powers(P, n, epsilon), exact)
    printed(oracles.quilt_approx(*oracles.mixing_numbers(P), n, epsilon), approx)


def test_the_oracles_give_the_wasserstein_distances():
    long = ut.MarkovChain(P, length=40)
    ends = [oracles.wasserstein_of_count(long, (1,), [i]) for i in range(7)]
    assert ends == [3, 4, 4, 4, 4, 4, 5]
    assert oracles.wasserstein_of_count(long, (1,), [15]) == 5


@pytest.mark.soak
def test_the_oracles_give_the_wasserstein_distances_far_from_the_ends():
    long = ut.MarkovChain(P, length=40)
    assert oracles.wasserstein_of_count(long, (1,), range(6, 34, 9)) == 5
    assert oracles.wasserstein_of_count(ut.MarkovChain(HEART, length=60), (1,), [20, 30]) == 10


def test_the_oracle_gives_the_constant_of_theorem_7_3():
    by_length = [
        oracles.ratio_of_unknowns(chain_joint(stationary(np.array(P)), P, n)) for n in (4, 5, 6)
    ]
    assert by_length[0] < RATIO - 0.1
    assert by_length[1:] == pytest.approx([RATIO] * 2, abs=5e-7)


# --- Markov quilts --------------------------------------------------------------------------------


@pytest.mark.parametrize(("q", "p", "approx", "exact"), GRID)
def test_the_grid_of_a_hundred_records(q, p, approx, exact):
    model = grid(q, p, 100)
    printed(scale(ut.Count(1), model, 1.0, "ignorant", "quilt-approx"), approx)
    printed(scale(ut.Count(1), model, 1.0, "ignorant", "quilt"), exact)
    matrix = model.transition
    expected = oracles.quilt_by_powers(matrix, 100, 1.0, conditional=True)
    assert scale(ut.Count(1), model, 1.0, "any", "quilt") == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("power", "sigma", "error"), FIGURE_2)
def test_figure_2(power, sigma, error):
    """wang2016, figure 2, one point per curve: a histogram moves by 2, so its scale is 2 sigma."""
    model = ut.MarkovChain.mixing(states=5, pi_min=0.05, gap=0.1, length=5000)
    found = scale(ut.Histogram(), model, math.exp(power), "ignorant", "quilt-approx")
    printed(found / 2, sigma)
    printed(5 * found / 5000, error)
    count = scale(ut.Count(0), model, math.exp(power), "ignorant", "quilt-approx")
    assert found == pytest.approx(2 * count, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "any_", "exact", "approx"), SCALES)
def test_activity_quilts(epsilon, any_, exact, approx):
    printed(scale(ACTIVE, OBSERVED, epsilon, "any", "quilt"), any_)
    printed(scale(ACTIVE, OBSERVED, epsilon, "ignorant", "quilt"), exact)
    printed(scale(ACTIVE, OBSERVED, epsilon, "ignorant", "quilt-approx"), approx)
    both = scale(ut.Histogram(), OBSERVED, epsilon, "ignorant", "quilt")
    assert both == pytest.approx(2 * scale(ACTIVE, OBSERVED, epsilon, "ignorant", "quilt"))


@pytest.mark.parametrize(("epsilon", "any_", "exact", "approx"), SCALES)
def test_quilts_of_any_length_are_those_of_a_long_series(epsilon, any_, exact, approx):
    """Longer never needs less, so the worst length is the longest."""
    printed(scale(ACTIVE, CHAIN, epsilon, "any", "quilt"), any_)
    printed(scale(ACTIVE, CHAIN, epsilon, "ignorant", "quilt"), exact)
    printed(scale(ACTIVE, CHAIN, epsilon, "ignorant", "quilt-approx"), approx)


def test_an_ignorant_quilt_is_no_protection_against_any():
    """MQMExact at epsilon 8 leaks 8.6326 to someone who knows other records."""
    plan = ut.calibrate(ACTIVE, OBSERVED, 8.0, "ignorant", method="quilt")
    assert plan.leakage.upper <= 8.0
    assert ut.leakage(plan.mechanism, OBSERVED).lower == pytest.approx(8.6326, abs=5e-5)


@pytest.mark.parametrize("length", [2, 3, 7, 31])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_short_series(length, epsilon):
    """Where the ends are near, the fast searches have their corners."""
    for q, p, _, _ in GRID:
        model, matrix = grid(q, p, length), grid(q, p).transition
        expected = oracles.quilt_by_powers(matrix, length, epsilon)
        found = scale(ut.Count(1), model, epsilon, "ignorant", "quilt")
        assert found == pytest.approx(expected, rel=1e-9)
        expected = oracles.quilt_approx(*oracles.mixing_numbers(matrix), length, epsilon)
        found = scale(ut.Count(1), model, epsilon, "ignorant", "quilt-approx")
        assert found == pytest.approx(expected, rel=1e-9)
        floor = oracles.quilt_by_powers(matrix, length, epsilon, conditional=True)
        found = scale(ut.Count(1), model, epsilon, "any", "quilt")
        assert floor * (1 - 1e-9) <= found <= length / epsilon * (1 + 1e-9)


# --- Wasserstein ----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_activity_wasserstein(epsilon):
    found = scale(ACTIVE, OBSERVED, epsilon, "ignorant", "wasserstein")
    assert found * epsilon == pytest.approx(5, rel=1e-9)


def test_activity_wasserstein_near_the_ends():
    """In exact arithmetic record 7 of 100 is at distance 5, of 200 and of 1,600 at 4."""
    last = ACTIVITY["observed_length"] - 1
    ends = [
        scale(ACTIVE, OBSERVED, 1.0, "ignorant", "wasserstein", secret=ut.Records([record]))
        for record in (0, 1, 7, 12, last - 12, last - 7, last)
    ]
    assert ends == pytest.approx([3, 4, 4, 5, 5, 4, 3], rel=1e-9)


def test_heart_wasserstein():
    heart = ut.MarkovChain(HEART, length=26923)
    found = scale(ut.Count(1), heart, 1.0, "ignorant", "wasserstein")
    assert found == pytest.approx(10, rel=1e-9)


@pytest.mark.parametrize(
    ("length", "expected"),
    thinned([pytest.param(25, 10), pytest.param(15264, 9), pytest.param(None, 10)], keep=2),
)
def test_any_length_is_the_worst_length(length, expected):
    """Here longer is not worse: 25 records need 10, 15,264 need 9."""
    matrix = [[0.7, 0.3], [0.02, 0.98]]
    if length == 25:
        worst = oracles.wasserstein_of_count(ut.MarkovChain(matrix, length=25), (1,), [10, 12])
        assert worst == expected
    found = scale(
        ut.Count(1), ut.MarkovChain(matrix, length=length), 1.0, "ignorant", "wasserstein"
    )
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "expected"),
    thinned([pytest.param(12, 4), pytest.param(None, 4), pytest.param(15264, 3)], keep=1),
)
def test_any_length_of_a_livelier_chain_is_the_worst_length(length, expected):
    """The same where it is found sooner: 12 records need 4, 15,264 need 3."""
    matrix = [[0.3, 0.7], [0.03, 0.97]]
    model = ut.MarkovChain(matrix, length=length)
    if length == 12:
        assert oracles.wasserstein_of_count(model, (1,), range(12)) == expected
    found = scale(ut.Count(1), model, 1.0, "ignorant", "wasserstein")
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("length", thinned([129, 180], keep=1))
def test_wasserstein_distances_beyond_direct_convolution(length):
    """Never below the exact distance, and equal to it where the chain forgets quickly."""
    for matrix, tight in (
        ([[0.875, 0.125], [0.25, 0.75]], True),
        ([[0.96875, 0.03125], [0.0625, 0.9375]], False),
    ):
        model, middle = ut.MarkovChain(matrix, length=length), length // 2
        exact = oracles.wasserstein_of_count(model, (1,), [0, middle])
        found = scale(
            ut.Count(1), model, 1.0, "ignorant", "wasserstein", secret=ut.Records([0, middle])
        )
        assert found >= exact * (1 - 1e-9)
        assert not tight or found == pytest.approx(exact, rel=1e-9)


# --- what was published for every DP algorithm ----------------------------------------------------


@pytest.mark.parametrize(("epsilon", "lange", "zhao"), PUBLISHED)
def test_activity_constants_as_scales(epsilon, lange, zhao):
    for model in (CHAIN, OBSERVED):
        printed(scale(ACTIVE, model, epsilon, "any", "lange"), lange)
        printed(scale(ACTIVE, model, epsilon, "any", "zhao"), zhao)


def test_proposition_1_on_the_activity_chain():
    found = scale(ACTIVE, OBSERVED, 1.0, "any", "zhao-multistep")
    printed(found, "20.04")
    expected = oracles.zhao_level(P, 15264, 1.0)
    assert found == pytest.approx(1 / expected, rel=1e-9)
    assert zhao_budget(OBSERVED, 1.0) == pytest.approx(expected, rel=1e-9)


def test_proposition_1_of_figure_3():
    """chakrabarti2022, figure 3, theta .35, 30 records: flips 1 / (1 + e^level)."""
    chain = ut.MarkovChain([[0.65, 0.35], [0.35, 0.65]], length=30)
    for epsilon, text in (
        (0.5, ".48561833"),
        (1, ".46625531"),
        (2, ".41697975"),
        (4, ".27441103"),
        (8, ".01357624"),
    ):
        printed(1 / (1 + math.exp(zhao_budget(chain, epsilon))), text)


@pytest.mark.parametrize("length", [2, 3, 4, 9])
def test_proposition_1_takes_steps_up_to_half_the_records(length):
    chain = grid(0.3, 0.8, length)
    for epsilon in (9.0, 15.0):
        expected = oracles.zhao_level(chain.transition, length, epsilon)
        if expected > 0:
            assert zhao_budget(chain, epsilon) == pytest.approx(expected, rel=1e-9)
            found = scale(ut.Count(1), chain, epsilon, "any", "zhao-multistep")
            assert found == pytest.approx(1 / expected, rel=1e-9)


def test_constants_of_the_activity_chain():
    for chain in (CHAIN, OBSERVED):
        assert lange_constant(chain) == pytest.approx(8.046030, abs=5e-7)
        assert zhao_constant(chain) == pytest.approx(10.639363, abs=5e-7)
        assert zhao_constant(chain, steps=1) == zhao_constant(chain)
        assert ratio_constant(chain) == pytest.approx(RATIO, abs=5e-7)


def test_zhao_over_several_steps_is_that_of_the_power():
    for steps in (2, 3, 7):
        several = ut.MarkovChain(np.linalg.matrix_power(np.array(P), steps))
        found = zhao_constant(CHAIN, steps=steps)
        assert found == pytest.approx(zhao_constant(several), rel=1e-9)
        assert found < zhao_constant(CHAIN, steps=steps - 1)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("family", STATIONARY)
def test_the_constant_of_theorem_7_3(family, k):
    """From five records on, nothing is gained by more; shorter series have no larger one."""
    for seed in range(3):
        chain = example(family, k, 5, seed)
        truth = oracles.ratio_of_unknowns(chain.joint)
        for model in (chain.model(), chain.any_length()):
            assert ratio_constant(model) == pytest.approx(truth, rel=1e-9)
        assert truth <= lange_constant(chain.model()) * (1 + 1e-12)
        assert truth <= 4 / 6 * zhao_constant(chain.model()) * (1 + 1e-12)
        short = example(family, k, 3, seed)
        assert oracles.ratio_of_unknowns(short.joint) <= ratio_constant(short.model()) + 1e-12


@pytest.mark.parametrize("steps", [0, -1, 1.5, None])
def test_steps_are_counted_from_one(steps):
    with pytest.raises(InvalidInput):
        zhao_constant(CHAIN, steps=steps)


@pytest.mark.parametrize("constant", [lange_constant, ratio_constant, zhao_constant])
def test_constants_need_what_their_theorems_need(constant):
    with pytest.raises(MethodRefused):
        constant(ut.MarkovChain([[0.5, 0.5], [0.0, 1.0]]))
    with pytest.raises(MethodRefused):
        constant(ut.MarkovChain(P, start=[0.5, 0.5]))
    with pytest.raises(MethodRefused):
        constant(ut.MarkovChain([P] * 3, start=[0.5, 0.5]))


# --- below their constants ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["lange", "zhao", "zhao-multistep"])
@pytest.mark.parametrize(("q", "p"), [(0.118, 0.695), (0.3, 0.8), (0.8, 0.3)])
def test_below_the_constant_there_is_no_plan(method, q, p):
    chain = grid(q, p, length=8)
    smallest = {
        "lange": lange_constant(chain),
        "zhao": zhao_constant(chain),
        "zhao-multistep": min(zhao_constant(chain, steps=t) for t in range(1, 5)),
    }[method]
    for epsilon in (0.01, smallest / 2, smallest * (1 - 1e-9)):
        with pytest.raises(Infeasible) as refusal:
            ut.calibrate(ut.Count(1), chain, epsilon, method=method)
        assert refusal.value.smallest == pytest.approx(smallest, rel=1e-9)
        assert f"{smallest:.3g}"[:3] in str(refusal.value)
    plan = ut.calibrate(ut.Count(1), chain, smallest + 1e-3, method=method)
    assert plan.dp_epsilon <= 1e-3 * (1 + 1e-6)
    assert plan.leakage.upper <= smallest + 1e-3
    assert (plan.method, plan.limit) == (method, smallest + 1e-3)


def test_scales_fall_as_epsilon_grows():
    for method, who in itertools.product(["lange", "zhao", "zhao-multistep"], ["any"]):
        scales = [scale(ACTIVE, OBSERVED, eps, who, method) for eps in (10.7, 11, 13, 20, 60)]
        assert all(more > less for more, less in itertools.pairwise(scales))
