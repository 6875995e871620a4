"""Leakages that were computed elsewhere, and closed forms written down again here."""

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.facts import ACTIVITY, FACTS
from tests.grids import law
from undertow.errors import InvalidModel

CHAIN = ut.MarkovChain(ACTIVITY["transition"])
TABLE = [
    (who, float(level), value)
    for who in ("any", "ignorant")
    for level, value in ACTIVITY["leakage"][who].items()
]


def count(level):
    return ut.Laplace(ut.Count(1), scale=1 / level)


def symmetric(gamma, length):
    stay = gamma / (gamma + 1)
    return ut.MarkovChain([[stay, 1 - stay], [1 - stay, stay]], length=length)


# --- the activity chain ---------------------------------------------------------------------------


@pytest.mark.parametrize(("who", "level", "value"), TABLE)
@pytest.mark.parametrize("mechanism", [ut.PureDP, count], ids=["pure-dp", "count"])
def test_activity_leakage(mechanism, who, level, value):
    """Twelve digits; a positively correlated binary count leaks as much as any algorithm."""
    leak = ut.leakage(mechanism(level), CHAIN, against=who)
    assert leak.lower == pytest.approx(value, abs=1e-9)
    assert leak.upper == pytest.approx(value, abs=1e-9)
    assert leak.lower - 1e-12 <= value <= leak.upper + 1e-12
    assert leak.closed


def test_short_activity_chains():
    for length, value in ACTIVITY["short"]["pure_dp"].items():
        chain = ut.MarkovChain(ACTIVITY["transition"], length=int(length))
        assert ut.leakage(ut.PureDP(1.0), chain).upper == pytest.approx(value, abs=5e-5)
    for length, value in ACTIVITY["short"]["count"].items():
        chain = ut.MarkovChain(ACTIVITY["transition"], length=int(length))
        assert ut.leakage(count(1.0), chain).upper == pytest.approx(value, abs=5e-6)


# --- figure 15 of lange2024 -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gamma", "level", "value"),
    [
        (float(gamma), float(level), value)
        for gamma, row in FACTS["symmetric_n10"].items()
        for level, value in row.items()
    ],
)
def test_symmetric_chains_of_ten_records(gamma, level, value):
    """Six digits, through a Laplace count."""
    leak = ut.leakage(count(level), symmetric(gamma, 10))
    assert leak.upper == pytest.approx(value, abs=5e-7)
    assert leak.lower == pytest.approx(value, abs=5e-7)
    every = ut.leakage(ut.PureDP(level), symmetric(gamma, 10))
    assert leak.lower <= every.upper + 1e-12


# --- closed form: two states, positively correlated, nothing known, any length --------------------


def closed_form(q, r, level):
    """2 ln[(B + sqrt(B^2 + 4 q r m^2)) / (2 r m)], B = (1 - q) m^2 - (1 - r), m = e^(level/2)."""

    def one_way(q, r):
        m = math.exp(level / 2)
        b = (1 - q) * m * m - (1 - r)
        return 2 * math.log((b + math.sqrt(b * b + 4 * q * r * m * m)) / (2 * r * m))

    return max(one_way(q, r), one_way(r, q))


def test_the_closed_form_gives_the_reference_numbers():
    for level, value in ACTIVITY["leakage"]["ignorant"].items():
        assert closed_form(0.118, 0.305, float(level)) == pytest.approx(value, abs=1e-11)


@law(
    settings(deadline=None, derandomize=True, database=None, max_examples=15), 3,
    q=st.floats(0.03, 0.5), r=st.floats(0.03, 0.5), epsilon=st.floats(0.1, 8.0),
)  # fmt: skip
def test_the_closed_inverse_for_two_states(q, r, epsilon):
    """The DP budget for a wanted leakage is ln min(S0, S1)."""

    def root(q, r):
        e = math.exp(epsilon / 2)
        b = r * e * e - q
        m = (b + math.sqrt(b * b + 4 * (1 - q) * (1 - r) * e * e)) / (2 * (1 - q) * e)
        return m * m

    expected = math.log(min(root(q, r), root(r, q)))
    budget = ut.dp_budget(ut.MarkovChain([[1 - q, q], [r, 1 - r]]), epsilon, against="ignorant")
    assert budget <= expected * (1 + 1e-12)
    assert budget == pytest.approx(expected, rel=1e-8)


# --- closed form: a state that is left for good, many records -------------------------------------


def lingering(stay, level, records):
    """level + ln E[e^(level N)]: N counts the records after the first that stay in its state."""
    steps = records - 1
    rate = level + math.log(stay)
    terms = [j * rate + (math.log1p(-stay) if j < steps else 0.0) for j in range(records)]
    most = max(terms)
    return level + most + math.log(math.fsum(math.exp(term - most) for term in terms))


@pytest.mark.parametrize(
    ("mechanism", "stay", "level", "records"),
    [
        pytest.param(count, 0.1, 2.6, 90),
        pytest.param(ut.PureDP, 0.1, 2.6, 98),
        pytest.param(ut.PureDP, 0.2, 1.64, 140),
        pytest.param(ut.PureDP, 0.745, 2.586, 400),
        pytest.param(count, 0.6, 0.6, 440),
    ],
)
def test_a_first_record_that_lingers(mechanism, stay, level, records):
    """One target, nothing known: whether the first record is in a state that is never re-entered.

    The value must lie in the interval; the interval may be wide.
    """
    chain = ut.MarkovChain([[1.0, 0.0], [1 - stay, stay]], start=[0.5, 0.5], length=records)
    leak = ut.leakage(mechanism(level), chain, against=ut.Adversary(0))
    expected = lingering(stay, level, records)
    assert leak.lower <= expected * (1 + 1e-11)
    assert expected <= leak.upper * (1 + 1e-11)


@pytest.mark.parametrize(("stay", "records"), [(0.1, 514), (0.2, 2000)])
def test_a_first_record_that_lingers_less_likely_than_numbers_go_is_refused(stay, records):
    with pytest.raises(InvalidModel, match="fewer records"):
        ut.MarkovChain([[1.0, 0.0], [1 - stay, stay]], start=[0.5, 0.5], length=records)


@pytest.mark.parametrize("records", [2, 50, 900])
@pytest.mark.parametrize("who", ["any", "ignorant"])
def test_copies_of_one_record_leak_as_often_as_they_are_many(who, records):
    chain = ut.MarkovChain([[1.0, 0.0], [0.0, 1.0]], start=[0.5, 0.5], length=records)
    leak = ut.leakage(ut.PureDP(1.0), chain, against=who)
    assert leak.lower <= records * (1 + 1e-12)
    assert leak.upper >= records * (1 - 1e-12)
