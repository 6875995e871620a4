"""Fitting chains: what is counted, what is missing, what is refused, and how sure one can be."""

import itertools
import json
import math
import os
import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import undertow as ut
from undertow.errors import (
    DisclosureWarning,
    InvalidInput,
    InvalidModel,
    UnknownState,
)
from undertow.models.classes import ChainBox
from undertow.models.fitting.fit import FittedChain
from undertow.models.sets import model_from_dict

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("UNDERTOW_DATA") or ROOT.parent / "shared" / "data")
STAGES = ("W", "N1", "N2", "N3", "REM")
SLEEP = [
    [3384, 229, 7, 1, 15],
    [92, 1095, 407, 1, 94],
    [91, 208, 8072, 411, 135],
    [14, 19, 374, 2658, 2],
    [53, 130, 59, 1, 3436],
]


def fit(sequences, states=None, **options):
    return ut.MarkovChain.fit(sequences, states, public=True, **options)


def from_counts(counts, states=None, **options):
    return ut.MarkovChain.from_counts(counts, states, public=True, **options)


# --- what is counted ------------------------------------------------------------------------------


def test_one_sequence():
    chain = fit(["a", "a", "b", "a", "a"])
    assert isinstance(chain, FittedChain)
    assert chain.states == ("a", "b")
    assert chain.counts.tolist() == [[2, 1], [1, 0]]
    assert chain.transition == pytest.approx(np.array([[2 / 3, 1 / 3], [1, 0]]))
    assert chain.triples is not None
    assert chain.triples[0].tolist() == [[0, 1], [1, 0]]  # aab, aba
    assert chain.triples.sum() == 3
    assert (chain.start, chain.length, chain.prior) == ("stationary", None, 0.0)


def test_many_sequences_are_not_joined():
    counts = fit([[0, 1, 1], [], [0], [1, 0, 0, 1]]).counts
    assert counts.tolist() == [[1, 2], [1, 1]]


@pytest.mark.parametrize("gap", [None, math.nan, np.float64("nan"), np.ma.masked])
def test_missing_records_split_a_sequence(gap):
    chain = fit([0, 0, gap, 1, 1, gap, gap, 1, 0, gap], prior=0.5)
    assert chain.counts.tolist() == [[1, 0], [1, 1]]
    assert chain.triples is not None
    assert chain.triples.sum() == 0
    assert chain.states == (0, 1)


def test_a_sequence_that_is_missing_counts_nothing():
    assert fit([[0, 1, 0], None, [math.nan, None], [1, 1]]).counts.tolist() == [[0, 1], [1, 1]]


@settings(deadline=None, derandomize=True, database=None, max_examples=100)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=30), max_size=6))
def test_counts_agree_with_a_plain_loop(sequences):
    pairs, triples = np.zeros((3, 3), int), np.zeros((3, 3, 3), int)
    index = {"a": 0, "b": 1, "c": 2}
    for series in sequences:
        for x, y in itertools.pairwise(series):
            if x and y:
                pairs[index[x], index[y]] += 1
        for x, y, z in zip(series, series[1:], series[2:], strict=False):
            if x and y and z:
                triples[index[x], index[y], index[z]] += 1
    chain = fit(sequences, ("a", "b", "c"), prior=1.0)
    assert (chain.counts == pairs).all()
    assert (chain.triples == triples).all()
    assert chain.transition == pytest.approx((pairs + 1) / (pairs + 1).sum(axis=1, keepdims=True))


def test_the_order_of_states():
    assert fit([3, 1, 2, 1, 3]).states == (1, 2, 3)
    assert fit(["b", 1, "a", 1, "b"]).states == ("b", 1, "a")  # no order among them: as they came
    assert fit(["b", "a", "b"], ("b", "a")).states == ("b", "a")
    assert fit(["b", "a", "b"], np.array(["b", "a"])).states == ("b", "a")


def test_a_prior_makes_everything_possible():
    chain = fit(["a", "a", "b"], ("a", "b", "c"), prior=0.5)
    rows = [[3 / 7, 3 / 7, 1 / 7], [1 / 3] * 3, [1 / 3] * 3]
    assert chain.transition == pytest.approx(np.array(rows))
    assert chain.prior == 0.5
    assert chain.counts.sum() == 2


def test_the_length_is_that_of_the_model():
    assert fit([0, 1, 0, 0], length=9).length == 9
    assert from_counts([[1, 1], [1, 1]], length=9).length == 9


