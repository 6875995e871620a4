"""Bayesian networks: laws against enumeration, and every check fires."""

import itertools
import json
import pickle

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from tests.grids import law
from tests.oracles.networks import joint_of, networks
from undertow.errors import InvalidInput, InvalidModel, NotSupported, UnknownState
from undertow.models.networks import BayesianNetwork, eliminate

QUIET = settings(deadline=None, derandomize=True, database=None)
COIN = [0.5, 0.5]
COPY = [[1.0, 0.0], [0.0, 1.0]]


def chain(count, table=None):
    """A path of so many nodes."""
    edges = [(node, node + 1) for node in range(count - 1)]
    return BayesianNetwork(
        edges,
        {node: COIN if not node else (table or [[0.9, 0.1], [0.2, 0.8]]) for node in range(count)},
    )


@law(QUIET, 8, network=networks(most=5, parents=3))
def test_joint_law_is_the_product_of_the_tables(network):
    truth = joint_of(network)
    table = network.joint()
    assert table.shape == (network.size,) * network.length
    for values in itertools.product(range(network.size), repeat=network.length):
        assert table[values] == pytest.approx(truth.get(values, 0.0), rel=1e-9, abs=1e-300)


@law(QUIET, 12, network=networks(most=5, latent=False), data=st.data())
def test_conditional_laws(network, data):
    """Any nodes, given any others, from the joint table."""
    truth = joint_of(network)
    nodes = data.draw(st.permutations(range(network.length)))
    asked = data.draw(st.integers(1, network.length))
    wanted, rest = nodes[:asked], nodes[asked:]
    known = rest[: data.draw(st.integers(0, len(rest)))]
    facts = data.draw(st.sampled_from(sorted(truth)))
    table = np.zeros((network.size,) * len(wanted))
    for values, probability in truth.items():
        if all(values[node] == facts[node] for node in known):
            table[tuple(values[node] for node in wanted)] += probability
    found = network.law(
        [network.observed[node] for node in wanted],
        given={network.observed[node]: network.states[facts[node]] for node in known},
    )
    assert found == pytest.approx(table / table.sum(), rel=1e-8, abs=1e-12)


@law(QUIET, 8, network=networks())
def test_written_and_read_again(network):
    again = BayesianNetwork.from_dict(json.loads(json.dumps(network.to_dict())))
    assert again == network
    assert hash(again) == hash(network)
    assert pickle.loads(pickle.dumps(network)) == network
    assert str(network.length) in network.describe()


def test_frozen_and_copied():
    table = np.array([[0.9, 0.1], [0.2, 0.8]])
    network = BayesianNetwork([(0, 1)], {0: COIN, 1: table})
    table[0, 0] = 0.0
    assert network.cpds[1][0, 0] == 0.9
    with pytest.raises(ValueError, match="read-only"):
        network.cpds[1][0, 0] = 0.0
    with pytest.raises(AttributeError):
        network.states = (1, 2)  # type: ignore[misc]


def test_simulation_follows_the_law():
    """10,000 draws of two dependent records; a share is off by 5 sd once in 10^6."""
    network = chain(2)
    drawn = [network.simulate(seed=seed) for seed in range(10_000)]
    share = sum(x == y for x, y in drawn) / len(drawn)
    assert abs(share - 0.85) < 5 * (0.85 * 0.15 / 10_000) ** 0.5
    sure = BayesianNetwork([], {0: [0.0, 1.0]})
    assert {sure.simulate(seed=seed)[0] for seed in range(50)} == {1}


