"""Bayesian networks: each record depends on a few others, its parents."""

import heapq
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, ClassVar

import numpy as np

from undertow.base_query import BaseQuery, State
from undertow.errors import InvalidInput, InvalidModel
from undertow.labels import axes
from undertow.models.base import Model
from undertow.models.described import fields, names, numbers, read_name
from undertow.models.elimination import Factor, eliminate
from undertow.models.rows import connected, probability_rows, state_names
from undertow.numerics import Array, Keyed, check_count, check_seed, freeze

__all__ = ["BayesianNetwork", "Node", "plain_name"]

Node = Hashable


@dataclass(frozen=True, slots=True, eq=False)
class BayesianNetwork(Keyed, Model):
    """Records with Pr[all] = product over nodes of Pr[node | its parents].

    Tables are plain arrays and are never fitted here. All records have the same states; latent
    nodes are no records (never counted, never a target, never known) and may have any number of
    states. Records are numbered from 0 in the order of ``observed``: parents before children, and
    otherwise in the order in which edges and tables name them.

    Parameters
    ----------
    edges
        Pairs (parent, child) of node names.
    cpds
        For each node an array of shape (states of its parents in the order in which the edges
        list them, ..., own states): the last axis sums to 1.
    states
        The names of the records' states, by default 0 .. k - 1.
    latent
        Nodes that are not in the data.

    >>> flu = BayesianNetwork([("ann", "bob")], {"ann": [.9, .1], "bob": [[.9, .1], [.5, .5]]})
    >>> flu.observed, flu.length, flu.is_tree
    (('ann', 'bob'), 2, True)
    >>> flu.law("ann", given={"bob": 1}).round(4)
    array([0.6429, 0.3571])
    """

    kind: ClassVar[str] = "network"
    family: ClassVar[str] = "network"

    edges: tuple[tuple[Node, Node], ...]
    states: tuple[State, ...]
    latent: tuple[Node, ...]
    nodes: tuple[Node, ...]
    tables: tuple[Array, ...] = field(repr=False)
    parents: tuple[tuple[int, ...], ...] = field(repr=False)
    numbers: Mapping[Node, int] = field(repr=False)
    observed: tuple[Node, ...] = field(repr=False)

    def __init__(
        self,
        edges: Any,
        cpds: Any,
        states: Sequence[State] | None = None,
        latent: Any = (),
    ) -> None:
        """Validate, order the nodes, rescale rows to sum to one, and freeze."""
        listed = _edges(edges)
        if not isinstance(cpds, Mapping) or not cpds:
            raise InvalidModel("a network needs a dictionary of tables, one for each node")
        cpds = {plain_name(node): table for node, table in cpds.items()}
        order, parents = _ordered(listed, cpds)
        numbers = {node: place for place, node in enumerate(order)}
        hidden = _latent(latent, numbers)
        cpds, states = _read(order, parents, cpds, states, hidden)
        tables = _tables(order, parents, cpds)
        records = tuple(node for node in order if node not in hidden)
        if not records:
            raise InvalidModel("every node is latent; a network needs at least one record")
        size = tables[numbers[records[0]]].shape[-1]
        for node in records:
            found = tables[numbers[node]].shape[-1]
            if found != size:
                raise InvalidModel(
                    f"node {node!r} has {found} states, node {records[0]!r} has {size}; all "
                    "records have the same states (latent nodes may have others)"
                )
        set_ = object.__setattr__
        set_(self, "edges", tuple(listed))
        set_(self, "states", state_names(states, size))
        set_(self, "latent", tuple(node for node in order if node in hidden))
        set_(self, "nodes", order)
        set_(self, "tables", tables)
        set_(self, "parents", parents)
        set_(self, "numbers", numbers)
        set_(self, "observed", records)

    def _key(self) -> tuple[object, ...]:
        tables = tuple((table.shape, table.tobytes()) for table in self.tables)
        return (self.nodes, self.parents, self.latent, self.states, tables)

    @property
    def length(self) -> int:
        """The number of records."""
        return len(self.observed)

    @property
    def size(self) -> int:
        """The number of states of a record."""
        return len(self.states)

    @property
    def places(self) -> tuple[int, ...]:
        """Where the records stand in ``nodes``."""
        return tuple(self.numbers[node] for node in self.observed)

    @property
    def is_tree(self) -> bool:
        """Whether no node has more than one parent (several trees side by side count as one)."""
        return all(len(parents) <= 1 for parents in self.parents)

    @property
    def cpds(self) -> dict[Node, Array]:
        """The tables by node."""
        return dict(zip(self.nodes, self.tables, strict=True))

    def number(self, node: Node) -> int:
        """Return the place of a node in ``nodes``, or refuse an unknown one."""
        try:
            return self.numbers[node]
        except (KeyError, TypeError) as error:
            raise InvalidInput(f"the network has no node {node!r}") from error

    def components(self) -> list[tuple[int, ...]]:
        """Return the connected components, each as the places of its nodes.

        >>> BayesianNetwork([], {"ann": [.9, .1], "bob": [.8, .2]}).components()
        [(0,), (1,)]
        """
        links = ((parent, child) for child, above in enumerate(self.parents) for parent in above)
        return connected(len(self.nodes), links)

    def part(self, places: Sequence[int]) -> "BayesianNetwork":
        """Return the network of some nodes whose parents are all among them.

        >>> flu = BayesianNetwork([("ann", "bob")], {"ann": [.9, .1], "bob": [[.9, .1], [.5, .5]]})
        >>> flu.part([0]).nodes
        ('ann',)
        """
        inside = set(places)
        edges = [
            (self.nodes[parent], self.nodes[child])
            for child in sorted(inside)
            for parent in self.parents[child]
        ]
        cpds = {self.nodes[place]: self.tables[place] for place in sorted(inside)}
        latent = [node for node in self.latent if self.numbers[node] in inside]
        return BayesianNetwork(edges, cpds, self.states, latent)

    def parts(self) -> list["BayesianNetwork"]:
        """Return the connected components as networks, those without a record left out.

        >>> [part.observed for part in BayesianNetwork([], {0: [.9, .1], 1: [.8, .2]}).parts()]
        [(0,), (1,)]
        """
        found, records = self.components(), {*self.places}
        if len(found) == 1:
            return [self]
        return [self.part(places) for places in found if records.intersection(places)]

    def shape(self) -> tuple[object, ...]:
        """Return all but the names of the nodes: networks of one shape leak alike."""
        latent = tuple(node in self.latent for node in self.nodes)
        return self.parents, latent, tuple(table.tobytes() for table in self.tables)

    def law(self, nodes: Any, given: Mapping[Node, Any] | None = None) -> Array:
        """Return the law of one node, or the joint law of a list of nodes, given evidence.

        Axes are the nodes in the order named. Evidence maps nodes to states (of a latent node: to
        its places); evidence of probability 0 is refused. Nodes that do not matter are left out,
        the others summed one by one: the cost grows with the largest table on the way.

        >>> cpds = {"ann": [.9, .1], "bob": [[.9, .1], [.5, .5]], "cy": [[.9, .1], [.5, .5]]}
        >>> flu = BayesianNetwork([("ann", "bob"), ("ann", "cy")], cpds)
        >>> flu.law(["bob", "cy"]).round(4)
        array([[0.754, 0.106],
               [0.106, 0.034]])
        """
        one = not isinstance(nodes, list)
        wanted = [self.number(node) for node in ([nodes] if one else nodes)]
        if len(set(wanted)) != len(wanted):
            raise InvalidInput("a node is asked for twice; name each once")
        facts = {self.number(node): self._state(node, v) for node, v in (given or {}).items()}
        both = [self.nodes[place] for place in wanted if place in facts]
        if both:
            raise InvalidInput(f"node {both[0]!r} is both asked for and given; leave it out of one")
        needed = self._ancestors([*wanted, *facts])
        factors = [
            _given(self.tables[place], (*self.parents[place], place), facts) for place in needed
        ]
        sizes = {place: self.tables[place].shape[-1] for place in needed}
        table = eliminate(factors, wanted, sizes)
        total = float(table.sum())
        if total <= 0:
            named = ", ".join(repr(self.nodes[place]) for place in list(facts)[:6])
            raise InvalidInput(
                f"what is given about {named} has probability 0 under the network; give values "
                "that can occur together"
            )
        return np.asarray(table / total)

    def joint(self) -> Array:
        """Return the joint law of all records, one axis each.

        >>> flu = BayesianNetwork([("ann", "bob")], {"ann": [.9, .1], "bob": [[.9, .1], [.5, .5]]})
        >>> flu.joint().round(2)
        array([[0.81, 0.09],
               [0.05, 0.05]])
        """
        return self.law(list(self.observed))

    def simulate(self, *, seed: int | None = None) -> list[State]:
        """Return one value for each record, drawn from the model (not a private release).

        >>> len(BayesianNetwork([], {"ann": [.9, .1], "bob": [.8, .2]}).simulate(seed=1))
        2
        """
        uniforms = np.random.default_rng(check_seed(seed)).random(len(self.nodes))
        drawn: list[int] = []
        for place, table in enumerate(self.tables):
            row = table[tuple(drawn[parent] for parent in self.parents[place])]  # (own states,)
            found = int(np.searchsorted(np.cumsum(row), uniforms[place], side="right"))
            drawn.append(min(found, int(np.flatnonzero(row)[-1])))
        return [self.states[drawn[self.numbers[node]]] for node in self.observed]

    def dependent_records(self) -> int:
        """Return the most records in one connected component."""
        records = {*self.places}
        return max(len(records.intersection(part)) for part in self.components())

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the network itself."""
        return [self]

    def describe(self) -> str:
        """Return the model in one sentence."""
        hidden = f" and {len(self.latent)} latent nodes" if self.latent else ""
        kind = "tree" if self.is_tree else "Bayesian network"
        return f"{kind} of {self.length} records{hidden} on {self.size} states"

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "kind": self.kind,
            "nodes": list(self.nodes),
            "edges": [list(edge) for edge in self.edges],
            "tables": [table.tolist() for table in self.tables],
            "states": list(self.states),
            "latent": list(self.latent),
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "BayesianNetwork":
        """Return the network described by `law_dict`."""
        wanted = ("nodes", "edges", "tables")
        lists = isinstance(description, dict) and all(
            isinstance(description.get(key), list | tuple) for key in wanted
        )
        if not lists or not all(isinstance(edge, list | tuple) for edge in description["edges"]):
            raise InvalidModel(
                "a network needs 'nodes', 'edges' (pairs of parent and child) and 'tables', one "
                "for each node"
            )
        read = fields(description, "a network", wanted, ("kind", "states", "latent"))
        nodes = [read_name(node) for node in read["nodes"]]
        edges = [read_name(list(edge)) for edge in read["edges"]]
        tables = [numbers(table) for table in read["tables"]]
        if len(nodes) != len(tables) or len(set(nodes)) != len(nodes):
            raise InvalidModel(
                f"{len(nodes)} nodes need as many tables and different names, found "
                f"{len(tables)} tables"
            )
        hidden = read.get("latent", ())
        if not isinstance(hidden, list | tuple):
            raise InvalidModel("'latent' must be a list of nodes")
        latent = [read_name(node) for node in hidden]
        named = dict(zip(nodes, tables, strict=True))
        return cls(edges, named, names(read.get("states"), "states"), latent)

    def _state(self, node: Node, value: Any) -> int:
        if node not in self.latent:
            return self.index(value)
        count = self.tables[self.numbers[node]].shape[-1]
        place = check_count(value, f"the value of latent node {node!r}", 0)
        if place >= count:
            raise InvalidInput(f"latent node {node!r} has {count} states, counted from 0")
        return place

    def _ancestors(self, places: Sequence[int]) -> list[int]:
        found, stack = set(places), list(places)
        while stack:
            for parent in self.parents[stack.pop()]:
                if parent not in found:
                    found.add(parent)
                    stack.append(parent)
        return sorted(found)


def _given(table: Array, axes: tuple[int, ...], facts: Mapping[int, int]) -> Factor:
    """Return a factor with the known axes taken at their values."""
    if not facts.keys() & set(axes):
        return table, axes
    where = tuple(facts.get(axis, slice(None)) for axis in axes)
    return np.asarray(table[where]), tuple(axis for axis in axes if axis not in facts)


def plain_name(node: Any) -> Node:
    """Return a name as it is kept: plain numbers for those of arrays.

    >>> plain_name(("f1", np.int64(3)))
    ('f1', 3)
    """
    if isinstance(node, np.generic):
        plain: Node = node.item()
        return plain
    return tuple(plain_name(part) for part in node) if type(node) is tuple else node


def _edges(edges: Any) -> list[tuple[Node, Node]]:
    form = "edges must be pairs (parent, child) of node names"
    try:
        listed = [() if isinstance(edge, str) else tuple(edge) for edge in edges]
    except TypeError as error:
        raise InvalidModel(f"{form}; found something else") from error
    pairs: list[tuple[Node, Node]] = []
    for place, edge in enumerate(listed):
        if len(edge) != 2:
            raise InvalidModel(f"{form}; edge {place} is no pair")
        try:
            hash(edge)
        except TypeError as error:
            raise InvalidModel("node names must be strings, numbers or other hashables") from error
        parent, child = edge
        if parent == child:
            raise InvalidModel(f"node {parent!r} is its own parent; a network has no cycles")
        pairs.append((plain_name(parent), plain_name(child)))
    try:
        distinct = len(set(pairs))
    except TypeError as error:
        raise InvalidModel("node names must be strings, numbers or other hashables") from error
    if distinct != len(pairs):
        twice = next(pair for place, pair in enumerate(pairs) if pair in pairs[:place])
        raise InvalidModel(f"the edge {twice[0]!r} -> {twice[1]!r} is listed twice; list it once")
    return pairs


def _ordered(
    edges: list[tuple[Node, Node]], cpds: Mapping[Node, Any]
) -> tuple[tuple[Node, ...], tuple[tuple[int, ...], ...]]:
    """Return the nodes, parents first and otherwise as they appear, and each one's parents."""
    appear = {node: place for place, node in enumerate(
        dict.fromkeys([*(node for edge in edges for node in edge), *cpds])
    )}  # fmt: skip
    for node in appear:
        if node not in cpds:
            raise InvalidModel(f"node {node!r} has no table; add it to cpds")
    above: dict[Node, list[Node]] = {node: [] for node in appear}
    below: dict[Node, list[Node]] = {node: [] for node in appear}
    for parent, child in edges:
        above[child].append(parent)
        below[parent].append(child)
    try:
        TopologicalSorter(above).prepare()
    except CycleError as error:
        circle = error.args[1]  # each a parent of the next
        shown = " -> ".join(map(repr, circle[:8])) + (" -> ..." if len(circle) > 8 else "")
        raise InvalidModel(f"the edges run in a circle, {shown}; a network has no cycles") from None
    missing = {node: len(parents) for node, parents in above.items()}
    names = list(appear)
    ready = [appear[node] for node, left in missing.items() if not left]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        node = names[heapq.heappop(ready)]
        order.append(node)
        for child in below[node]:
            missing[child] -= 1
            if not missing[child]:
                heapq.heappush(ready, appear[child])
    numbers = {node: place for place, node in enumerate(order)}
    parents = tuple(tuple(numbers[parent] for parent in above[node]) for node in order)
    return tuple(order), parents


