"""Leakages do not add up: counterexamples to Theorems 3 and 4 of liu2016, and what does compose.

Both theorems are read as statements about the leakage: what a release says about one record, to
whoever knows any of the others.
"""

import itertools
from decimal import Decimal
from operator import itemgetter

import numpy as np
import pytest

import undertow as ut
from tests.oracles.exact import ACTIVITY, ACTIVITY_START, both, chain_law, noisy
from tests.oracles.exact import leakage as oracle
from undertow.testing.enumeration import independent_releases, mechanism_leakage

PAIRS = list(itertools.product((0, 1), repeat=2))
ONE = [[0.08, 0.88], [0.03, 0.07]]
TWO = [[0.19, 0.72], [0.09, 0.27]]
JOINT = [[0.582, 0.333], [0.084, 0.001]]


def decimals(rows):
    return {point: Decimal(repr(rows[point[0]][point[1]])) for point in PAIRS}


def yes_or_no(rows):
    """Output 0 with the given probability for each data set, else 1."""
    probabilities = decimals(rows)
    return lambda point, output: probabilities[point] if output == 0 else 1 - probabilities[point]


def likelihood(rows):
    zero = np.array(rows)
    return np.stack([zero, 1 - zero], axis=-1)


def summed(window):
    return lambda point: sum(point[window])


def test_theorem_3_fails_in_general():
    law = decimals(JOINT)
    assert sum(law.values()) == 1
    first, second = (oracle(law, yes_or_no(rows), (0, 1)) for rows in (ONE, TWO))
    together = oracle(law, both(yes_or_no(ONE), yes_or_no(TWO)), PAIRS)
    assert float(first) == pytest.approx(2.531426665422893, abs=1e-14)
    assert float(second) == pytest.approx(1.424668792735585, abs=1e-14)
    assert float(together) == pytest.approx(4.420249365404281, abs=1e-14)
    assert float(first + second) == pytest.approx(3.956095458158478, abs=1e-14)
    assert together > first + second
    assert oracle(law, both(yes_or_no(ONE), yes_or_no(TWO)), PAIRS, "ignorant") == together
    table = independent_releases(likelihood(ONE), likelihood(TWO))
    assert mechanism_leakage(JOINT, table).leakage == pytest.approx(float(together), abs=1e-12)


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_theorem_4_fails_for_copies(epsilon):
    """Two records that agree, one noisy answer about each: disjoint data, twice the leakage."""
    law = {(0, 0): Decimal("0.5"), (1, 1): Decimal("0.5")}
    scale = 1 / Decimal(epsilon)
    about = [noisy(itemgetter(t), scale) for t in (0, 1)]
    alone = [oracle(law, release, (0, 1)) for release in about]
    together = oracle(law, both(*about), PAIRS)
    assert [float(leak) for leak in alone] == pytest.approx([float(epsilon)] * 2, abs=1e-15)
    assert float(together) == pytest.approx(2 * float(epsilon), abs=1e-15)
    level = float(epsilon)
    assert float(together) <= ut.leakage(ut.PureDP(level), ut.Groups(2)).upper  # exchanged once


def test_levels_compose_and_are_exchanged_once():
    """Four records of the activity chain at level 1: disjoint windows cost one, not two."""
    law = chain_law(ACTIVITY_START, ACTIVITY, 4)
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=4)
    windows = slice(0, 4), slice(0, 2), slice(2, 4)
    whole, first, last = (noisy(summed(window), 1) for window in windows)
    one = oracle(law, whole, range(5))
    halves = oracle(law, both(first, last), itertools.product(range(3), repeat=2))
    twice = oracle(law, both(whole, whole), itertools.product(range(5), repeat=2))
    assert float(one) == pytest.approx(2.540030440751795, abs=1e-14)
    assert float(halves) == pytest.approx(2.540030440751795, abs=1e-14)
    assert float(twice) == pytest.approx(4.641942428250928, abs=1e-14)
    for leak, level in ((one, 1.0), (halves, 1.0), (twice, 2.0)):
        bound = ut.leakage(ut.PureDP(level), chain)
        assert float(leak) == pytest.approx(bound.upper, abs=1e-9)
        assert float(leak) <= bound.upper
