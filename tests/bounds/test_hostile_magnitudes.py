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
from tests.oracles.exact import normalised, stationary
from tests.oracles.memory import order_two
from undertow.errors import InvalidModel, NotSupported
from undertow.models import SecondOrderChain
from undertow.models.chains import stationary_law

CASES = 24
"""Random models of each kind."""


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
    length, outputs = len(next(iter(table))), channel.shape[1]
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
    def make(rng: np.random.Generator) -> SecondOrderChain | None:
        deepest = float(rng.choice([3.0, 20.0, 33.0]))
        tensor = [[magnitudes(rng, 2, deepest, 0.0) for _ in range(2)] for _ in range(2)]
        try:
            return ut.MarkovChain.second_order(tensor, length=4)
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
                    leak = ut.leakage(mechanism, model, against, effort=0.1)
                except NotSupported:
                    continue
                if score is None:
                    truth = oracles.product_leakage(table, 2, 0.7, against)
                else:
                    truth = law_leakage(table, score, against)
                judge(leak, truth, attained=score is not None)


# --- the chain of the issue, and what is refused --------------------------------------------------


def rare(q: float) -> Any:
    """State 3 is reached with probability q, and left for 2 with probability q."""
    return [[0.1, 0.9, 0, q], [0.045, 0.955, 0, 0], [0.5, 0.5, 0, 0], [0.3, 0.7 - q, q, 0]]


def test_a_state_reached_by_two_rare_steps_is_possible() -> None:
    """State 2 has a probability of about q^2 / 20, and tells all about the record before it."""
    for q in (1e-20, 1e-30, 1e-45):
        leak = ut.leakage(ut.PureDP(1.0), ut.MarkovChain(rare(q), length=2), "ignorant")
        assert leak.lower - 1e-9 <= 2 <= leak.upper + 1e-9
        chain = ut.MarkovChain(rare(q), length=3)
        assert ut.dp_budget(chain, 2.0) == pytest.approx(0.675, abs=2e-3)


TOO_RARE: dict[str, Callable[[], Any]] = {
    "the chain of the issue": lambda: ut.MarkovChain(rare(1e-200), length=2),
    "a state of the stationary law": lambda: ut.MarkovChain(rare(1e-60)),
    "a step under the stationary law": lambda: ut.MarkovChain(
        [[1 - 1e-60, 1e-60, 0], [1 - 1e-60, 0, 1e-60], [1, 0, 0]]
    ),
    "a subnormal": lambda: ut.MarkovChain([[1.0, 5e-324], [0.5, 0.5]]),
    "a start": lambda: ut.MarkovChain([[0.5, 0.5], [0.5, 0.5]], start=[1e-200, 1.0]),
    "a start and a step": lambda: ut.MarkovChain(
        [[1.0, 1e-60], [0.5, 0.5]], start=[1e-60, 1.0], length=4
    ),
    "one of the steps": lambda: ut.MarkovChain(
        [[[0.5, 0.5], [0.5, 0.5]], [[1.0, 1e-150], [0.5, 0.5]]], start=[0.5, 0.5]
    ),
    "two steps that differ": lambda: ut.MarkovChain(
        [[[1, 1e-60, 0], [0, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 1e-60], [0, 0, 1]]],
        start=[1, 0, 0],
    ),
    "a state that is left for good": lambda: ut.MarkovChain(
        [[0.5, 0.5], [0, 1]], start=[1, 0], length=2000
    ),
    "a state that is left late": lambda: ut.MarkovChain(
        [[0.999, 0.001], [0, 1]], start=[1, 0], length=10**6
    ),
    "order two": lambda: ut.MarkovChain.second_order([[[1, 1e-120], [0.4, 0.6]], [[0.8, 0.2]] * 2]),
    "three in a row": lambda: ut.MarkovChain.second_order(
        [[[1, 1e-60], [0.5, 0.5]], [[0.5, 0.5], [1, 1e-60]]]
    ),
    "hidden states": lambda: ut.HiddenChain(rare(1e-60), (0, 0, 1, 1)),
    "a matrix of a context": lambda: ut.MarkovChain.by_context(
        {"d": [[1.0, 1e-200], [0.5, 0.5]]}, ["d"]
    ),
    "a period": lambda: ut.MarkovChain.periodic(
        [[[1, 1e-60], [1, 1e-60]], [[1, 1e-60], [1, 1e-60]]], start=[1, 0], length=3
    ),
    "a box": lambda: ut.MarkovChain.box([[0.5, 1e-200], [0.5, 0]], [[1, 0.5], [1, 0.5]]),
    "pseudo-counts": lambda: ut.MarkovChain.from_counts(
        [[5, 5, 0], [1, 1, 1], [1, 1, 1]], prior=1e-120, public=True
    ),
}


@pytest.mark.parametrize("name", TOO_RARE)
def test_what_floats_would_lose_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(InvalidModel, match=r"(entry|state number|step from state).*write 0 for"):
        TOO_RARE[name]()


def test_what_is_impossible_is_no_rarity() -> None:
    frozen = ut.MarkovChain([[0.5, 0.5, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])
    assert frozen.initial.tolist() == [0.5, 0.5, 0.0]
    assert ut.MarkovChain([[0.5, 0.5], [0, 1]], start=[1, 0]).length is None
    for length in (2, 5000, 10**9):
        ut.MarkovChain([[0, 1], [1, 0]], start=[1, 0], length=length)


def test_a_chain_read_backwards_is_accepted_where_it_is_accepted_forwards() -> None:
    for model in cases(lambda rng: chain(rng, 3, 4), 5, 60):
        back = model.reverse()
        assert (back.transition > 0).sum() >= (model.transition > 0).sum() * 0.3
        twice = back.reverse()
        assert np.allclose(twice.initial, model.initial, rtol=1e-9, atol=0)


def test_the_stationary_law_is_that_of_fractions() -> None:
    rng, found = np.random.default_rng(3), 0
    for _ in range(400):
        matrix = np.array([magnitudes(rng, 4, 30.0, 0.3) for _ in range(4)])
        try:
            law = stationary_law(matrix)
        except InvalidModel:
            continue
        truth = stationary([normalised(row) for row in matrix])
        assert all(
            abs(Fraction(a) / b - 1) < 1e-12 if b else a == 0
            for a, b in zip(law, truth, strict=True)
        )
        found += 1
    assert found > 100


def test_bridges_follow_the_support() -> None:
    """A walk of four steps through states that are hardly ever left, against fractions."""
    rows = np.eye(5) + 1e-40 * np.roll(np.eye(5), 1, axis=1)
    ring = ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True))
    bridge = ring.bridge(0, 2, 4)  # leaves twice in three steps: each way is as likely
    assert bridge.law(1)[:2] == pytest.approx([1 / 3, 2 / 3], rel=1e-12)
    with pytest.raises(InvalidModel, match="cannot follow"):
        ring.bridge(0, 4, 3)
    with pytest.raises(InvalidModel, match="too unlikely"):
        ut.MarkovChain(np.where(rows == 1, 1.0, rows * 1e-50)).bridge(0, 4, 5)
