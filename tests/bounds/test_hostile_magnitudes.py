"""Chains whose probabilities spread over a hundred orders of magnitude, against enumeration.

What is possible is decided on the support. A step of any probability that a model may say counts as
one: upper ends are never below the truth in exact fractions, lower ends never above it.
"""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.oracles import models as oracles
from tests.oracles.enumeration import law_leakage
from tests.oracles.memory import order_two
from tests.oracles.exact import normalised, stationary
from undertow.errors import InvalidModel, NothingToProtect, NotSupported
from undertow.numerics import RAREST

CASES = 24
"""Random models of each kind."""

HIDDEN_STATE = [[0.1, 0.9, 0, 1e-200], [0.045, 0.955, 0, 0], [0.5, 0.5, 0, 0]]


def magnitudes(rng: np.random.Generator, size: int, deepest: float, zeros: float = 0.2) -> Any:
    """A law with entries of random orders of magnitude; one is large, some are 0."""
    row = 10.0 ** -rng.uniform(0, deepest, size) * (rng.random(size) >= zeros)
    row[rng.integers(size)] = 1.0
    return row / row.sum()


def chain(rng: np.random.Generator, size: int, length: int) -> ut.MarkovChain | None:
    """A random chain, stationary, with a given start, or with steps that differ; or a refusal."""
    kind = rng.integers(3)
    deepest = float(rng.choice([3.0, 20.0, 49.0, 99.0]))
    zeros = float(rng.choice([0.0, 0.3]))
    rows = [[magnitudes(rng, size, deepest, zeros) for _ in range(size)] for _ in range(length - 1)]
    start = magnitudes(rng, size, deepest, zeros)
    try:
        if kind == 0:
            return ut.MarkovChain(rows[0], length=length)
        if kind == 1:
            return ut.MarkovChain(rows[0], start=start, length=length)
        return ut.MarkovChain(rows, start=start)
    except InvalidModel:
        return None


