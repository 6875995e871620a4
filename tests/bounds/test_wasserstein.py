"""Wasserstein distances: long series against outright comparison, ties, ends and refusals."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from undertow.bounds.channels import wasserstein
from undertow.bounds.channels import wasserstein as count_matching
from undertow.bounds.channels.quilts import (
    chain_pairs,
)
from undertow.bounds.channels.wasserstein import Distance, count_distance, query_distance
from undertow.errors import InvalidInput, MethodRefused

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=60)
ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
ONE = np.array([False, True])


SIZES, LENGTHS = st.integers(2, 4), st.integers(2, 6)


@st.composite
def chains(draw, sizes=SIZES, lengths=LENGTHS):
    size = draw(sizes)
    weights = st.lists(st.integers(1, 12), min_size=size, max_size=size)
    rows = np.array([draw(weights) for _ in range(size)], dtype=float)
    if draw(st.booleans()):
        rows += draw(st.integers(5, 40)) * np.eye(size)
    return ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True), length=draw(lengths))


@law(LAWS, 3, chain=chains(st.integers(2, 3), st.integers(40, 90)))
def test_long_series_are_never_underestimated(chain):
    """The cut at a depth, on series short enough to compare outright."""
    marks = np.arange(chain.size) == 0
    pairs = chain_pairs(chain, None)
    outright = wasserstein._direct(chain, marks, pairs, None)
    assert wasserstein._attained(chain, marks, pairs, None) <= outright.upper
    assert wasserstein._long(chain, marks, pairs, None, outright.lower) >= outright.lower


@pytest.mark.parametrize(
    ("rows", "lengths", "distance"),
    [
        pytest.param([[0.964, 0.036], [0.061, 0.939]], (129, 15264), 21),
        pytest.param([[0.602, 0.398], [0.008, 0.992]], (128, 15264), 9),
    ],
)
def test_sticky_chains(rows, lengths, distance):
    for length in lengths:
        found = count_distance(ut.MarkovChain(rows, length=length), ONE)
        assert found == Distance(distance, distance)


def test_secret_pairs_and_records():
    rows = [[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.05, 0.15, 0.8]]
    for length in (60, 3000):
        chain = ut.MarkovChain(rows, length=length)
        marks = np.array([False, False, True])
        whole = count_distance(chain, marks)
        near = count_distance(chain, marks, pairs=[(0, 1)])
        assert near.upper < whole.upper
        assert count_distance(chain, marks, records=[0]).upper < whole.upper


def test_records_of_a_series_of_any_length():
    chain = ut.MarkovChain(ACTIVITY)
    short = ut.MarkovChain(ACTIVITY, length=20)
    assert (
        count_distance(short, ONE, records=[0]).upper
        <= count_distance(chain, ONE, records=[0]).upper
    )
    for record in (40, 8000, 9000, 10**6):
        assert count_distance(chain, ONE, records=[record]) == Distance(5, 5)


def test_a_long_series_needs_a_stationary_start():
    with pytest.raises(MethodRefused, match="128 records"):
        count_distance(ut.MarkovChain(ACTIVITY, start=[1, 0], length=400), ONE)
    given_start = count_distance(ut.MarkovChain(ACTIVITY, start=[1, 0], length=60), ONE)
    assert given_start.upper == 5


def test_a_chain_that_hardly_mixes_is_refused_not_guessed():
    slow = ut.MarkovChain([[1 - 1e-6, 1e-6], [1e-6, 1 - 1e-6]], length=10**5)
    with pytest.raises(MethodRefused, match="mixes too slowly"):
        count_distance(slow, ONE)


# --- any scalar query -----------------------------------------------------------------------------


def test_sums_means_and_linear_queries():
    chain = ut.MarkovChain([[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.05, 0.15, 0.8]], length=5)
    total = query_distance(chain, ut.Sum(0, 2))
    assert query_distance(chain, ut.Mean(0, 2)) == pytest.approx(total / 5)
    assert query_distance(chain, ut.Linear([1.0] * 5, spread=2.0)) == total
    assert query_distance(chain, ut.Query(lambda records: 10 * sum(records))) == 10 * total
    assert query_distance(chain, ut.Sum(0, 1)) <= total
    assert query_distance(chain, ut.Linear([1.0, 0, 0, 0, 0], spread=2.0)) == 2.0


def test_what_enumeration_refuses():
    chain = ut.MarkovChain(ACTIVITY, ("still", "moving"), length=4)
    with pytest.raises(InvalidInput, match="values="):
        query_distance(chain, ut.Sum(0, 1))
    with pytest.raises(MethodRefused, match="single numbers"):
        query_distance(chain, ut.Histogram())
    with pytest.raises(MethodRefused, match="single numbers"):
        query_distance(chain, ut.Query(lambda records: list(records)))
    with pytest.raises(InvalidInput, match="finite"):
        query_distance(chain, ut.Query(lambda records: float("nan")))
    with pytest.raises(MethodRefused, match="at most 14"):
        query_distance(ut.MarkovChain(ACTIVITY, length=40), ut.Query(sum))
    with pytest.raises(MethodRefused, match="length"):
        query_distance(ut.MarkovChain(ACTIVITY), ut.Query(sum))


# mypy: disable-error-code="call-arg, operator"


def random_chain(seed, size, length=None, start=None):
    rows = np.random.default_rng(seed).dirichlet(np.ones(size), size=size) + 0.01
    return ut.MarkovChain(
        rows / rows.sum(axis=1, keepdims=True), start=start or "stationary", length=length
    )


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
