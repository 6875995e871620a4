"""Flips of more states, correlated noise, sets, and models that are no chains."""

import numpy as np
import pytest

from tests.grids import each
from tests.planning.flips import OPTIMUM, THREE, calibrate_series, rates, truth, two
from undertow.adversaries import Adversary
from undertow.bounds.engine import leakage
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.mechanisms import XorNoise
from undertow.models.chains import MarkovChain
from undertow.models.groups import Groups
from undertow.models.sets import ModelSet
from undertow.plan import Plan
from undertow.planning.flips import even_channel, information, largest_even_level
from undertow.testing.enumeration import chain_joint, mechanism_leakage, product_channel_likelihood

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


def test_more_states_against_enumeration():
    chain = MarkovChain(THREE, length=4)
    for against in ("any", "ignorant", "informed"):
        plan = calibrate_series(chain, 1.5, against)
        found = truth(plan.mechanism.matrix, chain, against)
        assert plan.leakage.lower - 1e-12 <= found <= 1.5
        worse = 0.97 * plan.mechanism.matrix + 0.03 * np.eye(3)  # a broken twin is caught
        assert truth(worse, chain, against) > 1.5


@pytest.mark.parametrize(
    ("epsilon", "flips"),
    [pytest.param(4.0, 0.313112)],
)
def test_correlated_noise(epsilon, flips):
    """theta .1, as the series grows; corrected independent flips need .343653 and .216623."""
    plan = calibrate_series(two(0.1, 0.1), epsilon, method="xor")
    assert plan.expected_flips == pytest.approx(flips, abs=OPTIMUM)
    assert isinstance(plan.mechanism, XorNoise)
    assert plan.leakage.proves(epsilon)
    assert plan.leakage.lower >= epsilon * (1 - 1e-9)
    alone = calibrate_series(two(0.1, 0.1), epsilon).expected_flips
    assert alone == pytest.approx({4.0: 0.343653, 6.0: 0.216623}[epsilon], abs=OPTIMUM)
    assert any("one party" in said for said in plan.leakage.assumptions)
    assert Plan.from_json(plan.to_json()) == plan


# --- other models ---------------------------------------------------------------------------------


def test_a_set_is_as_hard_as_its_worst_member():
    first, second = two(0.1, 0.3), two(0.3, 0.1)
    plan = calibrate_series(ModelSet([first, second]), 3.0)
    assert all(leakage(plan.mechanism, chain).proves(3.0) for chain in (first, second))
    alone = [calibrate_series(chain, 3.0).expected_flips for chain in (first, second)]
    assert plan.expected_flips >= max(alone)
    assert rates(plan)[0] == pytest.approx(rates(plan)[1], abs=1e-10)
    assert "one of the 2 models of the set is true" in plan.leakage.assumptions


def test_steps_that_differ_and_given_starts():
    steps = [[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]], [[0.7, 0.3], [0.3, 0.7]]]
    for chain in (
        MarkovChain(steps, start=[0.3, 0.7]),
        MarkovChain([[[0.2, 0.8], [0.6, 0.4]], *steps], start=[0.5, 0.5]),
        two(0.2, 0.3, 4, start=[1.0, 0.0]),
    ):
        plan = calibrate_series(chain, 1.0)
        assert chain.length is not None
        joint = chain_joint(chain.initial, chain.transition, length=chain.length)
        table = product_channel_likelihood([plan.mechanism.matrix] * chain.length)
        assert 1 - 1e-6 <= mechanism_leakage(joint, table).leakage <= 1
        law = chain.marginals(chain.length).mean(axis=0)
        assert plan.expected_flips == pytest.approx(float(law @ np.array(rates(plan))), abs=1e-12)


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
    with pytest.raises(NotSupported, match="give the class a length"):
        calibrate_series(MarkovChain.mixing(2, pi_min=0.2, gap=0.3), 1.0)
