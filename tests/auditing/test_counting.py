"""Guesses from noisy counts and sums are those of full enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from tests.oracles import attackers as oracle
from undertow.auditing.attackers import answer_posteriors, totals
from undertow.errors import InvalidInput, NotSupported, UnknownState

PROPERTY = settings(deadline=None, derandomize=True, database=None, max_examples=40)


def judged(answer, value, scale, chain, length, known=None):
    """Every series, weighed by the density of the noise; ``value`` is the exact answer."""
    mass = np.zeros((length, chain.size))
    for series in itertools.product(range(chain.size), repeat=length):
        if any(series[record] != state for record, state in (known or {}).items()):
            continue
        noise = np.sum(np.abs(np.atleast_1d(answer) - np.atleast_1d(value(series))))
        mass[range(length), series] += oracle.prior(chain, series) * np.exp(-noise / scale)
    return mass / mass.sum(axis=1, keepdims=True)


@law(
    PROPERTY,
    12,
    seed=st.integers(0, 2**32),
    states=st.integers(2, 3),
    length=st.integers(2, 6),
    facts=st.integers(0, 2),
    moving=st.booleans(),
)
def test_counts_equal_enumeration(seed, states, length, facts, moving):
    rng = np.random.default_rng(seed)
    chain = oracle.random_chain(rng, states, length, moving=moving)
    noise = ut.DiscreteLaplace(ut.Count([states - 1, 0] if seed % 3 else 1), rng.uniform(0.3, 5))
    known = {int(r): int(rng.integers(states)) for r in rng.permutation(length)[:facts]}
    answers = [int(rng.integers(-3, length + 4)), 2.5]
    found = answer_posteriors(answers, noise, chain, known=known)

    def value(series):
        return sum(x in noise.query.states for x in series)

    for answer, one in zip(answers, found, strict=True):
        wanted = judged(answer, value, noise.scale, chain, length, known)
        assert np.abs(one - wanted).max() < 1e-12


VALUES = (0.5, 2.0, 7.0)
AMOUNTS = ut.MarkovChain(oracle.THREE, states=VALUES, length=5)


@pytest.mark.parametrize("answer", [-4.0, 6.3, 11.0, 90.0])
def test_sums_and_means_equal_enumeration(answer):
    def value(series):
        return sum(min(VALUES[x], 5.0) for x in series)

    total = ut.Laplace(ut.Sum(0, 5), scale=4.0)
    wanted = judged(answer, value, 4.0, AMOUNTS, 5, {1: 2})
    found = answer_posteriors(answer, total, AMOUNTS, known={1: 7.0})
    assert np.abs(found[0] - wanted).max() < 1e-7  # the lattice
    mean = ut.Laplace(ut.Mean(0, 5), scale=0.8)
    found = answer_posteriors(answer / 5, mean, AMOUNTS, known={1: 7.0})
    assert np.abs(found[0] - wanted).max() < 1e-7


def test_states_count_as_the_values_of_the_query():
    chain = ut.MarkovChain(oracle.LAZY, states=("still", 4.0), length=4)
    query = ut.Sum(1, 4, values={"still": 2.5, 4.0: 7})
    made = totals(ut.Laplace(query, 1.0), chain.states, 4)
    assert made.adds == (0, 1)
    assert (made.base, made.unit) == pytest.approx((2.5, 1.5), rel=1e-6)


@pytest.mark.parametrize("answer", [(2, 3), (9, -4), (0.5, 4.5)])
def test_histograms_of_two_states_equal_enumeration(answer):
    chain = ut.MarkovChain(oracle.LAZY, length=5)
    noise = ut.DiscreteLaplace(ut.Histogram(), 1.5)
    wanted = judged(answer, lambda series: (5 - sum(series), sum(series)), 1.5, chain, 5)
    assert np.abs(answer_posteriors(answer, noise, chain)[0] - wanted).max() < 1e-12


def test_series_that_are_added_up_are_independent():
    """One answer about three short series: the records of the others are noise."""
    chain, noise = ut.MarkovChain(oracle.LAZY), ut.DiscreteLaplace(ut.Count(1), 1.0)
    lengths = [2, 1, 3]
    mass = np.zeros((6, 2))
    for series in itertools.product((0, 1), repeat=6):
        parts = series[:2], series[2:3], series[3:]
        probability = np.prod([oracle.prior(chain, part) for part in parts])
        mass[range(6), series] += probability * np.exp(-abs(5 - sum(series)))
    wanted = mass / mass.sum(axis=1, keepdims=True)
    assert np.abs(answer_posteriors(5, noise, chain, lengths)[0] - wanted).max() < 1e-12


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"length": None}, InvalidInput, "has no length"),
        ({"length": 30_000}, NotSupported, "too many"),
        ({"targets": [9]}, InvalidInput, "record 9"),
        ({"known": {9: 1}}, InvalidInput, "record 9"),
        ({"known": [1]}, InvalidInput, "state of each"),
        ({"known": {1: "x"}}, UnknownState, "none of the plan's states"),
        ({"answers": np.nan}, InvalidInput, "finite"),
        ({"mechanism": ut.Laplace(ut.Linear([1, 2], 1.0), 1.0)}, NotSupported, "Linear"),
        ({"mechanism": ut.Laplace(ut.Query(max), 1.0)}, NotSupported, "Query"),
    ],
)
def test_refusals(change, error, words):
    asked = {"answers": 3, "mechanism": ut.DiscreteLaplace(ut.Count(1), 1.0),
             "chain": ut.MarkovChain(oracle.LAZY), "length": 5} | change  # fmt: skip
    with pytest.raises(error, match=words):
        answer_posteriors(**asked)