def test_what_was_never_seen_is_said():
    chain = from_counts([[3, 1, 0], [2, 0, 2], [0, 0, 4]], ("x", "y", "z"), prior=0.5)
    assert chain.unseen == [("x", "z"), ("y", "y"), ("z", "x"), ("z", "y")]
    assert chain.describe() == (
        "Markov chain on 3 states, a stationary start, any length, fitted to records; transitions "
        "that were never seen rest on the prior of 0.5: 'x' to 'z', 'y' to 'y', 'z' to 'x' and 1 "
        "more"
    )
    assert "count as impossible: 0 to 0" in from_counts([[0, 1], [1, 1]]).describe()
    full = from_counts([[1, 1], [1, 1]])
    assert full.unseen == []
    assert full.describe().endswith("fitted to records")


# --- disclosure -----------------------------------------------------------------------------------


def test_a_fit_to_private_records_warns():
    with pytest.warns(DisclosureWarning, match="itself a disclosure") as told:
        ut.MarkovChain.fit([0, 1, 0])
    assert told[0].filename == __file__
    with pytest.warns(DisclosureWarning, match="itself a disclosure") as told:
        ut.MarkovChain.from_counts([[1, 1], [1, 1]])
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit([0, 1, 0])


def test_a_fitted_chain_is_a_chain():
    chain = fit(ut.MarkovChain([[0.7, 0.3], [0.4, 0.6]], ("a", "b")).simulate(300, seed=1))
    plain = ut.MarkovChain(chain.transition, chain.states)
    leaks = [ut.leakage(ut.PureDP(1.0), one) for one in (chain.point(), plain)]
    assert replace(leaks[0], assumptions=()) == replace(leaks[1], assumptions=())
    assert "were not tested" in " ".join(leaks[0].assumptions)
    assert "not tested" not in " ".join(leaks[1].assumptions)
    assert ut.calibrate(ut.Count("b"), chain, 1.0).mechanism.scale > 1
    assert chain.reverse() == plain.reverse()
    again = pickle.loads(pickle.dumps(chain))
    assert again == chain
    assert (again.counts == chain.counts).all()
    for table in (chain.counts, chain.triples):
        assert table is not None
        with pytest.raises(ValueError, match="read-only"):
            table[0, 0] = 5


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ([], "at least two different states, found 0"),
        ([None, math.nan], "found 0"),
        ([[], []], "found 0"),
        (["secret"] * 5, "at least two different states, found 1"),
        ([["secret"], ["other"]], "row 0 of the counts is empty"),
        (["secret", "secret", "other"], "row 0 of the counts is empty.*pass a prior"),
        ([["secret"] * 3, ["other"] * 3], "never pass between two groups of states"),
        ("secret", "sequences must be a list of records in order, found str"),
        (b"secret", "found bytes"),
        ({"secret": [1, 2]}, "found dict"),
        ({"secret", "other"}, "found set"),
        (5, "found int"),
        (None, "found NoneType"),
        (np.float64(5), "found float64"),
        (np.array(5), "found one number"),
        ([["a", "b"], "secret"], "item 1 of sequences is a single record"),
        ([["a", "b"], {"secret": 1}], "sequence 1 must be a list of records in order, found dict"),
        ([["a", ["secret"]]], "record 1 of sequence 0 is a list"),
        ([["a", {"secret"}]], "record 1 of sequence 0 is a set"),
        (pl.DataFrame({"secret": [0, 1]}), "found a table; pass its column"),
        (pl.LazyFrame({"secret": [0, 1]}), "found a table; pass its column"),
        (list(range(5000)), "more than 1000 different values"),
        (np.zeros((2, 2, 2)), "record 0 of sequence 0 is a list"),
    ],
)
def test_records_that_make_no_chain_are_refused(sequences, message):
    with pytest.raises(InvalidInput, match=message) as refusal:
        fit(sequences)
    assert "secret" not in str(refusal.value)


def test_foreign_records_are_refused_by_place():
    with pytest.raises(
        UnknownState, match="record 2 of sequence 1 is none of the given"
    ) as refusal:
        fit([["a", "b"], ["a", None, "secret"]], ("a", "b"))
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ("ab", "found str"),
        ({"a", "b"}, "found set"),
        (5, "found int"),
        (("a",), "at least two states, found 1"),
        ((), "at least two states, found 0"),
        (("a", "a"), "two states bear the same name"),
    ],
)
def test_bad_states_are_refused(states, message):
    with pytest.raises(InvalidModel, match=message):
        fit(["a", "b", "a"], states)


def test_a_state_that_never_occurs_needs_a_prior():
    with pytest.raises(InvalidModel, match=r"row 2 of the counts is empty.*prior"):
        fit(["a", "b", "a"], ("a", "b", "c"))
    assert fit(["a", "b", "a"], ("a", "b", "c"), prior=0.5).size == 3
    assert fit([None], ("a", "b"), prior=1).transition.tolist() == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize("prior", [-1, math.nan, math.inf, "much", None])
