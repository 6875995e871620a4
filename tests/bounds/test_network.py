"""Leakage on small networks, against enumeration of all values, known sets and outputs."""

import math
from typing import Any, cast

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st

from tests.grids import law
from tests.oracles import networks as oracle
from undertow.adversaries import Adversary
from undertow.bounds.channels.quilts import Bound
from undertow.bounds.networks.leakages import leakage as network_leakage
from undertow.bounds.networks.levels import dependent_records
from undertow.bounds.networks.quilts import max_influence, network_distance, network_quilt
from undertow.errors import InvalidInput, MethodRefused, UnknownState
from undertow.mechanisms import DiscreteLaplace, Laplace, PureDP
from undertow.models.networks import BayesianNetwork, household
from undertow.queries import Count, Histogram, Query, Sum

QUIET = settings(deadline=None, derandomize=True, database=None)
FEW = settings(QUIET, max_examples=30)
NAMED: list[Any] = ["any", "ignorant", "informed"]
WHOM: list[Any] = ["any", "ignorant"]
COIN = [0.5, 0.5]
XOR = BayesianNetwork([(0, 2), (1, 2)], {0: COIN, 1: COIN, 2: [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]})


def adversary(network):
    """Named adversaries, and explicit ones of this network."""
    return st.one_of(
        st.sampled_from(NAMED),
        st.integers(0, network.length - 1).flatmap(
            lambda target: st.sets(
                st.sampled_from([r for r in range(network.length) if r != target] or [-1])
            ).map(lambda known: Adversary(target, known - {-1}))
        ),
    )


rates = st.sampled_from([0.1, 0.5, 1.0, 3.0])


@law(QUIET, 8, network=oracle.networks(), data=st.data(), rate=rates)
def test_counts_are_exact(network, data, rate):
    against = data.draw(adversary(network))
    counted = data.draw(st.sets(st.integers(0, network.size - 1), min_size=1))
    leak = network_leakage(Laplace(Count(sorted(counted)), 1 / rate), network, against)
    truth = oracle.count_leakage(oracle.joint_of(network), counted, rate, against, fine=True)
    assert leak.method == "exact"
    assert leak.lower <= truth * (1 + 1e-9) + 1e-9
    assert truth <= leak.upper * (1 + 1e-9) + 1e-9
    assert leak.closed


@law(FEW, 8, network=oracle.networks(), data=st.data(), rate=rates)
def test_the_witness_attains_the_lower_end(network, data, rate):
    against = data.draw(adversary(network))
    leak = network_leakage(DiscreteLaplace(Count(0), 1 / rate), network, against)
    if leak.witness is None:
        assert leak.lower == 0
        return
    if against == "informed":
        assert len(leak.witness.known) == network.length - 1
        assert leak.lower == pytest.approx(rate)
        return
    seen = oracle.count_attack(
        oracle.joint_of(network), leak.witness, network.states, [network.states[0]], rate
    )
    assert seen == pytest.approx(leak.lower, abs=1e-9)
    if isinstance(against, Adversary):
        assert leak.witness.target == against.target
        assert {record for record, _ in leak.witness.known} == set(against.known)


@law(FEW, 6, network=oracle.networks(most=3), data=st.data(), rate=rates)
def test_histograms_are_exact(network, data, rate):
    against = data.draw(adversary(network))
    leak = network_leakage(Laplace(Histogram(), 1 / rate), network, against)
    truth = oracle.histogram_leakage(oracle.joint_of(network), network.size, rate, against)
    assert leak.lower - 1e-9 <= truth <= leak.upper + 1e-9
    assert leak.closed


@law(
    FEW,
    6,
    network=oracle.networks(most=3, zeros=False),
    data=st.data(),
    epsilon=st.sampled_from([0.3, 1.0]),
)
def test_levels_are_bounded(network, data, epsilon):
    """All DP algorithms: m epsilon or the tree's bound above, a count's leakage below."""
    against = data.draw(adversary(network))
    joint = oracle.joint_of(network)
    assume(min(joint.values()) > 1e-4)  # what the solver can resolve
    leak = network_leakage(PureDP(epsilon), network, against)
    truth = oracle.level_leakage(joint, network.size, epsilon, against)
    assert leak.lower <= truth + 1e-7
    assert truth <= leak.upper + 1e-7
    assert leak.upper <= epsilon * network.length * (1 + 1e-12)


