"""Reference numbers of flipped and redacted series, met through the public API.

Keys are those of docs/references.bib. Exact values are met to the digits given; optima to 1e-6, and
rates of flips and erasures, which are flat near an optimum, to a few units of that. Each number was
reproduced without the package: by enumeration, by forward-backward sums, or by a solver for smooth
constraints. Records are counted from 1 in the papers, from 0 here.
"""

from typing import Any

import pytest

import undertow as ut
from tests.facts import half_unit
from tests.oracles import series as oracle

OPTIMUM = 1e-6
calibrate: Any = ut.calibrate
leakage: Any = ut.leakage

THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]


def rows(q, r):
    return [[1 - q, q], [r, 1 - r]]


def meets(leak, printed, closed=1e-9):
    """The certified interval holds the printed number, to half a unit of its last digit."""
    half = half_unit(printed)
    assert leak.lower <= float(printed) + half
    assert leak.upper >= float(printed) - half
    assert leak.upper - leak.lower <= closed * max(1.0, leak.upper)


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


@pytest.mark.parametrize(("epsilon", "rho"), list(EQUAL)[:1])
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


# --- XOR noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "xor", "independent", "memory"),
    [pytest.param(4, 0.313112, 0.343653, 0.45)],
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
