"""Published constants: the printed numbers, the truth behind them, and where they were stated."""

import math

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.published import lange_constant, ratio_constant, zhao_budget, zhao_constant
from undertow.errors import Infeasible, InvalidInput, MethodRefused

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
SYMMETRIC = ut.MarkovChain([[0.65, 0.35], [0.35, 0.65]])
FOUR = ut.MarkovChain(
    [[0.7, 0.15, 0.1, 0.05], [0.1, 0.65, 0.2, 0.05], [0.05, 0.15, 0.7, 0.1], [0.1, 0.1, 0.2, 0.6]]
)


def random_chain(seed, size):
    rows = np.random.default_rng(seed).dirichlet(np.ones(size), size=size).clip(0.01)
    return ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True))


CHAINS = {
    "activity": ACTIVITY,
    "symmetric": SYMMETRIC,
    "negative": ut.MarkovChain([[0.2, 0.8], [0.7, 0.3]]),
    "independent": ut.MarkovChain([[0.8, 0.2], [0.8, 0.2]]),
    "four": FOUR,
    **{f"random-{size}-{seed}": random_chain(seed, size) for size in (2, 3) for seed in range(4)},
}
EVERY = pytest.mark.parametrize("name", CHAINS)
ALL = pytest.mark.parametrize(
    "constant",
    [lange_constant, ratio_constant, zhao_constant, lambda chain: zhao_budget(chain, 50.0)],
    ids=["lange", "ratio", "zhao", "zhao-multistep"],
)


def test_activity_chain():
    assert lange_constant(ACTIVITY) == pytest.approx(8.046030, abs=5e-7)
    assert ratio_constant(ACTIVITY) == pytest.approx(4.598492, abs=5e-7)
    assert zhao_constant(ACTIVITY) == pytest.approx(10.639363, abs=5e-7)
    assert 1 / zhao_budget(ACTIVITY, 1.0) == pytest.approx(20.04, abs=5e-3)


# --- Theorem 7.3 of lange2024 ---------------------------------------------------------------------


@EVERY
def test_order_of_the_constants(name):
    chain = CHAINS[name]
    slack = 1e-12
    assert 0 <= ratio_constant(chain) <= lange_constant(chain) + slack
    assert ratio_constant(chain) <= 4 / 6 * zhao_constant(chain) + slack


# --- what DP algorithms really leak ---------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("name", ["activity", "negative", "random-3-1"])
def test_exact_leakage_is_below_what_was_published(name, epsilon):
    chain = CHAINS[name]
    exact = ut.leakage(ut.PureDP(epsilon), chain).upper
    assert exact < epsilon + ratio_constant(chain)
    assert exact < epsilon + lange_constant(chain)
    assert exact < epsilon + zhao_constant(chain)


@pytest.mark.parametrize("name", ["activity", "negative", "random-2-0", "random-3-1", "four"])
def test_the_exact_ratio_is_the_limit_of_large_epsilon(name):
    chain = CHAINS[name]
    for epsilon, gap in [(15.0, 1e-3), (25.0, 1e-7)]:
        excess = ut.leakage(ut.PureDP(epsilon), chain).lower - epsilon
        assert ratio_constant(chain) - gap < excess < ratio_constant(chain) + 1e-9


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("name", ["activity", "symmetric", "negative", "random-3-2", "four"])
def test_the_published_level_keeps_its_word(name, epsilon):
    level = zhao_budget(CHAINS[name], epsilon)
    assert 0 < level < epsilon
    assert ut.leakage(ut.PureDP(level), CHAINS[name]).proves(epsilon)


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0])
@pytest.mark.parametrize("name", ["activity", "negative", "random-3-1", "four"])
def test_four_times_the_log_is_enough_at_any_number_of_steps(name, epsilon, steps):
    """The argument in `zhao_budget`: (2 t - 1) epsilon + 4 ln omega_t bounds the leakage."""
    bound = (2 * steps - 1) * epsilon + 4 / 6 * zhao_constant(CHAINS[name], steps)
    assert ut.leakage(ut.PureDP(epsilon), CHAINS[name]).upper < bound


# --- Zhao, one step and several -------------------------------------------------------------------


