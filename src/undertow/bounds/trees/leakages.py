"""What all algorithms of a DP level leak on a tree of any size.

An output of an epsilon-DP algorithm is a likelihood phi of all records that changes by at most
e^epsilon with each of them. Given the target's value its branches are independent, and what lies
behind a neighbour enters through one message: how much the expected likelihood there can differ
between two values of the target. Messages of children add, B = epsilon + sum of s, and one step
along an edge turns B into the next message (`tree_steps`). Two sweeps over the tree, up and down,
give the messages of all edges and so the leakage about every record, level by level.

With nothing known, or a fixed set of known records, this is exact for two states on every tree and
an upper end for more. For an attacker who may know any records, what is known behind an edge
reweights its kernel by lambda, bounded by messages of its own,

    L(x, x') = max(0, max_v ln P(x, v) / P(x', v), step(P, sum of L)(x, x')),

and the worst reweighting is taken edge by edge: certified, and for two states at most some
15% above the exact value where that was checked (docs, theory: trees).
"""

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from undertow.adversaries import Adversary, Against, check_against
from undertow.bounds.graphs import attack_on, informed_level
from undertow.bounds.trees.beam import likely_facts
from undertow.bounds.trees.branches import Bools, Branches, Ints, WorstValues, filled, neighbours
from undertow.bounds.trees.pairs import pair_messages
from undertow.bounds.trees.steps import evidence_step, roundings, step
from undertow.certificate import Leakage, Witness
from undertow.errors import NotSupported
from undertow.models.network import BayesianNetwork
from undertow.numerics import ROUNDOFF, Array, check_epsilon, down

__all__ = ["tree_leakage"]

DEPTHS = 8
"""How far from the worst target known records are tried for a lower end against any."""

REGION = 1024
"""Most nodes around a target among which known records are chosen for a lower end."""

SWEPT = 10_000
"""Most nodes around a target whose sets are chosen for a lower end (others only add to it)."""

THIN = 16
"""Nodes on an average level below which two-state trees are swept node by node."""

FAINT = 1e-250
"""Least probability of a value (either side): products with it are still ordinary floats."""

SMALL = 7
"""Most records of a tree for which every known set is gone through."""


@dataclass(frozen=True, slots=True)
class Trunk(Branches):
    """A tree as arrays: one row for each node, parents before children.

    ``levels`` lists the nodes by depth, ``laws`` are the marginals; ``down`` and ``back`` are
    unused at roots, and ``error`` bounds the relative error of an entry of ``back``.
    """

    levels: list[Ints]
    laws: Array

    def pairs(self) -> Bools:
        """Return which pairs of values each record can have, (n, k, k)."""
        possible = (self.laws > 0) & self.record[:, None]  # (n, k)
        apart = ~np.eye(self.laws.shape[1], dtype=bool)
        return np.asarray(possible[:, :, None] & possible[:, None, :] & apart)


def tree_leakage(epsilon: float, network: BayesianNetwork, against: Against = "any") -> Leakage:
    """Return what an epsilon-DP algorithm can leak about one record of a tree.

    Two states: exact against ``ignorant``, ``informed`` and explicit adversaries, certified from
    above against ``any``. More states: certified from above. Cost O(n k^2) for two states; for
    three to five all extreme points of each step are looked at, beyond that a coarser bound serves.

    >>> kernel = [[.882, .118], [.305, .695]]
    >>> path = BayesianNetwork([(0, 1), (1, 2)], {0: [.721, .279], 1: kernel, 2: kernel})
    >>> round(tree_leakage(1.0, path, "ignorant").upper, 6)
    2.202411
    """
    epsilon, against = check_epsilon(epsilon), check_against(against)
    if not network.is_tree:
        raise NotSupported("a node of this network has several parents: it is not a tree")
    if len({table.shape[-1] for table in network.tables}) > 1:
        raise NotSupported("the latent nodes of this tree have other states than its records")
    if against == "informed":
        return _informed(epsilon, network)
    trunk = _trunk(epsilon, network)
    if isinstance(against, Adversary):
        return _fixed(network, trunk, against)
    if against == "ignorant":
        return _ignorant(network, trunk)
    return _any(network, trunk)