def cases(make: Callable[[np.random.Generator], Any], seed: int, count: int = CASES) -> list[Any]:
    """So many models that are accepted; of random ones few are refused."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(50 * count):
        made = make(rng)
        if made is not None:
            found.append(made)
        if len(found) == count:
            return found
    raise AssertionError("hardly any random model is accepted")


def judge(leak: Any, truth: float, *, attained: bool = True) -> None:
    """The interval holds the truth, of which rounding may hide a part in 10^9."""
    slack = 1e-9 * max(1.0, truth)
    assert leak.upper >= truth - slack
    if attained:
        assert leak.lower <= truth + slack


def against_all(rng: np.random.Generator, length: int) -> list[Any]:
    target = int(rng.integers(length))
    others = [record for record in range(length) if record != target]
    known = [record for record in others if rng.random() < 0.5]
    return ["any", "ignorant", "informed", ut.Adversary(target, known)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("size", "length"), [(2, 4), (3, 3), (4, 2), (4, 3)])
def test_chains(size: int, length: int, seed: int) -> None:
    """All algorithms of a level, and counts and histograms with noise, against every adversary."""
    rng = np.random.default_rng(seed)
    few = 6 if size == 4 and length == 3 else CASES
    for model in cases(lambda made: chain(made, size, length), 100 * seed + size, few):
        table = oracles.table_of(model)
        who = against_all(rng, length)
        for against in who if size * length < 12 else who[1:2]:
            leak = ut.leakage(ut.PureDP(0.7), model, against)
            judge(leak, oracles.product_leakage(table, size, 0.7, against))
        for mechanism in (ut.Laplace(ut.Count(0), 1.3), ut.DiscreteLaplace(ut.Histogram(), 2.0)):
            for against in who:
                leak = ut.leakage(mechanism, model, against)
                judge(leak, oracles.truth(model, mechanism, against))


@pytest.mark.parametrize("seed", range(2))
def test_budgets(seed: int) -> None:
    """The DP level that is proposed never leaks more than the limit."""
    for model in cases(lambda rng: chain(rng, 3, 3), 7 + seed, 8):
        table = oracles.table_of(model)
        for against in ("any", "ignorant"):
            level = ut.dp_budget(model, 1.0, against)
            if math.isfinite(level):
                assert oracles.product_leakage(table, 3, level, against) <= 1 + 1e-9


def flipped(table: oracles.Exact, channel: Any, against: Any) -> float:
    """What a series flipped record by record leaks."""
    length, (inputs, outputs) = len(next(iter(table))), channel.shape
    logs = np.log(channel)
    every = list(itertools.product(range(outputs), repeat=length))

    def score(values: tuple[int, ...]) -> Any:
        return np.array(
            [sum(logs[v, z] for v, z in zip(values, out, strict=True)) for out in every]
        )

    return law_leakage(table, score, against)


@pytest.mark.parametrize(("size", "length"), [(2, 4), (3, 3)])
def test_flips(size: int, length: int) -> None:
    rng = np.random.default_rng(size)
    for model in cases(lambda made: chain(made, size, length), 31 + size):
        channel = np.full((size, size), 0.2 / (size - 1))
        np.fill_diagonal(channel, 0.8)
        for against in against_all(rng, length):
            try:
                leak = ut.leakage(ut.RandomizedResponse(channel), model, against)
            except NotSupported:
                continue
            judge(leak, flipped(oracles.table_of(model), channel, against))


@pytest.mark.parametrize("seed", range(2))
def test_chains_of_order_two(seed: int) -> None:
    def make(rng: np.random.Generator) -> ut.SecondOrderChain | None:
        deepest = float(rng.choice([3.0, 20.0, 33.0]))
        tensor = [[magnitudes(rng, 2, deepest, 0.0) for _ in range(2)] for _ in range(2)]
        try:
            return ut.SecondOrderChain(tensor, length=4)
        except InvalidModel:
            return None

    for model in cases(make, seed, 8):
        joint = order_two(model.transition, 4, Fraction)
        table = {at: joint[at] for at in np.ndindex(*joint.shape) if joint[at]}
        for against in ("any", "ignorant", "informed"):
            leak = ut.leakage(ut.PureDP(0.7), model, against)
            judge(leak, oracles.product_leakage(table, 2, 0.7, against), attained=False)
            assert leak.lower <= leak.upper


@pytest.mark.parametrize("seed", range(2))
def test_hidden_chains(seed: int) -> None:
    symbols = (0, 0, 1)

    def make(rng: np.random.Generator) -> ut.HiddenChain | None:
        deepest = float(rng.choice([3.0, 20.0, 33.0]))
        try:
            return ut.HiddenChain([magnitudes(rng, 3, deepest, 0.0) for _ in symbols], symbols,
                                  length=4)  # fmt: skip
        except InvalidModel:
            return None

    for model in cases(make, seed, 8):
        rows = [normalised(row) for row in model.transition]
        law, table = stationary(rows), dict[tuple[int, ...], Fraction]()
        for walk in itertools.product(range(3), repeat=4):
            mass = law[walk[0]]
            for one, two in itertools.pairwise(walk):
                mass *= rows[one][two]
            at = tuple(symbols[state] for state in walk)
            table[at] = table.get(at, Fraction(0)) + mass
        for mechanism, score in (
            (ut.PureDP(0.7), None),
            (ut.Laplace(ut.Count(0), 1.3), oracles.noisy(oracles.counted([0]), 4, 1.3)),
        ):
            for against in ("any", "ignorant", "informed"):
                try:
                    leak = ut.leakage(mechanism, model, against)
                except NotSupported:
                    continue
                if score is None:
                    truth = oracles.product_leakage(table, 2, 0.7, against)
                else:
                    truth = law_leakage(table, score, against)
                judge(leak, truth, attained=score is not None)
