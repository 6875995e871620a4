# mypy: disable-error-code="call-arg, operator"
"""Details on which a certificate rests and that no other test would miss: rounding, ends, ties.

Numbers with an exact value are compared with 50-digit or rational arithmetic, without tolerance.
"""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.channels import wasserstein
from undertow.bounds.channels import wasserstein as count_matching
from undertow.bounds.channels.quilts import (
    NoiseScore,
    approximate_influence,
    chain_influence,
    chain_pairs,
    pruned_search,
    quilt_search,
    spectral_gap,
)
from undertow.bounds.channels.wasserstein import query_distance

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]


def random_chain(seed, size, length=None, start=None):
    rows = np.random.default_rng(seed).dirichlet(np.ones(size), size=size) + 0.01
    return ut.MarkovChain(
        rows / rows.sum(axis=1, keepdims=True), start=start or "stationary", length=length
    )


# --- quilts ---------------------------------------------------------------------------------------


def exact_influences(chain, record, steps, against):
    """Return the shares of `chain_influence` for a given start, in 50 digits."""
    size = chain.size
    matrix = [[Decimal(float(entry)) for entry in row] for row in chain.transition]
    law = [Decimal(float(entry)) for entry in chain.initial]
    powers = [[[Decimal(int(x == y)) for y in range(size)] for x in range(size)]]
    for _ in range(max(steps + 1, record)):
        last = powers[-1]
        powers.append(
            [
                [sum((row[z] * matrix[z][y] for z in range(size)), Decimal(0)) for y in range(size)]
                for row in last
            ]
        )
    law = [
        sum((law[x] * powers[record][x][y] for x in range(size)), Decimal(0)) for y in range(size)
    ]
    left, right = [], []
    for step in range(1, steps + 1):
        rows = []
        for x, y in chain_pairs(chain, None).tolist():
            ratio = [[(p[u][x] / p[u][y]).ln() for u in range(size)]
                     for p in (powers[step], powers[step + 1])]  # fmt: skip
            ahead = [[(p[x][v] / p[y][v]).ln() for v in range(size)]
                     for p in (powers[step], powers[step + 1])]  # fmt: skip
            known = (law[x] / law[y]).ln()
            if against == "any":
                rows.append((max(ratio[0]) - min(ratio[1]), max(ahead[0]) - min(ahead[1])))
            else:
                rows.append((max(ratio[0]) - known, max(ahead[0])))
        left.append([row[0] for row in rows])
        right.append([row[1] for row in rows])
    return left, right


@pytest.mark.parametrize("against", ["any", "ignorant"])
@pytest.mark.parametrize("size", [2, 3])
def test_influences_are_rounded_up(size, against):
    steps, record = 6, 9
    for seed in range(3):
        chain = random_chain(seed, size, length=20, start=[1 / size] * size)
        table = chain_influence(chain, against, chain_pairs(chain, None), steps, record=record)
        with localcontext() as context:
            context.prec = 50
            exact = exact_influences(chain, record, steps, against)
            for found, expected in zip((table.left, table.right), exact, strict=True):
                for row, truth in zip(found[1:].tolist(), expected, strict=True):
                    for share, least in zip(row, truth, strict=True):
                        assert 0 <= Decimal(share) - least < Decimal("1e-12")


def test_approximate_influences_are_rounded_up():
    for pi_min, gap in ((0.5, 0.8), (0.3, 0.31), (0.11, 0.57), (0.07, 1.0)):
        table = approximate_influence(pi_min, gap, 30)
        with localcontext() as context:
            context.prec = 50
            for step in range(1, 31):
                decay, least = (-Decimal(gap) * step).exp(), Decimal(pi_min)
                if decay > least * Decimal("0.8"):
                    continue
                once = ((least + decay) / (least - decay)).ln()
                assert Decimal(float(table.right[step, 0])) >= once
                assert Decimal(float(table.left[step, 0])) >= 2 * once


def test_the_gap_is_rounded_down():
    """Two states: 1 - |1 - q - r|, exactly."""
    for q, r in np.random.default_rng(0).uniform(0.02, 0.98, (60, 2)):
        chain = ut.MarkovChain([[1 - q, q], [r, 1 - r]])
        entries = [Fraction(float(chain.transition[0, 1])), Fraction(float(chain.transition[1, 0]))]
        gap, _ = spectral_gap(chain)
        assert Fraction(gap) <= 1 - abs(1 - entries[0] - entries[1])


