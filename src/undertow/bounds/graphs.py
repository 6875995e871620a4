"""Dependence in a network: d-separation, and the records that determine another."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import numpy.typing as npt

from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.networks import BayesianNetwork, Factor, eliminate
from undertow.numerics import Array

__all__ = [
    "attack_on",
    "dependent",
    "distinguishable",
    "informed_attack",
    "informed_level",
    "lifted",
    "moral_neighbours",
    "possible",
    "reachable",
    "uncertain_records",
]


COMPLETED = 48
"""Most records whose values are spelled out in the attack of one who knows all others."""


def dependent(network: BayesianNetwork, source: int, given: Collection[int]) -> set[int]:
    """Return the nodes that d-separation leaves dependent on ``source`` (itself left out).

    Nodes are places in ``network.nodes``. A path is blocked by a given node, except at a collider,
    where the two arrows meet: there it is blocked unless the collider or a descendant is given.
    What is not returned is independent of the source given the nodes ``given``, together.

    >>> coins = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    >>> xor = BayesianNetwork([(0, 2), (1, 2)], {0: [.5, .5], 1: [.5, .5], 2: coins})
    >>> dependent(xor, 0, given=[]), dependent(xor, 0, given=[2])
    ({2}, {1})
    """
    children = _children(network)
    above = _closure(network.parents, given)  # the given nodes and ancestors: colliders are open
    members: set[int] = set()
    seen: set[tuple[int, bool]] = set()
    moves = [(source, True)]  # (node, reached from one of its children)
    while moves:
        move = moves.pop()
        if move in seen:
            continue
        seen.add(move)
        node, from_below = move
        if node not in given:
            members.add(node)
        if from_below and node not in given:
            moves += [(parent, True) for parent in network.parents[node]]
            moves += [(child, False) for child in children[node]]
        elif not from_below:
            if node not in given:
                moves += [(child, False) for child in children[node]]
            if node in above:
                moves += [(parent, True) for parent in network.parents[node]]
    return members - {source}


def moral_neighbours(network: BayesianNetwork) -> list[set[int]]:
    """Return, for each node, its parents, its children and their other parents.

    Whoever is separated in this graph stays independent whatever else becomes known.

    >>> coins = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    >>> xor = BayesianNetwork([(0, 2), (1, 2)], {0: [.5, .5], 1: [.5, .5], 2: coins})
    >>> moral_neighbours(xor)[0]
    {1, 2}
    """
    around: list[set[int]] = [set() for _ in network.nodes]
    for child, parents in enumerate(network.parents):
        for one, two in permutations((child, *parents), 2):
            around[one].add(two)
    return around


def reachable(around: list[set[int]], source: int, given: Collection[int]) -> set[int]:
    """Return the nodes joined to ``source`` in an undirected graph without the given nodes."""
    return _closure(around, [source], given) - {source}


def _closure(
    around: Sequence[Collection[int]], sources: Collection[int], given: Collection[int] = ()
) -> set[int]:
    """Return the sources and all that can be reached from them past no given node."""
    closure, stack = set(sources), list(sources)
    while stack:
        fresh = set(around[stack.pop()]) - closure - set(given)
        closure |= fresh
        stack.extend(fresh)
    return closure


def distinguishable(
    network: BayesianNetwork, target: int, value: int, other: int,
    facts: Mapping[int, int] | None = None,
) -> bool:  # fmt: skip
    """Return whether all other records can be known and the target still have either value.

    ``facts`` are records already known (places of nodes and of their states).

    >>> twins = BayesianNetwork([(0, 1)], {0: [.5, .5], 1: [[1, 0], [0, 1]]})
    >>> distinguishable(twins, 0, 0, 1)
    False
    """
    known = dict(facts or {})
    return _compatible(network, {**known, target: value}, {**known, target: other})


def possible(network: BayesianNetwork, facts: Mapping[int, int]) -> bool:
    """Return whether some nodes can have these values (places of states) together.

    >>> twins = BayesianNetwork([(0, 1)], {0: [.5, .5], 1: [[1, 0], [0, 1]]})
    >>> possible(twins, {0: 1, 1: 1}), possible(twins, {0: 1, 1: 0})
    (True, False)
    """
    return _compatible(network, facts)


def _compatible(network: BayesianNetwork, *worlds: Mapping[int, int]) -> bool:
    """Return whether copies of a network that share their records can each have its facts."""
    latent = {network.numbers[node] for node in network.latent}
    count = len(network.nodes)
    factors: list[Factor] = []
    sizes: dict[int, int] = {}
    for copy, known in enumerate(worlds):
        # records are shared by all copies, latent nodes may differ
        name = {place: place + copy * count * (place in latent) for place in range(count)}
        for place, table in enumerate(network.tables):
            taken, axes = _support(table, (*network.parents[place], place), known)
            factors.append((taken, tuple(name[axis] for axis in axes)))
            sizes[name[place]] = table.shape[-1]
    return bool(eliminate(factors, (), sizes, support=True) > 0)


def informed_attack(
    network: BayesianNetwork, worth: Mapping[tuple[int, int], float]
) -> tuple[float, Witness | None]:
    """Return the largest worth of a pair of values that all other records can leave open.

    ``worth`` is for ordered pairs of states. The attack is None if there is nothing to learn, or if
    the network is too large to look through; then every pair counts as open.

    >>> twins = BayesianNetwork([(0, 1)], {0: [.5, .5], 1: [[1, 0], [0, 1]]})
    >>> informed_attack(twins, {(0, 1): 1.0, (1, 0): 1.0})
    (0.0, None)
    """
    positive = all(bool((table > 0).all()) for table in network.tables)
    for (value, other), amount in sorted(worth.items(), key=lambda item: -item[1]):
        if amount <= 0:
            break
        for target in network.places:
            try:
                if positive or distinguishable(network, target, value, other):
                    facts = _completed(network, target, value, other, positive)
                    return amount, attack_on(network, target, (value, other), facts)
            except NotSupported:
                return amount, None
    return 0.0, None


def _completed(
    network: BayesianNetwork, target: int, value: int, other: int, positive: bool
) -> dict[int, int]:
    """Return values of all other records that leave two values of the target open."""
    others = [place for place in network.places if place != target]
    if positive:
        return dict.fromkeys(others, 0)
    facts: dict[int, int] = {}
    for place in others if len(others) < COMPLETED else ():
        tries = ({**facts, place: state} for state in range(network.size))
        facts = next(try_ for try_ in tries if distinguishable(network, target, value, other, try_))
    return facts


def informed_level(
    network: BayesianNetwork, epsilon: float
) -> tuple[float, Witness | None]:  # fmt: skip
    """Return the leakage of a DP level to an attacker who knows all other records."""
    amount, witness = informed_attack(
        network, dict.fromkeys(permutations(range(network.size), 2), epsilon)
    )
    if witness is not None:
        witness = replace(witness, sets=((witness.target, (witness.value,)),))
    return amount, witness


def attack_on(
    network: BayesianNetwork, target: int, pair: tuple[int, int], facts: Mapping[int, int],
    sets: Mapping[int, Sequence[int]] | None = None,
) -> Witness:  # fmt: skip
    """Return an attack in the network's own words: places of nodes and states become names."""
    number = {place: record for record, place in enumerate(network.places)}
    names = network.states
    known = sorted((number[place], names[state]) for place, state in facts.items())
    rewarded = sorted(
        (number[place], tuple(names[state] for state in states))
        for place, states in (sets or {}).items()
    )
    value, other = (names[state] for state in pair)
    return Witness(number[target], network.length, tuple(known), value, other, tuple(rewarded))


