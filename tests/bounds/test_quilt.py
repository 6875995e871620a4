"""Quilts: the three searches agree, scores are dual, tables behave."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
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
from undertow.errors import MethodRefused
from undertow_papers.wang2016.searches import basic_search, fast_search

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=150)


SHORT = st.integers(2, 24)
ANYONE = st.sampled_from(["any", "ignorant"])


@st.composite
def chains(draw, length=SHORT):
    size = draw(st.integers(2, 4))
    weights = st.lists(st.integers(1, 20), min_size=size, max_size=size)
    rows = np.array([draw(weights) for _ in range(size)], dtype=float)
    if draw(st.booleans()):
        rows += 30 * np.eye(size)
    return ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True), length=draw(length))


@law(LAWS, 8, chain=chains(), against=ANYONE, epsilon=st.floats(0.05, 12.0))
def test_the_three_searches_agree(chain, against, epsilon):
    pairs = chain_pairs(chain, None)
    influence = chain_influence(chain, against, pairs, chain.length - 1)
    basic = basic_search(influence, chain.length, NoiseScore(epsilon)).value
    assert fast_search(influence, chain.length, NoiseScore(epsilon)).value == pytest.approx(
        basic, rel=1e-14
    )
    table = partial(chain_influence, chain, against, pairs)
    assert pruned_search(table, chain.length, NoiseScore(epsilon)).value == pytest.approx(
        basic, rel=1e-13
    )
    own = quilt_search(chain, against, NoiseScore(epsilon)).value
    if against == "ignorant":
        assert own == pytest.approx(basic, rel=1e-13)
    else:  # what lies beyond the ends of a series cannot be known
        assert own <= basic * (1 + 1e-13)


@law(LAWS, 5, chain=chains(st.sampled_from([2, 7, 40, 700])), against=ANYONE)
def test_noise_and_leakage_are_inverse(chain, against):
    """At the scale for epsilon the bound is epsilon; a hair less noise exceeds it."""
    for epsilon in (0.3, 2.0):
        scale = quilt_search(chain, against, NoiseScore(epsilon)).value
        assert quilt_search(chain, against, Bound(1 / scale)).value <= epsilon * (1 + 1e-12)
        assert quilt_search(chain, against, Bound(1.001 / scale)).value > epsilon


def test_any_length_is_the_limit_of_long_series():
    rows = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]
    endless = quilt_search(ut.MarkovChain(rows), "any", NoiseScore(1.0)).value
    values = [
        quilt_search(ut.MarkovChain(rows, length=n), "any", NoiseScore(1.0)).value
        for n in (2, 5, 20, 200, 5000)
    ]
    assert values == sorted(values)
    assert values[-1] == endless


@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_a_given_start_and_differing_steps(against):
    """A stack of equal steps from the stationary law is the stationary chain."""
    rows = np.array([[0.9, 0.1], [0.3, 0.7]])
    chain = ut.MarkovChain(rows, length=30)
    given_start = ut.MarkovChain(rows, start=chain.initial, length=30)
    stack = ut.MarkovChain(np.array([rows] * 29), start=chain.initial)
    longer = ut.MarkovChain(rows, start=chain.initial, length=5000)
    endless = quilt_search(ut.MarkovChain(rows), against, NoiseScore(1.0)).value
    assert quilt_search(longer, against, NoiseScore(1.0)).value == pytest.approx(endless, rel=1e-9)
    assert quilt_search(longer, against, NoiseScore(1.0)).value >= endless
    expected = quilt_search(chain, against, NoiseScore(1.0)).value
    for other in (given_start, stack):
        assert quilt_search(other, against, NoiseScore(1.0)).value == pytest.approx(
            expected, rel=1e-9
        )
    point = ut.MarkovChain(rows, start=[1.0, 0.0], length=30)
    assert math.isfinite(quilt_search(point, against, NoiseScore(1.0)).value)


def test_a_given_start_needs_a_length():
    with pytest.raises(MethodRefused, match="length"):
        quilt_search(ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], start=[1, 0]), "any", NoiseScore(1.0))


def test_zeros_close_only_the_quilts_they_touch():
    """One step apart everything is ruled out, two steps apart nothing is."""
    chain = ut.MarkovChain([[0.0, 1.0], [0.5, 0.5]], length=400)
    table = chain_influence(chain, "ignorant", chain_pairs(chain, None), 3)
    assert np.isinf(table.right[1]).any()
    assert np.isfinite(table.right[2]).all()
    assert quilt_search(chain, "ignorant", NoiseScore(1.0)).value < 40


def test_periodic_chains_have_no_quilt():
    flip = ut.MarkovChain([[0.0, 1.0], [1.0, 0.0]], length=50)
    assert quilt_search(flip, "ignorant", NoiseScore(1.0)).value == 50.0


def test_the_gap_of_reversible_and_other_chains():
    turning = ut.MarkovChain([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
    gap, reversible = spectral_gap(turning)
    assert not reversible
    second = np.sort(np.abs(np.linalg.eigvals(turning.transition)))[-2]
    assert gap == pytest.approx((1 - second**2) / 2, abs=1e-12)  # a normal matrix
    powers, law = turning.powers(40), turning.initial
    for t in range(1, 41):
        assert np.abs(powers[t] / law - 1).max() <= math.exp(-gap * t) / law.min()
    assert spectral_gap(ut.MarkovChain([[0.2, 0.8], [0.9, 0.1]]))[1]


@LAWS
@given(chains())
def test_the_gap_bounds_how_fast_a_chain_mixes(chain):
    gap, _ = spectral_gap(chain)
    powers, law = chain.powers(30), chain.initial
    for t in range(1, 31):
        assert np.abs(powers[t] / law - 1).max() <= math.exp(-gap * t) / law.min() + 1e-12


@LAWS
@given(chains(), st.sampled_from([0.2, 1.0, 5.0]))
def test_approximate_influences_cover_exact_ones(chain, epsilon):
    gap, _ = spectral_gap(chain)
    exact = chain_influence(chain, "ignorant", chain_pairs(chain, None), 40)
    rough = approximate_influence(float(chain.initial.min()), gap, 40)
    assert (exact.left[1:].max(axis=1) <= rough.left[1:, 0] + 1e-12).all()
    assert (exact.right[1:].max(axis=1) <= rough.right[1:, 0] + 1e-12).all()


def test_what_a_quilt_cuts_off():
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=100)
    middle = quilt_search(chain, "any", NoiseScore(1.0))
    assert middle.left is not None
    assert middle.right is not None
    assert middle.inside(100) == middle.left + middle.right - 1
    first = quilt_search(chain, "any", NoiseScore(1.0), records=[0])
    assert (first.left, first.inside(100)) == (None, first.right)
    last = quilt_search(chain, "any", NoiseScore(1.0), records=[99])
    assert (last.right, last.inside(100)) == (None, last.left)
    short = quilt_search(ut.MarkovChain(chain.transition, length=3), "any", NoiseScore(1.0))
    assert (short.left, short.right, short.inside(3)) == (None, None, 3)


def test_nothing_to_protect_asks_for_nothing():
    certain = ut.MarkovChain([[0.0, 1.0], [1.0, 0.0]], start=[1.0, 0.0], length=9)
    assert quilt_search(certain, "any", NoiseScore(1.0)).value == 0.0


def differing(seed, length, states):
    """Steps of all kinds: sticky, hasty, with zeros; a start that may exclude values."""
    draw = np.random.default_rng(seed)
    steps = draw.dirichlet(np.full(states, 1.5), size=(length - 1, states))
    steps += draw.choice([0.0, 3.0]) * np.eye(states)
    if seed % 3 == 0:
        steps[draw.random(steps.shape) < 0.2] = 0.0
        steps += steps.sum(axis=2, keepdims=True) == 0
    start = draw.dirichlet(np.ones(states))
    if seed % 4 == 0:
        start[0] = 0.0
    return ut.MarkovChain(steps / steps.sum(axis=2, keepdims=True), start=start / start.sum())


def plain_quilts(chain, against, score):
    """The worst record's best quilt from joint probabilities, one quilt after another."""
    length, size = chain.length, chain.size
    laws = [np.asarray(chain.law(record)) for record in range(length)]
    between = {(i, j): chain.between(i, j) for i in range(length) for j in range(i, length)}

    def logs(record, far, x, y):
        """ln Pr[far = u | x] / Pr[far = u | y] up to a constant, over the values u that occur."""
        if far < record:
            pair = between[far, record][laws[far] > 0][:, [x, y]].T
        else:
            pair = between[record, far][[x, y]]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(pair[0]) - np.log(pair[1])
        return found[~np.isnan(found)]

    def share(record, quilt, beyond, x, y):
        if quilt is None:
            return 0.0
        prior = np.log(laws[record][x] / laws[record][y]) if quilt < record else 0.0
        far = [prior]
        if against == "any" and 0 <= beyond < length:
            far.append(logs(record, beyond, x, y).min())
        top = logs(record, quilt, x, y).max()
        return max(0.0, top - min(far)) if np.isfinite(top) else np.inf

    worst = 0.0
    for record in range(length):
        pairs = [(x, y) for x in range(size) for y in range(size)
                 if x != y and laws[record][x] > 0 and laws[record][y] > 0]  # fmt: skip
        if not pairs:
            continue
        lefts = {a: np.array([share(record, a, (a or 0) - 1, x, y) for x, y in pairs])
                 for a in [None, *range(record)]}  # fmt: skip
        rights = {c: np.array([share(record, c, (c or length) + 1, x, y) for x, y in pairs])
                  for c in [None, *range(record + 1, length)]}  # fmt: skip
        best = np.inf
        for a, left in lefts.items():
            for c, right in rights.items():
                inside = (length if c is None else c) - (-1 if a is None else a) - 1
                influence = (left + right).max()
                best = min(best, float(score.value(np.array(float(inside)), influence)))
        worst = max(worst, best)
    return worst


