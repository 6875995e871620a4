"""Exchange on trees, against the linear program over all DP algorithms and plain sums."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st

from tests.grids import each, law, thinned
from tests.oracles import networks as oracle
from tests.work import calls
from undertow.adversaries import Adversary
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.trees import leakages as trees
from undertow.bounds.trees.leakages import LISTED, evidence_step, pair_messages, step, tree_leakage
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


def test_reference_numbers_of_short_paths():
    """Theory section 1: activity chain, epsilon 1, n = 3: 2.2024; n = 5: 2.8777."""
    kernel = [[0.882, 0.118], [0.305, 0.695]]
    start = MarkovChain(kernel).initial
    assert tree_leakage(1.0, path(kernel, start, 3)).upper == pytest.approx(2.2024, abs=5e-5)
    assert tree_leakage(1.0, path(kernel, start, 5)).upper == pytest.approx(2.8777, abs=5e-5)


def test_three_states_on_paths_are_within_a_few_percent():
    """An upper bound for more than two states; on paths within 8% of the exact value."""
    rng = np.random.default_rng(4)
    for _ in range(6):
        kernel = rng.dirichlet(np.ones(3), size=3)
        chain = MarkovChain(kernel, length=8)
        tree = path(kernel, chain.initial, 8)
        exact = exchange_leakage(1.0, chain, "ignorant").upper
        bound = tree_leakage(1.0, tree, "ignorant")
        assert exact - 1e-9 <= bound.upper <= 1.08 * exact
        assert bound.lower <= exact + 1e-9


@law(
    QUIET, 6,
    tree=oracle.networks(most=7, states=2, parents=1, zeros=False, latent=False), epsilon=LEVELS,
)  # fmt: skip
def test_node_by_node_is_level_by_level(tree, epsilon):
    """Two ways through the same tree."""
    trunk = trees._trunk(epsilon, tree)
    for known in (False, True):
        whole = trees._messages(trunk, 1.0, known=known)
        single = pair_messages(trunk, 1.0, known=known)
        assert single == pytest.approx(whole, rel=1e-8, abs=1e-8)


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


@each(("kind", "epsilon", "seed"), ["random", "binary", "path", "star"], [0.5, 2.0], range(4))
def test_quick_ends_are_close_to_the_exact_value(kind, epsilon, seed, monkeypatch):
    """Against any: at most 15% above what going through all known sets finds, and attained."""
    tree = random_tree(7, 2, kind, seed)
    exact = tree_leakage(epsilon, tree)
    assert exact.upper - exact.lower <= 1e-9
    monkeypatch.setattr(trees, "SMALL", 0)
    quick = tree_leakage(epsilon, tree)
    monkeypatch.undo()
    assert exact.upper <= quick.upper + 1e-9
    assert quick.upper <= 1.15 * exact.upper
    assert 0.98 * exact.lower <= quick.lower <= exact.upper + 1e-9
    seen = oracle.sets_attack(oracle.joint_of(tree), quick.witness, tree.states, epsilon)
    assert seen >= quick.lower - 1e-9


def test_many_states_use_the_largest_bound_only():
    rng = np.random.default_rng(0)
    tree = path(rng.dirichlet(np.ones(LISTED + 1), size=LISTED + 1), np.full(LISTED + 1, 1 / 6), 3)
    few = path(rng.dirichlet(np.ones(4), size=4), np.full(4, 0.25), 3)
    for model in (tree, few):
        leak = tree_leakage(0.5, model, "ignorant")
        assert 0.5 < leak.lower <= leak.upper < 1.5
        assert tree_leakage(0.5, model, "any").upper >= leak.upper


def test_steps_are_what_a_search_finds():
    """The largest ratio over random likelihoods comes close to the step and never exceeds it."""
    rng = np.random.default_rng(2)
    for states in (2, 3, 4):
        kernel = rng.dirichlet(np.ones(states), size=states)
        heights = rng.normal(size=(6, states))
        bound = (heights[:, :, None] - heights[:, None, :]).max(axis=0)  # a triangle inequality
        found = step(kernel, bound)
        best = np.zeros((states, states))
        for _ in range(4000):
            g = rng.uniform(-3, 3, size=states)
            g = (g[:, None] + bound.T).min(axis=0)  # pulled into the bounds
            seen = np.log(kernel @ np.exp(g))
            best = np.maximum(best, seen[:, None] - seen[None, :])
        assert (best <= found + 1e-9).all()
        assert (best >= 0.9 * found - 0.02).all()


def test_evidence_widens_a_step():
    kernel, bound = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    plain = step(kernel, bound)
    nothing, _ = evidence_step(kernel, bound, np.zeros((2, 2)))
    assert nothing == pytest.approx(plain, abs=1e-12)
    endless = np.array([[0.0, np.inf], [np.inf, 0.0]])
    widest, _ = evidence_step(kernel, bound, endless)
    assert (widest >= plain).all()
    assert (widest <= 1.0).all()
    # the best shift is the best of all shifts
    known = np.array([[0.0, 2.0], [2.0, 0.0]])
    best, _ = evidence_step(kernel, bound, known)
    tried = []
    for shift in np.linspace(-2, 2, 4001):
        moved = kernel * np.exp([shift, 0.0])
        tried.append(step(moved / moved.sum(axis=1, keepdims=True), bound))
    assert best == pytest.approx(np.max(tried, axis=0), abs=1e-6)


def test_zeros_and_certain_records():
    copies = path([[1.0, 0.0], [0.0, 1.0]], COIN, 4)
    assert tree_leakage(0.5, copies).upper == pytest.approx(2.0, abs=1e-9)
    certain = path([[1.0, 0.0], [1.0, 0.0]], [1.0, 0.0], 3)
    assert tree_leakage(0.5, certain).upper == 0.0
    three = path([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]], [0.5, 0.5, 0.0], 3)
    truth = oracle.level_leakage(oracle.joint_of(three), 3, 1.0, "any")
    leak = tree_leakage(1.0, three)
    assert leak.lower - 1e-7 <= truth <= leak.upper + 1e-7


def test_latent_nodes_cost_nothing():
    """Two children of a latent parent: one step to it, one from it."""
    kernel = [[0.9, 0.1], [0.2, 0.8]]
    star = BayesianNetwork([(0, 1), (0, 2)], {0: COIN, 1: kernel, 2: kernel}, latent=[0])
    truth = oracle.level_leakage(oracle.joint_of(star), 2, 1.0, "any")
    assert tree_leakage(1.0, star).upper == pytest.approx(truth, abs=1e-7)
    assert truth < tree_leakage(1.0, BayesianNetwork(
        [(0, 1), (0, 2)], {0: COIN, 1: kernel, 2: kernel}
    )).upper  # fmt: skip


def test_several_trees_side_by_side():
    kernel = [[0.9, 0.1], [0.2, 0.8]]
    one = path(kernel, COIN, 4)
    two = BayesianNetwork(
        [(0, 1), (1, 2), (2, 3), (4, 5)], {n: COIN if n in (0, 4) else kernel for n in range(6)}
    )
    for against in WHOM:
        first, second = (tree_leakage(1.0, model, against) for model in (one, two))
        assert first.upper == pytest.approx(second.upper, abs=1e-9)


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


@each(("kind", "states"), ["star", "random", "binary"], [2, 3])
def test_a_tree_of_thousands_is_work_by_the_node(states, kind):
    tree = random_tree(2_000, states, kind)
    assert calls(tree_leakage, 0.2, tree) < 1_000 * 2_000


@pytest.mark.parametrize(
    ("states", "kind"),
    thinned(
        [pytest.param(2, "star"), pytest.param(3, "random"), pytest.param(2, "binary")], keep=1
    ),
)
def test_ten_thousand_nodes(states, kind):
    leak = tree_leakage(0.2, random_tree(10_000, states, kind))
    assert 0.2 < leak.lower <= leak.upper