def test_bad_priors_are_refused(prior):
    with pytest.raises(InvalidInput, match="prior must be a number"):
        fit([0, 1, 0], prior=prior)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[1, 2]], r"found shape \(1, 2\)"),
        ([[1]], "at least two states"),
        ([1, 2], "square table"),
        ([[1, 2.5], [1, 1]], "whole numbers"),
        ([[1, -2], [1, 1]], "whole numbers"),
        ([[1, math.nan], [1, 1]], "whole numbers"),
        ([[1, math.inf], [1, 1]], "whole numbers"),
        ([[0, 0], [1, 1]], "row 0 of the counts is empty"),
        ([[5, 0], [0, 5]], "never pass between two groups"),
        ([[5, 1], [0, 5]], r"state 1 of the counts \(from 0\) is never left.*prior"),
    ],
)
def test_bad_counts_are_refused(counts, message):
    with pytest.raises(InvalidModel, match=message):
        from_counts(counts)


def test_counts_and_names_must_agree():
    with pytest.raises(InvalidModel, match="2 states need 2 names"):
        from_counts([[1, 1], [1, 1]], ("a",))


# --- confidence -----------------------------------------------------------------------------------


def test_intervals_are_those_of_clopper_and_pearson():
    counts = [[90, 10, 0], [9, 21, 3], [0, 0, 8]]
    found = from_counts(counts, prior=2.0).intervals(0.9)
    assert found.shape == (3, 3, 2)
    for x, row in enumerate(counts):
        for y, hits in enumerate(row):
            exact = stats.binomtest(hits, sum(row)).proportion_ci(0.9, method="exact")
            assert found[x, y] == pytest.approx([exact.low, exact.high], abs=1e-12)


def test_a_state_that_was_never_left_has_the_whole_interval():
    found = fit(["a", "b", "a"], ("a", "b", "c"), prior=1).intervals()
    assert found[2].tolist() == [[0.0, 1.0]] * 3


def test_the_region_of_two_states_is_a_box():
    chain = from_counts([[90, 10], [9, 21]], ("a", "b"), length=50)
    box = chain.region(0.9)
    assert isinstance(box, ChainBox)
    assert (box.states, box.length) == (("a", "b"), 50)
    each = chain.intervals(0.95)  # two rows at 95% hold together at 90%
    assert box.lower == pytest.approx(each[..., 0])
    assert box.upper == pytest.approx(each[..., 1])
    assert (box.lower <= chain.transition).all()
    assert (box.upper >= chain.transition).all()


def test_the_region_holds_the_fit_even_with_a_heavy_prior():
    chain = from_counts([[9000, 10], [10, 9000]], prior=5000)
    box = chain.region()
    assert isinstance(box, ChainBox)
    assert (box.lower <= chain.transition).all()
    assert (chain.transition <= box.upper).all()


def likelihood_ratio(counts, matrix):
    counts = np.array(counts, float)
    best = counts / counts.sum(axis=1, keepdims=True)
    seen = counts > 0
    return 2 * float((counts[seen] * np.log(best[seen] / np.asarray(matrix)[seen])).sum())


def test_the_region_of_more_states_is_a_box_of_intervals_that_hold_together():
    chain = from_counts(SLEEP, STAGES, length=1000)
    region = chain.region(0.9)
    assert isinstance(region, ChainBox)
    assert (region.states, region.length) == (STAGES, 1000)
    alpha = 0.1 / 25  # Bonferroni over all entries
    for x, y in itertools.product(range(5), repeat=2):
        hits, trials = SLEEP[x][y], sum(SLEEP[x])
        low = stats.beta.ppf(alpha / 2, hits, trials - hits + 1) if hits else 0.0
        high = stats.beta.isf(alpha / 2, hits + 1, trials - hits)
        assert region.lower[x, y] == pytest.approx(low, rel=1e-9)
        assert region.upper[x, y] == pytest.approx(high, rel=1e-9)
    wider = chain.region(0.99)
    assert (wider.lower <= region.lower).all()
    assert (wider.upper >= region.upper).all()
    assert "holds the chain with confidence 0.9" in region.describe()
    assert model_from_dict(json.loads(json.dumps(region.to_dict()))) == region


def test_the_region_reaches_what_was_never_seen():
    counts = [[30, 10, 0], [10, 30, 10], [0, 10, 30]]
    region = from_counts(counts).region()
    assert region.lower[0, 2] == 0
    assert region.upper[0, 2] > 0.1
    empty = fit(["a", "b", "a"], ("a", "b", "c"), prior=1).region()
    assert (empty.lower[2] == 0).all()
    assert (empty.upper[2] == 1).all()


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, math.nan, "0.95", True, None])
def test_bad_confidence_is_refused(confidence):
    chain = from_counts([[9, 1], [2, 8]])
    for ask in (chain.intervals, chain.region):
        with pytest.raises(InvalidInput, match="confidence must"):
            ask(confidence)
