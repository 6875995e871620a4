"""Reference numbers of flipped and redacted series, met through the public API.

Keys are those of docs/references.bib. Exact values are met to the digits given; optima to 1e-6, and
rates of flips and erasures, which are flat near an optimum, to a few units of that. Each number was
reproduced without the package: by enumeration, by forward-backward sums, or by a solver for smooth
constraints. Records are counted from 1 in the papers, from 0 here.
"""

from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.facts import half_unit
from tests.grids import thinned
from tests.oracles import series as oracle
from undertow.bounds.published import series as published_local

OPTIMUM = 1e-6
calibrate: Any = ut.calibrate
leakage: Any = ut.leakage

THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]
HEART = {  # transition counts of the heart records (PhysioNet): state 1 is at or above the mean
    "N10": ([[13479, 1323], [1324, 10796]], 26923),
    "N5": ([[7913, 2477], [2478, 3990]], 16859),
}


def rows(q, r):
    return [[1 - q, q], [r, 1 - r]]


def meets(leak, printed, closed=1e-9):
    """The certified interval holds the printed number, to half a unit of its last digit."""
    half = half_unit(printed)
    assert leak.lower <= float(printed) + half
    assert leak.upper >= float(printed) - half
    assert leak.upper - leak.lower <= closed * max(1.0, leak.upper)


def heart(name, length=None):
    counts, records = HEART[name]
    matrix = np.array(counts) / np.sum(counts, axis=1, keepdims=True)
    return ut.MarkovChain(matrix, length=records if length is None else length)


def rates(plan):
    return plan.mechanism.matrix[0, 1], plan.mechanism.matrix[1, 0]


# --- leakage of flips -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "r", "rho0", "rho1", "anyone", "ignorant"),
    [
        (0.1, 0.1, 0.02, 0.02, "9.407941541", "8.239232313"),
        (0.2, 0.2, 0.3, 0.3, "2.310736771", "2.310736771"),
        (0.2, 0.35, 0.1, 0.2, "4.102643365", "4.102643365"),
        (0.8, 0.7, 0.2, 0.3, "2.680295904", "2.680295904"),
    ],
)
def test_flips_of_five_records(q, r, rho0, rho1, anyone, ignorant):
    chain, flips = ut.MarkovChain(rows(q, r), length=5), ut.RandomizedResponse.binary(rho0, rho1)
    meets(leakage(flips, chain), anyone)
    meets(leakage(flips, chain, "ignorant"), ignorant)
    meets(leakage(flips, chain, "informed"), f"{flips.dp_epsilon():.12f}")


def test_the_attack_that_refutes_theorem_2():
    """[chakrabarti2022] Theorem 2: the ends are known to be 1, only 0 is seen, the middle is 0."""
    chain, flips = (
        ut.MarkovChain(rows(0.1, 0.1), length=5),
        ut.RandomizedResponse.binary(0.02, 0.02),
    )
    witness = leakage(flips, chain).witness
    other = 1 - witness.value
    assert (witness.target, witness.other) == (2, other)
    assert witness.known == ((0, other), (4, other))
    assert {output for _, output in witness.outputs} == {witness.value}
    assert oracle.replay(witness, flips, chain) == pytest.approx(9.407941541, abs=1e-9)


@pytest.mark.parametrize(("rho", "value"), [(0.2, "6.707247184"), (0.4, "3.976119108"),
                                            (0.6, "1.051007076")])  # fmt: skip
def test_flips_of_three_states(rho, value):
    chain = ut.MarkovChain(THREE, length=5)
    meets(leakage(ut.RandomizedResponse.symmetric(3, rho), chain), value)


EQUAL = [pytest.param(1, 0.63370274), pytest.param(2, 0.59969543), pytest.param(4, 0.50746692)]


@pytest.mark.parametrize(("epsilon", "rho"), EQUAL)
def test_equal_flips_of_three_states(epsilon, rho):
    """To 8 digits: half a unit less leaks more than epsilon, half a unit more leaks less."""
    chain = ut.MarkovChain(THREE, length=30)
    less, more = (ut.RandomizedResponse.symmetric(3, rho + off) for off in (-6e-9, 6e-9))
    assert leakage(less, chain).lower > epsilon
    assert leakage(more, chain).upper < epsilon


