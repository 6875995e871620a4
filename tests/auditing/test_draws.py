"""Data drawn given a target and known records follows the conditional law of the model."""

import itertools

import numpy as np
import pytest

import undertow as ut
from tests.oracles.samples import chi_square
from undertow.auditing.scenarios import ChainSource, GaussianSource
from undertow.errors import InvalidInput
from undertow.models.gaussian import MultivariateGaussian

P3 = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]
STACK = [[[0.9, 0.1], [0.4, 0.6]], [[0.2, 0.8], [0.5, 0.5]], [[0.7, 0.3], [0.0, 1.0]]]
CASES = [
    (ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]]), 5, 0, {2: 1}),
    (ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]]), 5, 3, {0: 1, 3: 0}),
    (ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], start=[1.0, 0.0]), 4, 2, {3: 1}),
    (ut.MarkovChain(P3), 4, 0, {1: 2, 3: 0}),
    (ut.MarkovChain(STACK, start=[0.5, 0.5]), 4, 0, {3: 0}),
]


def conditional(chain, length, first, fixed):
    """The joint law of the records given the fixed ones, by enumeration."""
    law = {}
    for path in itertools.product(range(chain.size), repeat=length):
        probability = chain.law(first)[path[0]]
        for t in range(length - 1):
            probability *= chain.step(first + t)[path[t], path[t + 1]]
        law[path] = probability * all(path[r] == v for r, v in fixed.items())
    total = sum(law.values())
    return {path: probability / total for path, probability in law.items()}


def p_value(series, law):
    paths, counts = np.unique(series, axis=0, return_counts=True)
    seen = {tuple(map(int, path)): int(count) for path, count in zip(paths, counts, strict=True)}
    assert set(seen) <= set(law)
    return chi_square([seen.get(path, 0) for path in law], law.values())


@pytest.mark.parametrize(("chain", "length", "first", "fixed"), CASES)
def test_laws_of_chains_are_exact(chain, length, first, fixed):
    start, steps = ChainSource(chain, length, first).laws(fixed)
    for path, probability in conditional(chain, length, first, fixed).items():
        found = start[path[0]]
        for t, step in enumerate(steps):
            found *= step[path[t], path[t + 1]]
        assert found == pytest.approx(probability, abs=1e-14)


@pytest.mark.parametrize(("chain", "length", "first", "fixed"), CASES)
def test_draws_follow_the_law(chain, length, first, fixed):
    """Null: the conditional law; 40,000 draws, chi-square, false alarms below 1e-6 in all.

    The broken twin draws without conditioning on the fixed records and sets them afterwards.
    """
    law = conditional(chain, length, first, fixed)
    source, generator = ChainSource(chain, length, first), np.random.default_rng(3)
    series = source.given(fixed)(40_000, generator)
    assert series.dtype == np.uint8
    assert p_value(series, law) > 1e-8
    twin = np.array(source.given({})(40_000, generator))
    for record, state in fixed.items():
        twin[:, record] = state
    impossible = {path for path, probability in law.items() if not probability}
    known = {tuple(map(int, path)) for path in np.unique(twin, axis=0)}
    assert known & impossible or p_value(twin, law) < 1e-8


def test_certain_records_are_filled_in():
    source = ChainSource(ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]]), 6)
    series = source.given({0: 1, 1: 1, 5: 0})(100, np.random.default_rng(1))
    assert (series[:, [0, 1, 5]] == [1, 1, 0]).all()


def test_impossible_values_are_refused():
    absorbing = ChainSource(ut.MarkovChain([[0.9, 0.1], [0.0, 1.0]], start=[0.5, 0.5]), 4)
    with pytest.raises(InvalidInput, match="cannot occur together"):
        absorbing.given({1: 1, 2: 0})
    with pytest.raises(InvalidInput, match="cannot occur together"):
        ChainSource(ut.MarkovChain([[0.5, 0.5], [0.5, 0.5]], start=[1.0, 0.0]), 3).given({0: 1})
    with pytest.raises(InvalidInput, match="outside"):
        absorbing.given({4: 0})


def test_gaussian_draws():
    """Null: the conditional mean and covariance; 200,000 draws, 5 standard errors (1e-6)."""
    root = np.array([[1.0, 0, 0], [0.5, 1.2, 0], [-0.4, 0.3, 0.8]])
    model = MultivariateGaussian([1.0, 2.0, 3.0], root @ root.T)
    draws = GaussianSource(model).given({1: 4.0})(200_000, np.random.default_rng(2))
    sigma = model.covariance
    gain = sigma[[0, 2], 1] / sigma[1, 1]
    rest = sigma[np.ix_([0, 2], [0, 2])] - np.outer(gain, sigma[1, [0, 2]])
    assert (draws[:, 1] == 4.0).all()
    error = np.sqrt(np.diag(rest) / len(draws))
    assert (np.abs(draws[:, [0, 2]].mean(axis=0) - ([1, 3] + gain * 2)) < 5 * error).all()
    assert np.abs(np.cov(draws[:, [0, 2]].T) - rest).max() < 0.02
    assert (np.abs(draws[:, [0, 2]].mean(axis=0) - [1, 3]) > 5 * error).all()
    assert (GaussianSource(model).given({0: 1, 1: 2, 2: 3})(5, np.random.default_rng(1)) == [
        1, 2, 3,
    ]).all()  # fmt: skip
