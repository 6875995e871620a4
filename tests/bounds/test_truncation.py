"""Series longer than any sweep: what lies beyond the records that are swept is covered."""

import numpy as np
import pytest

import undertow as ut


def random_chain(k: int, seed: int, length: int | None, start: bool) -> ut.MarkovChain:
    rng = np.random.default_rng(seed)
    rows = 0.6 * np.eye(k) + 0.4 * rng.dirichlet(np.ones(k), size=k)
    law = rng.dirichlet(np.ones(k)) if start else "stationary"
    return ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True), start=law, length=length)


@pytest.mark.parametrize("length", [60, None])
def test_chains_whose_supports_never_merge_have_no_finite_tail(length):
    """Copies of the first record: the count of all of them gives it away."""
    frozen = ut.MarkovChain(np.eye(2), start=[0.5, 0.5], length=length)
    leak = ut.leakage(ut.DiscreteLaplace(ut.Count(1), 4.0), frozen)
    assert leak.upper >= (length or 1e9) / 4.0 * (1 - 1e-9)


@pytest.mark.parametrize("length", [25, None])
def test_a_histogram_of_two_states_attains_the_exchange(length):
    """Far answers, one bin too high and the other too low, are the worst 2/scale-DP output."""
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=length)
    leak = ut.leakage(ut.DiscreteLaplace(ut.Histogram(), 2.0), chain, against="ignorant")
    assert leak.upper == pytest.approx(
        ut.leakage(ut.PureDP(1.0), chain, against="ignorant").upper, rel=1e-9
    )
    assert leak.closed


@pytest.mark.parametrize("start", [[1.0, 0.0], [0.3, 0.7]])
def test_targets_near_the_end_of_a_long_series_count_too(start):
    """The last record of an alternating series has one neighbour less to hide among."""
    rows = [[0.3, 0.7], [0.7, 0.3]]
    noisy = ut.Laplace(ut.Count(0), 1.0)
    chain = ut.MarkovChain(rows, start=start, length=400)
    last = ut.leakage(noisy, chain, against=ut.Adversary(399, ()))
    whole = ut.leakage(noisy, chain, against="ignorant")
    assert whole.upper >= last.lower
    assert whole.lower >= last.lower - 1e-9
