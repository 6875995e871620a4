"""A noisy histogram on a chain: several counts at once, held against enumeration."""

import numpy as np
import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from tests.oracles.joint import ERROR, chain_law, histogram, joint_leakage
from undertow.bounds.counts import histograms
from undertow.bounds.counts.histograms import histogram_leakage
from undertow.errors import MethodRefused

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
FOUR = ut.MarkovChain(
    [[0.7, 0.15, 0.1, 0.05], [0.1, 0.65, 0.2, 0.05], [0.05, 0.15, 0.7, 0.1], [0.1, 0.1, 0.2, 0.6]],
    length=1000,
)
TURNS = ut.MarkovChain([[0.2, 0.4, 0.4], [0.4, 0.2, 0.4], [0.4, 0.4, 0.2]])

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=150)

ROUNDED = 1e-11
"""More than the rounding of both ends, and of the oracle."""


def truth(chain, scale, against, n):
    """The leakage of the histogram of n records, by enumeration of all series and outputs."""
    return joint_leakage(
        chain_law(chain, n), histogram(range(n), chain.size, scale), against, seed=0
    )


@st.composite
def chains(draw, sizes=(2, 3)):
    """A chain that stays, leaves or does neither, with its own start or the stationary one."""
    size = draw(st.sampled_from(sizes))
    rows = st.lists(st.integers(1, 20), min_size=size, max_size=size)
    matrix = np.array(draw(st.lists(rows, min_size=size, max_size=size)), dtype=float)
    matrix /= matrix.sum(axis=1, keepdims=True)
    lean = draw(st.sampled_from([0.0, 0.5, -1.0]))
    other = np.eye(size) if lean > 0 else (1 - np.eye(size)) / (size - 1)
    matrix = (1 - abs(lean) * 0.8) * matrix + abs(lean) * 0.8 * other
    matrix /= matrix.sum(axis=1, keepdims=True)
    start = "stationary"
    if draw(st.booleans()):
        weights = np.array(draw(rows), dtype=float)
        start = weights / weights.sum()
    return ut.MarkovChain(matrix, start=start)


@law(LAWS, 6, data=st.data())
def test_short_series_are_exact(data):
    """All adversaries, all answers: both ends meet the enumeration."""
    chain = data.draw(chains())
    n = data.draw(st.integers(2, 5 if chain.size == 2 else 4))
    scale = data.draw(st.sampled_from([0.4, 1.0, 3.0, 20.0]))
    against = data.draw(st.sampled_from(["any", "ignorant"]))
    short = ut.MarkovChain(chain.transition, start=chain.start, length=n)
    found = histogram_leakage(scale, short, against)
    wanted = truth(chain, scale, against, n)
    assert found.lower <= wanted + ERROR
    assert found.upper >= wanted - ERROR
    assert found.upper - found.lower <= ROUNDED


@pytest.mark.parametrize("known", [(), (0,), (0, 3)])
@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_what_holds_against_any_holds_against_one(known, scale):
    """Where records alternate, all algorithms of the level leak more than the histogram does."""
    chain = ut.MarkovChain([[0.1, 0.9], [0.8, 0.2]], length=4)
    noise, who = ut.Laplace(ut.Histogram(), scale), ut.Adversary(1, known)
    one = ut.leakage(noise, chain, who)
    assert one.against == who
    assert one.lower - ERROR <= truth(chain, scale, (1, known), 4) <= one.upper + ERROR
    assert one.upper <= ut.leakage(noise, chain).upper
    if not known:
        assert one.upper <= ut.leakage(noise, chain, "ignorant").upper


@law(LAWS, 25, data=st.data())
def test_farther_records_are_bounded(data):
    """Windows shorter than the series: what is farther away never leaks more than is said."""
    chain = data.draw(chains(sizes=(2,)))
    scale = data.draw(st.sampled_from([0.5, 2.0, 8.0]))
    against = data.draw(st.sampled_from(["any", "ignorant"]))
    n, steps = 5, data.draw(st.integers(1, 3))
    wanted = truth(chain, scale, against, n)
    for length in (n, None):
        longer = ut.MarkovChain(chain.transition, start=chain.start, length=length)
        windows = histograms._Windows(longer, steps, scale, against == "ignorant")
        found = windows.leakage(against)
        bound = ut.leakage(ut.PureDP(2 / scale), longer, against)  # it is one of these algorithms
        assert found.upper >= wanted - ERROR
        if length is None:
            assert found.lower <= bound.upper
        else:
            assert found.lower <= wanted + ERROR


