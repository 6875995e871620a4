"""The search for a channel of more states: its cuts, its aims, and where it gives up."""

import itertools

import numpy as np
import pytest

from tests.planning.flips import THREE
from undertow.bounds.channels.flips import worst_attacks
from undertow.models.chains import MarkovChain
from undertow.planning.flips import Cut
from undertow.testing.enumeration import chain_joint, mechanism_leakage, product_channel_likelihood


@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_the_worst_of_the_attacks_on_all_pairs_is_the_leakage_by_enumeration(against):
    chain = MarkovChain(THREE, length=4)
    matrix = np.array([[0.5, 0.3, 0.2], [0.25, 0.6, 0.15], [0.3, 0.3, 0.4]])
    losses = {
        (one.value, one.other): Cut.of(one, chain).loss(matrix)
        for one in worst_attacks(matrix, chain, against)
    }
    assert sorted(losses) == list(itertools.permutations(range(3), 2))
    joint = chain_joint(chain.initial, chain.transition, length=4)
    table = product_channel_likelihood([matrix] * 4)
    worst = mechanism_leakage(joint, table, against).leakage
    assert max(losses.values()) == pytest.approx(worst, abs=1e-10)
    assert min(losses.values()) > 0.4 * worst  # the others are attacks, too