def test_columns_not_rows():
    # Columns (.5, .5, .2), (.4, .3, .2), (.1, .2, .6): the largest ratio into a state is 6.
    chain = ut.MarkovChain([[0.5, 0.4, 0.1], [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    assert zhao_constant(chain) == pytest.approx(6 * math.log(6))
    assert zhao_constant(CHAINS["independent"]) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("theta", [0.1, 0.35])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_constants_of_a_symmetric_chain(theta, steps):
    """Proposition 1 of chakrabarti2022: omega = (1 + (1 - 2 theta)^t) / (1 - (1 - 2 theta)^t)."""
    chain = ut.MarkovChain([[1 - theta, theta], [theta, 1 - theta]])
    left = (1 - 2 * theta) ** steps
    assert zhao_constant(chain, steps) == pytest.approx(6 * math.log((1 + left) / (1 - left)))


@pytest.mark.parametrize("length", [2, 3, 8, 30])
@pytest.mark.parametrize("epsilon", [3.0, 12.0, 20.0])
@pytest.mark.parametrize("name", ["activity", "four", "random-3-0"])
def test_levels_are_the_best_over_all_steps(name, epsilon, length):
    chain = CHAINS[name]
    steps = range(1, length // 2 + 1)
    constants = [zhao_constant(chain, t) for t in steps]
    best = max((epsilon - c) / (2 * t - 1) for c, t in zip(constants, steps, strict=True))
    if best > 0:
        assert zhao_budget(chain, epsilon, length) == pytest.approx(best, rel=1e-12)
        return
    with pytest.raises(Infeasible, match=r"'zhao-multistep' needs epsilon above") as error:
        zhao_budget(chain, epsilon, length)
    assert error.value.smallest == pytest.approx(min(constants), rel=1e-12)
    assert zhao_budget(chain, error.value.smallest + 1e-6, length) > 0


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 9.0])
def test_any_length_searches_far_enough(epsilon):
    levels = [(epsilon - zhao_constant(ACTIVITY, t)) / (2 * t - 1) for t in range(1, 200)]
    assert zhao_budget(ACTIVITY, epsilon) == pytest.approx(max(levels), rel=1e-6)


def test_one_step_is_the_best_for_large_epsilon():
    assert zhao_budget(ACTIVITY, 40.0) == pytest.approx(40.0 - zhao_constant(ACTIVITY), rel=1e-12)


def test_the_length_is_the_chains_own_unless_given():
    short = ut.MarkovChain(ACTIVITY.transition, length=8)
    assert zhao_budget(short, 5.0) == zhao_budget(ACTIVITY, 5.0, length=8)
    assert zhao_budget(short, 5.0, length=100) == zhao_budget(ACTIVITY, 5.0, length=100)
    with pytest.raises(Infeasible):
        zhao_budget(short, 1.0)
    assert zhao_budget(ACTIVITY, 1.0) > 0


# --- refusals -------------------------------------------------------------------------------------


@ALL
def test_zeros_are_refused(constant):
    with pytest.raises(MethodRefused, match=r"entry \(1, 0\) is 0"):
        constant(ut.MarkovChain([[0.5, 0.5], [0.0, 1.0]]))


@ALL
def test_other_starts_and_differing_steps_are_refused(constant):
    with pytest.raises(MethodRefused, match="stationary start"):
        constant(ut.MarkovChain(ACTIVITY.transition, start=[0.5, 0.5]))
    with pytest.raises(MethodRefused, match="one transition matrix"):
        constant(ut.MarkovChain([ACTIVITY.transition] * 3, start=[0.5, 0.5]))


@pytest.mark.parametrize("constant", [lange_constant, ratio_constant, zhao_constant])
def test_tiny_entries_are_not_zeros(constant):
    chain = ut.MarkovChain([[1.0, 1e-99], [0.5, 0.5]])
    assert 400 < constant(chain) < math.inf
    assert 50 / 750 < zhao_budget(chain, 50.0) < 50 / 600  # .5^t must fall to 1e-99


@pytest.mark.parametrize("steps", [0, -1, 1.5, True, None])
def test_bad_steps_are_refused(steps):
    with pytest.raises(InvalidInput, match="steps must be"):
        zhao_constant(ACTIVITY, steps)


@pytest.mark.parametrize("length", [0, 1, 2.5, True])
def test_bad_lengths_are_refused(length):
    with pytest.raises(InvalidInput, match="length must be"):
        zhao_budget(ACTIVITY, 50.0, length)


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, None])
def test_bad_levels_are_refused(epsilon):
    with pytest.raises(InvalidInput, match="epsilon must be"):
        zhao_budget(ACTIVITY, epsilon)
