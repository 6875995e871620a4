"""Leakages at a delta against the oracle: all tests, all adversaries, all values of small series.

Upper ends are never below the truth: at the leakage that is stated no algorithm of the class, and
no window of the noisy count, exceeds the delta. Lower ends are attained.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.contracts.approximate_oracle import (
    ROUNDING,
    gaussian_delta_any,
    worst_delta_any,
)
from tests.grids import each, law
from undertow.errors import NotSupported

LAWS = settings(deadline=None, derandomize=True, database=None)
LINES = st.lists(
    st.tuples(st.floats(0.05, 1.5), st.sampled_from([0.0, 1e-9, 1e-6, 1e-3, 0.02])),
    min_size=1,
    max_size=2,
)


@st.composite
def chains(draw, states=(2, 3), lengths=(2, 3)):
    """Stationary chains of a few records: lively, sticky, contrary, with zeros now and then."""
    size, length = draw(st.sampled_from(states)), draw(st.sampled_from(lengths))
    entry = st.sampled_from([0.0, 0.02, 0.1, 0.3, 0.5, 1.0])
    rows = []
    for at in range(size):
        row = np.array([draw(entry) for _ in range(size)]) + 1e-3
        row[(at + 1) % size] += 0.05  # irreducible
        rows.append(row / row.sum())
    return ut.MarkovChain(np.array(rows), length=length)


def worst(chain, lines, epsilon, against):
    return worst_delta_any(chain.transition, chain.initial, chain.length, lines, epsilon, against)


@law(
    settings(LAWS, max_examples=12), 2,
    chain=chains(), lines=LINES, delta=st.sampled_from([1e-6, 1e-3, 0.05]), data=st.data(),
)  # fmt: skip
def test_a_profile_leaks_no_more_than_is_stated(chain, lines, delta, data):
    against = data.draw(st.sampled_from(["any", "ignorant"]))
    leak = ut.leakage(ut.Profile(lines), chain, against, delta=delta)
    if math.isinf(leak.upper):
        assert min(d for _, d in lines) > 0
        return
    assert worst(chain, lines, leak.upper, against) <= delta * (1 + 1e-9) + ROUNDING
    for epsilon, found in leak.curve[:: max(1, len(leak.curve) // 4)]:
        assert worst(chain, lines, epsilon, against) <= found * (1 + 1e-9) + ROUNDING
    if leak.lower > 0:
        assert worst(chain, lines, leak.lower, against) >= delta * (1 - 1e-6) - 1e-9


@law(
    settings(LAWS, max_examples=8), 1,
    chain=chains(lengths=(2, 3, 4)), sigma=st.floats(0.5, 6.0),
    delta=st.sampled_from([1e-6, 1e-4, 1e-2]),
)  # fmt: skip
def test_a_gaussian_count_leaks_exactly_what_is_stated(chain, sigma, delta):
    exactly_stated(chain, sigma, delta)


def test_a_gaussian_count_of_records_that_alternate_leaks_exactly_what_is_stated():
    stays = 1 / 52  # answers between the two likely ones decide by a hair
    chain = ut.MarkovChain([[stays, 1 - stays], [1 - stays, stays]], length=2)
    exactly_stated(chain, 1.0, 1e-6)


def exactly_stated(chain, sigma, delta):
    """Hold both ends of a leakage against the sum over all series."""
    leak = ut.leakage(ut.Gaussian(ut.Count(0), sigma=sigma), chain, delta=delta)
    counted = np.arange(chain.size) == 0
    given_ = (chain.transition, chain.initial, chain.length, counted, sigma)
    assert gaussian_delta_any(*given_, leak.upper) <= delta * (1 + 1e-7)
    assert leak.method == "exact"
    assert leak.lower <= leak.upper
    if leak.lower > 1e-6:
        assert gaussian_delta_any(*given_, leak.lower) >= delta * (1 - 1e-6)


@each(("mu", "against"), [0.1, 0.5], ["any", "ignorant"])
def test_a_gaussian_class_holds_every_count(mu, against):
    """A count with noise 1 / mu is mu-GDP, so the class leaks at least as much, for each window."""
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=3)
    for guarantee in (ut.GDP(mu), ut.ZCDP(mu**2 / 2)):
        leak = ut.leakage(guarantee, chain, against, delta=1e-6)
        truth = gaussian_delta_any(
            chain.transition, chain.initial, 3, [False, True], 1 / mu, leak.upper
        )
        assert truth <= 1e-6


@settings(max_examples=40, deadline=None)
@given(size=st.integers(1, 4), epsilon=st.floats(0.05, 1.0), delta=st.sampled_from([1e-9, 1e-6]))
def test_groups_follow_the_classical_formula(size, epsilon, delta):
    total = delta * sum(math.exp(j * epsilon) for j in range(size))
    leak = ut.leakage(ut.ApproximateDP(epsilon, delta), ut.Groups(size), delta=total * (1 + 1e-9))
    assert leak.upper == pytest.approx(size * epsilon, rel=1e-9)
    tighter = ut.leakage(ut.ApproximateDP(epsilon, delta), ut.Groups(size), delta=total * 0.99)
    assert tighter.upper == math.inf


def test_a_trio_of_relatives():
    trio = ut.Pedigree({"child": ("father", "mother")}, allele_frequency=0.5)
    leak = ut.leakage(ut.ApproximateDP(1.0, 1e-6), trio, delta=4.885976e-6)
    assert leak.upper == pytest.approx(2.2402290, abs=1e-6)
    assert leak.method == "closed"


def test_no_delta_is_the_pure_answer():
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=8)
    pure = ut.leakage(ut.PureDP(1.0), chain)
    assert ut.leakage(ut.PureDP(1.0), chain, delta=0.0) == pure
    small = ut.leakage(ut.PureDP(1.0), chain, delta=1e-12)
    assert small.upper <= pure.upper
    assert small.upper == pytest.approx(pure.upper, abs=1e-5)


def test_a_set_of_models_has_the_worst_curve():
    one = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=3)
    two = ut.MarkovChain([[0.6, 0.4], [0.4, 0.6]], length=3)
    both = ut.leakage(ut.ZCDP(0.01), ut.ModelSet([one, two]), delta=1e-6)
    alone = [ut.leakage(ut.ZCDP(0.01), each, delta=1e-6) for each in (one, two)]
    assert both.upper == max(leak.upper for leak in alone)
    for epsilon, delta in both.curve:
        for leak in alone:
            assert any(e <= epsilon and d <= delta for e, d in leak.curve)


@pytest.mark.parametrize(
    "mechanism",
    [
        ut.GDP(0.1),
        ut.ZCDP(0.1),
        ut.ApproximateDP(1.0, 1e-6),
        ut.Gaussian(ut.Count(0), sigma=4.0),
        ut.DiscreteGaussian(ut.Count(0), sigma=4.0),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_delta_zero_is_refused_with_the_reason(mechanism):
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
    with pytest.raises(NotSupported, match="delta=1e-6"):
        ut.leakage(mechanism, chain)


def test_a_guarantee_that_is_pure_needs_no_delta():
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
    found = ut.leakage(ut.ApproximateDP(1.0, 0.0), chain)
    assert found.upper == pytest.approx(3.4748733768, abs=1e-8)
