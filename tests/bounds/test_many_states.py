"""Chains of many states: pairs are dismissed by ceilings, in blocks, and nothing is lost by it."""

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.levels.sides import ordered_pairs
from undertow.bounds.levels.sweep import Ask, ceilings


def random_chain(seed, size, **more):
    """Return a chain with uneven rows; every other one sticky, every third with zeros."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(size, 0.7), size=size) + 0.01
    if seed % 3 == 0:
        rows *= rng.random((size, size)) < 0.7
        rows[np.arange(size), (np.arange(size) + 1) % size] += 0.2  # one cycle, and
        rows[0, 0] += 0.1  # a loop: every state leads everywhere
    rows += (2.0 if seed % 2 else 0.0) * np.eye(size)
    start = "stationary" if seed % 4 else rng.dirichlet(np.ones(size))
    return ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True), start=start, **more)


def asked(chain, side, epsilon, floor, spacing):
    value, other = ordered_pairs(chain.size)
    kernel = np.ascontiguousarray((chain.transition.T, chain.transition)[side])
    weights = None if side or isinstance(chain.start, str) else chain.initial
    return Ask(kernel, weights, value, other, epsilon, np.full(len(value), floor), spacing, 4.0)


def gains(chain, side, epsilon, steps=40):
    """Return the gain of every pair by plain bisection over mu, all distances up to ``steps``."""
    value, other = ordered_pairs(chain.size)
    kernel = (chain.transition.T, chain.transition)[side]
    weights = np.ones(chain.size) if side else chain.initial
    low, high = np.full((2, steps, len(value), chain.size + 1), [[[[-40.0]]], [[[40.0]]]])
    for _ in range(60):
        middle = (low + high) / 2
        signs = np.empty(middle.shape, dtype=bool)
        for step, column in np.ndindex(steps, chain.size + 1):
            c = kernel[value] - np.exp(middle[step, :, column, None]) * kernel[other]
            for _ in range(step):
                c = np.where(c > 0, c * np.exp(epsilon), c) @ kernel
            spent = np.where(c > 0, c * np.exp(epsilon), c)
            signs[step, :, column] = (spent @ weights if column == chain.size else c[:, column]) > 0
        low, high = np.where(signs, middle, low), np.where(signs, high, middle)
    best = np.zeros(len(value))
    product = np.eye(chain.size)
    for step in range(steps):
        product = product @ kernel
        table = np.column_stack([product, product @ weights])
        with np.errstate(divide="ignore", invalid="ignore"):
            prior = np.log(table[value]) - np.log(table[other])
            gain = np.where(np.isfinite(prior), high[step] - prior, 0.0)
        best = np.maximum(best, gain.max(axis=1))
    return best


@pytest.mark.parametrize(("seed", "side"), [(1, 1), (3, 0), (4, 0)])
def test_ceilings_hold_and_are_close(seed, side):
    chain, epsilon, floor, spacing = random_chain(seed, 3), 0.8, 0.05, 0.02
    truth = gains(chain, side, epsilon, steps=10)
    upper, lower = ceilings(asked(chain, side, epsilon, floor, spacing))
    assert (upper >= truth - 1e-9).all()
    assert (lower <= upper).all()
    assert (upper <= np.maximum(truth, floor) + 5 * spacing).all()
