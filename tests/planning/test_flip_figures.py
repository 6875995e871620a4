"""Flips of two states: the figures and bounds of [chakrabarti2022], printed and corrected."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.grids import thinned
from tests.planning.flips import EXACT, LAWS, OPTIMUM, calibrate_series, rates, truth, two
from tests.work import calls
from undertow.bounds.engine import leakage
from undertow.errors import Infeasible, InvalidInput
from undertow.mechanisms import RandomizedResponse
from undertow.planning.flips import corner, ignorant_ratios
from undertow_papers.published_series import (
    approximate_flips,
    corollary_two,
    plain_flips,
    theorem_one,
    zhao_flips,
    zhao_one_step_flips,
)

# Transition frequencies of the heart records (state 1: at or above the mean), and their lengths.
N10 = (0.08937981353871098, 0.10924092409240924, 26923)
N5 = (0.23840230991337824, 0.38311688311688313, 16859)


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


@pytest.mark.parametrize(
    ("q", "r"), thinned([pytest.param(0.8, 0.7), pytest.param(0.09, 0.11)], keep=1)
)
def test_calibration_of_a_long_series_is_no_more_work(q, r):
    calibrate_series(two(0.2, 0.3, 50), 1.0)  # loads what is loaded once
    short, long = (calls(calibrate_series, two(q, r, n), 2.0) for n in (2_700, 27_000))
    assert long < 1.1 * short < 400_000


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
