# mypy: disable-error-code="call-arg, operator"
"""Details on which a certificate rests and that no other test would miss: rounding, ends, ties.

Numbers with an exact value are compared with 50-digit or rational arithmetic, without tolerance.
"""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import undertow as ut
from tests.oracles import chains as oracles
from undertow.bounds.channels import wasserstein
from undertow.bounds.channels import wasserstein as count_matching
from undertow.bounds.channels.quilts import (
    Bound,
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


def test_a_slow_chain_settles_late():
    """Where a start is felt for long, late records still get the quilts of their own laws."""
    chain = ut.MarkovChain([[0.99, 0.01], [0.015, 0.985]], start=[1.0, 0.0], length=3000)
    pairs = chain_pairs(chain, None)
    for record in (64, 100, 700):
        table = partial(chain_influence, chain, "ignorant", pairs, record=record)
        own = pruned_search(table, 3000, NoiseScore(3.0), [record]).value
        found = quilt_search(chain, "ignorant", NoiseScore(3.0), records=[record]).value
        assert own * (1 - 1e-9) <= found <= own * (1 + 1e-6)


@pytest.mark.parametrize("score", [NoiseScore(1.0), Bound(0.005)], ids=["scale", "bound"])
def test_one_sided_quilts_are_sought_as_far_as_they_help(score):
    """The first record's best quilt lies beyond the first table, at little more than its size."""
    chain = ut.MarkovChain([[0.99, 0.01], [0.015, 0.985]], length=3000)
    influence = chain_influence(chain, "ignorant", chain_pairs(chain, None), 1000)
    far = np.arange(1.0, 1001.0)
    values = score.value(far, influence.right[1:].max(axis=1))
    found = quilt_search(chain, "ignorant", score, records=[0])
    assert found.value == pytest.approx(values.min(), rel=1e-12)
    assert found.left is None
    assert found.right is not None
    assert found.right == values.argmin() + 1
    assert found.right > 64


# --- distances ------------------------------------------------------------------------------------


def unmatched(first, second, allowed):
    """Return how much of two labelled laws cannot be drawn together, by linear programming.

    ``allowed(label, other, gap)`` says which differences of the counts are.
    """
    labels, places = first.shape
    moves = [
        (a * places + i, (labels + b) * places + j)
        for a, i, b, j in itertools.product(range(labels), range(places), repeat=2)
        if first[a, i] > 0 and second[b, j] > 0 and allowed(a, b, i - j)
    ]
    taken = np.zeros((2 * labels * places, len(moves)))
    for column, ends in enumerate(moves):
        taken[list(ends), column] = 1.0
    room = np.concatenate([first.ravel(), second.ravel()])
    found = linprog(-np.ones(len(moves)), A_ub=taken, b_ub=room, bounds=(0, None), method="highs")
    assert found.fun is not None
    return 1.0 + float(found.fun)


@pytest.mark.parametrize("labels", [2, 3])
def test_labelled_laws_can_be_drawn_together_as_claimed(labels):
    """The surplus of a label is moved to others, and only what is left is compared."""

    def allowed(label, other, gap):
        return -down <= gap <= up if label == other else gap == offset[label, other]

    rng, tried = np.random.default_rng(labels), 0
    for _ in range(500):
        places = int(rng.integers(6, 10))
        shift = rng.uniform(-2.5, 2.5, (2, 1, 1)) * rng.choice([0, 1])
        centre = places / 2 + shift + rng.uniform(-0.7, 0.7, (2, labels, 1))
        laws = np.exp(-((np.arange(places) - centre) ** 2) / rng.uniform(1, 6))
        laws *= rng.uniform(0.5, 1, laws.shape)
        weights = rng.dirichlet(np.full(labels, rng.choice([20.0, 100.0])), size=2)
        first, second = weights[..., None] * laws / laws.sum(axis=2, keepdims=True)
        offset = rng.integers(-2, 3, (labels, labels))
        found = count_matching.matched(np.log(first), np.log(second), offset)
        if found is not None:
            tried += 1
            down, up = found
            assert unmatched(first, second, allowed) < 1e-9
    assert tried > 80


def test_a_label_that_one_value_rules_out_is_not_left_aside():
    with np.errstate(divide="ignore"):
        both, one = np.log([[0.3, 0.2], [0.3, 0.2]]), np.log([[0.6, 0.4], [0.0, 0.0]])
    offset = np.zeros((2, 2), dtype=np.int64)
    assert count_matching.matched(both, one, offset) is None
    assert count_matching.matched(one, both, offset) is None


def test_a_difference_in_the_tenth_digit_is_a_difference():
    """Nearly independent records: a count needs 2, not 1; a comparison that fails is not a tie."""
    chain = ut.MarkovChain([[0.5, 0.5], [0.5 - 1e-10, 0.5 + 1e-10]], length=6)
    assert query_distance(chain, ut.Query(sum)) == 2.0
    found = wasserstein.count_distance(chain, np.array([False, True]))
    assert found.lower <= 2 <= found.upper
    law = np.log([[0.1, 0.2, 0.4, 0.3]])
    moved = np.log([[0.1 - 1e-10, 0.2 + 1e-10, 0.4, 0.3]])
    offset = np.zeros((1, 1), dtype=np.int64)
    assert count_matching.matched(law, moved, offset) == (1, 1)


def test_the_farthest_tails_decide():
    """Probabilities below 1e-13 make the difference between 4 and 5 here."""
    rows = [[0.3, 0.05, 0.65], [0.15, 0.78, 0.07], [0.01, 0.002, 0.988]]
    chain = ut.MarkovChain(rows, length=60)
    found = wasserstein.count_distance(chain, np.array([False, True, True]), records=[30])
    truth = oracles.wasserstein_of_count(chain, (1, 2), [30])
    assert found == wasserstein.Distance(truth, truth) == wasserstein.Distance(5, 5)


def skewed(seed, size):
    """Return a matrix that mixes fast and is not reversible, and what is counted."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(size, 0.8), size=size) + rng.choice([0.02, 0.1, 0.3])
    rows += rng.choice([0.0, 0.5, 1.5]) * np.eye(size)
    rows += rng.choice([0.0, 0.0, 1.0]) * (1 - np.eye(size))
    return rows / rows.sum(axis=1, keepdims=True), np.arange(size) < rng.integers(1, size)


def both_sides(rows, marks, depth) -> Any:
    """Return the left and the right side of a stationary chain, () where one has no bounds."""
    chain = ut.MarkovChain(rows)
    kernels = chain.reverse().transition, chain.transition
    left, right = (wasserstein._side_at_depth(kernel, marks, depth) for kernel in kernels)
    return () if left is None or right is None else (left, right)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_bounds_of_a_side_carry_themselves(size):
    """Short lengths keep to them, and a longer side does if what follows the cut does.

    That is the induction on the length. All intervals are equally wide: any surplus fits.
    """
    tried = 0
    for seed in range(80):
        rows, marks = skewed(seed, size)
        depth = 2 + seed % 6
        for side in both_sides(rows, marks, depth):
            tried += 1
            assert (side.down == side.up.T).all()
            widths = (side.down + side.up)[~np.eye(size, dtype=bool)]
            assert (widths == widths[0]).all()
            assert (side.open_down <= side.down).all()
            assert (side.open_up <= side.up).all()
            for other, x in itertools.combinations(range(size), 2):
                for steps in range(1, depth + 1):
                    whole = np.logaddexp.reduce(side.laws[steps], axis=1)
                    found = count_matching.spread(whole[x], whole[other], count_matching.MARGIN)
                    assert found == (side.open_down[steps, x, other], side.open_up[steps, x, other])
                    assert found[::-1] == (
                        side.open_down[steps, other, x], side.open_up[steps, other, x],
                    )  # fmt: skip
                law, offset = side.laws[depth], side.up[x, other] - side.up
                matched = count_matching.matched(law[x], law[other], offset) or (math.inf, math.inf)
                assert matched[0] <= side.down[x, other]
                assert matched[1] <= side.up[x, other]
    assert tried >= 40


@pytest.mark.parametrize("rooms", [(3, 3), (3, 0), (0, 3), (1, 3)])
def test_a_window_can_be_drawn_together_as_claimed(rooms):
    """States that differ at a cut leave room for whatever may follow them."""

    bound: Any = None

    def allowed(label, other, gap):
        down = up = 0
        for side, room, end, end_2 in zip(cut, rooms, ends[label], ends[other], strict=True):
            down += int(side.down[end, end_2]) if room == 3 else 0
            up += int(side.up[end, end_2]) if room == 3 else 0
        return down - bound <= gap <= bound - up

    ends = list(itertools.product(range(3), repeat=2))
    tried = 0
    for seed in range(16):
        rows, marks = skewed(200 + seed, 3)
        cut = both_sides(0.7 * rows + 0.1, marks, 3)
        x, other = np.random.default_rng(seed).permutation(3)[:2].tolist()
        if not cut:
            continue
        laws: Any = []
        for state in (x, other):
            left, right = (np.exp(side.laws[m][state]) for side, m in zip(cut, rooms, strict=True))
            joint = np.array([[np.convolve(one, two) for two in right] for one in left])
            own = (int(marks[state]), 1 - int(marks[state]))
            laws.append(np.pad(joint.reshape(9, -1), ((0, 0), own)))
        step = int(marks[x]) - int(marks[other])
        claims = (
            wasserstein._window(*cut, rooms, 3, marks, x, other),
            wasserstein._apart_at_depth(*cut, rooms, 3, x, other, step),
        )
        for bound in claims:
            if bound is not None:
                tried += 1
                assert unmatched(*laws, allowed) < 1e-9
    assert tried >= 12


@pytest.mark.parametrize("size", [2, 3])
def test_cuts_near_the_target_are_sound(size):
    """Every length and position, cut at depths at which the surplus is not small at all."""
    tried = 0
    for seed in range(18):
        rows, marks = skewed(100 + seed, size)
        depth = 3 + seed % 6
        pairs = chain_pairs(ut.MarkovChain(rows), None)
        cut = both_sides(rows, marks, depth)
        if not cut:
            continue
        tried += 1
        endless = wasserstein._at_depth(*cut, marks, pairs, None, None, depth)
        for length in (2, 3, 2 * depth + 1, 2 * depth + 2, 31):
            chain = ut.MarkovChain(rows, length=length)
            truth = wasserstein._direct(chain, marks, pairs, None).lower
            assert truth <= endless
            if length > 2 * depth:
                here = wasserstein._at_depth(*cut, marks, pairs, None, length, depth)
                assert truth <= here <= endless
                for record in (0, 1, depth, length - 2, length - 1):
                    truth = wasserstein._direct(chain, marks, pairs, [record]).lower
                    args = marks, pairs, [record], length, depth
                    assert truth <= wasserstein._at_depth(*cut, *args)
    assert tried >= 6


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
