"""Every epsilon-DP algorithm on chains: the exchange rate against the linear program."""

import math
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.contracts.chain_truths import (
    NAMED,
    PROGRAM,
    against_of,
    closed,
    dp_truth,
    encloses,
    evidence,
)
from tests.contracts.chains import FAMILIES, adversary, example
from tests.grids import each
from undertow.testing.enumeration import pure_dp_leakage


@each(
    ("family", ("k", "n", "epsilon", "who")),
    FAMILIES,
    [(*size, who) for size in [(2, 4, 1.0), (3, 3, 0.5), (2, 3, 3.0)] for who in NAMED],
)
def test_exchange_is_the_program(family, k, n, epsilon, who):
    chain = example(family, k, n)
    leak = ut.leakage(ut.PureDP(epsilon), chain.model(), against=who)
    encloses(leak, dp_truth(family, k, n, 0, epsilon, who), PROGRAM)
    closed(leak)


LONGER: list[Any] = [
    ("zeros", 3, 4, 6, 0.7),
    ("periodic", 4, 3, 8, 2.0),
    ("negative", 2, 5, 2, 2.0),
    ("generic", 2, 5, 1, 0.2),
    ("varying", 2, 5, 4, 1.0),
    ("sticky", 2, 5, 3, 1.0),
    ("varying", 3, 4, 5, 1.0),
    ("generic", 4, 3, 7, 1.0),
]


@pytest.mark.parametrize(
    ("family", "k", "n", "seed", "epsilon"),
    LONGER,
)
def test_exchange_is_the_program_on_longer_chains(family, k, n, seed, epsilon):
    chain = example(family, k, n, seed)
    for who in ("any", "ignorant"):
        leak = ut.leakage(ut.PureDP(epsilon), chain.model(), against=who)
        encloses(leak, dp_truth(family, k, n, seed, epsilon, who), PROGRAM)
        closed(leak)


def judge_one_adversary(family, k, n, epsilon, seed):
    """A random adversary, every value that it may know, every pair."""
    chain = example(family, k, n, seed=10)
    who = adversary(chain, seed)
    leak = ut.leakage(ut.PureDP(epsilon), chain.model(), against=against_of(who))
    encloses(leak, pure_dp_leakage(chain.joint, epsilon, who).leakage, PROGRAM)
    closed(leak)


@each(
    ("family", ("k", "n", "epsilon", "seed")),
    FAMILIES, [(2, 6, 1.0, 1), (2, 6, 1.0, 2), (3, 5, 0.4, 1), (3, 5, 0.4, 2)],
)  # fmt: skip
def test_exchange_for_one_adversary(family, k, n, epsilon, seed):
    judge_one_adversary(family, k, n, epsilon, seed)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("who", [*NAMED, (2, (0,)), (0, (2, 3)), (1, ())], ids=str)
def test_exchange_witness_attains_the_lower_end(family, who):
    chain = example(family, 3, 4, seed=30)
    leak = ut.leakage(ut.PureDP(0.9), chain.model(), against=against_of(who))
    if leak.lower == 0.0:
        return
    witness = leak.witness
    assert witness is not None
    assert witness.length == 4
    if not isinstance(who, str):
        assert witness.target == who[0]
        assert {record for record, _ in witness.known} <= set(who[1])
    if who == "ignorant":
        assert witness.known == ()
    exponent = np.zeros((3,) * 4)
    for record, states in witness.sets:
        inside = np.array([float(state in states) for state in range(3)])
        exponent += inside.reshape([-1 if axis == record else 1 for axis in range(4)])
    phi = np.exp(0.9 * exponent)
    top, bottom = (
        evidence(chain.joint, phi, witness.known, witness.target, value)
        for value in (witness.value, witness.other)
    )
    assert math.log(top / bottom) == pytest.approx(leak.lower, abs=1e-9)
