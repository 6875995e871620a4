"""Boxes of any number of states: the contraction bound against exchanges on their chains."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.grids import each
from undertow.bounds.levels.classes import box_leakage, contraction_leakage
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.levels.sweep import contraction_rate, contraction_upper
from undertow.models.classes import ChainBox


def random_box(size, generator, length=None):
    """A box around a random chain, and chains of it."""
    middle = generator.dirichlet(np.full(size, 2.0), size)
    wide = generator.uniform(0, 0.5, (size, size)) * np.minimum(middle, 1 - middle)
    box = ChainBox(middle - wide, middle + wide, length=length)
    chains = [ut.MarkovChain(middle, length=length)]
    for _ in range(3):  # rows with some entries raised and others lowered by as much
        step = generator.uniform(-1, 1, (size, size)) * wide
        step -= step.mean(axis=1, keepdims=True)
        scale = np.min(np.where(step != 0, wide / np.maximum(np.abs(step), 1e-12), np.inf))
        moved = middle + min(scale, 1.0) * step
        chains.append(ut.MarkovChain(moved, length=length))
    return box, chains


@each(("seed", "size"), range(6), [3, 4])
def test_no_chain_of_the_box_leaks_more(size, seed):
    generator = np.random.default_rng(seed)
    length = [None, 2, 5][seed % 3]
    box, chains = random_box(size, generator, length)
    who: tuple[Any, ...] = ("any", "ignorant", "informed")
    for epsilon, against in itertools.product((0.1, 1.0), who):
        bound = contraction_leakage(epsilon, box, against)
        truth = max(exchange_leakage(epsilon, chain, against).lower for chain in chains)
        assert truth <= bound.upper
        assert bound.lower <= bound.upper


def test_time_varying_chains_and_any_start_are_covered():
    generator = np.random.default_rng(5)
    box, chains = random_box(3, generator)
    steps = np.array([chain.transition for chain in chains])
    varying = ut.MarkovChain(steps, start=[0.98, 0.01, 0.01])
    leak = exchange_leakage(0.5, varying, "any")
    assert leak.upper <= contraction_leakage(0.5, box).upper


def slow_box(size, generator, wide):
    """A narrow box around a chain whose states last, some of whose transitions are rare."""
    rare = generator.dirichlet(np.full(size, 0.4), size) + 1e-3
    middle = 0.85 * np.eye(size) + 0.15 * rare / rare.sum(axis=1, keepdims=True)
    middle /= middle.sum(axis=1, keepdims=True)
    box = ChainBox(middle * (1 - wide), np.minimum(middle * (1 + wide), 1.0))
    chains = [ut.MarkovChain(middle), box.lasting()]
    for _ in range(4):
        scale = 1 + wide * generator.uniform(-1, 1, (size, size)) * (1 - np.eye(size))
        moved = middle * scale
        np.fill_diagonal(moved, 0)
        np.fill_diagonal(moved, 1 - moved.sum(axis=1))
        if (moved >= box.lower).all() and (moved <= box.upper).all():
            chains.append(ut.MarkovChain(moved))
    return box, chains


def test_a_window_of_a_box_of_more_states_is_bounded_by_its_sides():
    box, chains = slow_box(3, np.random.default_rng(2), 0.05)
    for window in (2, 6):
        found = box_leakage(0.3, box, "any", window)
        assert found.lower <= found.upper
        truth = max(exchange_leakage(0.3, chain, "any", window).lower for chain in chains)
        assert truth <= found.upper
        assert found.upper == pytest.approx((window - 1) * 0.3 + contraction_upper(0.3, box))


def test_two_states_are_bounded_a_little_above_the_exact_enclosure():
    box = ChainBox([[0.87, 0.11], [0.29, 0.68]], [[0.89, 0.13], [0.32, 0.71]])
    exact, bound = box_leakage(0.25, box), contraction_leakage(0.25, box)
    assert exact.upper <= bound.upper <= 1.15 * exact.upper


def test_large_levels_small_levels_and_zeros():
    box = ChainBox(np.full((3, 3), 0.2), np.full((3, 3), 0.6))
    for epsilon in (1e-8, 1e-3, 30.0, 400.0):
        leak = contraction_leakage(epsilon, box)
        assert epsilon <= leak.upper <= epsilon + 2 * contraction_rate(box) * (1 + 1e-9)
    open_box = ChainBox(np.zeros((3, 3)), np.ones((3, 3)))
    assert contraction_leakage(0.5, open_box).upper == math.inf
    short = ChainBox(np.zeros((3, 3)), np.ones((3, 3)), length=4)
    assert contraction_leakage(0.5, short).upper == pytest.approx(2.0)


def test_independent_records_leak_their_level():
    law = [[0.2, 0.3, 0.5]] * 3
    assert contraction_leakage(0.7, ChainBox(law, law)).upper == pytest.approx(0.7, abs=1e-9)


def test_plans_under_a_box_of_three_states():
    box = ChainBox(np.full((3, 3), 0.2), np.full((3, 3), 0.6), ("a", "b", "c"))
    plan = ut.calibrate(ut.Histogram(), box, limit=1.0)
    assert plan.leakage.proves(1.0)
    assert 0 < ut.dp_budget(box, limit=1.0) < 1.0
    assert any("unsure" in said for said in plan.leakage.assumptions)