def _ignorant(network: BayesianNetwork, trunk: Trunk) -> Leakage:
    upper, loudest, values = _loudest(trunk, _messages(trunk, 1.0))
    if loudest is None:
        return _leakage(0.0, upper, "ignorant", None, network)
    if network.size > 2:
        swept, witness = _swept(network, trunk, loudest, WorstValues(upper, values, {}))
        return _leakage(min(swept, upper), upper, "ignorant", witness, network)
    lower, target, pair = _loudest(trunk, _messages(trunk, -1.0))
    target = loudest if target is None else target
    witness = _witness(network, trunk, target, WorstValues(lower, pair, {}))
    return _leakage(max(lower, 0.0), upper, "ignorant", witness, network)


def _any(network: BayesianNetwork, trunk: Trunk) -> Leakage:
    totals = _messages(trunk, 1.0, known=True)
    upper, target, pair = _loudest(trunk, totals)
    shown = [_informed(trunk.epsilon, network)]
    if target is not None and network.size > 2:
        lower, witness = _swept(network, trunk, target, WorstValues(upper, pair, {}))
        shown.append(_leakage(lower, math.inf, "any", witness, network))
    if target is not None:
        shown += _attempts(network, trunk, target, pair)
    if network.size == 2:
        shown.append(_ignorant(network, trunk))
    best = max(shown, key=lambda leak: leak.lower)
    if network.length <= SMALL and best.lower < upper:
        every = _all_known(network, trunk)
        best = max([best, *every], key=lambda leak: leak.lower)
        upper = min(upper, max(leak.upper for leak in every))
    return _leakage(min(best.lower, upper), upper, "any", best.witness, network)


def _all_known(network: BayesianNetwork, trunk: Trunk) -> list[Leakage]:
    """Return the leakage to every adversary of a small tree."""
    records = range(network.length)
    return [
        _fixed(network, trunk, Adversary(target, known))
        for target in records
        for number in records
        for known in combinations([record for record in records if record != target], number)
    ]


def _fixed(network: BayesianNetwork, trunk: Trunk, against: Adversary) -> Leakage:
    """Return the leakage to one adversary: every branch at its worst known values."""
    places = network.places
    target = places[against.target]
    possible = trunk.laws[target] > 0
    known = {places[record] for record in against.known}
    try:
        upper = trunk.worst(target, known, possible, 1.0)
        lower = trunk.worst(target, known, possible, -1.0)
    except OverflowError:
        bound = _any(network, trunk)
        many = "too many known records for all their values: the bound for any attacker is used"
        return Leakage(
            0.0, bound.upper, bound.method, against,
            assumptions=(*bound.assumptions, many), citation=bound.citation,
        )  # fmt: skip
    if upper is None or lower is None:
        return _leakage(0.0, 0.0, against, None, network)
    if network.size > 2:
        least, attack = _swept(network, trunk, target, upper)
        return _leakage(min(least, upper.value), upper.value, against, attack, network)
    witness = _witness(network, trunk, target, lower)
    return _leakage(max(lower.value, 0.0), upper.value, against, witness, network)


def _attempts(
    network: BayesianNetwork, trunk: Trunk, target: int, pair: tuple[int, int]
) -> list[Leakage]:
    """Return what some attackers see: well-chosen ones, and those who know all at a distance."""
    possible = trunk.laws[target] > 0
    if network.size == 2:
        facts = likely_facts(trunk, target, pair, REGION)
        value = trunk.attained(target, pair, facts, REGION)
        attack = _witness(network, trunk, target, WorstValues(value, pair, facts), REGION)
        return [_leakage(max(value, 0.0), math.inf, "any", attack, network)]
    found, inside = [], 0
    for ring in trunk.rings(target, DEPTHS):
        known = {place for place in ring if trunk.record[place]}
        inside += len(ring)
        if inside > REGION or not known:
            continue
        worst = trunk.worst(target, known, possible, -1.0, uniform=True)
        if worst is not None:
            lower, witness = _swept(network, trunk, target, worst)
            found.append(_leakage(lower, math.inf, "any", witness, network))
    return found


def _swept(
    network: BayesianNetwork, trunk: Trunk, target: int, worst: WorstValues
) -> tuple[float, Witness | None]:
    """Return what sets chosen for one target and pair of values leak, with the attack."""
    value, sets = trunk.swept(target, worst.pair, worst.facts, SWEPT)
    return max(value, 0.0), attack_on(network, target, worst.pair, worst.facts, sets)