@pytest.mark.parametrize("seed", [3, 6, 9, 12, 13])
def test_differing_steps_equal_the_plain_search(seed):
    """Every quilt one after another."""
    chain = differing(seed, 4 + seed % 7, 2 + seed % 2)
    for against in ("any", "ignorant"):
        for score in (NoiseScore(0.4), NoiseScore(2.5), Bound(0.05), Bound(0.7)):
            found = quilt_search(chain, against, score)
            truth = plain_quilts(chain, against, score)
            assert truth <= found.value <= truth * (1 + 1e-9) + 1e-12


def test_the_quilt_that_is_named_scores_what_is_said():
    """Its own table, looked up at its distances; and no other record of the series is worse."""
    chain = differing(5, 300, 3)
    pairs = chain_pairs(chain, None)
    for against in ("any", "ignorant"):
        found = quilt_search(chain, against, NoiseScore(1.0))
        table = chain_influence(chain, against, pairs, 40, record=found.record)
        joint = float((table.left[found.left] + table.right[found.right]).max())
        assert found.value == pytest.approx(found.inside(300) / (1.0 - joint), rel=1e-12)
        for record in (0, 7, 150, 299):
            alone = partial(chain_influence, chain, against, pairs, record=record)
            assert pruned_search(alone, 300, NoiseScore(1.0), [record]).value <= found.value
