"""How far noise leaves laws apart: against forty digits, dense grids and all sets of states."""

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from tests.grids import law
from tests.oracles.exact import separation
from undertow.bounds.dependent import level_separations, log_laws, separation_upper, separations

MANY = settings(deadline=None, derandomize=True, database=None, max_examples=150)


def laws(seed, rows=3, columns=4, zeros=0.2):
    rng = np.random.default_rng(seed)
    found = rng.dirichlet(np.full(columns, 0.5), size=rows)
    found[rng.random(found.shape) < zeros] = 0.0
    found[:, 0] += 0.01
    return found / found.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 7.0, 1e6])
@pytest.mark.parametrize("seed", range(6))
def test_separation_is_never_below_the_truth(seed, scale):
    rows = laws(seed)
    answers = np.random.default_rng(seed + 100).normal(size=4).round(3)
    truth = separation(rows, answers, scale)
    found = separation_upper(rows, answers, scale)
    assert Decimal(found) >= truth
    assert found == pytest.approx(float(truth), rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_no_real_number_separates_more_than_the_answers(seed):
    """Between the answers, outside them, and far beyond: 20,000 places on the line."""
    rows, scale = laws(seed, zeros=0.0), 0.7
    answers = np.random.default_rng(seed).normal(size=4)
    places = np.concatenate([np.linspace(-9, 9, 20_000), [-60.0, 60.0]])
    seen = rows @ np.exp(-np.abs(answers[:, None] - places) / scale)
    anywhere = np.log(seen.max(axis=0) / seen.min(axis=0)).max()
    found = separation_upper(rows, answers, scale)
    assert anywhere <= found
    assert found == pytest.approx(anywhere, abs=2e-3)


@law(
    MANY,
    40,
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(0.05, 50.0),
    factor=st.floats(1.01, 5.0),
)
def test_laws_of_separation(seed, scale, factor):
    rng = np.random.default_rng(seed)
    rows, answers = laws(seed, rows=2 + seed % 3), rng.normal(size=4)
    found = separation_upper(rows, answers, scale)
    reach = np.ptp(answers) / scale
    assert 0 <= found <= reach * (1 + 1e-14)
    assert separation_upper(rows, answers, scale * factor) <= found * (1 + 1e-12)  # more noise
    shuffled = rng.permutation(4)
    for same in (
        separation_upper(rows[::-1], answers, scale),
        separation_upper(rows[:, shuffled], answers[shuffled], scale),
        separation_upper(rows, -answers, scale),
        separation_upper(rows, answers * factor + 3.0, scale * factor),
        separation_upper(rows * rng.uniform(0.1, 9.0, size=(len(rows), 1)), answers, scale),
    ):
        assert same == pytest.approx(found, rel=1e-9, abs=1e-11)


def test_separations_of_many_tables_and_of_impossible_values():
    stack = np.stack([laws(seed) for seed in range(5)])
    answers = np.array([0.0, 1.0, 1.5, 4.0])
    each = separations(log_laws(stack), answers, 0.8)
    for rows, found in zip(stack, each, strict=True):
        assert found == pytest.approx(separation_upper(rows, answers, 0.8), abs=1e-12)
    half = stack[0].copy()
    half[1] = 0.0
    expected = separation_upper(stack[0][[0, 2]], answers, 0.8)
    assert separation_upper(half, answers, 0.8) == expected
    assert separations(log_laws(half), answers, 0.8) == pytest.approx(expected, abs=1e-12)
    alone = np.zeros((3, 4))
    alone[0] = stack[0, 0]
    assert separation_upper(alone, answers, 0.8) == 0.0
    assert separations(log_laws(alone), answers, 0.8) == 0.0
    assert level_separations(log_laws(alone), 1.0) == 0.0


def test_tiny_noise_separates_by_the_whole_distance():
    apart = [[1.0, 0.0], [0.0, 1.0]]
    for scale in (1e-3, 1e-9, 1e-300):
        assert separation_upper(apart, [0.0, 1.0], scale) == pytest.approx(1 / scale)
    assert separation_upper(apart, [0.0, 1e10], 1e-300) == math.inf


@pytest.mark.parametrize("level", [0.01, 1.0, 30.0, 900.0])
@pytest.mark.parametrize("seed", range(5))
def test_levels_separate_by_the_best_set_of_states(seed, level):
    rows = laws(seed)
    worst = 0.0
    for one, two in itertools.permutations(rows, 2):
        for size in range(5):
            for chosen in itertools.combinations(range(4), size):
                top, bottom = (float(row[list(chosen)].sum()) for row in (one, two))
                ends = [math.log(max(1 - s, 0.0) * math.exp(-level) + s) if s or level < 700
                        else -level for s in (top, bottom)]  # fmt: skip
                worst = max(worst, ends[0] - ends[1])
    found = float(level_separations(log_laws(rows), level))
    assert found == pytest.approx(min(worst, level), rel=1e-9, abs=1e-12)
    several = level_separations(log_laws(np.stack([rows, rows])), np.array([level, 0.01]))
    assert several[0] == found


def test_a_noisy_histogram_attains_the_level():
    """Far answers of a histogram, the bins of a set too high: likelihood e^(2/scale) on the set."""
    rows, scale = laws(3, zeros=0.0), 1.3
    worst = 0.0
    for places in itertools.product((-5.0, 5.0), repeat=4):
        bins = np.eye(4)
        seen = rows @ np.exp(-np.abs(bins - np.array(places)).sum(axis=1) / scale)
        worst = max(worst, float(np.log(seen.max() / seen.min())))
    assert level_separations(log_laws(rows), 2 / scale) == pytest.approx(worst, abs=1e-12)