def _messages(trunk: Trunk, side: float, *, known: bool = False) -> Array:
    """Return the sum of all messages into every node, (n, k, k), rounded to one side.

    ``side`` is 1 for upper ends and -1 for lower ones; ``known`` lets records beyond each edge be
    known (upper ends only).
    """
    count, states = trunk.laws.shape
    positive = bool((trunk.down[trunk.parent >= 0] > 0).all() and (trunk.laws > 0).all())
    if states == 2 and positive and count < THIN * len(trunk.levels):
        return pair_messages(trunk, side, known=known)
    # (n, k, k)
    own = np.where(~np.eye(states, dtype=bool) & trunk.record[:, None, None], trunk.epsilon, 0.0)
    children = _Sums(np.zeros((count, states, states)), np.zeros((count, states, states), int))
    facts = _Sums(np.zeros_like(children.finite), np.zeros_like(children.endless))
    rising, seen = np.zeros_like(own), np.zeros_like(own)  # messages of each node to its parent
    degree = np.bincount(trunk.parent[trunk.parent >= 0], minlength=count)  # children of each node
    slack = side * ROUNDOFF * (degree + 4.0)[:, None, None]  # of adding up and taking away
    for level in reversed(trunk.levels[1:]):
        kernel, parent = trunk.down[level], trunk.parent[level]  # (edges, k, k) and (edges,)
        # B = epsilon + sum of s
        bound = np.asarray(own[level] + children.all(level) * (1 + slack[level]))
        if known:
            evidence = facts.all(level) * (1 + slack[level])
            rising[level], passed = evidence_step(kernel, bound, evidence)
            seen[level] = _evidence(kernel, passed, trunk.record[level], 0.0)
            facts.add(parent, seen[level])
        else:
            rising[level] = step(kernel, bound, side)
        children.add(parent, rising[level])
    falling, told = np.zeros_like(own), np.zeros_like(own)  # messages of its parent to each node
    error = 2 * trunk.error  # of a ratio of two sums over a kernel with errors
    for level in trunk.levels[1:]:
        kernel, parent = trunk.back[level], trunk.parent[level]
        possible = trunk.laws[level] > 0
        # siblings only: not what came from this child
        rest = children.without(parent, rising[level])
        rest = rest + slack[parent] * children.all(parent) + falling[parent]
        bound = own[parent] + np.maximum(rest, 0.0)
        if known:
            evidence = facts.without(parent, seen[level])
            evidence = evidence + slack[parent] * facts.finite[parent] + told[parent]
            falling[level], passed = evidence_step(kernel, bound, evidence, error)
            told[level] = filled(_evidence(kernel, passed, trunk.record[parent], error), possible)
        else:
            falling[level] = step(kernel, bound, side, error)
        falling[level] = filled(falling[level], possible)
    total = children.all(slice(None)) + falling
    return np.asarray(total + slack * np.abs(total))


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums of children's messages, with infinite terms counted apart."""

    finite: Array
    endless: Ints

    def add(self, places: Ints, terms: Array) -> None:
        """Add a message to each of some nodes."""
        far = np.isinf(terms)
        # several children may share a parent
        np.add.at(self.finite, places, np.where(far, 0.0, terms))
        if far.any():
            np.add.at(self.endless, places, far)

    def all(self, places: Ints | slice) -> Array:
        """Return the sums at some nodes."""
        return np.asarray(np.where(self.endless[places] > 0, np.inf, self.finite[places]))

    def without(self, places: Ints, terms: Array) -> Array:
        """Return the sums at some nodes, each without one of its terms."""
        far = np.isinf(terms)
        rest = np.maximum(self.finite[places] - np.where(far, 0.0, terms), 0.0)
        return np.where(self.endless[places] - far > 0, np.inf, rest)


