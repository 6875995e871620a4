"""How far noise leaves laws apart: against forty digits, dense grids and all sets of states."""

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest

from tests.oracles.exact import separation
from undertow.bounds.dependent import level_separations, separation_upper
from undertow.bounds.levels.sides import log


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
    found = float(level_separations(log(rows), level))
    assert found == pytest.approx(min(worst, level), rel=1e-9, abs=1e-12)
    several = level_separations(log(np.stack([rows, rows])), np.array([level, 0.01]))
    assert several[0] == found
