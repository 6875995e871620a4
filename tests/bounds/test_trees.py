"""Networks that are trees or paths, against programs over all algorithms and plain sums."""

from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from tests.oracles import networks as oracle
from undertow.adversaries import Adversary
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.networks.levels import level_leakage, path_leakage, path_of
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


def random_path(seed, length, states=2, root=None, zeros=False):
    """A path of shuffled nodes with uneven tables, read outwards from its root; and its order."""
    draw = np.random.default_rng(seed)
    order = [f"n{number}" for number in draw.permutation(length)]
    root = int(draw.integers(length)) if root is None else root
    tables = draw.dirichlet(np.ones(states), size=(length, states))
    if zeros:
        tables[draw.random(tables.shape) < 0.25] = 0.0
        tables += tables.sum(axis=2, keepdims=True) == 0
        tables /= tables.sum(axis=2, keepdims=True)
    edges = [pair if place >= root else pair[::-1] for place, pair in enumerate(pairwise(order))]
    edges = [edges[place] for place in draw.permutation(length - 1)]
    cpds = {node: tables[place, 0] if place == root else tables[place]
            for place, node in enumerate(order)}  # fmt: skip
    return BayesianNetwork(edges, cpds), order


def seen_path(network):
    """The chain that a path is."""
    path = path_of(network)
    assert path is not None
    return path


def whom(network, seed):
    """Attackers by name, and one who wants and knows what is drawn."""
    draw = np.random.default_rng(seed)
    target = int(draw.integers(network.length))
    known = [r for r in range(network.length) if r != target and draw.random() < 0.4]
    return ["any", "ignorant", ut.Adversary(target, known)]


@pytest.mark.parametrize("seed", [2, 3])
def test_all_algorithms_of_a_level(seed):
    """The linear program over all algorithms, for every known set, finds the same."""
    states = 3 if seed % 4 == 3 else 2
    network, _ = random_path(seed, 3 if states == 3 else 4, states, zeros=seed % 3 == 2)
    joint, path = oracle.joint_of(network), seen_path(network)
    level = (0.3, 1.0, 2.0)[seed % 3]
    for against in whom(network, seed):
        leak = path_leakage(ut.PureDP(level), path, against)
        truth = oracle.level_leakage(joint, states, level, against)
        assert leak.lower - 1e-7 <= truth <= leak.upper + 1e-7
        assert leak.upper - leak.lower <= 1e-8
        assert leak.against == against
        if leak.witness is not None:
            seen = oracle.sets_attack(joint, leak.witness, network.states, level)
            assert leak.lower - 1e-9 <= seen <= leak.upper + 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_noisy_counts(seed):
    """Every known set and answer written out; the attack is in the network's own numbers."""
    network, _ = random_path(100 + seed, 5, zeros=seed % 3 == 2)
    joint, path = oracle.joint_of(network), seen_path(network)
    for against in whom(network, seed):
        leak = path_leakage(ut.Laplace(ut.Count(1), 2.0), path, against)
        truth = oracle.count_leakage(joint, [1], 0.5, against)
        assert leak.lower - 1e-9 <= truth <= leak.upper + 1e-9
        if leak.witness is not None and leak.witness.output is not None:
            seen = oracle.count_attack(joint, leak.witness, network.states, [1], 0.5)
            assert leak.lower - 1e-9 <= seen <= leak.upper + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_the_law_of_all_records_is_kept(seed):
    """Reversed tables change no probability by more than the error allows, in exact arithmetic."""
    network, _ = random_path(200 + seed, 6, 3, root=3)
    path = seen_path(network)
    assert path.error > 0
    chain, joint = path.chain, oracle.joint_of(network)
    factors = []
    for values in product(range(3), repeat=6):
        along = [values[record] for record in path.records]
        found = Fraction(chain.initial[along[0]])
        for step, (x, y) in enumerate(pairwise(along)):
            found *= Fraction(chain.step(step)[x, y])
        factors.append(found / Fraction(joint[values]))
    worst = max(factors) / min(factors) - 1  # a common factor cancels in all that is conditional
    assert worst <= path.error
    assert float(worst) > 0