def test_a_record_counts_whose_other_values_are_possible():
    """Record 0 is never 2; what distinguishes 0 from 1 there is still a secret."""
    rows = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4]])
    chain = ut.MarkovChain(np.array([rows] * 4), start=[0.5, 0.5, 0.0])
    for against in ("any", "ignorant"):
        assert quilt_search(chain, against, NoiseScore(1.0), records=[0]).value > 1.0


def test_pairs_that_never_occur_need_nothing():
    rows = [[0.6, 0.4, 0.0], [0.3, 0.7, 0.0], [0.2, 0.2, 0.6]]
    chain = ut.MarkovChain(rows, start=[0.5, 0.5, 0.0], length=9)
    assert quilt_search(chain, "any", NoiseScore(1.0), pairs=[(0, 2)]).value == 0.0
    assert quilt_search(chain, "any", NoiseScore(1.0), pairs=[(0, 2), (0, 1)]).value > 1.0


def test_ends_of_short_series_are_known():
    """Nothing is known beyond the last record: less noise than the table of the middle asks."""
    chain = ut.MarkovChain([[0.6, 0.4], [0.3, 0.7]], length=4)
    pairs = chain_pairs(chain, None)
    own = quilt_search(chain, "any", NoiseScore(4.0)).value
    shared = pruned_search(
        lambda steps: chain_influence(chain, "any", pairs, steps), 4, NoiseScore(4.0)
    ).value
    assert own < 0.95 * shared


# --- distances ------------------------------------------------------------------------------------


def test_a_label_that_one_value_rules_out_is_not_left_aside():
    with np.errstate(divide="ignore"):
        both, one = np.log([[0.3, 0.2], [0.3, 0.2]]), np.log([[0.6, 0.4], [0.0, 0.0]])
    offset = np.zeros((2, 2), dtype=np.int64)
    for first, second in ((both, one), (one, both)):
        bands = count_matching.exchanged(first, second, offset)[2]
        assert max(bands.values()) == np.inf  # no band of counts has as much to give


def test_a_difference_in_the_tenth_digit_is_a_difference():
    """Nearly independent records: a count needs 2, not 1; a comparison that fails is not a tie."""
    chain = ut.MarkovChain([[0.5, 0.5], [0.5 - 1e-10, 0.5 + 1e-10]], length=6)
    assert query_distance(chain, ut.Query(sum)) == 2.0
    found = wasserstein.count_distance(chain, np.array([False, True]))
    assert found.lower <= 2 <= found.upper
    law = np.log([[0.1, 0.2, 0.4, 0.3]])
    moved = np.log([[0.1 - 1e-10, 0.2 + 1e-10, 0.4, 0.3]])
    offset = np.zeros((1, 1), dtype=np.int64)
    assert count_matching.exchanged(law, moved, offset) == (1, 1, {})


def test_the_left_side_is_read_backwards():
    """Of a chain that is not reversible the last record moves a count farther than the first."""
    rows = [[0.57, 0.41, 0.02], [0.94, 0.04, 0.02], [0.44, 0.12, 0.44]]
    marks = np.array([True, False, False])
    for length in (60, 400, 10**6):
        chain = ut.MarkovChain(rows, length=length)
        for record, distance in ((0, 2), (length - 1, 3)):
            found = wasserstein.count_distance(chain, marks, records=[record])
            assert found == wasserstein.Distance(distance, distance)


def test_both_ends_speak_of_the_same_record():
    found = wasserstein.count_distance(
        ut.MarkovChain(ACTIVITY, length=15264), np.array([False, True]), records=[0]
    )
    assert found == wasserstein.Distance(3, 3)


def test_enumeration_minds_records_and_limits():
    chain = ut.MarkovChain(ACTIVITY, length=6)
    whole = query_distance(chain, ut.Query(sum))
    assert query_distance(chain, ut.Query(sum), records=[0]) < whole
    wide = ut.MarkovChain(ACTIVITY, states=(0, 7), length=6)
    assert query_distance(wide, ut.Sum(0, 1)) == query_distance(chain, ut.Sum(0, 1))