@pytest.mark.parametrize(
    ("edges", "tables", "options", "message"),
    [
        ([(0, 1), (1, 2), (2, 0)], dict.fromkeys(range(3), COPY), {}, "circle, 0 -> 1 -> 2 -> 0"),
        ([("a", "a")], {"a": COIN}, {}, "'a' is its own parent"),
        ([("a", "b")], {"a": COIN}, {}, "'b' has no table"),
        ([("a", "b"), ("a", "b")], {"a": COIN, "b": COPY}, {}, "'a' -> 'b' is listed twice"),
        ([("a",)], {"a": COIN}, {}, "edge 0 is no pair"),
        (["ab"], {"a": COIN, "b": COPY}, {}, "edge 0 is no pair"),
        (7, {"a": COIN}, {}, "pairs"),
        ([], {}, {}, "dictionary of tables"),
        ([], [COIN], {}, "dictionary of tables"),
        ([], {"a": [0.5, 0.4]}, {}, "table of node 'a' sums to 0.9"),
        ([("a", "b")], {"a": COIN, "b": [COIN, [0.5, 0.6]]}, {},
         "row 1 of the table of node 'b' sums to 1.1"),
        ([], {"a": [1.5, -0.5]}, {}, r"entry \(0,\) of the table of node 'a'"),
        ([], {"a": [float("nan"), 1.0]}, {}, "node 'a'"),
        ([], {"a": [1.0]}, {}, "at least two states"),
        ([], {"a": "law"}, {}, "table of node 'a' is not made of numbers"),
        ([], {"a": [[0.5, 0.5], [0.5]]}, {}, "node 'a'"),
        ([("a", "b")], {"a": COIN, "b": COIN}, {}, "table of node 'b' has shape"),
        ([("a", "b")], {"a": COIN, "b": [COIN] * 3}, {}, r"\('a',\) ask for \(2,\)"),
        ([], {"a": COIN, "b": [0.2, 0.3, 0.5]}, {}, "'b' has 3 states, node 'a' has 2"),
        ([], {"a": COIN}, {"latent": ["a"]}, "every node is latent"),
        ([], {"a": COIN}, {"latent": ["b"]}, "latent node 'b'"),
        ([], {"a": COIN}, {"latent": "a"}, "list of nodes"),
        ([], {"a": COIN}, {"latent": 3}, "list of nodes"),
        ([], {"a": COIN}, {"states": ["x"]}, "2 states need 2 names"),
        ([], {"a": COIN}, {"states": ["x", "x"]}, "two states bear the same name"),
        ([], {"a": COIN}, {"states": "xy"}, "list of names"),
        ([], {"a": COIN}, {"states": 3}, "list of names"),
        ([([], "a")], {"a": COIN}, {}, "hashable"),
    ],
)  # fmt: skip
def test_malformed_networks_are_refused(edges, tables, options, message):
    with pytest.raises(InvalidModel, match=message):
        BayesianNetwork(edges, tables, **options)


def test_latent_nodes_may_have_other_states():
    network = BayesianNetwork(
        [("h", "a")], {"h": [0.2, 0.3, 0.5], "a": [COIN, [1, 0], [0, 1]]}, latent=["h"]
    )
    assert network.law("a") == pytest.approx([0.4, 0.6])
    assert network.law("a", given={"h": 1}).tolist() == [1.0, 0.0]
    with pytest.raises(InvalidInput, match="'h' has 3 states"):
        network.law("a", given={"h": 3})


def test_evidence_of_probability_zero():
    network = BayesianNetwork([("ann", "bob")], {"ann": COIN, "bob": COPY})
    with pytest.raises(InvalidInput, match="about 'ann', 'bob' has probability 0") as found:
        network.law([], given={"ann": 0, "bob": 1})
    assert "1" not in str(found.value).replace("probability 0", "")  # no value is quoted
    with pytest.raises(InvalidInput, match="both asked for and given"):
        network.law("ann", given={"ann": 0})
    with pytest.raises(InvalidInput, match="asked for twice"):
        network.law(["ann", "ann"])
    with pytest.raises(InvalidInput, match="no node 'cy'"):
        network.law("cy")
    with pytest.raises(InvalidInput, match="no node"):
        network.law("ann", given={"cy": 0})
    with pytest.raises(UnknownState):
        network.law("ann", given={"bob": "ill"})


def test_states_are_told_apart_by_type():
    network = BayesianNetwork([], {0: [0.2, 0.8]}, states=(1, True + 1))
    assert network.index(2) == 1
    with pytest.raises(UnknownState, match="'x'"):
        network.index("x")


def test_tables_that_are_too_large_are_refused():
    network = BayesianNetwork([], dict.fromkeys(range(27), COIN))
    with pytest.raises(NotSupported, match="entries"):
        network.joint()
    with pytest.raises(NotSupported):
        eliminate([(np.ones((2, 2)), (0, 1))], (0, 1), {0: 2, 1: 2}, limit=3)


@pytest.mark.parametrize(
    "broken",
    [{}, {"nodes": [0], "edges": [], "tables": []},
     {"nodes": [0, 0], "edges": [], "tables": [COIN] * 2},
     {"nodes": [0], "edges": [[0]], "tables": [COIN]}, {"nodes": 3, "edges": [], "tables": []}],
)  # fmt: skip
def test_damaged_descriptions(broken):
    with pytest.raises(InvalidModel):
        BayesianNetwork.from_dict(broken)