@pytest.mark.parametrize(("epsilon", "rho"), thinned(EQUAL, keep=1))
def test_flips_of_three_states_calibrated(epsilon, rho):
    chain = ut.MarkovChain(THREE, length=30)
    assert calibrate(ut.Series(), chain, epsilon).expected_flips <= rho + 1e-8


def test_flips_against_ignorant_leak_more_to_any():
    """[chakrabarti2022] Theorem 1 at theta = .1: 4 is really 4.5237, 8 is really 10.1656."""
    for epsilon, reached in ((4, 4.5237), (8, 10.1656)):
        chain = ut.MarkovChain(rows(0.1, 0.1))
        plan = calibrate(ut.Series(), chain, epsilon, "ignorant", method="chakrabarti")
        assert leakage(plan.mechanism, chain, "ignorant").upper == pytest.approx(epsilon, abs=1e-9)
        assert leakage(plan.mechanism, chain).upper == pytest.approx(reached, abs=5e-5)
        long = ut.MarkovChain(rows(0.1, 0.1), length=17)
        assert leakage(plan.mechanism, long).upper == pytest.approx(reached, abs=5e-5)
    short = leakage(
        calibrate(ut.Series(), ut.MarkovChain(rows(0.1, 0.1)), 4, "ignorant").mechanism, long
    )
    distances = {abs(record - short.witness.target) for record, _ in short.witness.known}
    assert distances == {8}
    assert {value for _, value in short.witness.known} == {short.witness.other}


# --- figures 1, 3 and 4 of [chakrabarti2022] ------------------------------------------------------


@pytest.mark.parametrize("method", ["chakrabarti", "exact"])
def test_figure_1(method):
    """q = .2, r = .35: the corner of the two half-planes, or the corner with rate 1/2."""
    chain = ut.MarkovChain(rows(0.2, 0.35))
    plan = calibrate(ut.Series(), chain, 0.5, "ignorant", method=method)
    assert rates(plan) == pytest.approx((0.415235, 0.5), abs=OPTIMUM)
    plan = calibrate(ut.Series(), chain, 2.0, "ignorant", method=method)
    rho0, rho1 = rates(plan)
    assert (rho0, rho1) == pytest.approx((0.342902, 0.255443), abs=OPTIMUM)
    assert (1 - rho0) / rho1 == pytest.approx(2.572388328, abs=2e-9)
    assert (1 - rho1) / rho0 == pytest.approx(2.171342795, abs=2e-9)
    level = published_local.theorem_one(0.2, 0.35, rho0, rho1)
    assert level == pytest.approx(2.0, abs=1e-9)


def test_figure_1_half_planes_of_the_small_epsilon():
    """S0 = 1.217519705 and S1 = 1.204137505 at epsilon .5: to flip only 1, or only 0, the least."""
    chain = ut.MarkovChain(rows(0.2, 0.35))
    rho0, rho1 = rates(calibrate(ut.Series(), chain, 0.5, "ignorant", objective=[0, 1]))
    assert (1 - rho0) / rho1 == pytest.approx(1.217519705, abs=2e-9)
    rho0, rho1 = rates(calibrate(ut.Series(), chain, 0.5, "ignorant", objective=[1, 0]))
    assert (1 - rho1) / rho0 == pytest.approx(1.204137505, abs=2e-9)


FIGURE_3 = [
    (0.5, 0.48561833, 0.47011949, 0.43260956, 0.43260980),
    (1, 0.46625531, 0.43278353, 0.36492177, 0.36499235),
    (2, 0.41697975, 0.33409202, 0.23263461, 0.23494878),
    (4, 0.27441103, 0.11191906, 0.05495256, 0.06355135),
    (8, 0.01357624, 0.00272134, 0.00115377, 0.00164399),
]


