"""Attractive chains of order two by envelopes: narrow at small ratios, where boxes are not."""

import math

import numpy as np
import pytest

import undertow as ut
from tests.contracts.test_memory import seeds
from tests.oracles import memory as oracle
from undertow.bounds.core.patterns import pattern_attack
from undertow.bounds.core.play import play
from undertow.bounds.memory.two_states import (
    MoveBounds,
    envelope_bracket,
    law_of,
    swapped,
)

DEEP = ut.MarkovChain.second_order(oracle.tensor([0.0135, 0.66, 0.21, 0.93]))
"""About the order-two chain of deep sleep: states last long."""


def drawn(seed):
    """A random attractive chain, every second one slow, and a theta."""
    generator = np.random.default_rng(seed)
    while True:
        ones = generator.uniform(0.02, 0.98, 4)
        if seed % 2:
            ones[0], ones[3] = generator.beta(1, 12) + 1e-3, generator.beta(12, 1) - 1e-3
        ones = np.clip(ones, 1e-3, 1 - 1e-3)
        chain = ut.MarkovChain.second_order(oracle.tensor(ones))
        if law_of(chain) == "attractive":
            return chain, float(np.exp(generator.uniform(math.log(0.005), math.log(4.0))))


@seeds(3, 600)
def test_envelopes_enclose_enumeration(numbers):
    for seed in numbers:
        chain, theta = drawn(seed)
        tilts = MoveBounds(theta, theta).tilts("attractive")
        exact = [oracle.tilted(oracle.order_two(chain.transition, n), theta) for n in (3, 6)]
        for values, one in zip(zip(*exact, strict=True), (chain, swapped(chain)), strict=True):
            upper, attack = envelope_bracket(one, theta)
            assert max(values) <= upper + 1e-11
            lower = play(one.lowered(), pattern_attack(attack, tilts.weights)).lower
            assert lower <= upper <= 1.02 * lower


@pytest.mark.parametrize("level", [1.0, 0.02])
def test_slow_chains_have_narrow_brackets(level):
    leak = ut.leakage(ut.PureDP(level), DEEP)
    assert leak.upper < 1.001 * leak.lower
