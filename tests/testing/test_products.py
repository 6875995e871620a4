"""Attacks by products on long series: numbers of the theory, enumeration, and replays."""

import itertools

import numpy as np
import pytest

from tests.engine.laws import P3, SYMBOLS, A, B
from tests.oracles import products
from undertow.testing.enumeration import chain_joint as joint_of
from undertow.testing.enumeration import law_program, product_attack, record_limits


def limits_of(level, size):
    return record_limits(level, 1, size)[0]


@pytest.mark.parametrize(
    ("kernels", "symbols", "level", "attained", "upper"),
    [
        ((A,), SYMBOLS, 0.1, 0.221917, 0.224815),
        ((A,), SYMBOLS, 1.0, 2.076431, 2.097828),
        ((B,), SYMBOLS, 0.1, 0.54324, 0.5433),
        ((B,), SYMBOLS, 1.0, 3.71627, 3.7177),
        ((P3,), (0, 1, 2), 0.1, 0.68638, 0.6867825),
        ((P3,), (0, 1, 2), 1.0, 5.37634, 5.3763405),
        ((A, B), SYMBOLS, 0.1, 0.30364, 0.305551),
        ((A, B), SYMBOLS, 1.0, 2.650475, 2.663987),
    ],
)
def test_numbers_of_the_theory(kernels, symbols, level, attained, upper):
    """docs, theory-engine: E8 and E15; exact for P3, the envelopes for B."""
    law = products.periodic(kernels, symbols)
    attacks = products.worst(law, limits_of(level, law.states), np.random.default_rng(0))
    assert attained <= max(each.value for each in attacks.values()) <= upper
    for pair, each in attacks.items():
        assert each.attack.histories == pair
        total = products.replay(law, limits_of(level, law.states), each.attack)
        assert total <= each.value <= total + 0.02


def random_law(rng, phases):
    kernels = rng.dirichlet(np.ones(4), (phases, 4)).clip(0.01)
    kernels /= kernels.sum(axis=2, keepdims=True)
    return products.periodic(kernels, rng.permutation([0, 0, 1, 1]))


@pytest.mark.parametrize("phases", [1, 2, 3])
def test_periodic_laws_come_back(phases):
    law = random_law(np.random.default_rng(phases), phases)
    np.testing.assert_allclose(law.law(phases), law.start, rtol=1e-13)
    np.testing.assert_allclose(law.law(50 * phases), law.start, rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_beams_find_the_best_product_of_short_series(seed):
    """Two records on either side: all patterns with up to two, every length in between."""
    rng = np.random.default_rng(seed)
    law = random_law(rng, 1 + seed % 3)
    limits = record_limits(rng.uniform(0.1, 2.0, (2, 2)), 1, 2)[0]
    best: dict[products.Histories, float] = {}
    for value, _, case in products.short_patterns(law, limits, 5):
        if case.secret == (2,):
            pair = case.value, case.other
            best[pair] = max(best.get(pair, 0.0), value)
    for pair, (value, attack) in products.beam(law, limits, depth=2, width=10**6, box=1e-9).items():
        assert value == pytest.approx(best[pair], abs=1e-12)
        assert products.replay(law, limits, attack) == pytest.approx(value, abs=1e-12)
    one_side = products.beam(law, limits, depth=2, sides=(False, True))
    assert all(value <= best[pair] + 1e-12 for pair, (value, _) in one_side.items())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("window", [1, 2])
def test_replays_are_programs_with_nothing_free(seed, window):
    rng = np.random.default_rng([seed, window])
    law = random_law(rng, 1 + seed % 3)
    limits = record_limits(rng.uniform(0.1, 2.0, (2, 2)), 1, 2)[0]
    pairs = list(itertools.permutations(itertools.product((0, 1), repeat=window), 2))
    pair = pairs[rng.integers(len(pairs))]
    attack = products.random_attack(rng, law, limits, 30, pair)
    total = products.replay(law, limits, attack)
    assert products.freed(law, limits, attack, 0) == pytest.approx(total, abs=1e-9)
    assert products.freed(law, limits, attack, 3) >= total - 1e-9
    better = products.ascend(law, limits, attack)
    assert products.replay(law, limits, better) >= total - 1e-12
    with pytest.raises(AssertionError, match="beyond the limits"):
        products.replay(law, 0.5 * limits, better)


def test_best_products_of_patterns_are_those_of_enumeration():
    rng = np.random.default_rng(4)
    kernel = rng.dirichlet(np.ones(3), 3)
    law, limits = products.periodic([kernel], range(3)), limits_of(0.8, 3)
    joint = joint_of(law.start, kernel, 4)
    listed = list(products.short_patterns(law, limits, 4))
    assert len(listed) == 4 * 4**3 * 6
    for value, _, case in listed[::97]:
        assert value == pytest.approx(product_attack(joint, limits, case)[0], abs=1e-12)
        assert value == pytest.approx(law_program(law, limits, case, 4), abs=1e-8)  # Theorem E1
