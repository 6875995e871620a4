"""Two states whose steps differ: the closed recursion against the sweep, which shares no code."""

import numpy as np
import pytest

import undertow as ut
from tests.grids import thinned
from undertow.bounds.levels import exchange
from undertow.bounds.levels.exchange import Sides


class Swept(Sides):
    """Brackets by grids, Newton's method and rounded-up sweeps only."""

    def __init__(self, side_laws, rows, value, other, epsilon, **_):
        super().__init__(side_laws, rows, value, other, epsilon, binary=False)


def random_chain(seed):
    """Steps of all kinds: rising and falling, with zeros, nearly certain; any start."""
    draw = np.random.default_rng(seed)
    steps = draw.random((int(draw.integers(1, 8)), 2, 2))
    if seed % 3 == 0:
        steps[draw.random(steps.shape) < 0.3] = 0.0
        steps += steps.sum(axis=2, keepdims=True) == 0
    if seed % 4 == 1:
        steps = steps**8
    steps /= steps.sum(axis=2, keepdims=True)
    start = draw.random(2) if seed % 5 else np.array([1.0, 0.0])
    return ut.MarkovChain(steps, start=start / start.sum())


def adversary(kind, chain, seed):
    if kind != "one":
        return kind
    draw = np.random.default_rng(seed)
    target = int(draw.integers(chain.length))
    others = [record for record in range(chain.length) if record != target]
    return ut.Adversary(target, [record for record in others if draw.random() < 0.4])


@pytest.mark.parametrize("seed", thinned(range(200), keep=40))
def test_the_recursion_agrees_with_the_sweep(seed, monkeypatch):
    chain = random_chain(seed)
    kind = ("any", "ignorant", "one", "any")[seed % 4]
    level = (0.05, 1.0, 6.0)[seed // 4 % 3]
    against = adversary(kind, chain, seed)
    found = exchange.exchange_leakage(level, chain, against)
    monkeypatch.setattr(exchange, "Sides", Swept)
    swept = exchange.exchange_leakage(level, chain, against)
    assert found.lower <= swept.upper
    assert swept.lower <= found.upper
    assert found.upper - found.lower <= 1e-10 * max(1.0, found.upper)


def test_impossible_and_extreme_steps():
    """Logarithms neither under- nor overflow: a hundred steps that hardly move, at a high level."""
    still = np.array([[[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]]] * 100)
    leak = ut.leakage(ut.PureDP(10.0), ut.MarkovChain(still, start=[0.5, 0.5]))
    alike = ut.leakage(ut.PureDP(10.0), ut.MarkovChain(still[0], length=101))
    assert leak.upper == pytest.approx(alike.upper, rel=1e-9)
    stuck = np.array([np.eye(2)] * 5)
    assert ut.leakage(ut.PureDP(3.0), ut.MarkovChain(stuck, start=[0.5, 0.5])).upper == (
        pytest.approx(18.0)
    )
