"""Hidden chains against whoever knows any records: ends, effort, windows, contexts, refusals."""

import math

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.core.cells import Cells, any_upper
from undertow.errors import NotSupported
from undertow.models.lowered import LoweredLaw

FREE = np.array(
    [[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4], [0.3, 0.3, 0.3, 0.1], [0.05, 0.15, 0.1, 0.7]]
)
POSITIVE = np.array(
    [[0.7, 0.2, 0.08, 0.02], [0.3, 0.4, 0.2, 0.1], [0.1, 0.2, 0.4, 0.3], [0.02, 0.08, 0.2, 0.7]]
)
SYMBOLS = (0, 0, 1, 1)


def uniform(level, states=2):
    return level * (1 - np.eye(states))


@pytest.mark.parametrize(
    ("epsilon", "least", "most"), [(1.0, 2.076431, 2.0979), (0.1, 0.221917, 0.224816)]
)
def test_a_free_hidden_chain_is_bracketed(epsilon, least, most):
    leak = ut.leakage(ut.PureDP(epsilon), ut.HiddenChain(FREE, SYMBOLS))
    assert leak.method == "cells"
    assert least * 0.999 <= leak.lower <= leak.upper <= most
    assert leak.upper / leak.lower < 1.02
    ignorant = ut.leakage(ut.PureDP(epsilon), ut.HiddenChain(FREE, SYMBOLS), against="ignorant")
    assert ignorant.lower <= ignorant.upper <= leak.upper * (1 + 1e-6)
    assert ignorant.upper / ignorant.lower < 1.01


def test_the_closed_bracket_of_an_attractive_chain_is_contained():
    chain = ut.HiddenChain(POSITIVE, SYMBOLS)
    sharp = ut.leakage(ut.PureDP(1.0), chain)
    assert sharp.method == "hidden"  # envelopes are sharper: no cells are made
    upper = any_upper(chain.lowered(), uniform(1.0)).max()
    assert sharp.upper * (1 - 1e-6) <= upper <= 1.006 * sharp.upper


def test_whole_numbers_as_limits_are_numbers():
    law = ut.HiddenChain(FREE, SYMBOLS).lowered()
    whole = any_upper(law, np.array([[0, 1], [1, 0]]))
    np.testing.assert_array_equal(whole, any_upper(law, uniform(1.0)))


def test_finer_cells_bound_more_sharply_and_never_cross():
    law = ut.HiddenChain(FREE, SYMBOLS).lowered()
    coarse, fine = (any_upper(law, uniform(1.0), width).max() for width in (0.4, 0.05))
    assert 2.0764 < fine <= coarse * (1 + 1e-3)


def test_a_little_effort_gives_the_bound_of_coarse_cells():
    rest = [[0.62, 0.02, 0.2, 0.16], [0.01, 0.95, 0.03, 0.01]]
    chain = ut.HiddenChain([*rest, [0.28, 0.3, 0.4, 0.02], [0.1, 0.01, 0.1, 0.79]], SYMBOLS)
    quick = ut.leakage(ut.PureDP(0.7), chain, effort=0.03)
    full = ut.leakage(ut.PureDP(0.7), chain)
    assert quick.unfinished
    assert full.upper <= quick.upper < math.inf
    assert not full.unfinished


def test_a_cycle_of_equal_kernels_is_no_cycle():
    plain = ut.HiddenChain(FREE, SYMBOLS).lowered()
    cycle = LoweredLaw(np.repeat(plain.kernels, 3, axis=0), plain.symbols, plain.start)
    np.testing.assert_allclose(
        any_upper(cycle, uniform(1.0)), any_upper(plain, uniform(1.0)), rtol=2e-3
    )


@pytest.mark.parametrize("records", [2, 3])
def test_windows_leak_no_more_than_their_bound(records):
    free = ut.HiddenChain(FREE, SYMBOLS)
    secret = ut.Window(records)
    everyone = ut.leakage(ut.PureDP(1.0), free, secret=secret)
    one = ut.leakage(ut.PureDP(1.0), free, against=ut.Adversary(6, known=[4, 11]), secret=secret)
    assert one.upper <= everyone.upper < math.inf
    assert ut.leakage(ut.PureDP(1.0), free).upper <= everyone.upper


def test_plans_are_made_and_keep_their_limit():
    free = ut.HiddenChain(FREE, SYMBOLS)
    plan = ut.calibrate(ut.Count(1), free, limit=1.0)
    assert plan.leakage.proves(1.0)
    assert plan.leakage.lower > 0.97
    assert ut.Plan.from_json(plan.to_json()).leakage.upper == plan.leakage.upper


def test_a_chain_with_zeros_names_the_chain_that_works():
    third = np.full((2, 2, 2, 2), 0.5)
    third[0, 1, 0], third[1, 1, 0] = (0.9, 0.1), (0.2, 0.8)
    chain = ut.HiddenChain.of_order(third, (0, 1))
    with pytest.raises(NotSupported, match=r"mixed\(1e-4\)"):
        Cells.of(chain.lowered())
    with pytest.raises(NotSupported, match=r"mixed\(1e-4\)"):
        ut.dp_budget(chain, limit=1.0)
    law = chain.mixed(1e-2).lowered()
    assert Cells.of(law, 1.0).law.size == 8


def test_another_start_than_the_stationary_law_is_refused():
    law = ut.HiddenChain(FREE, SYMBOLS).lowered()
    with pytest.raises(NotSupported, match="stationary law"):
        Cells.of(LoweredLaw(law.kernels, law.symbols, np.full(4, 0.25)))


def test_limits_too_large_for_products_are_refused():
    with pytest.raises(NotSupported, match="this large"):
        any_upper(ut.HiddenChain(FREE, SYMBOLS).lowered(), uniform(300.0))


def test_limits_below_all_floats_are_limits():
    law = ut.HiddenChain(FREE, SYMBOLS).lowered()
    least = any_upper(law, np.array([[0, 1e-320], [0, 0]]))
    assert 0 < least[0, 1] < 1e-4
