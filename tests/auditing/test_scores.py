"""The audit's own likelihoods equal enumeration."""

import itertools
import math

import numpy as np
import pytest

import undertow as ut
from undertow.auditing.inference import hidden
from undertow.auditing.scenarios import ChainSource
from undertow.auditing.scores import (
    count_score,
    laplace_blur,
    normal_blur,
    of_mean,
    series_score,
)

P3 = ut.MarkovChain([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]])
P2 = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], start=[0.2, 0.8])
ERASURES = [[0.5, 0.1], [1.0, 1.0], [0.2, 0.9], [0.0, 0.3]]


def shown(mechanism, path, record):
    """Pr[output] of a record given the whole path; XOR noise is summed elsewhere."""
    if isinstance(mechanism, ut.RandomizedResponse):
        return mechanism.matrix[path[record]]
    row = mechanism.probabilities[record, path[record]]
    return np.append((1 - row) * (np.arange(2) == path[record]), row)


def likelihood(mechanism, chain, first, path_values, outputs):
    """Pr[outputs, fixed values], by enumeration of all paths (and all noise)."""
    total, length = 0.0, len(outputs)
    for path in itertools.product(range(chain.size), repeat=length):
        if any(path[r] != v for r, v in path_values.items()):
            continue
        probability = chain.law(first)[path[0]]
        for t in range(length - 1):
            probability *= chain.step(first + t)[path[t], path[t + 1]]
        if isinstance(mechanism, ut.XorNoise):
            z = [x ^ y for x, y in zip(path, outputs, strict=True)]
            rho = mechanism.rho0, mechanism.rho1
            probability *= (mechanism.flip_rate, 1 - mechanism.flip_rate)[1 - z[0]]
            for a, b in itertools.pairwise(z):
                probability *= rho[a] if a != b else 1 - rho[a]
        else:
            for t, output in enumerate(outputs):
                probability *= shown(mechanism, path, t)[output]
        total += probability
    return total


@pytest.mark.parametrize(
    ("mechanism", "chain", "first", "length", "outputs"),
    [
        (ut.RandomizedResponse.binary(0.2, 0.3), P2, 2, 5, 2),
        (ut.RandomizedResponse.symmetric(3, 0.4), P3, 0, 4, 3),
        (ut.RandomizedResponse([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]), P2, 0, 4, 3),
        (ut.XorNoise(0.2, 0.4), P2, 1, 5, 2),
        (ut.Redaction(ERASURES), P2, 0, 4, 3),
    ],
)
def test_series_scores_equal_enumeration(mechanism, chain, first, length, outputs):
    target, known = 1, {length - 1: 0}
    window, facts = range(first, first + length), {r + first: v for r, v in known.items()}
    score = series_score(hidden(mechanism, chain), window, facts, first + target, (0, 1))
    compared = 0
    for seen in itertools.product(range(outputs), repeat=length):
        pair = [
            likelihood(mechanism, chain, first, known | {target: value}, seen) for value in (0, 1)
        ]
        if min(pair) <= 0:
            continue
        found = score(np.array([seen], dtype=np.uint8))[0, 0]
        assert found == pytest.approx(math.log(pair[0] / pair[1]), abs=1e-3)
        compared += 1
    assert compared > 4


def test_long_series_do_not_underflow():
    model = hidden(ut.RandomizedResponse.binary(0.01, 0.01), P2)
    outputs = np.zeros((2, 3000), dtype=np.uint8)
    outputs[1] = 1
    found = series_score(model, range(3000), {}, 1500, (0, 1))(outputs)
    assert np.isfinite(found).all()
    assert found[0, 0] > 5 > -5 > found[1, 0]


def test_what_the_plan_rules_out_speaks_for_the_truth():
    model = hidden(ut.Redaction(ERASURES), P2)
    score = series_score(model, range(4), {}, 1, (0, 1))
    leaked = score(np.array([[2, 0, 2, 0], [2, 1, 2, 0]], dtype=np.uint8))[:, 0]
    assert leaked[0] > 5
    assert leaked[1] < -5


@pytest.mark.parametrize(
    ("scale", "blur", "power"),
    [(0.4, laplace_blur, 1), (3.0, laplace_blur, 1), (1.7, normal_blur, 2)],
)
def test_count_scores_equal_enumeration(scale, blur, power):
    """Weights exp(-(|z| / scale)^power / power): Laplace or normal noise, far beyond all counts."""
    source, pair = ChainSource(P3, 4, 0), ({1: 2, 3: 0}, {1: 0, 3: 0})
    bins = np.array([[0, 1, 1]])
    score = count_score(source, pair, bins, blur(scale))
    for answer in (-7, -1, 0, 1, 2, 4, 9):
        probabilities = []
        for fixed in pair:
            total = 0.0
            for path in itertools.product(range(3), repeat=4):
                if all(path[r] == v for r, v in fixed.items()):
                    probability = P3.law(0)[path[0]]
                    for t in range(3):
                        probability *= P3.step(t)[path[t], path[t + 1]]
                    count = sum(x > 0 for x in path)
                    total += probability * math.exp(
                        -((abs(answer - count) / scale) ** power) / power
                    )
            probabilities.append(total)
        prior = [np.linalg.matrix_power(P3.transition, 2)[v, 0] * P3.law(1)[v] for v in (2, 0)]
        wanted = math.log(probabilities[0] / prior[0]) - math.log(probabilities[1] / prior[1])
        found = score(np.array([[float(answer)]]))[0, 0]
        assert found == pytest.approx(wanted, abs=1e-5)


def test_histograms_are_scored_bin_by_bin():
    source = ChainSource(P2, 5)
    score = count_score(source, ({2: 1}, {2: 0}), np.eye(2), laplace_blur(2.0))
    high, low = score(np.array([[0.0, 5.0], [5.0, 0.0]]))
    assert high[0] > 0 > low[0]
    assert high.tolist()[1:] == [0.0, 5.0, -5.0]


def test_several_releases_are_scored_by_their_mean():
    source, bins = ChainSource(P2, 5), np.array([[0, 1]])
    score = count_score(source, ({2: 1}, {2: 0}), bins, normal_blur(2.0))
    answers = np.array([[1.0, 4.0, 4.0]])
    assert of_mean(score, 3)(answers).tolist() == score(np.array([[3.0]])).tolist()
    assert of_mean(score, 1) is score
