"""Leakage over classes of chains and of metric-private algorithms, through the engine."""

import math
from typing import Any

import numpy as np
import pytest

import undertow as ut
from undertow.errors import InvalidInput, NotSupported, UnknownState

UNTYPED: Any = ut
ROWS = [[0.882, 0.118], [0.305, 0.695]]
BOX = ut.MarkovChain.box([[0.87, 0.11], [0.29, 0.68]], [[0.89, 0.13], [0.32, 0.71]], length=500)
MIXING = ut.MarkovChain.mixing(states=3, pi_min=0.1, gap=0.3, length=400)


def test_a_box_is_worse_than_any_of_its_chains():
    for against in ("any", "ignorant", "informed"):
        whole = ut.leakage(ut.PureDP(1.0), BOX, against)
        for corner in BOX.corners():
            assert ut.leakage(ut.PureDP(1.0), corner, against).lower <= whole.upper
        assert whole.lower <= whole.upper


def test_noise_on_a_box_is_bounded_through_its_level():
    noisy = ut.leakage(ut.Laplace(ut.Count(1), scale=4.0), BOX)
    level = ut.leakage(ut.PureDP(0.25), BOX)
    assert noisy.upper == pytest.approx(level.upper, rel=1e-6)
    assert (noisy.lower, noisy.witness) == (0.0, None)
    plan = ut.calibrate(ut.Histogram(), BOX, limit=1.0)
    assert plan.method == "exchange"
    assert plan.leakage.proves(1.0)
    assert ut.Plan.from_json(plan.to_json()) == plan


def test_a_budget_for_a_box_serves_every_chain_of_it():
    budget = ut.dp_budget(BOX, limit=1.0)
    for corner in BOX.corners():
        assert ut.leakage(ut.PureDP(budget), corner).proves(1.0)
    chain = ut.MarkovChain(ROWS, length=500)
    assert budget < ut.dp_budget(chain, limit=1.0)


def reversible(seed):
    """Return a reversible chain of the class, by its joint law (None if it mixes too slowly)."""
    joint = np.random.default_rng(seed).random((3, 3)) + 2 * np.eye(3) * (seed % 3)
    joint = joint + joint.T + 0.2
    chain = ut.MarkovChain(joint / joint.sum(axis=1, keepdims=True), length=400)
    second = np.sort(np.abs(np.linalg.eigvals(chain.transition)))[-2]
    return chain if second <= 0.7 and chain.initial.min() >= 0.1 else None


def test_a_mixing_class_is_worse_than_its_chains():
    tried = 0
    for level in (0.05, 0.5):
        whole = ut.leakage(ut.PureDP(level), MIXING, "ignorant")
        assert whole.method == "quilt-approx"
        for seed in range(15):
            chain = reversible(seed)
            if chain is not None:
                tried += 1
                assert ut.leakage(ut.PureDP(level), chain, "ignorant").lower <= whole.upper
    assert tried >= 5


def test_whom_a_mixing_class_speaks_about():
    assert ut.leakage(ut.PureDP(0.5), MIXING, "informed").upper == 0.5
    assert ut.leakage(ut.PureDP(0.5), MIXING, "any").upper == pytest.approx(200)
    endless = ut.MarkovChain.mixing(states=3, pi_min=0.1, gap=0.3)
    assert math.isfinite(ut.leakage(ut.PureDP(0.5), endless, "ignorant").upper)
    with pytest.raises(NotSupported, match="give the class a length"):
        ut.leakage(ut.PureDP(0.5), endless, "any")


def test_a_mixing_class_is_calibrated_by_quilts_or_groups():
    plan = ut.calibrate(ut.Histogram(), MIXING, limit=2.0, against="ignorant")
    assert plan.method == "quilt-approx"
    assert plan.leakage.proves(2.0)
    assert ut.calibrate(ut.Histogram(), MIXING, limit=2.0).method == "group"
    assert ut.Plan.from_json(plan.to_json()) == plan
    assert plan.accuracy() > 0


def test_a_note_of_a_set_is_among_the_assumptions():
    models = ut.ModelSet([ut.MarkovChain(ROWS)], note="drawn at random")
    assert "drawn at random" in ut.leakage(ut.PureDP(1.0), models).assumptions


# --- metric privacy -------------------------------------------------------------------------------


@pytest.mark.parametrize("states", [(0, 3), (-1, 2)], ids=str)
def test_metric_privacy_on_two_states_is_a_dp_level(states):
    chain = ut.MarkovChain(ROWS, states=states)
    found = ut.leakage(ut.MetricDP(0.5), chain)
    assert found.upper == pytest.approx(ut.leakage(ut.PureDP(1.5), chain).upper)
    assert found.closed


def test_metric_privacy_on_more_states_is_bounded():
    rows = [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]]
    chain = ut.MarkovChain(rows, states=(0.0, 1.0, 4.0))
    found = ut.leakage(ut.MetricDP(0.25), chain)
    assert found.upper == pytest.approx(ut.leakage(ut.PureDP(1.0), chain).upper)
    assert found.lower == 0.0


def test_metric_privacy_needs_numbers():
    with pytest.raises(NotSupported, match="name the states by numbers"):
        ut.leakage(ut.MetricDP(1.0), ut.MarkovChain(ROWS, states=("a", "b")))
    with pytest.raises(NotSupported, match="how far two values lie apart"):
        ut.leakage(ut.MetricDP(1.0), ut.Groups(3))


# --- questions that make no sense -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "error", "words"),
    [
        (lambda: UNTYPED.Pairs([(0, 0)]), InvalidInput, "same state twice"),
        (lambda: UNTYPED.Pairs([]), InvalidInput, "empty list"),
        (lambda: UNTYPED.Pairs("01"), InvalidInput, "one string"),
        (lambda: UNTYPED.Pairs(["01"]), InvalidInput, "no pair"),
        (lambda: UNTYPED.Pairs([(0, 1, 2)]), InvalidInput, "no pair"),
        (lambda: UNTYPED.Pairs(3), InvalidInput, "something else"),
        (lambda: UNTYPED.Pairs([(0, 7)]), UnknownState, "no state 7"),
        (lambda: UNTYPED.Records([]), InvalidInput, "no record is named"),
        (lambda: UNTYPED.Records([500]), InvalidInput, "record 500"),
        (lambda: UNTYPED.Records([-1]), InvalidInput, "at least 0"),
        (lambda: UNTYPED.Records([1.5]), InvalidInput, "whole number"),
        (lambda: UNTYPED.Records(3), InvalidInput, "list of records"),
    ],
)
def test_bad_secrets_are_refused(secret, error, words):
    chain = ut.MarkovChain(ROWS, length=500)
    with pytest.raises(error, match=words):
        ut.calibrate(ut.Count(1), chain, 1.0, secret=secret())


def test_secrets_travel_with_the_plan():
    chain = ut.MarkovChain(ROWS, states=("a", "b"), length=500)
    plan = ut.calibrate(
        ut.Count("b"),
        chain,
        1.0,
        "ignorant",
        method="quilt",
        secret=ut.Pairs([("b", "a"), ("a", "b")], [4, 2]),
    )
    again = ut.Plan.from_json(plan.to_json())
    assert again == plan
    assert again.leakage.secret.value_pairs == (("b", "a"),)
    assert again.leakage.secret.targets == (2, 4)
    assert "between 'b' and 'a' of record 2 or 4" in plan.guarantee()
    assert (
        "between any two values of one record"
        in ut.calibrate(ut.Count("b"), chain, 1.0).guarantee()
    )
