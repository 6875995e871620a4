"""The sides of a target read in different ways agree where the question is the same one.

A redaction is a channel whose outputs are the states and "erased"; on two states the worst
algorithm of a DP level is randomised response of that level. Either pair of answers is computed
by code that shares nothing but the sum of the two sides.
"""

import math
from itertools import product

import numpy as np
import pytest

from undertow.adversaries import Adversary, Against
from undertow.bounds.channels.flips import channel_leakage, local_leakage
from undertow.bounds.channels.redaction import redaction_leakage
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.mechanisms import RandomizedResponse, Redaction
from undertow.models.chains import MarkovChain
from undertow.numerics import Array

CLOSE = 2e-12
"""Both ends of both intervals are roundings of one number."""

DRAWN = np.random.default_rng(3)
CHAINS = {
    "sticky": MarkovChain([[0.9, 0.1], [0.3, 0.7]]),
    "alternating": MarkovChain([[0.2, 0.8], [0.6, 0.4]]),
    "one way": MarkovChain([[0.7, 0.3], [0.0, 1.0]], start=[0.8, 0.2]),
    "given start": MarkovChain([[0.8, 0.2], [0.4, 0.6]], start=[1.0, 0.0]),
    "steps differ": MarkovChain(DRAWN.dirichlet([1.0, 1.0], size=(6, 2)), start=[0.4, 0.6]),
    "three states": MarkovChain([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]]),
}
LENGTH, PROTECTED = 7, 3
AGAINST: dict[str, Against] = {
    "any": "any",
    "ignorant": "ignorant",
    "left": Adversary(PROTECTED, [0]),
    "both": Adversary(PROTECTED, [1, 5]),
}
TABLES = ("drawn", "window", "one value")


def erasures(kind: str, states: int) -> Array:
    """Return probabilities of erasure of one kind; the protected record is always erased."""
    table = np.random.default_rng(7).uniform(0.05, 0.95, size=(LENGTH, states))
    if kind == "window":
        table = np.zeros((LENGTH, states))
        table[PROTECTED - 1 : PROTECTED + 2] = 1.0
    if kind == "one value":
        table[:, 0] = 1.0
    table[PROTECTED] = 1.0
    return table


@pytest.mark.parametrize(("name", "who", "kind"), [*product(CHAINS, AGAINST, TABLES)])
def test_a_redaction_is_a_channel_with_an_erasure_output(name: str, who: str, kind: str) -> None:
    chain, against = CHAINS[name], AGAINST[who]
    table = erasures(kind, chain.size)
    # (record, state, output): the state itself is shown, or the last output, erased
    channels = np.concatenate([np.eye(chain.size) * (1 - table)[:, :, None], table[:, :, None]], 2)
    shown = channel_leakage(
        channels, chain, against, [PROTECTED], outputs=(*chain.states, None), effort=3
    )
    redacted = redaction_leakage(Redaction(table, protect=PROTECTED), chain, against)
    if math.isinf(redacted.upper):
        assert math.isinf(shown.upper)
        return
    assert redacted.upper - redacted.lower <= CLOSE
    assert abs(shown.lower - redacted.lower) <= CLOSE
    assert abs(shown.upper - redacted.upper) <= CLOSE


@pytest.mark.parametrize("level", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("who", AGAINST)
@pytest.mark.parametrize("name", [name for name, chain in CHAINS.items() if chain.size == 2])
def test_on_two_states_a_level_leaks_what_flips_of_it_do(name: str, who: str, level: float) -> None:
    chain, against, rate = CHAINS[name], AGAINST[who], 1 / (1 + math.exp(level))
    if chain.homogeneous:
        chain = MarkovChain(chain.transition, start=chain.start, length=LENGTH)
    every = exchange_leakage(level, chain, against)
    flips = local_leakage(RandomizedResponse.binary(rate, rate), chain, against)
    assert every.closed
    assert flips.closed
    assert math.isclose(every.upper, flips.upper, rel_tol=1e-9, abs_tol=1e-10)
    assert math.isclose(every.lower, flips.lower, rel_tol=1e-9, abs_tol=1e-10)
