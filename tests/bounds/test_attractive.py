"""Whether laws are attractive: exact verdicts, margins against whole tables, and the theorem."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import undertow as ut
from undertow.models import is_attractive
from undertow.models.attractive import (
    Attractiveness,
    hidden_margin,
    order_margin,
)
from undertow.models.second_order import SecondOrderChain

REAL = {  # counts of runs of three, in the order 000 .. 111, and the margin of the fit
    "activity": ((8838, 879, 491, 804, 879, 416, 804, 2151), 0.4909),
    "N5": ((5687, 2225, 1047, 1430, 2226, 252, 1431, 2559), -1.2401),
    "N10": ((12373, 1105, 381, 942, 1106, 218, 943, 9853), 0.7917),
    "power": ((13629, 2652, 765, 2459, 2652, 572, 2460, 9398), 0.1030),
    "deep sleep": ((17178, 285, 193, 219, 280, 129, 215, 2438), 0.7893),
}


def fitted(name, **more):
    counts = np.array(REAL[name][0], dtype=float).reshape(2, 2, 2)
    return SecondOrderChain(counts / counts.sum(axis=2, keepdims=True), **more)


def least_difference(law):
    """Return the least second difference of the logarithm of a whole table."""
    logs, least = np.log(law), math.inf
    for i, j in itertools.combinations(range(law.ndim), 2):
        moved = np.moveaxis(logs, (i, j), (0, 1))
        step = moved[1:, 1:] + moved[:-1, :-1] - moved[1:, :-1] - moved[:-1, 1:]
        least = min(least, float(step.min()))
    return least


def order_law(table, records):
    """Return the law of a stretch of a chain of order m that begins with given uniform records."""
    order = table.ndim - 1
    law = np.ones((2,) * order)
    for _ in range(records - order):
        law = law[..., None] * table.reshape((1,) * (law.ndim - order) + table.shape)
    return law


@pytest.mark.parametrize("name", REAL)
def test_margins_of_real_fits(name):
    found = is_attractive(fitted(name))
    assert found.margin == pytest.approx(REAL[name][1], abs=1e-4)
    assert bool(found) is (REAL[name][1] >= 0)
    assert bool(found.reason) is not bool(found)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_order_two_agrees_with_the_whole_table(seed):
    """The law of eight records has no smaller second difference than the margin where that is 0."""
    rng = np.random.default_rng(seed)
    ones = np.sort(rng.uniform(0.05, 0.95, 4))[[0, 2, 1, 3] if seed % 2 else [0, 1, 2, 3]]
    chain = SecondOrderChain(np.stack([1 - ones, ones], axis=-1).reshape(2, 2, 2))
    found = is_attractive(chain)
    whole = least_difference(chain.joint(8))
    assert (whole >= -1e-9) is bool(found)
    turned = chain.joint(6)
    for record in (1, 3, 5):
        turned = np.flip(turned, record)
    assert (least_difference(turned) >= -1e-9) is found.relabelled


@pytest.mark.parametrize("order", [1, 2, 3])
def test_every_order_agrees_with_the_whole_table(order):
    """Inner records, those at the ends given: second differences are the sums of the check."""
    for seed in range(6):
        rng = np.random.default_rng([order, seed])
        ones = rng.uniform(0.2, 0.8, (2,) * order)
        ones += 0.15 * np.indices(ones.shape).sum(axis=0) / order
        table = np.stack([1 - ones, ones], axis=-1)
        law = order_law(table, 3 * order + 2)
        logs, least = np.log(law), math.inf
        inner = range(order, law.ndim - order)
        for i, j in itertools.combinations(inner, 2):
            moved = np.moveaxis(logs, (i, j), (0, 1))
            step = moved[1, 1] + moved[0, 0] - moved[1, 0] - moved[0, 1]
            if j - i <= order:
                least = min(least, float(step.min()))
            else:
                assert np.abs(step).max() < 1e-9
        assert order_margin(table) == pytest.approx(least, abs=1e-9)


def test_a_margin_of_nothing_is_decided_in_fractions():
    chain = SecondOrderChain.of(ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]]))
    assert is_attractive(chain).margin == 0.0  # the record before last says nothing
    assert is_attractive(chain)
    table = chain.transition.copy()
    table[0, 1, 1] = math.nextafter(table[0, 1, 1], 1)  # one unit in the last place the wrong way
    assert order_margin(table) < 0
    assert Fraction(table[0, 1, 1]) > Fraction(table[1, 1, 1])
    independent = ut.MarkovChain([[0.5, 0.5], [0.5, 0.5]])
    assert is_attractive(independent).margin == 0.0


def test_chains_of_order_one():
    assert is_attractive(ut.MarkovChain([[0.8, 0.2], [0.3, 0.7]]))
    turned = is_attractive(ut.MarkovChain([[0.2, 0.8], [0.7, 0.3]]))
    assert not turned
    assert turned.relabelled
    ordered = ut.MarkovChain([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])
    assert is_attractive(ordered)
    assert is_attractive(ordered).alternating is None
    unordered = ut.MarkovChain([[0.7, 0.1, 0.2], [0.1, 0.7, 0.2], [0.25, 0.05, 0.7]])
    assert not is_attractive(unordered)
    varying = ut.MarkovChain([[[0.8, 0.2], [0.3, 0.7]], [[0.4, 0.6], [0.5, 0.5]]], start=[0.5, 0.5])
    assert not is_attractive(varying)


@pytest.mark.parametrize(
    "model",
    [
        ut.MarkovChain([[1.0, 0.0], [0.3, 0.7]]),
        SecondOrderChain([[[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]]),
        SecondOrderChain(np.full((3, 3, 3), 1 / 3)),
        ut.Groups(3),
        ut.Pedigree({"kim": ("bob", "ann")}, 0.3),
    ],
    ids=lambda model: model.kind,
)
def test_what_is_not_certain_is_refused_with_a_reason(model):
    found = is_attractive(model)
    assert not found
    assert found.margin == -math.inf
    assert found.reason


def test_networks_agree_with_their_whole_table():
    edges = [("a", "c"), ("b", "c"), ("c", "d")]
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rise = rng.uniform(-0.1, 0.3)
        third = 0.2 + rise * np.add.outer([0.0, 1.0], [0.0, 1.0]) + rng.uniform(0, 0.1, (2, 2))
        last = rng.uniform(0.1, 0.9, 2)
        cpds = {
            "a": [0.4, 0.6], "b": [0.7, 0.3],
            "c": np.stack([1 - third, third], axis=-1), "d": np.stack([1 - last, last], axis=-1),
        }  # fmt: skip
        network = ut.BayesianNetwork(edges, cpds)
        joint = np.einsum("a,b,abc,cd->abcd", *(np.array(cpds[name]) for name in "abcd"))
        # pairs of records that share no table have 0, up to rounding
        expected = least_difference(joint)
        found = is_attractive(network)
        assert bool(found) is (expected >= -1e-12)
        if expected < -1e-9:
            assert found.margin == pytest.approx(expected, abs=1e-9)


def test_hidden_chains():
    calm, busy = [0.6, 0.3, 0.07, 0.03], [0.3, 0.4, 0.2, 0.1]
    steps = np.array([calm, busy, [0.1, 0.2, 0.4, 0.3], [0.03, 0.07, 0.3, 0.6]])
    assert hidden_margin(steps, [0, 0, 1, 1]) > 0
    mixed = [2, 0, 3, 1]
    assert hidden_margin(steps[np.ix_(mixed, mixed)], [1, 0, 1, 0]) > 0  # some order will do
    assert hidden_margin(steps, [0, 1, 0, 1]) == -math.inf or hidden_margin(steps, [0, 1, 0, 1]) < 0
    stuck = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.1, 0.2, 0.7]])
    assert hidden_margin(stuck, [0, 0, 1]) == -math.inf  # no 1 can follow the first state
    # the law of the symbols is attractive where the hidden chain is
    pi = np.linalg.matrix_power(steps, 400)[0]
    law = np.zeros((2,) * 5)
    for path in itertools.product(range(4), repeat=5):
        weight = pi[path[0]] * math.prod(steps[a, b] for a, b in itertools.pairwise(path))
        law[tuple(state // 2 for state in path)] += weight
    assert least_difference(law) >= 0


def test_attractiveness_speaks_for_itself():
    assert not Attractiveness(-1e-300)
    assert Attractiveness(0.0)
    assert Attractiveness(-1.0, alternating=0.2).relabelled
    assert not Attractiveness(-1.0, alternating=-0.2).relabelled


def test_what_is_no_model_is_refused():
    with pytest.raises(ut.errors.InvalidInput, match="a model is required"):
        is_attractive(3)  # type: ignore[arg-type]