def lifted(witness: Witness, records: Sequence[int], length: int) -> Witness:
    """Return a part's attack with its records numbered as in the whole: i becomes records[i].

    >>> lifted(Witness(0, 2, ((1, "ill"),), "well", "ill"), [4, 3], 5).known
    ((3, 'ill'),)
    """
    return replace(
        witness,
        target=records[witness.target],
        length=length,
        known=tuple(sorted((records[record], value) for record, value in witness.known)),
        sets=tuple(sorted((records[record], states) for record, states in witness.sets)),
    )


def _support(table: Array, axes: tuple[int, ...], facts: Mapping[int, int]) -> Factor:
    """Return which entries of a table are positive, given some of its axes."""
    taken = np.asarray(table[tuple(facts.get(axis, slice(None)) for axis in axes)] > 0)
    return taken.astype(np.float64), tuple(axis for axis in axes if axis not in facts)


def _children(network: BayesianNetwork) -> list[list[int]]:
    """Return the children of every node."""
    children: list[list[int]] = [[] for _ in network.nodes]
    for child, parents in enumerate(network.parents):
        for parent in parents:
            children[parent].append(child)
    return children


def uncertain_records(network: BayesianNetwork) -> list[int]:
    """Return the records that may have two values, going by which parents allow which values.

    Some of them may be certain all the same, where causes exclude each other.

    >>> uncertain_records(BayesianNetwork([("a", "b")], {"a": [1, 0], "b": [[.5, .5], [0, 1]]}))
    [1]
    """
    supports: list[npt.NDArray[np.intp]] = []
    for table, parents in zip(network.tables, network.parents, strict=True):
        own = np.arange(table.shape[-1])
        # (possible values of each parent ..., own value)
        allowed = table[np.ix_(*(supports[parent] for parent in parents), own)]
        supports.append(np.flatnonzero((allowed > 0).reshape(-1, table.shape[-1]).any(axis=0)))
    return [record for record, place in enumerate(network.places) if len(supports[place]) > 1]