def _evidence(kernel: Array, passed: Array, record: Bools, error: float) -> Array:
    """Return how far known records behind an edge can move the odds of two values.

    ``passed`` is what is seen through the edge of those farther away; the node next to it may
    itself be known, if it is a record.
    """
    states = kernel.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(kernel)
        direct = logs[..., :, None, :] - logs[..., None, :, :]  # (edges, k, k, values of the node)
    pad = roundings(kernel, np.zeros_like(kernel)) + error
    direct = np.where(np.isnan(direct), -np.inf, direct).max(axis=-1) + pad[..., None, None]
    found = np.maximum(passed, np.where(record[..., None, None], direct, 0.0))
    found[..., np.arange(states), np.arange(states)] = 0.0
    return np.asarray(found)


def _loudest(trunk: Trunk, totals: Array) -> tuple[float, int | None, tuple[int, int]]:
    """Return the largest leakage over all records, its target and its pair of values."""
    both = trunk.pairs()
    if not both.any():
        return 0.0, None, (0, 0)
    losses = np.where(both, trunk.epsilon + totals, -np.inf)  # (n, k, k)
    target, x, other = (int(i) for i in np.unravel_index(int(np.argmax(losses)), losses.shape))
    return float(losses[target, x, other]), target, (x, other)


def _informed(epsilon: float, network: BayesianNetwork) -> Leakage:
    amount, witness = informed_level(network, epsilon)
    lower = 0.0 if witness is None else down(amount)
    return _leakage(lower, amount, "informed", witness, network)


def _witness(
    network: BayesianNetwork, trunk: Trunk, target: int, worst: WorstValues,
    most: int | None = None,
) -> Witness:  # fmt: skip
    """Return the attack: what is known, and the sets that the worst algorithm rewards."""
    sets = {n: (s,) for n, s in trunk.sets(target, worst.pair, worst.facts, most).items()}
    return attack_on(network, target, worst.pair, worst.facts, sets)


def _trunk(epsilon: float, network: BayesianNetwork) -> Trunk:
    """Return the tree as arrays."""
    count, states = len(network.nodes), network.size
    parent = np.array([above[0] if above else -1 for above in network.parents], dtype=np.int64)
    depth = np.zeros(count, dtype=np.int64)
    for place in range(count):
        if parent[place] >= 0:
            depth[place] = depth[parent[place]] + 1
    order = np.argsort(depth, kind="stable")
    # where each level begins
    cuts = np.searchsorted(depth[order], np.arange(1, int(depth.max()) + 1))
    levels = [np.asarray(part, dtype=np.int64) for part in np.split(order, cuts)]
    kernels = np.zeros((count, states, states))
    laws = np.zeros((count, states))
    inner = np.flatnonzero(parent >= 0)
    if inner.size:
        kernels[inner] = np.array([network.tables[place] for place in inner.tolist()])
    roots = levels[0]
    laws[roots] = np.array([network.tables[place] for place in roots.tolist()])
    for level in levels[1:]:
        # y is the parent, x the child
        laws[level] = np.einsum("ny,nyx->nx", laws[parent[level]], kernels[level])
        possible = np.einsum("ny,nyx->nx", laws[parent[level]] > 0, kernels[level] > 0)
        if (possible & (laws[level] < FAINT)).any():
            raise NotSupported("some values of the records are too rare for exact arithmetic")
    back = np.zeros_like(kernels)
    if inner.size:
        joint = laws[parent[inner]][:, :, None] * kernels[inner]  # (edges, parent, child)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Bayes: (edges, child, parent)
            back[inner] = np.swapaxes(joint, 1, 2) / laws[inner][:, :, None]
        back[inner] = np.where(np.isnan(back[inner]), 1.0 / states, back[inner])
    record = np.isin(np.arange(count), network.places)
    error = ROUNDOFF * (states + 2.0) * (len(levels) + 2.0)
    around = neighbours(parent)
    return Trunk(parent, kernels, back, record, error, epsilon, around, levels, laws)


def _leakage(
    lower: float, upper: float, against: Against, witness: Witness | None,
    network: BayesianNetwork,
) -> Leakage:  # fmt: skip
    exact = network.size == 2 and against != "any"
    notes = ["the records follow the stated tree"]
    if not exact and against != "informed":
        notes.append("an upper bound: " + (
            "what is known behind each edge is taken at its worst"
            if network.size == 2 else "messages between more than two states keep pairs only"
        ))  # fmt: skip
    return Leakage(lower, upper, "exchange", against, witness, tuple(notes), "docs, theory: trees")