def test_xor_of_liu2016():
    """Pairwise independent and yet leaking: epsilon 1 leaks 1.433781 and 2."""
    count = Laplace(Count(1), 1.0)
    assert network_leakage(count, XOR, "ignorant").upper == pytest.approx(1.433781, abs=1e-6)
    assert network_leakage(count, XOR, "any").upper == pytest.approx(2.0, abs=1e-12)
    assert network_leakage(count, XOR, "informed").upper == 0.0
    joint = oracle.joint_of(XOR)
    for against in ("any", "ignorant", Adversary(0, [2]), Adversary(0)):
        leak = network_leakage(PureDP(1.0), XOR, cast("Any", against))
        assert leak.closed
        assert leak.upper == pytest.approx(oracle.level_leakage(joint, 2, 1.0, against), abs=1e-7)


def test_flu_in_a_household():
    """The more contagious, the more one person's flu says about the others'."""
    count = Laplace(Count("ill"), 1.0)
    grid = [household(4, 0.1, passed) for passed in (0.0, 0.1, 0.25, 0.5)]
    any_, none = (
        [network_leakage(count, model, against).upper for model in grid] for against in WHOM
    )
    assert any_ == sorted(any_)
    assert none == sorted(none)
    assert any_[0] == pytest.approx(1.0, abs=1e-12)  # independent: plain DP
    assert 1.5 < none[-1] <= any_[-1] + 1e-9 < 4
    for model, value in zip(grid, any_, strict=True):
        truth = oracle.count_leakage(oracle.joint_of(model), [1], 1.0, "any")
        assert value == pytest.approx(truth, abs=1e-9)


def test_parts_of_a_network_are_independent():
    trio = [(0, 2), (1, 2)]
    both = BayesianNetwork(
        [*trio, (3, 4)],
        {0: COIN, 1: COIN, 2: XOR.cpds[2], 3: COIN, 4: [[0.9, 0.1], [0.2, 0.8]]},
    )
    count = Laplace(Count(1), 1.0)
    alone = network_leakage(count, XOR)
    together = network_leakage(count, both)
    assert together.upper == alone.upper
    truth = oracle.count_leakage(oracle.joint_of(both), [1], 1.0, "ignorant")
    assert network_leakage(count, both, "ignorant").upper == pytest.approx(truth, abs=1e-9)
    assert dependent_records(both, "any") == 3


def test_many_parts_for_an_attacker_who_knows_nothing():
    """Beyond 64 records the other parts only blur: the part alone bounds, far answers attain."""
    pairs = 40
    edges = [(2 * pair, 2 * pair + 1) for pair in range(pairs)]
    kernel = [[0.9, 0.1], [0.2, 0.8]]
    cpds = {node: kernel if node % 2 else COIN for node in range(2 * pairs)}
    many = BayesianNetwork(edges, cpds)
    one = BayesianNetwork(edges[:1], {0: COIN, 1: kernel})
    count = Laplace(Count(1), 1.0)
    whole, part = (network_leakage(count, model, "ignorant") for model in (many, one))
    assert whole.upper == part.upper
    assert whole.lower == pytest.approx(part.upper, abs=1e-9)  # positive correlation: in the tails
    fixed = network_leakage(count, many, Adversary(3, [2]))
    assert fixed.upper == pytest.approx(1.0, abs=1e-9)


def test_noise_so_small_that_likelihoods_underflow():
    """Scale 1/400: exp(-2000) is no float, its logarithm is."""
    network = BayesianNetwork(
        [(0, n) for n in range(1, 5)],
        {node: [[0.9, 0.1], [0.3, 0.7]] if node else COIN for node in range(5)},
    )
    leak = network_leakage(Laplace(Count(1), 1 / 400), network)
    # far answers: each child adds ln (.1 + .9 e^-400) / (.7 + ...), up to e^-400
    odds = 4 * max(math.log(0.7 / 0.1), math.log(0.9 / 0.3))
    assert leak.upper == pytest.approx(400 + odds, abs=1e-6)
    assert leak.closed
    histogram = network_leakage(Laplace(Histogram(), 1 / 200), network)
    assert histogram.upper == pytest.approx(400 + odds, abs=1e-6)


def test_other_queries_have_the_bound_of_their_level():
    network = BayesianNetwork([(0, 1)], {0: COIN, 1: [[0.9, 0.1], [0.2, 0.8]]})
    for query in (Sum(0, 1), Query(max, sensitivity=1.0)):
        leak = network_leakage(Laplace(query, 1.0), network)
        assert leak.lower == 0
        assert leak.upper == pytest.approx(network_leakage(PureDP(1.0), network).upper)