@pytest.mark.parametrize(("epsilon", "zhao", "approximate", "exact", "anyone"), FIGURE_3)
def test_figure_3(epsilon, zhao, approximate, exact, anyone):
    """theta = .35, n = 30: Zhao's Proposition 1, the paper's approximation, Corollary 2, any."""
    chain = ut.MarkovChain(rows(0.35, 0.35), length=30)
    digits = 6e-9
    assert published_local.zhao_flips(chain, epsilon) == pytest.approx(zhao, abs=digits)
    assert published_local.approximate_flips(0.35, epsilon) == pytest.approx(
        approximate, abs=digits
    )
    published = calibrate(ut.Series(), chain, epsilon, "ignorant", method="chakrabarti")
    assert rates(published) == pytest.approx((exact, exact), abs=digits)
    ignorant = calibrate(ut.Series(), chain, epsilon, "ignorant")
    assert ignorant.expected_flips == pytest.approx(exact, abs=digits)
    corrected = calibrate(ut.Series(), chain, epsilon)
    assert rates(corrected) == pytest.approx((anyone, anyone), abs=digits)


FIGURE_4 = {
    "N10": [
        ((0.446989, 0.5), (0.446992, 0.5)),
        ((0.458259, 0.413509), (0.450692, 0.424852)),
        ((0.415668, 0.356666), (0.408605, 0.383895)),
        ((0.347281, 0.283383), (0.356230, 0.335306)),
        ((0.252385, 0.195807), (0.295257, 0.276937)),
    ],
    "N5": [
        ((0.320529, 0.5), (0.320529, 0.5)),
        ((0.300076, 0.235903), (0.293850, 0.252385)),
        ((0.185905, 0.129462), (0.185070, 0.152147)),
        ((0.094009, 0.060081), (0.100600, 0.081494)),
        ((0.040478, 0.024701), (0.046185, 0.040459)),
    ],
}


@pytest.mark.parametrize("name", sorted(FIGURE_4))
def test_figure_4(name):
    """The rates for the heart records at epsilon 1 to 5, as published and corrected."""
    chain = heart(name)
    for epsilon, (published, corrected) in enumerate(FIGURE_4[name], 1):
        plan = calibrate(ut.Series(), chain, epsilon, "ignorant", method="chakrabarti")
        assert rates(plan) == pytest.approx(published, abs=OPTIMUM)
        plan = calibrate(ut.Series(), chain, epsilon)
        assert rates(plan) == pytest.approx(corrected, abs=OPTIMUM)


def test_figure_4_leaks_more_than_it_says():
    chain = heart("N10")
    plan = calibrate(ut.Series(), chain, 5, "ignorant", method="chakrabarti")
    assert leakage(plan.mechanism, chain).upper == pytest.approx(6.1466, abs=5e-5)


def test_a_constant_output_would_flip_less():
    """N5 at epsilon 1: .3894 of the records are flipped, a constant would be wrong on .3836."""
    plan = calibrate(ut.Series(), heart("N5"), 1, "ignorant", method="chakrabarti")
    assert plan.expected_flips == pytest.approx(0.3894, abs=5e-5)
    assert float(oracle.stationary(heart("N5").transition)[1]) == pytest.approx(0.3836, abs=5e-5)


# --- XOR noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "xor", "independent", "memory"),
    thinned(
        [
            pytest.param(4, 0.313112, 0.343653, 0.45),
            pytest.param(6, 0.128056, 0.216623, 0.27),
        ],
        keep=1,
    ),
)
def test_xor_noise_attains_the_level_of_theorem_1(epsilon, xor, independent, memory):
    """[chakrabarti2022] Section 3.3 at theta = .1, long series, rho0 + rho1 tuned."""
    chain = ut.MarkovChain(rows(0.1, 0.1), length=200)
    plain = calibrate(ut.Series(), chain, epsilon)
    assert plain.expected_flips == pytest.approx(independent, abs=OPTIMUM)
    near = ut.XorNoise(xor * memory, (1 - xor) * memory)
    assert leakage(near, chain).upper == pytest.approx(epsilon, abs=2e-4)
    plan = calibrate(ut.Series(), chain, epsilon, method="xor")
    assert plan.leakage.upper <= epsilon
    assert plan.expected_flips == pytest.approx(xor, abs=3e-6)
    ignorant = calibrate(ut.Series(), chain, epsilon, "ignorant")
    assert ignorant.expected_flips == pytest.approx(xor, abs=OPTIMUM)


