"""Plans for flipped series: reference numbers, optimality, rounding, refusals."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.grids import each, law, pairwise, thinned
from tests.work import calls
from undertow.adversaries import Adversary
from undertow.bounds.engine import leakage
from undertow.bounds.enumeration import (
    chain_joint,
    mechanism_leakage,
    product_channel_likelihood,
)
from undertow.bounds.published.series import (
    approximate_flips,
    corollary_two,
    plain_flips,
    theorem_one,
    zhao_flips,
    zhao_one_step_flips,
)
from undertow.channels import RandomizedResponse, XorNoise, flips_epsilon_upper
from undertow.errors import (
    Infeasible,
    InvalidInput,
    MethodRefused,
    NothingToProtect,
    NotSupported,
)
from undertow.methods import METHODS
from undertow.models.groups import Groups
from undertow.models.markov import MarkovChain
from undertow.models.sets import ModelSet
from undertow.numerics import GRAIN
from undertow.plan import Plan
from undertow.planning.budget import dp_budget
from undertow.planning.channel_search import Cut, improved_channel
from undertow.planning.flip_aims import Aim, information, long_run_law
from undertow.planning.flips import corner, ignorant_ratios, one_sided
from undertow.planning.kary_flips import (
    even_channel,
    grained_channel,
    largest_even_level,
    silent_channel,
)
from undertow.planning.search import calibrate
from undertow.planning.xor_flips import xor_noise
from undertow.queries import Series

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=25)
THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]
# Transition frequencies of the heart records (state 1: at or above the mean), and their lengths.
N10 = (0.08937981353871098, 0.10924092409240924, 26923)
N5 = (0.23840230991337824, 0.38311688311688313, 16859)
EXACT = 5e-9 + 1e-10  # half a unit of the eighth digit, and what a search leaves
OPTIMUM = 1e-6


def calibrate_series(model, epsilon, against="any", method="best", objective=None):
    return calibrate(Series(), model, epsilon, against, method, objective=objective)


def two(q, r, length=None, **more):
    return MarkovChain([[1 - q, q], [r, 1 - r]], length=length, **more)


def rates(plan):
    return plan.mechanism.matrix[0, 1], plan.mechanism.matrix[1, 0]


def truth(matrix, chain, against="any"):
    """The leakage by enumeration."""
    joint = chain_joint(chain.initial, chain.transition, length=chain.length)
    table = product_channel_likelihood([matrix] * chain.length)
    return mechanism_leakage(joint, table, against).leakage


# --- chakrabarti2022, figure 1 (q .2, r .35) ------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "ratios", "optimum"),
    [
        (0.5, (1.217519705, 1.204137505), (0.415235, 0.5)),
        (2.0, (2.572388328, 2.171342795), (0.342902, 0.255443)),
    ],
)
def test_figure_1(epsilon, ratios, optimum):
    found = [math.exp(level) for level in ignorant_ratios(0.2, 0.35, epsilon)]
    assert found == pytest.approx(ratios, abs=5e-10)
    plan = calibrate_series(two(0.2, 0.35), epsilon, "ignorant")
    assert rates(plan) == pytest.approx(optimum, abs=OPTIMUM)
    printed = calibrate_series(two(0.2, 0.35), epsilon, "ignorant", "chakrabarti")
    assert rates(printed) == pytest.approx(rates(plan), abs=1e-10)


# --- figure 3 (theta .35, 30 records) -------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "zhao", "approximate", "exact", "anyone"),
    [
        (0.5, 0.48561833, 0.47011949, 0.43260956, 0.43260980),
        (1.0, 0.46625531, 0.43278353, 0.36492177, 0.36499235),
        (2.0, 0.41697975, 0.33409202, 0.23263461, 0.23494878),
        (4.0, 0.27441103, 0.11191906, 0.05495256, 0.06355135),
        (8.0, 0.01357624, 0.00272134, 0.00115377, 0.00164399),
    ],
)
def test_figure_3(epsilon, zhao, approximate, exact, anyone):
    chain = two(0.35, 0.35, 30)
    assert zhao_flips(chain, epsilon) == pytest.approx(zhao, abs=EXACT)
    assert approximate_flips(0.35, epsilon) == pytest.approx(approximate, abs=EXACT)
    a, b = ignorant_ratios(0.35, 0.35, epsilon)
    assert (a, b) == (a, a)
    assert 1 / (1 + math.exp(a)) == pytest.approx(exact, abs=EXACT)
    assert corollary_two(0.35, 1 / (1 + math.exp(a))) == pytest.approx(epsilon, abs=1e-12)
    plan = calibrate_series(chain, epsilon)
    assert rates(plan) == pytest.approx((anyone, anyone), abs=EXACT)
    assert plan.expected_flips == pytest.approx(anyone, abs=EXACT)
    endless = calibrate_series(two(0.35, 0.35), epsilon, "ignorant")
    assert rates(endless) == pytest.approx((exact, exact), abs=EXACT)
    finite = calibrate_series(chain, epsilon, "ignorant")
    assert exact - 1e-5 < finite.expected_flips <= endless.expected_flips + 1e-12


# --- figure 4: two heart records ------------------------------------------------------------------

PRINTED = {
    N10: [
        (0.446989, 0.5), (0.458259, 0.413509), (0.415668, 0.356666), (0.347281, 0.283383),
        (0.252385, 0.195807),
    ],
    N5: [
        (0.320529, 0.5), (0.300076, 0.235903), (0.185905, 0.129462), (0.094009, 0.060081),
        (0.040478, 0.024701),
    ],
}  # fmt: skip
CORRECTED = [
    (0.446992, 0.5), (0.450692, 0.424852), (0.408605, 0.383895), (0.356230, 0.335306),
    (0.295257, 0.276937),
]  # fmt: skip


@pytest.mark.parametrize("epsilon", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("record", [N10, N5], ids=["N10", "N5"])
def test_figure_4_as_printed(record, epsilon):
    printed = PRINTED[record][epsilon - 1]
    plan = calibrate_series(two(*record), epsilon, method="chakrabarti")
    assert rates(plan) == pytest.approx(printed, abs=OPTIMUM)
    assert plan.leakage.against == "any"
    assert plan.leakage.lower > epsilon or (record == N5 and epsilon == 1)
    ignorant = calibrate_series(two(*record), epsilon, "ignorant")
    assert rates(ignorant) == pytest.approx(printed, abs=OPTIMUM)
    assert ignorant.leakage.proves(epsilon)


@pytest.mark.parametrize("epsilon", [1, 2, 3, 4, 5])
def test_figure_4_corrected(epsilon):
    plan = calibrate_series(two(*N10), epsilon)
    assert rates(plan) == pytest.approx(CORRECTED[epsilon - 1], abs=OPTIMUM)
    assert epsilon * (1 - 1e-10) <= plan.leakage.lower <= plan.leakage.upper <= epsilon


def test_what_the_printed_flips_leak():
    """Against attackers who know a record of the opposite value; theory, section 13."""
    record = calibrate_series(two(*N10), 5.0, method="chakrabarti")
    assert record.leakage.upper == pytest.approx(6.1466, abs=5e-5)
    for epsilon, leaked in ((4.0, 4.5237), (8.0, 10.1656)):
        plan = calibrate_series(two(0.1, 0.1), epsilon, method="chakrabarti")
        assert plan.leakage.upper == pytest.approx(leaked, abs=5e-5)
        assert any("as published" in said for said in plan.leakage.assumptions)
    short = calibrate_series(two(0.1, 0.1, 17), 4.0, method="chakrabarti")
    assert short.leakage.upper == pytest.approx(4.5237, abs=5e-5)


def test_a_constant_output_may_flip_less():
    plan = calibrate_series(two(*N5), 1.0)
    assert plan.expected_flips == pytest.approx(0.3894, abs=5e-5)
    said = [note for note in plan.leakage.assumptions if "always showing 0" in note]
    assert len(said) == 1
    assert "0.3836 against 0.3894" in said[0]
    assert not any("always" in said for said in calibrate_series(two(*N5), 3).leakage.assumptions)


def test_calibration_of_a_long_series_is_no_more_work():
    calibrate_series(two(0.2, 0.3, 50), 1.0)  # loads what is loaded once
    for rates in ((0.09, 0.11), (0.8, 0.7)):
        short, long = (calls(calibrate_series, two(*rates, n), 2.0) for n in (2_700, 27_000))
        assert long < 1.1 * short < 400_000


# --- more states, correlated noise ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "rho"),
    thinned([pytest.param(1.0, 0.63370274), pytest.param(4.0, 0.50746692),
             pytest.param(2.0, 0.59969543)], keep=1),
)  # fmt: skip
def test_k_ary_randomised_response(epsilon, rho):
    chain = MarkovChain(THREE, length=30)
    level = largest_even_level(lambda m: leakage(m, chain), chain, epsilon, 3)
    channel = even_channel(3, level)
    assert 1 - channel.matrix[0, 0] == pytest.approx(rho, abs=EXACT)
    assert leakage(channel, chain).proves(epsilon)


@each(
    ("length", "epsilon", "objective"),
    [5, 9], [1.0, 4.0], ["flips", "information", [1.0, 1.0, 4.0]],
)  # fmt: skip
def test_more_states_do_better_than_randomised_response(length, epsilon, objective):
    chain = MarkovChain(THREE, states=("a", "b", "c"), length=length)
    plan = calibrate_series(chain, epsilon, objective=objective)
    level = largest_even_level(lambda m: leakage(m, chain), chain, epsilon, 3)
    even = even_channel(3, level).matrix
    law, found = chain.initial, plan.mechanism.matrix
    if objective == "information":
        assert information(law, found) > 1.2 * information(law, even)
        assert dict(plan.measures)["information"] == information(law, found)
    else:
        costs = np.ones(3) if objective == "flips" else np.array(objective)
        paid = [float(law @ (costs * (1 - np.diag(m)))) for m in (found, even)]
        assert paid[0] < 0.98 * paid[1]
        assert (np.diag(found)[:, None] >= found - 1e-12).all()
    assert plan.leakage.proves(epsilon)
    assert plan.leakage.lower >= epsilon * (1 - 1e-6)
    assert any("search" in said for said in plan.leakage.assumptions)


def test_more_states_against_enumeration():
    chain = MarkovChain(THREE, length=4)
    for against in ("any", "ignorant", "informed"):
        plan = calibrate_series(chain, 1.5, against)
        found = truth(plan.mechanism.matrix, chain, against)
        assert plan.leakage.lower - 1e-12 <= found <= 1.5
        worse = 0.97 * plan.mechanism.matrix + 0.03 * np.eye(3)  # a broken twin is caught
        assert truth(worse, chain, against) > 1.5


@pytest.mark.parametrize(
    ("epsilon", "flips"),
    thinned([pytest.param(4.0, 0.313112), pytest.param(6.0, 0.128056)], keep=1),
)
def test_correlated_noise(epsilon, flips):
    """theta .1, as the series grows; corrected independent flips need .343653 and .216623."""
    plan = calibrate_series(two(0.1, 0.1), epsilon, method="xor")
    assert plan.expected_flips == pytest.approx(flips, abs=OPTIMUM)
    assert isinstance(plan.mechanism, XorNoise)
    assert plan.leakage.proves(epsilon)
    assert plan.leakage.lower >= epsilon * (1 - 1e-9)
    alone = calibrate_series(two(0.1, 0.1), epsilon).expected_flips
    assert alone == pytest.approx({4.0: 0.343653, 6.0: 0.216623}[epsilon], abs=OPTIMUM)
    assert any("one party" in said for said in plan.leakage.assumptions)
    assert Plan.from_json(plan.to_json()) == plan


def test_correlated_noise_gives_way_to_independent_flips():
    plan = calibrate_series(two(0.1, 0.1), 2.0, "informed", "xor")
    assert plan.mechanism.rho0 + plan.mechanism.rho1 == pytest.approx(1.0, abs=1e-9)
    assert plan.expected_flips == pytest.approx(plain_flips(2.0), abs=1e-9)
    silent = calibrate_series(two(0.0, 0.0, start=[0.5, 0.5]), 2.0, method="xor")
    assert (silent.mechanism, silent.leakage.upper) == (XorNoise(0.5, 0.5), 0.0)


def test_correlated_noise_in_whole_grains():
    for level, total in itertools.product((0.0, 1e-9, 1.3, 36.0), (0.04, 0.45, 1.0)):
        noise = xor_noise(level, total)
        for rate in (noise.rho0, noise.rho1):
            assert rate % GRAIN == 0
            assert 0 < rate <= 1


# --- bounds as printed ----------------------------------------------------------------------------


def test_theorem_one_bounds_and_is_approached():
    for q, r, rho0, rho1 in ((0.1, 0.1, 0.02, 0.02), (0.2, 0.35, 0.1, 0.2), (0.4, 0.05, 0.3, 0.01)):
        printed = max(theorem_one(q, r, rho0, rho1), theorem_one(r, q, rho1, rho0))
        channel = RandomizedResponse.binary(rho0, rho1)
        found = leakage(channel, two(q, r), "ignorant")
        assert found.upper == pytest.approx(printed, abs=1e-9)
        assert truth(channel.matrix, two(q, r, 5), "ignorant") < printed
    assert theorem_one(0.3, 0.3, 0.2, 0.2) == pytest.approx(corollary_two(0.3, 0.2), abs=1e-13)


def test_equation_six_and_five():
    t, epsilon = 0.35, 5.0
    corrected = (1 - t) ** 6 / (t**6 * math.exp(epsilon) + (1 - t) ** 6)
    assert zhao_one_step_flips(t, epsilon) == pytest.approx(corrected, rel=1e-12)
    assert zhao_one_step_flips(t, epsilon, printed=True) == pytest.approx(2 * corrected, rel=1e-12)
    with pytest.raises(Infeasible, match=r"3\.71") as refusal:
        zhao_one_step_flips(t, 3.0)
    assert refusal.value.smallest == pytest.approx(6 * math.log(0.65 / 0.35))
    assert plain_flips(800.0) == pytest.approx(0.0, abs=1e-300)
    with pytest.raises(InvalidInput, match="theta"):
        approximate_flips(0.6, 1.0)
    with pytest.raises(InvalidInput, match="rho1"):
        theorem_one(0.1, 0.1, 0.2, 0.0)


@given(q=st.floats(0.01, 0.99), r=st.floats(0.01, 0.99), epsilon=st.floats(0.01, 400.0))
@LAWS
def test_the_closed_form_inverts_theorem_one(q, r, epsilon):
    q, r = (q, r) if q + r <= 1 else (1 - q, 1 - r)
    assert corner(0.0, 0.0) == (0.5, 0.5)
    a, b = ignorant_ratios(q, r, epsilon)
    assert min(a, b) > 0
    rho0, rho1 = corner(a, b)
    if max(a, b) < 30:
        assert theorem_one(q, r, rho0, rho1) == pytest.approx(epsilon, rel=1e-7)
        assert theorem_one(r, q, rho1, rho0) == pytest.approx(epsilon, rel=1e-7)


# --- two states: the guarantee, and nothing better ------------------------------------------------

STAY = st.floats(0.02, 0.98)


@given(
    q=STAY, r=STAY, epsilon=st.sampled_from([0.2, 1.0, 3.0]),
    against=st.sampled_from(["any", "ignorant", "informed"]),
    objective=st.sampled_from(["flips", "information", (1.0, 3.0)]),
)  # fmt: skip
@LAWS
def test_guarantees_against_enumeration(q, r, epsilon, against, objective):
    chain = two(q, r, 4)
    plan = calibrate_series(chain, epsilon, against, objective=objective)
    found = truth(plan.mechanism.matrix, chain, against)
    assert plan.leakage.lower - 1e-12 <= found <= plan.leakage.upper + 1e-12
    assert epsilon * (1 - 1e-6) <= plan.leakage.lower <= plan.leakage.upper <= epsilon
    if objective != "information":
        assert max(rates(plan)) <= 0.5


@pairwise(
    (("q", "r"), "weights", "against"),
    [(0.2, 0.35), (0.05, 0.4), (0.8, 0.7), (0.95, 0.3)],
    [(1.0, 1.0), (1.0, 5.0)],
    ["any", "ignorant"],
)
def test_no_flips_on_a_grid_cost_less(q, r, weights, against):
    """All pairs of flips up to one half, judged by enumeration."""
    chain, epsilon, step = two(q, r, 4), 1.5, 0.0125
    objective = "flips" if weights == (1.0, 1.0) else weights
    plan = calibrate_series(chain, epsilon, against, objective=objective)
    cost = chain.initial * np.array(weights)
    best = float(cost @ np.array(rates(plan)))
    grid = np.arange(step, 0.5 + step / 2, step)
    tried = {pair: float(cost @ np.array(pair)) for pair in itertools.product(grid, grid)}
    cheaper = [pair for pair, paid in tried.items() if paid < best - 1e-9]
    near = sorted(cheaper, key=lambda pair: -tried[pair])[:40]  # a cheaper one leaks more still
    assert near
    for rho0, rho1 in near:
        channel = RandomizedResponse.binary(rho0, rho1)
        assert truth(channel.matrix, chain, against) > epsilon


@given(
    q=st.floats(0.05, 0.9), r=st.floats(0.05, 0.9),
    rows=st.lists(st.floats(0.01, 1.0), min_size=6, max_size=6),
)  # fmt: skip
@LAWS
def test_no_channel_of_three_outputs_says_more(q, r, rows):
    """Where neighbours are positively correlated, the corner says the most of all channels."""
    q, r = (q, r) if q + r <= 1 else (1 - q, 1 - r)
    chain, epsilon = two(q, r, 6), 1.0
    plan = calibrate_series(chain, epsilon, objective="information")
    channel = np.array(rows).reshape(2, 3)
    channel /= channel.sum(axis=1, keepdims=True)
    mean, low, high = channel.mean(axis=0), 0.0, 1.0
    for _ in range(40):
        share = (low + high) / 2
        mixed = (1 - share) * mean + share * channel
        fits = leakage(RandomizedResponse(mixed, ("x", "y", "z")), chain).proves(epsilon)
        low, high = (share, high) if fits else (low, share)
    mixed = (1 - low) * mean + low * channel
    assert information(chain.initial, mixed) <= dict(plan.measures)["information"] + 1e-9


def test_one_ratio_rules_one_direction():
    """On a positively correlated chain the leakage is the larger of two one-sided ones."""
    chain = two(0.2, 0.35, 7)
    for rho0, rho1 in ((0.1, 0.3), (0.45, 0.2), (0.02, 0.4)):
        s, t = math.log((1 - rho0) / rho1), math.log((1 - rho1) / rho0)
        whole = leakage(RandomizedResponse.binary(rho0, rho1), chain).upper
        parts = [leakage(one_sided(s, 0), chain).upper, leakage(one_sided(t, 1), chain).upper]
        assert whole == pytest.approx(max(parts), abs=1e-11)


# --- rounding -------------------------------------------------------------------------------------


@law(LAWS, 10, q=STAY, r=STAY, epsilon=st.floats(1e-6, 60.0))
def test_planned_probabilities_are_whole_grains(q, r, epsilon):
    plan = calibrate_series(two(q, r, 5), epsilon)
    for row in plan.mechanism.matrix:
        assert all(Fraction(float(entry)) % Fraction(GRAIN) == 0 for entry in row)
        assert sum(Fraction(float(entry)) for entry in row) == 1
        assert (row > 0).all()
    assert plan.leakage.proves(epsilon)


@given(size=st.integers(2, 9), level=st.floats(0.0, 50.0))
@LAWS
def test_even_channels_are_whole_grains(size, level):
    channel = even_channel(size, level)
    for row in channel.matrix:
        assert all(Fraction(float(entry)) % Fraction(GRAIN) == 0 for entry in row)
        assert sum(Fraction(float(entry)) for entry in row) == 1
    if level > 1e-9:
        assert flips_epsilon_upper(channel) <= max(level, 1e-12) * (1 + 1e-9) + 1e-14
    silent = silent_channel(size).matrix
    assert (silent == silent[0]).all()
    assert sum(Fraction(float(entry)) for entry in silent[0]) == 1


def test_a_row_that_spills_over_is_mended():
    wanted = np.array([[0.0, 1 / 3, 2 / 3 + 2**-53], [0.1, 0.0, 0.1], [0.2, 0.1, 0.0]])
    channel = grained_channel(wanted).matrix
    assert [sum(map(Fraction, map(float, row))) for row in channel] == [1, 1, 1]
    assert channel[0, 0] == 0.0
    assert (channel >= 0).all()


# --- other models ---------------------------------------------------------------------------------


def test_a_set_is_as_hard_as_its_worst_member():
    first, second = two(0.1, 0.3), two(0.3, 0.1)
    plan = calibrate_series(ModelSet([first, second]), 3.0)
    assert all(leakage(plan.mechanism, chain).proves(3.0) for chain in (first, second))
    alone = [calibrate_series(chain, 3.0).expected_flips for chain in (first, second)]
    assert plan.expected_flips >= max(alone)
    assert rates(plan)[0] == pytest.approx(rates(plan)[1], abs=1e-10)
    assert "one of the 2 models of the set is true" in plan.leakage.assumptions


@pytest.mark.parametrize("step", thinned([0.02, 0.01], keep=1))
def test_two_laws_may_tie_between_corner_and_end(step):
    """The larger of two costs is least on an edge, where they agree."""
    chains = [two(0.05, 0.45, 5), two(0.45, 0.44, 5)]
    plan = calibrate_series(ModelSet(chains), 2.0, objective=(1.0, 1.6))
    costs = [chain.initial * np.array([1.0, 1.6]) for chain in chains]
    best = max(float(cost @ np.array(rates(plan))) for cost in costs)
    for rho0, rho1 in itertools.product(np.arange(step, 0.5 + step / 2, step), repeat=2):
        if max(float(cost @ np.array([rho0, rho1])) for cost in costs) < best - 1e-9:
            channel = RandomizedResponse.binary(rho0, rho1)
            assert not leakage(channel, ModelSet(chains)).proves(2.0)


def test_steps_that_differ_and_given_starts():
    steps = [[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]], [[0.7, 0.3], [0.3, 0.7]]]
    for chain in (
        MarkovChain(steps, start=[0.3, 0.7]),
        MarkovChain([[[0.2, 0.8], [0.6, 0.4]], *steps], start=[0.5, 0.5]),
        two(0.2, 0.3, 4, start=[1.0, 0.0]),
    ):
        plan = calibrate_series(chain, 1.0)
        assert chain.length is not None
        joint = chain_joint(chain.initial, chain.transition, length=chain.length)
        table = product_channel_likelihood([plan.mechanism.matrix] * chain.length)
        assert 1 - 1e-6 <= mechanism_leakage(joint, table).leakage <= 1
        law = chain.marginals(chain.length).mean(axis=0)
        assert plan.expected_flips == pytest.approx(float(law @ np.array(rates(plan))), abs=1e-12)


def test_one_attacker():
    chain = two(0.1, 0.3, 9)
    plan = calibrate_series(chain, 1.0, Adversary(4, known=[1, 7]))
    assert plan.leakage.proves(1.0)
    assert plan.expected_flips <= calibrate_series(chain, 1.0).expected_flips
    with pytest.raises(InvalidInput, match="17"):
        calibrate_series(chain, 1.0, Adversary(4, known=[17]))


@pytest.mark.parametrize(
    "model",
    thinned(
        [
            pytest.param(two(0.1, 0.3), id="two"),
            pytest.param(MarkovChain(THREE, length=9), id="three"),
            pytest.param(MarkovChain(THREE), id="three, any length"),
        ],
        keep=2,
    ),
)
def test_exchange_spends_the_budget(model):
    plan = calibrate_series(model, 1.0, method="exchange")
    budget = dp_budget(model, 1.0)
    assert plan.dp_epsilon == pytest.approx(budget, rel=1e-9)
    assert isinstance(plan.mechanism, RandomizedResponse)
    assert flips_epsilon_upper(plan.mechanism) <= budget * (1 + 1e-12)
    assert plan.leakage.proves(1.0)
    assert plan.leakage.lower <= leakage(plan.mechanism, model).upper
    assert plan.expected_flips >= calibrate_series(model, 1.0).expected_flips - 1e-9
    assert Plan.from_json(plan.to_json()) == plan


def test_models_that_are_no_chains_go_through_the_level():
    both = ModelSet([Groups(3), two(0.4, 0.4)])
    plan = calibrate_series(both, 1.0)
    assert plan.method == "exchange"
    assert plan.leakage.proves(1.0)
    assert plan.dp_epsilon == pytest.approx(1 / 3, rel=1e-6)
    box = MarkovChain.box([[0.8, 0.1], [0.3, 0.6]], [[0.9, 0.2], [0.4, 0.7]])
    boxed = calibrate_series(box, 1.0)
    assert boxed.method == "exchange"
    assert [name for name, _ in boxed.measures] == ["expected flips"]
    with pytest.raises(MethodRefused, match="exchange"):
        calibrate_series(both, 1.0, method="exact")
    with pytest.raises(NotSupported, match="names no states"):
        calibrate_series(Groups(3), 1.0)
    with pytest.raises(NotSupported, match="give the class a length"):
        calibrate_series(MarkovChain.mixing(2, pi_min=0.2, gap=0.3), 1.0)


# --- edges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chain",
    [
        two(0.0, 0.0, start=[0.5, 0.5]),
        two(1.0, 1.0),
        MarkovChain(np.eye(3), start=[0.2, 0.3, 0.5]),
    ],
    ids=["copies", "alternating", "three copies"],
)
@pytest.mark.parametrize("method", ["exact", "exchange"])
def test_where_nothing_may_be_said(chain, method):
    plan = calibrate_series(chain, 1.0, method=method)
    assert (plan.mechanism.matrix == plan.mechanism.matrix[0]).all()
    assert (plan.leakage.lower, plan.leakage.upper) == (0.0, 0.0)
    assert any("do not depend on the records" in said for said in plan.leakage.assumptions)
    assert dict(plan.measures)["information"] == 0.0


def test_copies_of_one_record_share_the_guarantee():
    plan = calibrate_series(two(0.0, 0.0, 4, start=[0.5, 0.5]), 1.0)
    assert rates(plan) == pytest.approx((plain_flips(0.25),) * 2, abs=1e-10)
    turned = calibrate_series(two(1.0, 1.0, 5), 1.0)
    assert rates(turned) == pytest.approx((plain_flips(0.2),) * 2, abs=1e-9)


def test_nothing_to_protect():
    with pytest.raises(NothingToProtect, match="certain"):
        calibrate_series(two(0.0, 0.0, start=[1.0, 0.0]), 1.0)
    with pytest.raises(NothingToProtect, match="certain"):
        calibrate_series(two(0.0, 0.0, 4, start=[0.5, 0.5]), 1.0, "informed")


@each(
    ("epsilon", "against"),
    [1e-15, 1e-12, 1e-9, 1e-4, 45.0, 300.0, 1e4], ["any", "ignorant", "informed"],
)  # fmt: skip
def test_extreme_guarantees(epsilon, against):
    plan = calibrate_series(two(0.1, 0.3), epsilon, against)
    assert plan.leakage.proves(epsilon)
    assert GRAIN <= min(rates(plan)) <= max(rates(plan)) <= 0.5
    if epsilon > 100:
        assert rates(plan) == (GRAIN, GRAIN)


def test_independent_records_are_plain_randomised_response():
    for against in ("any", "ignorant", "informed"):
        plan = calibrate_series(two(0.5, 0.5), 1.0, against)
        assert rates(plan) == pytest.approx((plain_flips(1.0),) * 2, abs=1e-10)


def test_costs_decide_which_state_is_flipped():
    chain = two(0.2, 0.2)
    first = calibrate_series(chain, 0.5, objective=[5, 1])
    second = calibrate_series(chain, 0.5, objective=[1, 5])
    assert rates(first) == pytest.approx(rates(second)[::-1], abs=1e-12)
    assert rates(first)[0] < rates(first)[1] == 0.5


def test_the_law_of_a_record_on_average():
    assert long_run_law(two(0.1, 0.3)) == pytest.approx([0.75, 0.25])
    assert long_run_law(two(0.1, 0.3, start=[0, 1])) == pytest.approx([0.75, 0.25])
    assert long_run_law(two(1.0, 1.0, 3, start=[1, 0])) == pytest.approx([2 / 3, 1 / 3])
    assert long_run_law(two(0.1, 0.0, start=[1, 0])) == pytest.approx([0.0, 1.0])


def test_refusals():
    chain = two(0.1, 0.3)
    with pytest.raises(InvalidInput, match="exact, exchange, xor, chakrabarti, best"):
        calibrate_series(chain, 1.0, method="quilt")
    with pytest.raises(InvalidInput, match="model"):
        calibrate_series([[0.5, 0.5], [0.5, 0.5]], 1.0)
    with pytest.raises(InvalidInput, match="limit"):
        calibrate_series(chain, 0.0)
    for objective in ("noise", [1.0], [1.0, -1.0], [0.0, 0.0], [1.0, math.inf]):
        with pytest.raises(InvalidInput, match="objective"):
            calibrate_series(chain, 1.0, objective=objective)
    for method in ("xor", "chakrabarti"):
        with pytest.raises(MethodRefused, match="two states"):
            calibrate_series(MarkovChain(THREE), 1.0, method=method)
    for wrong in (two(0.6, 0.3), two(0.1, 0.3, start=[1, 0])):
        with pytest.raises(MethodRefused, match="stated for a stationary chain"):
            calibrate_series(wrong, 1.0, method="chakrabarti")
    with pytest.raises(MethodRefused, match="one chain"):
        calibrate_series(ModelSet([chain, two(0.2, 0.3)]), 1.0, method="chakrabarti")
    assert list(METHODS["flip"]) == ["exact", "exchange", "xor", "chakrabarti"]


# --- the parts of the search ----------------------------------------------------------------------


@pytest.mark.parametrize("length", [4, 9])
def test_a_cut_is_the_witness_as_a_function_of_the_channel(length):
    chain = MarkovChain(THREE, states=("a", "b", "c"), length=length)
    channel = np.array([[0.5, 0.3, 0.2], [0.25, 0.6, 0.15], [0.3, 0.3, 0.4]])
    leak = leakage(RandomizedResponse(channel), chain)
    assert leak.witness is not None
    cut = Cut.of(leak.witness, chain)
    loss, slope = cut.evaluate(channel)
    assert loss == pytest.approx(leak.lower, abs=1e-10)
    assert cut.loss(channel) == pytest.approx(loss, abs=1e-13)
    for place in itertools.product(range(3), repeat=2):
        moved = channel.copy()
        moved[place] += 1e-6
        ahead = cut.loss(moved)
        moved[place] -= 2e-6
        assert slope[place] == pytest.approx((ahead - cut.loss(moved)) / 2e-6, abs=1e-6)


def test_the_search_copes_with_an_open_interval():
    """An oracle whose upper end stays a little above what its attacks explain."""
    chain, aim = MarkovChain(THREE, length=4), Aim(MarkovChain(THREE).initial[None], np.ones(3))

    def vague(channel):
        found = leakage(channel, chain)
        return replace(found, upper=1.04 * found.upper)

    start = even_channel(3, largest_even_level(vague, chain, 2.0, 3))
    channel, leak = improved_channel(vague, [chain], 2.0, aim, (start, vague(start)))
    assert leak.proves(2.0)
    assert leak.lower >= 0.9 * 2.0 / 1.04
    assert aim.flips(channel.matrix) < aim.flips(start.matrix) - 0.01


def test_the_search_needs_attacks_and_time(monkeypatch):
    chain, aim = MarkovChain(THREE, length=4), Aim(MarkovChain(THREE).initial[None], np.ones(3))
    start = even_channel(3, 0.1)
    mute = replace(leakage(start, chain), witness=None)
    assert improved_channel(lambda _: mute, [chain], 2.0, aim, (start, mute)) == (start, mute)
    monkeypatch.setattr("undertow.planning.channel_search._SECONDS", -1.0)
    told = (start, leakage(start, chain))
    calls = []

    def stern(channel):
        calls.append(channel)
        return replace(leakage(channel, chain), upper=99.0)

    hint = 0.9 * np.eye(3) + 0.1 / 3
    assert improved_channel(stern, [chain], 2.0, aim, told, hint) == told
    assert len(calls) == 1


def test_an_aim_counts_the_worst_law():
    aim = Aim(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([1.0, 2.0]))
    channel = np.array([[0.9, 0.1], [0.3, 0.7]])
    assert aim.cost(channel) == pytest.approx(0.2 * 0.1 + 2 * 0.8 * 0.3)
    assert aim.flips(channel) == pytest.approx(0.2 * 0.1 + 0.8 * 0.3)
    bits = [information(law, channel) for law in aim.laws]
    assert aim.bits(channel) == min(bits)
    assert Aim(aim.laws, None).cost(channel) == -min(bits)
    assert information(np.array([0.5, 0.5]), np.array([[0.5, 0.5], [0.5, 0.5]])) == 0.0