def _latent(latent: Any, numbers: Mapping[Node, int]) -> set[Node]:
    if isinstance(latent, str):
        raise InvalidModel("latent must be a list of nodes, found one string")
    try:
        hidden = {plain_name(node) for node in latent}
    except TypeError as error:
        raise InvalidModel("latent must be a list of nodes; found something else") from error
    for node in hidden:
        if node not in numbers:
            raise InvalidModel(f"latent node {node!r} is in no edge and has no table")
    return hidden


def _read(
    order: tuple[Node, ...], parents: tuple[tuple[int, ...], ...], cpds: Mapping[Node, Any],
    states: Sequence[State] | None, hidden: set[Node],
) -> tuple[dict[Node, Any], Sequence[State] | None]:  # fmt: skip
    """Return the tables with their labels read, and the states of the records.

    Of a node with one parent the rows of a data frame are the parent's states.
    """
    found: dict[Node, Any] = {}
    latent: dict[Node, Any] = {}
    for node, above in zip(order, parents, strict=True):
        over = [order[parent] for parent in above]
        names = [latent.get(each) if each in hidden else states for each in (*over, node)]
        found[node], names = axes(cpds[node], names, f"the table of node {node!r}")
        for each, own in zip((*over, node), names, strict=True):
            if each in hidden:
                latent[each] = own
            elif states is None:
                states = own
    return found, states


