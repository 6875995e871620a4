"""Chains of order two: their law, what is fitted, and what is refused."""

import numpy as np
import pytest

import undertow as ut
from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.models.second_order import SecondOrderChain

LONG = SecondOrderChain([[[0.9, 0.1], [0.4, 0.6]], [[0.8, 0.2], [0.1, 0.9]]], ("a", "b"))
PLAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])


def test_the_law_of_pairs_is_stationary_and_sums_to_one():
    after = np.einsum("xy,xyz->yz", LONG.pair_law, LONG.transition)
    assert after == pytest.approx(LONG.pair_law, abs=1e-14)
    assert LONG.joint(6).sum() == pytest.approx(1)
    shifted = LONG.joint(5).sum(axis=0)
    assert shifted == pytest.approx(LONG.joint(4), abs=1e-14)


def test_a_chain_of_order_one_stays_what_it_is():
    lifted = SecondOrderChain.of(PLAIN)
    assert lifted.first_order().transition == pytest.approx(PLAIN.transition)
    start = PLAIN.initial
    by_hand = start[1] * PLAIN.transition[1, 0] * PLAIN.transition[0, 0]
    assert lifted.joint(3)[1, 0, 0] == pytest.approx(by_hand)


def test_reading_backwards_reverses_the_law():
    back = LONG.reverse()
    assert back.joint(5) == pytest.approx(LONG.joint(5).transpose(4, 3, 2, 1, 0), abs=1e-14)
    assert back.reverse().transition == pytest.approx(LONG.transition)


def test_simulation_and_fit_find_the_transitions_again():
    """Null: the stated chain; 40,000 records, 4 standard errors for 4 rows: false alarms < 3e-4."""
    drawn = LONG.simulate(40_000, seed=5)
    found = SecondOrderChain.fit(drawn, ("a", "b"), public=True)
    visits = 40_000 * LONG.pair_law
    error = np.sqrt(LONG.transition[..., 0] * LONG.transition[..., 1] / visits)
    assert (np.abs(found.transition - LONG.transition)[..., 0] < 4 * error).all()
    other = SecondOrderChain.of(LONG.first_order())  # the broken twin: the same pairs, no memory
    assert not (np.abs(found.transition - other.transition)[..., 0] < 4 * error).all()


def test_fit_counts_runs_of_three_and_not_across_gaps():
    fit = ut.MarkovChain.fit([["a", "a", "b"], ["b", None, "b", "a", "a"]], public=True)
    with pytest.raises(InvalidModel, match=r"after 'a' and 'b'.*prior"):
        SecondOrderChain.from_fit(fit)
    found = SecondOrderChain.from_fit(fit, prior=1.0)
    assert found.transition[0, 0].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert found.transition[1, 0].tolist() == pytest.approx([2 / 3, 1 / 3])


def test_description_round():
    described = LONG.to_dict()
    again = SecondOrderChain(described["transition"], described["states"], described["length"])
    assert np.array_equal(again.transition, LONG.transition)
    assert LONG.describe() == "chain of order two on 2 states, a stationary start, any length"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([[0.5, 0.5], [0.5, 0.5]], "shape"),
        ([[[0.9, 0.2], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]], r"row \(0, 0\)"),
        ([[[1.5, -0.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]], "probabilities lie in"),
    ],
)
def test_bad_tables_are_refused(table, words):
    with pytest.raises(InvalidModel, match=words):
        SecondOrderChain(table)


def test_what_cannot_be_done_is_refused():
    with pytest.raises(NotSupported, match="runs of three"):
        SecondOrderChain.from_fit(ut.MarkovChain.from_counts([[3, 1], [1, 3]], public=True))
    with pytest.raises(InvalidInput, match="length"):
        LONG.simulate()
    with pytest.raises(InvalidModel, match="stationary start"):
        SecondOrderChain.of(ut.MarkovChain(PLAIN.transition, start=[1, 0]))
    fit = ut.MarkovChain.fit(list("abab"), public=True)
    with pytest.raises(InvalidInput, match="prior"):
        SecondOrderChain.from_fit(fit, prior=-1)
    never = SecondOrderChain([[[0.5, 0.5], [1, 0]], [[0.5, 0.5], [0.5, 0.5]]])
    with pytest.raises(InvalidModel, match="probability 0"):
        never.reverse()