def test_a_long_path_is_exact_wherever_its_root_is():
    """A chain that is reversible: the same records, read from one end or from the middle."""
    kernel, length = [[0.882, 0.118], [0.305, 0.695]], 60
    chain = ut.MarkovChain(kernel, length=length)
    attackers: list[Any] = ["any", "ignorant", ut.Adversary(3, [0, 20])]
    for against in attackers:
        wanted = ut.leakage(ut.PureDP(0.5), chain, against)
        for root in (0, 20, 30, length - 1):
            edges = [(n, n + 1) if n >= root else (n + 1, n) for n in range(length - 1)]
            cpds = {n: chain.initial if n == root else kernel for n in range(length)}
            network = BayesianNetwork(edges, cpds)
            number = {node: record for record, node in enumerate(network.observed)}
            asked = against
            if isinstance(against, ut.Adversary):
                asked = ut.Adversary(number[3], [number[0], number[20]])
            leak = ut.leakage(ut.PureDP(0.5), network, asked)
            assert leak.upper == pytest.approx(wanted.upper, abs=1e-9)
            assert leak.closed
            assert leak.lower >= wanted.lower - 1e-9
            assert "which is a path, and so a Markov chain" in leak.assumptions


def test_counts_of_long_paths_are_exact():
    """A network of 40 records is too large for all known sets, a chain is not."""
    network, order = random_path(7, 40, root=0)
    cpds = network.cpds
    chain = ut.MarkovChain([cpds[node] for node in order[1:]], start=cpds[order[0]])
    for mechanism in (ut.Laplace(ut.Count(1), 2.0), ut.Laplace(ut.Histogram(), 2.0)):
        leak, alike = ut.leakage(mechanism, network), ut.leakage(mechanism, chain)
        assert (leak.lower, leak.upper, leak.method) == (alike.lower, alike.upper, alike.method)


def test_paths_beside_other_trees():
    """Each component is looked at for itself; the worst counts, in the numbers of the whole."""
    network, _ = random_path(11, 30)
    star = {"hub": [0.3, 0.7], **{f"leaf{n}": [[0.6, 0.4], COIN] for n in range(3)}}
    both = BayesianNetwork(
        [*(("hub", f"leaf{n}") for n in range(3)), *network.edges], {**star, **network.cpds}
    )
    parts = [level_leakage(1.0, part) for part in both.parts()]
    leak = level_leakage(1.0, both)
    assert leak.upper == max(part.upper for part in parts)
    assert leak.lower == max(part.lower for part in parts)
    assert both.observed[leak.witness.target] in network.observed
    leaf = both.observed.index("leaf1")
    narrow = level_leakage(1.0, both, ut.Adversary(leaf, [both.observed.index("leaf0")]))
    assert narrow.witness.target == leaf
    assert narrow.upper <= parts[0].upper


def test_what_is_no_path():
    kernel, join = [[0.9, 0.1], [0.2, 0.8]], [[[0.9, 0.1], COIN], [COIN, [0.2, 0.8]]]
    fork = BayesianNetwork([(0, 1), (0, 2), (0, 3)], {0: COIN, 1: kernel, 2: kernel, 3: kernel})
    late = BayesianNetwork([(0, 1), (1, 2), (1, 3)], {0: COIN, 1: kernel, 2: kernel, 3: kernel})
    meeting = BayesianNetwork([(0, 2), (1, 2)], {0: COIN, 1: COIN, 2: join})
    hidden = BayesianNetwork([(0, 1), (1, 2)], {0: COIN, 1: kernel, 2: kernel}, latent=[1])
    apart = BayesianNetwork([(0, 1)], {0: COIN, 1: kernel, 2: COIN})
    alone = BayesianNetwork([], {0: COIN})
    for network in (fork, late, meeting, hidden, apart, alone):
        assert path_of(network) is None


def test_values_too_rare_to_be_reversed_are_left_alone():
    rare = [[1 - 1e-90, 1e-90], COIN]
    arms = [*(("r", f"a{n}") for n in (0, 10)), *((f"a{n}", f"a{n + 1}") for n in range(9)),
            *((f"a{n}", f"a{n + 1}") for n in range(10, 19))]  # fmt: skip
    cpds = {"r": [1 - 1e-90, 1e-90], **{f"a{n}": rare for n in range(20)}}
    assert path_of(BayesianNetwork(arms, cpds)) is not None
    steps = {**cpds, **{f"a{n}": [[1 - 1e-90, 1e-90], [1 - 1e-90, 1e-90]] for n in range(20)}}
    steps["a3"] = [[1.0, 0.0], [1 - 1e-90, 1e-90]]
    steps["a4"] = [[1.0, 0.0], [1 - 1e-90, 1e-90]]
    assert path_of(BayesianNetwork(arms, steps)) is None