def _tables(
    order: tuple[Node, ...], parents: tuple[tuple[int, ...], ...], cpds: Mapping[Node, Any]
) -> tuple[Array, ...]:
    """Return the checked tables; the same array given to many nodes is checked once."""
    known: dict[int, Array] = {}
    tables: list[Array] = []
    for node, above in zip(order, parents, strict=True):
        given = cpds[node]
        table = known.get(id(given))
        if table is None:
            table = known[id(given)] = _table(given, node)
        shape = tuple(tables[parent].shape[-1] for parent in above)
        if table.shape[:-1] != shape:
            raise InvalidModel(
                f"the table of node {node!r} has shape {table.shape}; its parents "
                f"{tuple(order[parent] for parent in above)!r} ask for {shape} and then one axis "
                "of its own states"
            )
        tables.append(table)
    return tuple(tables)


def _table(values: Any, node: Node) -> Array:
    try:
        table = freeze(values)
    except InvalidInput as error:
        raise InvalidModel(f"the table of node {node!r} is not made of numbers: {error}") from error
    if table.ndim < 1 or table.shape[-1] < 2 or not table.size:
        raise InvalidModel(
            f"the table of node {node!r} has shape {table.shape}; a node has at least two states"
        )
    return probability_rows(table, f"the table of node {node!r}")