@law(LAWS, 2, data=st.data())
def test_more_noise_never_leaks_more(data):
    chain = data.draw(chains())
    low, high = sorted(data.draw(st.tuples(*[st.floats(0.3, 30)] * 2)))
    assume(high > 1.001 * low)
    assert histogram_leakage(high, chain).upper <= histogram_leakage(low, chain).upper + ROUNDED


def test_names_and_mirrors_change_nothing():
    matrix = np.array([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3], [0.25, 0.45, 0.3]])
    turn = [2, 0, 1]
    plain = histogram_leakage(2.0, ut.MarkovChain(matrix))
    named = histogram_leakage(2.0, ut.MarkovChain(matrix[np.ix_(turn, turn)]))
    pi = ut.MarkovChain(matrix).initial
    mirror = histogram_leakage(2.0, ut.MarkovChain(matrix.T * pi / pi[:, None]))
    for other in (named, mirror):
        assert other.lower == pytest.approx(plain.lower, abs=ROUNDED)
        assert other.upper == pytest.approx(plain.upper, abs=ROUNDED)


@pytest.mark.parametrize(
    ("chain", "scale", "against"),
    [
        (ACTIVITY, 7.989588, "ignorant"),
        (FOUR, 10.466778, "any"),
        pytest.param(ACTIVITY, 7.989588, "any", marks=pytest.mark.soak),
        pytest.param(FOUR, 10.466778, "ignorant", marks=pytest.mark.soak),
    ],
)
def test_nothing_is_gained_where_states_last(chain, scale, against):
    """Far answers of the histogram attain what all algorithms of its level leak (limit 1)."""
    noise = ut.DiscreteLaplace(ut.Histogram(), scale)
    found = ut.leakage(noise, chain, against)
    bound = ut.leakage(ut.PureDP(noise.level_upper()), chain, against)
    assert found.upper == bound.upper
    assert found.upper - found.lower <= 1e-9 * found.upper
    with pytest.raises(MethodRefused, match="as much as any algorithm"):
        ut.calibrate(ut.Histogram(), chain, 1.0, against, method="exact")


@pytest.mark.parametrize(
    ("chain", "exchange", "exact"),
    [
        (TURNS, 3.092856, 2.0),
        pytest.param(
            ut.MarkovChain([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.4, 0.4, 0.2]]),
            3.293813,
            3.164309,
            marks=pytest.mark.soak,
        ),
        (ut.MarkovChain([[0.2, 0.8], [0.7, 0.3]]), 2.94169, 1.0),  # a count of one of the two
    ],
)
def test_plans_use_it(chain, exchange, exact):
    before = ut.calibrate(ut.Histogram(), chain, 1.0, missing="none", method="exchange")
    assert before.mechanism.scale == pytest.approx(exchange, rel=1e-6)
    assert ut.calibrate(ut.Histogram(), chain, 1.0).method == "exchange"  # any may be missing
    plan = ut.calibrate(ut.Histogram(), chain, 1.0, missing="none")
    assert plan.method == "exact"
    assert plan.mechanism.scale == pytest.approx(exact, rel=1e-6)
    assert plan.leakage.proves(1.0)
    assert plan.leakage.valid_for == "series"
    assert ut.Plan.from_json(plan.to_json()) == plan
    assert ut.release(plan, [0, 1] * 50).proof.proves(1.0)


def test_refusals():
    wide = np.full((7, 7), 1 / 7)
    with pytest.raises(MethodRefused, match="at most 6 states"):
        ut.calibrate(ut.Histogram(), ut.MarkovChain(wide), 1.0, method="exact")
    with pytest.raises(MethodRefused, match="whole series"):
        ut.calibrate(ut.Histogram(), TURNS, 1.0, method="exact", valid_for="windows")
    assert ut.calibrate(ut.Histogram(), TURNS, 1.0, valid_for="any").method == "exchange"
    even = np.full((3, 3), 1 / 3)
    many = ut.ModelSet(
        [ut.MarkovChain((1 - q) * TURNS.transition + q * even) for q in np.linspace(0, 0.1, 9)]
    )
    with pytest.raises(MethodRefused, match="at most 8 chains"):
        ut.calibrate(ut.Histogram(), many, 1.0, method="exact")
    assert histogram_leakage(1.0, ut.MarkovChain([[0.0, 1.0], [0.5, 0.5]])) is None
    assert histogram_leakage(1.0, TURNS, "informed") is None
    assert histogram_leakage(1e-3, TURNS) is None
