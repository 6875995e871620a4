"""The estimate from densities is reproduced, labelled, and shown to exceed the truth."""

import numpy as np
import pytest

import undertow as ut
from undertow.auditing.scenarios import ChainSource
from undertow.errors import InvalidInput, NotSupported
from undertow.models.gaussian import MultivariateGaussian
from undertow.models.groups import Groups
from undertow_papers.lange2024.empirical import (
    empirical_leakage,
    ratio_estimate,
)

CHAIN = ut.MarkovChain([[0.8, 0.2], [0.2, 0.8]], length=10)
COUNT = ut.Laplace(ut.Count(1), 1.0)


def exact(fixed, scale=1.0, length=10):
    """The adversary's exact leakage: the laws of the count, blurred on their lattice."""
    laws = []
    for value in (1, 0):
        start, steps = ChainSource(CHAIN, length).laws({**fixed, 5: value})
        law = {(state, state): probability for state, probability in enumerate(start.tolist())}
        for step in steps:
            new: dict[tuple[int, int], float] = {}
            for (state, total), probability in law.items():
                for after in (0, 1):
                    key = (after, total + after)
                    new[key] = new.get(key, 0.0) + probability * float(step[state, after])
            law = new
        counts = np.zeros(length + 1)
        for (_, total), probability in law.items():
            counts[total] += probability
        grid = np.arange(length + 1)
        laws.append(np.exp(-np.abs(grid[:, None] - grid) / scale) @ counts)
    return float(np.abs(np.log(laws[0] / laws[1])).max())


def test_the_estimate_exceeds_the_truth():
    """20 adversaries, 20,000 draws: more than 15 estimates lie above what is exactly true."""
    draw = np.random.default_rng(1)
    above = []
    for _ in range(20):
        others = [r for r in draw.permutation(10)[: draw.integers(9)].tolist() if r != 5]
        fixed = {r: int(draw.integers(2)) for r in others}
        answers = [
            ChainSource(CHAIN, 10).given({**fixed, 5: value})(20_000, draw).sum(axis=1)
            + draw.laplace(0, 1, 20_000)
            for value in (1, 0)
        ]
        above.append(ratio_estimate(answers[0], answers[1], draw) / exact(fixed))
    assert sum(ratio > 1 for ratio in above) > 15
    assert 1.02 < np.median(above) < 1.6


def test_independent_records_are_estimated_at_their_dp_level_or_above():
    even = ut.MarkovChain([[0.5, 0.5], [0.5, 0.5]], length=4)
    found = empirical_leakage(COUNT, even, adversaries=20, draws=20_000, seed=1)
    assert 1.0 < found.value < 1.6  # the truth is 1
    assert found.value == found.each[-1]
    assert list(found.each) == sorted(found.each)


@pytest.mark.parametrize(
    ("query", "model"),
    [
        (ut.Sum(0, 1), CHAIN),
        (ut.Mean(0, 1), CHAIN),
        (ut.Linear([1.0] * 10, 1.0), CHAIN),
        (ut.Sum(0, 10), MultivariateGaussian(5, [[4, 1], [1, 4]])),
        (ut.Linear([1.0, 1.0], 4.0), MultivariateGaussian(5, [[4, 1], [1, 4]])),
    ],
)
def test_queries_and_models(query, model):
    noise = ut.Laplace(query, query.sensitivity(10))
    found = empirical_leakage(noise, model, adversaries=6, draws=100_000, seed=1)
    assert 0.2 < found.value < 5  # exact, worst adversary: 3.11 on the chain, below 2 on pairs


def test_what_has_no_estimate():
    with pytest.raises(NotSupported, match="Groups"):
        empirical_leakage(COUNT, Groups(3))  # type: ignore[arg-type]
    with pytest.raises(NotSupported, match="Histogram"):
        empirical_leakage(ut.Laplace(ut.Histogram(), 1.0), CHAIN)
    with pytest.raises(InvalidInput, match="length=10"):
        empirical_leakage(COUNT, ut.MarkovChain([[0.8, 0.2], [0.2, 0.8]]))
    with pytest.raises(InvalidInput, match="percentile"):
        empirical_leakage(COUNT, CHAIN, percentile=101)
    stuck = ut.MarkovChain(np.eye(2), start=[1.0, 0.0], length=10)
    with pytest.raises(NotSupported, match="no random adversary"):
        empirical_leakage(COUNT, stuck, adversaries=1, draws=100, seed=1)