# --- [massny2025] ---------------------------------------------------------------------------------


def redacted(method, epsilon, against="ignorant", n=10, p=1, alpha=0.01, beta=0.8):
    chain = ut.MarkovChain(rows(alpha, beta), length=n)
    return calibrate(ut.Redacted(p - 1), chain, epsilon, against, method=method)


def test_example_1():
    """alpha = .25, beta = .5, n = 2, epsilon .5: a 0 is erased with probability .119232586."""
    words: dict[str, Any] = {"n": 2, "p": 1, "alpha": 0.25, "beta": 0.5}
    for method in ("optimal", "3r-constant", "3r-individual"):
        plan = redacted(method, 0.5, **words)
        assert plan.mechanism.probabilities[1] == pytest.approx([0.119232586, 1.0], abs=1e-9)
        assert plan.utility == pytest.approx(0.293589138, abs=1e-9)
    printed = ut.Redaction([[1, 1], [1 / 8, 1]], protect=0)
    assert leakage(printed, ut.MarkovChain(rows(0.25, 0.5), length=2), "ignorant").upper <= 0.5
    assert redacted("mq", 0.5, **words).utility == 0


FIGURE_3_REDACTED = [
    (0.25, 0.6, 0.614406, 0.667795, 0.771191, 0.684229, 0.689060),
    (0.5, 0.7, 0.705424, 0.713422, 0.932052, 0.715972, 0.738369),
    (1, 0.7, 0.747918, 0.789496, 0.546926, 0.792612, 0.795730),
    (1.5, 0.8, 0.809874, 0.814480, 0.853388, 0.814480, 0.833735),
    (2, 0.8, 0.844850, 0.860531, 0.387126, 0.860531, 0.861826),
    (2.5, 0.8, 0.866064, 0.885052, 0.138846, 0.885052, 0.885052),
    (3, 0.9, 0.9, 0.9, None, 0.9, 0.9),
    (4, 0.9, 0.9, 0.9, None, 0.9, 0.9),
]


@pytest.mark.parametrize(
    ("epsilon", "bound", "relaxed", "constant", "rate", "individual", "optimum"), FIGURE_3_REDACTED
)
def test_figure_3_of_redactions(epsilon, bound, relaxed, constant, rate, individual, optimum):
    """p = 1, n = 10, alpha = .01, beta = .8, against ignorant."""
    plan = redacted("mq", epsilon)
    assert plan.utility == pytest.approx(bound)
    assert dict(plan.measures)["window bound printed"] == pytest.approx(bound)
    assert redacted("3r-relaxed", epsilon).utility == pytest.approx(relaxed, abs=OPTIMUM)
    plan = redacted("3r-constant", epsilon)
    assert plan.utility == pytest.approx(constant, abs=OPTIMUM)
    middle = plan.mechanism.probabilities[plan.mechanism.probabilities[:, 1] == 1][1:, 0]
    if rate is not None:
        assert middle == pytest.approx(rate, abs=OPTIMUM)
    assert redacted("3r-individual", epsilon).utility == pytest.approx(individual, abs=OPTIMUM)
    assert redacted("optimal", epsilon).utility == pytest.approx(optimum, abs=OPTIMUM)


def test_figure_4_of_redactions():
    """Probabilities of erasing a 0 at epsilon 1; those of the optimum are flat to about 1e-5."""
    wanted = {
        "3r-relaxed": ([0.757415, 0.757415], 2e-6),
        "3r-constant": ([0.546926, 0.546926], OPTIMUM),
        "3r-individual": ([0.669087, 0.393221], 2e-5),
        "optimal": ([0.549186, 0.346510, 0.122534], 2e-5),
    }
    for method, (probabilities, near) in wanted.items():
        table = redacted(method, 1).mechanism.probabilities
        assert table[1 : 1 + len(probabilities), 0] == pytest.approx(probabilities, abs=near)
        assert (table[1 : 1 + len(probabilities), 1] == 1).all()
        assert (table[1 + len(probabilities) :] == 0).all()


