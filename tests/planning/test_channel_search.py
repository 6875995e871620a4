"""The search for a channel of more states: its cuts, its aims, and where it gives up."""

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest

from tests.grids import thinned
from tests.planning.flips import THREE
from undertow.bounds.channels.flips import worst_attacks
from undertow.bounds.engine import leakage
from undertow.mechanisms import RandomizedResponse
from undertow.models.chains import MarkovChain
from undertow.planning.calibrate import calibrate
from undertow.planning.flips import (
    ChannelSearch,
    Cut,
    CutSet,
    even_channel,
    found_cuts,
    largest_even_level,
)
from undertow.planning.questions import Aim, information
from undertow.queries import Series
from undertow.testing.enumeration import chain_joint, mechanism_leakage, product_channel_likelihood

MIXING = [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.3, 0.2, 0.5]]
FOUR = [[0.6, 0.2, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.15, 0.2, 0.5, 0.15], [0.1, 0.1, 0.3, 0.5]]


@pytest.mark.parametrize("length", [4, 9])
def test_a_cut_is_the_witness_as_a_function_of_the_channel(length):
    chain = MarkovChain(THREE, states=("a", "b", "c"), length=length)
    channel = np.array([[0.5, 0.3, 0.2], [0.25, 0.6, 0.15], [0.3, 0.3, 0.4]])
    leak = leakage(RandomizedResponse(channel), chain)
    assert leak.witness is not None
    cut = Cut.of(leak.witness, chain)
    (loss,), (slope,) = CutSet([cut]).evaluate(channel)
    assert loss == pytest.approx(leak.lower, abs=1e-10)
    assert cut.loss(channel) == pytest.approx(loss, abs=1e-13)
    for place in itertools.product(range(3), repeat=2):
        moved = channel.copy()
        moved[place] += 1e-6
        ahead = cut.loss(moved)
        moved[place] -= 2e-6
        assert slope[place] == pytest.approx((ahead - cut.loss(moved)) / 2e-6, abs=1e-6)


def test_cuts_are_evaluated_together_as_one_by_one():
    """Of different lengths, with known records, on two chains."""
    channel = np.array([[0.5, 0.3, 0.2], [0.25, 0.6, 0.15], [0.3, 0.3, 0.4]])
    cuts = [
        Cut.of(witness, chain)
        for chain in (MarkovChain(THREE, length=6), MarkovChain(MIXING))
        for who in ("any", "ignorant")
        for witness in worst_attacks(channel, chain, who)
    ]
    together = CutSet([*cuts, cuts[0]])
    assert len({len(cut.shown) for cut in cuts}) > 1
    assert len(together) < len(cuts) + 1
    losses, slopes = together.evaluate(channel)
    for cut, loss, slope in zip(together.cuts, losses, slopes, strict=True):
        alone = CutSet([cut]).evaluate(channel)
        assert loss == pytest.approx(alone[0][0], abs=1e-12)
        assert slope == pytest.approx(alone[1][0], abs=1e-10)


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


def test_the_search_copes_with_an_open_interval():
    """An oracle whose upper end stays a little above what its attacks explain."""
    chain, aim = MarkovChain(THREE, length=4), Aim(MarkovChain(THREE).initial[None], np.ones(3))

    def vague(channel):
        found = leakage(channel, chain)
        return replace(found, upper=1.04 * found.upper)

    def attacks(channel):
        return found_cuts(vague(channel), channel, [chain])

    start = even_channel(3, largest_even_level(vague, chain, 2.0, 3))
    search = ChannelSearch(2.0, aim)
    search.cuts.add(attacks(start))
    found = search.settled(search.descended(start.matrix, 0.3), attacks, 6)
    settled = search.certified(found, vague, [chain])
    assert settled is not None
    channel, leak = settled
    assert leak.proves(2.0)
    assert leak.lower >= 0.9 * 2.0 / 1.04
    assert aim.flips(channel.matrix) < aim.flips(start.matrix) - 0.01


def test_a_search_without_attacks_or_without_hope_ends():
    chain, aim = MarkovChain(THREE, length=4), Aim(MarkovChain(THREE).initial[None], np.ones(3))
    start = even_channel(3, 0.1)
    mute = replace(leakage(start, chain), witness=None, upper=99.0)
    search = ChannelSearch(2.0, aim)
    assert search.settled(start.matrix, lambda _: [], 6) is start.matrix
    assert search.certified(start.matrix, lambda _: mute, [chain]) is None
    calls = []

    def stern(channel):
        calls.append(channel)
        return replace(leakage(channel, chain), upper=99.0)

    assert search.certified(0.9 * np.eye(3) + 0.1 / 3, stern, [chain]) is None
    assert len(calls) < 4


@pytest.mark.parametrize(
    ("steps", "against", "length", "before"),
    thinned(
        [
            pytest.param(FOUR, "ignorant", 6, 0.448139356),
            pytest.param(THREE, "any", 8, 0.457805599),
        ],
        keep=1,
    ),
)
def test_a_plan_is_the_same_whatever_the_clock_says(steps, against, length, before, monkeypatch):
    """The clock stands still, and then jumps by a day at each look.

    ``before`` are the expected flips that an earlier search found, which was limited by time.
    """
    chain = MarkovChain(steps, length=length)
    plans = []
    for jump in (0.0, 86400.0):
        ticks = itertools.count()
        for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
            monkeypatch.setattr(time, name, lambda jump=jump, ticks=ticks: jump * next(ticks))
        plans.append(calibrate(Series(), chain, 3.0, against))
    assert np.array_equal(plans[0].mechanism.matrix, plans[1].mechanism.matrix)
    assert plans[0].leakage == plans[1].leakage
    assert plans[0].leakage.proves(3.0)
    assert dict(plans[0].measures)["expected flips"] <= before + 1e-6


def test_an_aim_counts_the_worst_law():
    aim = Aim(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([1.0, 2.0]))
    channel = np.array([[0.9, 0.1], [0.3, 0.7]])
    assert aim.cost(channel) == pytest.approx(0.2 * 0.1 + 2 * 0.8 * 0.3)
    assert aim.flips(channel) == pytest.approx(0.2 * 0.1 + 0.8 * 0.3)
    bits = [information(law, channel) for law in aim.laws]
    assert aim.bits(channel) == min(bits)
    assert Aim(aim.laws, None).cost(channel) == -min(bits)
    assert information(np.array([0.5, 0.5]), np.array([[0.5, 0.5], [0.5, 0.5]])) == 0.0
