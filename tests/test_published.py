"""Published constants: the printed numbers, and the conditions under which they were stated."""

import math

import pytest

import undertow as ut
from undertow.bounds.published import lange_constant, zhao_constant
from undertow.errors import MethodRefused

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
BOTH = pytest.mark.parametrize("constant", [lange_constant, zhao_constant])


def test_activity_chain():
    assert lange_constant(ACTIVITY) == pytest.approx(8.046030, abs=5e-7)
    assert zhao_constant(ACTIVITY) == pytest.approx(10.639363, abs=5e-7)


def test_columns_not_rows():
    # Columns (.5, .5, .2), (.4, .3, .2), (.1, .2, .6): the largest ratio into a state is 6.
    chain = ut.MarkovChain([[0.5, 0.4, 0.1], [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    assert zhao_constant(chain) == pytest.approx(6 * math.log(6))
    chain = ut.MarkovChain([[0.8, 0.2], [0.8, 0.2]])
    assert zhao_constant(chain) == pytest.approx(0, abs=1e-15)
    assert lange_constant(chain) == pytest.approx(4 * math.log(4))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 5.0, 20.0])
def test_exact_leakage_is_below_what_was_published(epsilon):
    exact = ut.leakage(ut.PureDP(epsilon), ACTIVITY).upper
    assert exact < epsilon + lange_constant(ACTIVITY)
    assert exact < epsilon + zhao_constant(ACTIVITY)


@BOTH
def test_zeros_are_refused(constant):
    with pytest.raises(MethodRefused, match=r"entry \(1, 0\) is 0"):
        constant(ut.MarkovChain([[0.5, 0.5], [0.0, 1.0]]))


@BOTH
def test_other_starts_and_differing_steps_are_refused(constant):
    with pytest.raises(MethodRefused, match="stationary start"):
        constant(ut.MarkovChain(ACTIVITY.transition, start=[0.5, 0.5]))
    with pytest.raises(MethodRefused, match="one transition matrix"):
        constant(ut.MarkovChain([ACTIVITY.transition] * 3, start=[0.5, 0.5]))
