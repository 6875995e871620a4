"""Exchange on trees, against the linear program over all DP algorithms and plain sums."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st

from tests.grids import law
from tests.oracles import networks as oracle
from undertow.adversaries import Adversary
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.trees import leakages as trees
from undertow.bounds.trees.leakages import tree_leakage
from undertow.errors import NotSupported
from undertow.models.chains import MarkovChain
from undertow.models.networks import BayesianNetwork

QUIET = settings(deadline=None, derandomize=True, database=None)
FEW = settings(QUIET, max_examples=25)
COIN = [0.5, 0.5]
LEVELS = st.sampled_from([0.2, 1.0, 2.5])
WHOM: list[Any] = ["any", "ignorant", "informed"]


def path(kernel, start, count):
    """A Markov chain as a tree."""
    return BayesianNetwork(
        [(n, n + 1) for n in range(count - 1)], {n: kernel if n else start for n in range(count)}
    )


def random_tree(count, states, kind, seed=0):
    """A tree with uneven kernels; ``kind`` is its shape."""
    rng = np.random.default_rng(seed)
    above = {
        "random": lambda n: int(rng.integers(0, n)),
        "binary": lambda n: (n - 1) // 2,
        "path": lambda n: n - 1,
        "star": lambda n: 0,
    }[kind]
    edges = [(above(n), n) for n in range(1, count)]
    kernels = 0.6 * rng.dirichlet(np.ones(states), size=(count, states)) + 0.4 * np.eye(states)
    cpds = {n: kernels[n] if n else np.full(states, 1 / states) for n in range(count)}
    return BayesianNetwork(edges, cpds)


@law(FEW, 6, tree=oracle.networks(most=5, states=2, parents=1), epsilon=LEVELS, data=st.data())
def test_two_states_are_exact(tree, epsilon, data):
    """With nothing known, everything known, or an explicit set, the program finds nothing more."""
    joint = oracle.joint_of(tree)
    assume(min(joint.values()) > 1e-4)
    target = data.draw(st.integers(0, tree.length - 1))
    known = data.draw(st.sets(st.integers(0, tree.length - 1))) - {target}
    for against in (*WHOM, Adversary(target, known)):
        leak = tree_leakage(epsilon, tree, against)
        truth = oracle.level_leakage(joint, 2, epsilon, against)
        assert leak.lower - 1e-7 <= truth <= leak.upper + 1e-7
        if tree.length <= trees.SMALL or against != "any":
            assert leak.upper - leak.lower <= 1e-9


@law(FEW, 5, tree=oracle.networks(most=3, states=3, parents=1), epsilon=LEVELS, data=st.data())
def test_three_states_are_bounded(tree, epsilon, data):
    joint = oracle.joint_of(tree)
    assume(min(joint.values()) > 1e-3)
    target = data.draw(st.integers(0, tree.length - 1))
    known = data.draw(st.sets(st.integers(0, tree.length - 1))) - {target}
    for against in (*WHOM, Adversary(target, known)):
        leak = tree_leakage(epsilon, tree, against)
        truth = oracle.level_leakage(joint, 3, epsilon, against)
        assert leak.lower - 1e-7 <= truth <= leak.upper + 1e-7


@law(FEW, 6, tree=oracle.networks(most=6, parents=1), epsilon=LEVELS)
def test_the_witness_attains_the_lower_end(tree, epsilon):
    joint = oracle.joint_of(tree)
    assume(min(joint.values()) > 1e-12)
    for against in WHOM:
        leak = tree_leakage(epsilon, tree, against)
        if leak.witness is not None:
            seen = oracle.sets_attack(joint, leak.witness, tree.states, epsilon)
            assert seen >= leak.lower - 1e-9
            assert seen <= leak.upper + 1e-9


@pytest.mark.parametrize("against", ["ignorant", "informed", "any"])
def test_a_path_is_a_chain(against):
    """The same number as for a Markov chain, which has its own code; any is within its bound."""
    kernel = [[0.882, 0.118], [0.305, 0.695]]
    for count in (3, 5, 12):
        chain = MarkovChain(kernel, length=count)
        tree = path(kernel, chain.initial, count)
        one, two = exchange_leakage(1.0, chain, against), tree_leakage(1.0, tree, against)
        assert two.upper >= one.lower - 1e-9
        if against != "any" or count <= trees.SMALL:
            assert two.upper == pytest.approx(one.upper, abs=1e-8)
        else:
            assert two.upper <= 1.15 * one.upper


def test_thin_and_wide_trees_agree():
    thin = random_tree(400, 2, "path")
    for against in WHOM[:2]:
        quick = tree_leakage(0.5, thin, against)
        before, trees.THIN = trees.THIN, 0
        try:
            slow = tree_leakage(0.5, thin, against)
        finally:
            trees.THIN = before
        assert quick.upper == pytest.approx(slow.upper, abs=1e-8)
        assert quick.lower == pytest.approx(slow.lower, abs=1e-8)


def test_zeros_and_certain_records():
    copies = path([[1.0, 0.0], [0.0, 1.0]], COIN, 4)
    assert tree_leakage(0.5, copies).upper == pytest.approx(2.0, abs=1e-9)
    certain = path([[1.0, 0.0], [1.0, 0.0]], [1.0, 0.0], 3)
    assert tree_leakage(0.5, certain).upper == 0.0
    three = path([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]], [0.5, 0.5, 0.0], 3)
    truth = oracle.level_leakage(oracle.joint_of(three), 3, 1.0, "any")
    leak = tree_leakage(1.0, three)
    assert leak.lower - 1e-7 <= truth <= leak.upper + 1e-7


def test_what_is_not_a_tree_is_refused():
    joined = BayesianNetwork([(0, 2), (1, 2)], {0: COIN, 1: COIN, 2: [[COIN, COIN], [COIN, COIN]]})
    with pytest.raises(NotSupported, match="several parents"):
        tree_leakage(1.0, joined)
    mixed = BayesianNetwork(
        [("h", "a")], {"h": [0.2, 0.3, 0.5], "a": [COIN, [1, 0], [0, 1]]}, latent=["h"]
    )
    with pytest.raises(NotSupported, match="other states"):
        tree_leakage(1.0, mixed)


def test_too_many_known_values_fall_back_on_the_bound():
    star = random_tree(30, 2, "star")
    many = Adversary(1, list(range(2, 30)))
    leak = tree_leakage(0.5, star, many)
    assert leak.upper == tree_leakage(0.5, star).upper
    assert any("too many known" in note for note in leak.assumptions)


@pytest.mark.parametrize(
    ("states", "kind"),
    [pytest.param(2, "star")],
)
def test_ten_thousand_nodes(states, kind):
    leak = tree_leakage(0.2, random_tree(10_000, states, kind))
    assert 0.2 < leak.lower <= leak.upper