def test_latent_causes_with_other_states():
    """A tree in which a latent cause has three values is no tree of `trees`, but still bounded."""
    network = BayesianNetwork(
        [("h", "a"), ("h", "b")],
        {"h": [0.2, 0.3, 0.5], "a": [[0.9, 0.1], COIN, [0.2, 0.8]],
         "b": [[0.7, 0.3], COIN, [0.1, 0.9]]},
        latent=["h"],
    )  # fmt: skip
    joint = oracle.joint_of(network)
    for against in NAMED:
        level = network_leakage(PureDP(1.0), network, against)
        assert level.upper == pytest.approx(oracle.level_leakage(joint, 2, 1.0, against), abs=1e-7)
        count = network_leakage(Laplace(Count(1), 1.0), network, against)
        assert count.upper == pytest.approx(
            oracle.count_leakage(joint, [1], 1.0, against), abs=1e-9
        )


def test_bad_questions():
    with pytest.raises(InvalidInput, match="record 7"):
        network_leakage(PureDP(1.0), XOR, Adversary(7))
    with pytest.raises(UnknownState):
        network_leakage(Laplace(Count("ill"), 1.0), XOR)
    with pytest.raises(InvalidInput):
        network_leakage(PureDP(1.0), XOR, cast("Any", "everyone"))


# --- separation, quilts, distances ----------------------------------------------------------------


@law(FEW, 8, network=oracle.networks(most=4, latent=False), data=st.data())
def test_influence(network, data):
    assume(network.length > 1)
    joint = oracle.joint_of(network)
    target = data.draw(st.integers(0, network.length - 1))
    quilt = sorted(data.draw(st.sets(st.integers(0, network.length - 1), min_size=1)) - {target})
    assume(quilt)
    truth = oracle.influence(joint, target, quilt)
    found = max_influence(network, target, quilt)
    assert found == pytest.approx(truth, abs=1e-9) if math.isfinite(truth) else found == math.inf


def test_quilts_against_any_do_not_trust_colliders():
    """C = A xor B, D a copy of B: to one who knows C, A decides B and D; otherwise it does not."""
    network = BayesianNetwork(
        [("A", "C"), ("B", "C"), ("B", "D")],
        {"A": COIN, "B": COIN, "C": XOR.cpds[2], "D": [[1, 0], [0, 1]]},
    )
    joint = oracle.joint_of(network)
    target = network.observed.index("A")
    truth = oracle.count_leakage(joint, [1], 1.0, Adversary(target, [network.observed.index("C")]))
    assert truth == pytest.approx(3.0)
    assert network_quilt(network, "any", Bound(1.0), records=[target]).value >= 3.0
    assert network_quilt(network, "ignorant", Bound(1.0), records=[target]).value == 2.0


def test_quilts_with_secrets_and_limits():
    kernel = [[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]]
    network = BayesianNetwork(
        [(0, 1), (1, 2)], {0: [0.2, 0.5, 0.3], 1: kernel, 2: kernel}, states=("a", "b", "c")
    )
    whole = network_quilt(network, "ignorant", Bound(0.9))
    some = network_quilt(network, "ignorant", Bound(0.9), pairs=[("a", "b")], records=[0])
    assert some.value <= whole.value
    assert some.record == 0
    long = BayesianNetwork(
        [(n, n + 1) for n in range(79)],
        {n: [[0.9, 0.1], [0.2, 0.8]] if n else COIN for n in range(80)},
    )
    with pytest.raises(MethodRefused, match="at most 64 records"):
        network_quilt(long, "ignorant", Bound(1.0))
    with pytest.raises(MethodRefused, match="against='ignorant'"):
        network_quilt(long.part(range(40)), "any", Bound(1.0))


@law(QUIET, 8, network=oracle.networks(most=4), data=st.data())
def test_wasserstein_distance(network, data):
    # the oracle forgives 1e-12 for ties, and so overlooks values that are rarer than that
    assume(all(table[table > 0].min() > 1e-3 for table in network.tables))
    counted = data.draw(st.sets(st.integers(0, network.size - 1), min_size=1))
    found = network_distance(network, Count(sorted(counted)))
    assert found == oracle.distance(oracle.joint_of(network), counted)
    # the mechanism of wang2016 keeps its guarantee
    if found:
        leak = network_leakage(Laplace(Count(sorted(counted)), float(found)), network, "ignorant")
        assert leak.lower <= 1.0 + 1e-12


def test_wasserstein_with_secrets_and_limits():
    twins = BayesianNetwork([("a", "b")], {"a": COIN, "b": [[1, 0], [0, 1]], "c": COIN})
    assert network_distance(twins, Count(1)) == 2
    assert network_distance(twins, Count(1), records=[2]) == 1
    assert network_distance(twins, Count(1), pairs=[(0, 1)]) == 2
    path = BayesianNetwork(
        [(n, n + 1) for n in range(29)],
        {n: [[0.9, 0.1], [0.2, 0.8]] if n else COIN for n in range(30)},
    )
    with pytest.raises(MethodRefused, match="at most 24"):
        network_distance(path, Count(1))