TWO_SIDED = [
    (0.25, 0.5, 12, 6, 1, 0.834615, 0.854612),
    (0.01, 0.8, 11, 5, 0.5, 0.486900, 0.581328),
    (0.01, 0.8, 11, 5, 1, 0.569858, 0.656001),
    (0.01, 0.8, 11, 5, 2, 0.708175, 0.743198),
]


@pytest.mark.parametrize(("alpha", "beta", "n", "p", "epsilon", "constant", "optimum"), TWO_SIDED)
def test_two_sided_redactions(alpha, beta, n, p, epsilon, constant, optimum):
    """The paper's mechanism is constant with half the budget per side; free budgets do better."""
    words: dict[str, Any] = {"n": n, "p": p, "alpha": alpha, "beta": beta}
    plan = redacted("3r-constant", epsilon, **words)
    assert plan.utility == pytest.approx(constant, abs=OPTIMUM)
    plan = redacted("optimal", epsilon, **words)
    assert plan.utility == pytest.approx(optimum, abs=OPTIMUM)
    assert dict(plan.measures)["optimum"] == pytest.approx(optimum, abs=OPTIMUM)


@pytest.mark.parametrize(
    ("epsilon", "optimum"),
    [(0.25, 0.675506), (0.5, 0.734476), (1, 0.780849), (1.5, 0.8), (2, 0.861761), (2.5, 0.884800),
     (3, 0.898709)],
)  # fmt: skip
def test_the_optimum_against_any(epsilon, optimum):
    plan = redacted("optimal", epsilon, "any")
    assert plan.utility == pytest.approx(optimum, abs=OPTIMUM)
    assert redacted("best", epsilon, "any").utility >= plan.utility - 1e-12


def test_redactions_against_ignorant_leak_to_any():
    """n = 8, epsilon .25: constant and optimum leak 1.6078 (X_3 = 1 known, X_2 = 0 shown)."""
    chain = ut.MarkovChain(rows(0.01, 0.8), length=8)
    for method in ("3r-constant", "optimal"):
        plan = redacted(method, 0.25, n=8)
        leak = leakage(plan.mechanism, chain)
        assert leak.upper == pytest.approx(1.6078, abs=5e-5)
        assert leak.witness.known == ((2, 1),)
        assert (1, 0) in leak.witness.outputs


def test_theorem_2_is_off_by_one():
    """alpha = .2, beta = .3, n = 12, p = 6: the window (1, 2) shows .666667, more than .583333."""
    words: dict[str, Any] = {"n": 12, "p": 6, "alpha": 0.2, "beta": 0.3}
    plan = redacted("mq", 0.911517454, **words)
    assert plan.utility == pytest.approx(2 / 3)
    measures = dict(plan.measures)
    assert measures["window bound printed"] == pytest.approx(0.583333, abs=5e-7)
    assert measures["window bound"] == pytest.approx(2 / 3)
    erased = np.flatnonzero((plan.mechanism.probabilities == 1).all(axis=1)).tolist()
    assert erased in ([4, 5, 6, 7], [3, 4, 5, 6])
    printed = redacted("mq-printed", 0.911517454, **words)
    assert printed.utility <= measures["window bound printed"] + 1e-12
    assert printed.leakage.upper <= 0.911517454


def test_algorithm_1_erases_one_record_too_many():
    """One-sided: a window of Delta* - 1 records is private, Algorithm 1 erases Delta*."""
    for epsilon in (0.25, 0.5, 1, 1.5):
        ours, printed = redacted("mq", epsilon), redacted("mq-printed", epsilon)
        assert ours.utility - printed.utility == pytest.approx(0.1)
        assert printed.leakage.upper <= epsilon


def test_the_window_bound_needs_positive_correlation():
    """Where neighbours differ more often than not a window beats both forms of Theorem 2."""
    chain = ut.MarkovChain([[0.15, 0.85], [0.95, 0.05]], length=10)
    plan = ut.calibrate(ut.Redacted(protect=4, length=10), chain, 2.4652, "ignorant", method="mq")
    measures = dict(plan.measures)
    assert measures["window bound printed"] < plan.utility
    assert "window bound" not in measures
