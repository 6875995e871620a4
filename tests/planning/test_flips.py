"""Flips that are planned: guarantees, optima, whole grains, models of every kind, refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from tests.grids import each, law
from undertow.adversaries import Adversary
from undertow.bounds.channels.flips import worst_attacks
from undertow.bounds.engine import leakage
from undertow.errors import InvalidInput, MethodRefused, NothingToProtect, NotSupported
from undertow.mechanisms import RandomizedResponse
from undertow.methods import METHODS
from undertow.models.chains import MarkovChain
from undertow.models.groups import Groups
from undertow.models.sets import ModelSet
from undertow.numerics import GRAIN
from undertow.planning.calibrate import calibrate
from undertow.planning.flips import Cut, even_channel, information, largest_even_level, long_run_law
from undertow.queries import Series
from undertow.testing.enumeration import chain_joint, mechanism_leakage, product_channel_likelihood

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=25)
THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]
STAY = st.floats(0.02, 0.98)


def calibrate_series(model, epsilon, against="any", method="best", objective=None):
    return calibrate(Series(), model, epsilon, against, method=method, objective=objective)


def two(q, r, length=None, **more):
    return MarkovChain([[1 - q, q], [r, 1 - r]], length=length, **more)


def rates(plan):
    return plan.mechanism.matrix[0, 1], plan.mechanism.matrix[1, 0]


def truth(matrix, chain, against="any"):
    """The leakage by enumeration."""
    joint = chain_joint(chain.initial, chain.transition, length=chain.length)
    table = product_channel_likelihood([matrix] * chain.length)
    return mechanism_leakage(joint, table, against).leakage


# --- two states: the guarantee, and nothing better ------------------------------------------------


@law(
    LAWS, 5, q=STAY, r=STAY, epsilon=st.sampled_from([0.2, 1.0, 3.0]),
    against=st.sampled_from(["any", "ignorant", "informed"]),
    objective=st.sampled_from(["flips", "information", (1.0, 3.0)]),
)  # fmt: skip
def test_guarantees_against_enumeration(q, r, epsilon, against, objective):
    chain = two(q, r, 4)
    plan = calibrate_series(chain, epsilon, against, objective=objective)
    found = truth(plan.mechanism.matrix, chain, against)
    assert plan.leakage.lower - 1e-12 <= found <= plan.leakage.upper + 1e-12
    assert epsilon * (1 - 1e-6) <= plan.leakage.lower <= plan.leakage.upper <= epsilon
    if objective != "information":
        assert max(rates(plan)) <= 0.5


@each(
    (("q", "r"), ("weights", "against")),
    [(0.2, 0.35), (0.05, 0.4), (0.8, 0.7), (0.95, 0.3)],
    itertools.product([(1.0, 1.0), (1.0, 5.0)], ["any", "ignorant"]),
)
def test_no_flips_on_a_grid_cost_less(q, r, weights, against):
    """All pairs of flips up to one half, judged by enumeration."""
    chain, epsilon, step = two(q, r, 4), 1.5, 0.0125
    objective = "flips" if weights == (1.0, 1.0) else weights
    plan = calibrate_series(chain, epsilon, against, objective=objective)
    cost = chain.initial * np.array(weights)
    best = float(cost @ np.array(rates(plan)))
    grid = np.arange(step, 0.5 + step / 2, step)
    tried = {pair: float(cost @ np.array(pair)) for pair in itertools.product(grid, grid)}
    cheaper = [pair for pair, paid in tried.items() if paid < best - 1e-9]
    near = sorted(cheaper, key=lambda pair: -tried[pair])[:40]  # a cheaper one leaks more still
    assert near
    for rho0, rho1 in near:
        channel = RandomizedResponse.binary(rho0, rho1)
        assert truth(channel.matrix, chain, against) > epsilon


# --- rounding -------------------------------------------------------------------------------------


@law(LAWS, 3, q=STAY, r=STAY, epsilon=st.floats(1e-6, 60.0))
def test_planned_probabilities_are_whole_grains(q, r, epsilon):
    plan = calibrate_series(two(q, r, 5), epsilon)
    for row in plan.mechanism.matrix:
        assert all(Fraction(float(entry)) % Fraction(GRAIN) == 0 for entry in row)
        assert sum(Fraction(float(entry)) for entry in row) == 1
        assert (row > 0).all()
    assert plan.leakage.proves(epsilon)


# --- edges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chain",
    [
        two(0.0, 0.0, start=[0.5, 0.5]),
        two(1.0, 1.0),
        MarkovChain(np.eye(3), start=[0.2, 0.3, 0.5]),
    ],
    ids=["copies", "alternating", "three copies"],
)
@pytest.mark.parametrize("method", ["exact", "exchange"])
def test_where_nothing_may_be_said(chain, method):
    plan = calibrate_series(chain, 1.0, method=method)
    assert (plan.mechanism.matrix == plan.mechanism.matrix[0]).all()
    assert (plan.leakage.lower, plan.leakage.upper) == (0.0, 0.0)
    assert any("do not depend on the records" in said for said in plan.leakage.assumptions)
    assert dict(plan.measures)["information"] == 0.0


def test_nothing_to_protect():
    with pytest.raises(NothingToProtect, match="certain"):
        calibrate_series(two(0.0, 0.0, start=[1.0, 0.0]), 1.0)
    with pytest.raises(NothingToProtect, match="certain"):
        calibrate_series(two(0.0, 0.0, 4, start=[0.5, 0.5]), 1.0, "informed")


def test_the_law_of_a_record_on_average():
    assert long_run_law(two(0.1, 0.3)) == pytest.approx([0.75, 0.25])
    assert long_run_law(two(0.1, 0.3, start=[0, 1])) == pytest.approx([0.75, 0.25])
    assert long_run_law(two(1.0, 1.0, 3, start=[1, 0])) == pytest.approx([2 / 3, 1 / 3])
    assert long_run_law(two(0.1, 0.0, start=[1, 0])) == pytest.approx([0.0, 1.0])


def test_refusals():
    chain = two(0.1, 0.3)
    with pytest.raises(InvalidInput, match="exact, exchange, xor, chakrabarti, best"):
        calibrate_series(chain, 1.0, method="quilt")
    with pytest.raises(InvalidInput, match="model"):
        calibrate_series([[0.5, 0.5], [0.5, 0.5]], 1.0)
    with pytest.raises(InvalidInput, match="limit"):
        calibrate_series(chain, 0.0)
    for objective in ("noise", [1.0], [1.0, -1.0], [0.0, 0.0], [1.0, math.inf]):
        with pytest.raises(InvalidInput, match="objective"):
            calibrate_series(chain, 1.0, objective=objective)
    for method in ("xor", "chakrabarti"):
        with pytest.raises(MethodRefused, match="two states"):
            calibrate_series(MarkovChain(THREE), 1.0, method=method)
    for wrong in (two(0.6, 0.3), two(0.1, 0.3, start=[1, 0])):
        with pytest.raises(MethodRefused, match="stated for a stationary chain"):
            calibrate_series(wrong, 1.0, method="chakrabarti")
    with pytest.raises(MethodRefused, match="one chain"):
        calibrate_series(ModelSet([chain, two(0.2, 0.3)]), 1.0, method="chakrabarti")
    assert list(METHODS["flip"]) == ["exact", "exchange", "xor", "chakrabarti"]


# --- more states, correlated noise ----------------------------------------------------------------


@each(
    ("length", "epsilon", "objective"),
    [5, 9], [1.0, 4.0], ["information", "flips", [1.0, 1.0, 4.0]],
)  # fmt: skip
def test_more_states_do_better_than_randomised_response(length, epsilon, objective):
    chain = MarkovChain(THREE, states=("a", "b", "c"), length=length)
    plan = calibrate_series(chain, epsilon, objective=objective)
    level = largest_even_level(lambda m: leakage(m, chain), chain, epsilon, 3)
    even = even_channel(3, level).matrix
    law, found = chain.initial, plan.mechanism.matrix
    if objective == "information":
        assert information(law, found) > 1.2 * information(law, even)
        assert dict(plan.measures)["information"] == information(law, found)
    else:
        costs = np.ones(3) if objective == "flips" else np.array(objective)
        paid = [float(law @ (costs * (1 - np.diag(m)))) for m in (found, even)]
        assert paid[0] < 0.98 * paid[1]
        assert (np.diag(found)[:, None] >= found - 1e-12).all()
    assert plan.leakage.proves(epsilon)
    assert plan.leakage.lower >= epsilon * (1 - 1e-6)
    assert any("search" in said for said in plan.leakage.assumptions)


# --- other models ---------------------------------------------------------------------------------


def test_one_attacker():
    chain = two(0.1, 0.3, 9)
    plan = calibrate_series(chain, 1.0, Adversary(4, known=[1, 7]))
    assert plan.leakage.proves(1.0)
    assert plan.expected_flips <= calibrate_series(chain, 1.0).expected_flips
    with pytest.raises(InvalidInput, match="17"):
        calibrate_series(chain, 1.0, Adversary(4, known=[17]))


def test_models_that_are_no_chains_go_through_the_level():
    both = ModelSet([Groups(3), two(0.4, 0.4)])
    plan = calibrate_series(both, 1.0)
    assert plan.method == "exchange"
    assert plan.leakage.proves(1.0)
    assert plan.dp_epsilon == pytest.approx(1 / 3, rel=1e-6)
    box = MarkovChain.box([[0.8, 0.1], [0.3, 0.6]], [[0.9, 0.2], [0.4, 0.7]])
    boxed = calibrate_series(box, 1.0)
    assert boxed.method == "exchange"
    assert [name for name, _ in boxed.measures] == ["expected flips"]
    with pytest.raises(MethodRefused, match="exchange"):
        calibrate_series(both, 1.0, method="exact")
    with pytest.raises(NotSupported, match="names no states"):
        calibrate_series(Groups(3), 1.0)
    with pytest.raises(NotSupported, match=r"compare\(\.\.\.\) says why not exchange"):
        calibrate_series(MarkovChain.mixing(2, pi_min=0.2, gap=0.3), 1.0)


@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_the_worst_of_the_attacks_on_all_pairs_is_the_leakage_by_enumeration(against):
    chain = MarkovChain(THREE, length=4)
    matrix = np.array([[0.5, 0.3, 0.2], [0.25, 0.6, 0.15], [0.3, 0.3, 0.4]])
    losses = {
        (one.value, one.other): Cut.of(one, chain).loss(matrix)
        for one in worst_attacks(matrix, chain, against)
    }
    assert sorted(losses) == list(itertools.permutations(range(3), 2))
    joint = chain_joint(chain.initial, chain.transition, length=4)
    table = product_channel_likelihood([matrix] * 4)
    worst = mechanism_leakage(joint, table, against).leakage
    assert max(losses.values()) == pytest.approx(worst, abs=1e-10)
    assert min(losses.values()) > 0.4 * worst  # the others are attacks, too
