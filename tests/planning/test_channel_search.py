"""The search for a channel of more states: its cuts, its aims, and where it gives up."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.planning.flips import THREE
from undertow.bounds.engine import leakage
from undertow.channels import RandomizedResponse
from undertow.models.markov import MarkovChain
from undertow.planning.channel_search import Cut, improved_channel
from undertow.planning.flip_aims import Aim, information
from undertow.planning.kary_flips import even_channel, largest_even_level


@pytest.mark.parametrize("length", [4, 9])
def test_a_cut_is_the_witness_as_a_function_of_the_channel(length):
    chain = MarkovChain(THREE, states=("a", "b", "c"), length=length)
    channel = np.array([[0.5, 0.3, 0.2], [0.25, 0.6, 0.15], [0.3, 0.3, 0.4]])
    leak = leakage(RandomizedResponse(channel), chain)
    assert leak.witness is not None
    cut = Cut.of(leak.witness, chain)
    loss, slope = cut.evaluate(channel)
    assert loss == pytest.approx(leak.lower, abs=1e-10)
    assert cut.loss(channel) == pytest.approx(loss, abs=1e-13)
    for place in itertools.product(range(3), repeat=2):
        moved = channel.copy()
        moved[place] += 1e-6
        ahead = cut.loss(moved)
        moved[place] -= 2e-6
        assert slope[place] == pytest.approx((ahead - cut.loss(moved)) / 2e-6, abs=1e-6)


def test_the_search_copes_with_an_open_interval():
    """An oracle whose upper end stays a little above what its attacks explain."""
    chain, aim = MarkovChain(THREE, length=4), Aim(MarkovChain(THREE).initial[None], np.ones(3))

    def vague(channel):
        found = leakage(channel, chain)
        return replace(found, upper=1.04 * found.upper)

    start = even_channel(3, largest_even_level(vague, chain, 2.0, 3))
    channel, leak = improved_channel(vague, [chain], 2.0, aim, (start, vague(start)))
    assert leak.proves(2.0)
    assert leak.lower >= 0.9 * 2.0 / 1.04
    assert aim.flips(channel.matrix) < aim.flips(start.matrix) - 0.01


def test_the_search_needs_attacks_and_time(monkeypatch):
    chain, aim = MarkovChain(THREE, length=4), Aim(MarkovChain(THREE).initial[None], np.ones(3))
    start = even_channel(3, 0.1)
    mute = replace(leakage(start, chain), witness=None)
    assert improved_channel(lambda _: mute, [chain], 2.0, aim, (start, mute)) == (start, mute)
    monkeypatch.setattr("undertow.planning.channel_search._SECONDS", -1.0)
    told = (start, leakage(start, chain))
    calls = []

    def stern(channel):
        calls.append(channel)
        return replace(leakage(channel, chain), upper=99.0)

    hint = 0.9 * np.eye(3) + 0.1 / 3
    assert improved_channel(stern, [chain], 2.0, aim, told, hint) == told
    assert len(calls) == 1


def test_an_aim_counts_the_worst_law():
    aim = Aim(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([1.0, 2.0]))
    channel = np.array([[0.9, 0.1], [0.3, 0.7]])
    assert aim.cost(channel) == pytest.approx(0.2 * 0.1 + 2 * 0.8 * 0.3)
    assert aim.flips(channel) == pytest.approx(0.2 * 0.1 + 0.8 * 0.3)
    bits = [information(law, channel) for law in aim.laws]
    assert aim.bits(channel) == min(bits)
    assert Aim(aim.laws, None).cost(channel) == -min(bits)
    assert information(np.array([0.5, 0.5]), np.array([[0.5, 0.5], [0.5, 0.5]])) == 0.0
