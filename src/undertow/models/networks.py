"""Bayesian networks: each record depends on a few others, its parents."""

import heapq
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import product
from typing import Any, ClassVar

import numpy as np

from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.labels import axes
from undertow.models.base import Model
from undertow.models.validation import (
    fields,
    names,
    number,
    numbers,
    probability_rows,
    read_name,
    state_names,
    whole,
)
from undertow.numerics import Array, Keyed, Seed, check_count, freeze, random_generator
from undertow.queries import BaseQuery, State

__all__ = [
    "MOST_ENTRIES",
    "BayesianNetwork",
    "Contagion",
    "Factor",
    "Node",
    "connected",
    "eliminate",
    "household",
    "plain_name",
]


MOST_ENTRIES = 2**24
"""Most entries of a table on the way (a cost limit: 128 MiB)."""

_MOST_AXES = 31
"""Most axes of a table."""

_MOST_OPERANDS = 16
"""Most tables multiplied at once."""

_RESCALED_BELOW = 2.0**-20
"""Tables below it are multiplied by a power of two, lest they vanish."""

Factor = tuple[Array, tuple[int, ...]]


def eliminate(
    factors: Sequence[Factor],
    keep: Sequence[int],
    sizes: Mapping[int, int],
    limit: int = MOST_ENTRIES,
    *,
    support: bool = False,
    floor: float = 0.0,
) -> Array:
    """Return the product of all factors, summed over every variable that is not kept.

    The axes of the result are ``keep``, in that order; ``sizes`` gives the states of each variable.
    Where all entries are tiny the result is multiplied by a power of two. With ``support`` the
    result only says which entries are positive (1) and which are not (0). Refuses with
    `NotSupported` where a table would exceed ``limit`` entries, or has an entry below ``floor``:
    then none has lost its relative accuracy.

    >>> law, kernel = np.array([.5, .5]), np.array([[.9, .1], [.2, .8]])
    >>> eliminate([(law, (0,)), (kernel, (0, 1))], keep=[1], sizes={0: 2, 1: 2})
    array([0.55, 0.45])
    """
    variables = set(keep)
    live = dict(enumerate(factors))
    places: dict[int, set[int]] = {}
    for name, (_, scope) in live.items():
        for variable in scope:
            places.setdefault(variable, set()).add(name)
    queue = [
        (_cost(variable, live, names, sizes), variable)
        for variable, names in places.items()
        if variable not in variables
    ]
    heapq.heapify(queue)
    fresh = len(live)
    while queue:
        cost, variable = heapq.heappop(queue)
        if variable not in places:
            continue
        now = _cost(variable, live, places[variable], sizes)
        if now > cost:  # grew since it was queued
            heapq.heappush(queue, (now, variable))
            continue
        names = places.pop(variable)
        axes = _union(live[name][1] for name in sorted(names))
        _check(axes, sizes, limit)
        rest = tuple(axis for axis in axes if axis != variable)  # axes of the new factor
        table = _product([live.pop(name) for name in sorted(names)], rest, support)
        _above(table, floor)
        live[fresh] = (table, rest)
        for axis in rest:
            places[axis] = (places[axis] - names) | {fresh}
            if axis not in variables:
                heapq.heappush(queue, (_cost(axis, live, places[axis], sizes), axis))
        fresh += 1
    _check(tuple(keep), sizes, limit)
    table = _product(list(live.values()), tuple(keep), support)
    _above(table, floor)
    return table


def _above(table: Array, floor: float) -> None:
    if floor and float(table.min()) < floor:
        raise NotSupported("some values of the records are too rare for exact arithmetic")


def _union(groups: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(axis for group in groups for axis in group))


def _cost(
    variable: int, live: Mapping[int, Factor], names: set[int], sizes: Mapping[int, int]
) -> float:
    axes = {axis for name in names for axis in live[name][1]}
    return sum(math.log(sizes[axis]) for axis in axes)


def _check(axes: Sequence[int], sizes: Mapping[int, int], limit: int) -> None:
    if math.prod(sizes[axis] for axis in axes) > limit:
        raise NotSupported(
            f"too many records depend on each other here: a table over {len(axes)} of them would "
            f"have more than {limit} entries; ask about fewer records, or use Groups"
        )


def _product(factors: list[Factor], rest: tuple[int, ...], support: bool) -> Array:
    """Return the product of factors, summed over all axes that are not in ``rest``."""
    if len(rest) > _MOST_AXES:
        raise NotSupported(
            f"a table over {len(rest)} records cannot be held; ask about fewer records"
        )
    if not factors:
        return np.ones(())
    while len(factors) > _MOST_OPERANDS:
        part = _union(axes for _, axes in factors[:_MOST_OPERANDS])
        factors = [
            *factors[_MOST_OPERANDS:],
            (_product(factors[:_MOST_OPERANDS], part, support), part),
        ]
    names = {axis: place for place, axis in enumerate(_union(axes for _, axes in factors))}
    operands: list[Any] = []
    for table, scope in factors:
        operands += [_raised(table), [names[axis] for axis in scope]]
    product = np.asarray(np.einsum(*operands, [names[axis] for axis in rest]))
    if support:
        return np.asarray(product > 0, dtype=np.float64)
    return product


def _raised(table: Array) -> Array:
    """Return a table times a power of two if all its entries are small."""
    peak = float(table.max(initial=0.0))
    if 0 < peak < _RESCALED_BELOW:
        return np.asarray(np.ldexp(table, -math.frexp(peak)[1]))
    return table


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
            width = tables[numbers[node]].shape[-1]
            if width != size:
                raise InvalidModel(
                    f"node {node!r} has {width} states, node {records[0]!r} has {size}; all "
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
        """Positions of the records in ``nodes``."""
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
        components, records = self.components(), {*self.places}
        if len(components) == 1:
            return [self]
        return [self.part(places) for places in components if records.intersection(places)]

    def shape(self) -> tuple[object, ...]:
        """Return a hashable description without node names: networks of one shape leak alike."""
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

    def simulate(self, *, seed: Seed = None) -> list[State]:
        """Return one value for each record, drawn from the model (not a private release).

        >>> len(BayesianNetwork([], {"ann": [.9, .1], "bob": [.8, .2]}).simulate(seed=1))
        2
        """
        uniforms = random_generator(seed).random(len(self.nodes))
        drawn: list[int] = []
        for place, table in enumerate(self.tables):
            row = table[tuple(drawn[parent] for parent in self.parents[place])]  # (own states,)
            state = int(np.searchsorted(np.cumsum(row), uniforms[place], side="right"))
            drawn.append(min(state, int(np.flatnonzero(row)[-1])))
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
        ancestors, stack = set(places), list(places)
        while stack:
            for parent in self.parents[stack.pop()]:
                if parent not in ancestors:
                    ancestors.add(parent)
                    stack.append(parent)
        return sorted(ancestors)


def _given(table: Array, axes: tuple[int, ...], facts: Mapping[int, int]) -> Factor:
    """Return a factor with the known axes taken at their values."""
    if not facts.keys() & set(axes):
        return table, axes
    where = tuple(facts.get(axis, slice(None)) for axis in axes)
    return np.asarray(table[where]), tuple(axis for axis in axes if axis not in facts)


def plain_name(node: Any) -> Node:
    """Return a node name with NumPy scalars turned into Python numbers.

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
    """Return the tables with axes ordered by their labels, and the states of the records.

    Of a node with one parent the rows of a data frame are the parent's states.
    """
    described: dict[Node, Any] = {}
    latent: dict[Node, Any] = {}
    for node, above in zip(order, parents, strict=True):
        over = [order[parent] for parent in above]
        names = [latent.get(each) if each in hidden else states for each in (*over, node)]
        described[node], names = axes(cpds[node], names, f"the table of node {node!r}")
        for each, own in zip((*over, node), names, strict=True):
            if each in hidden:
                latent[each] = own
            elif states is None:
                states = own
    return described, states


def _tables(
    order: tuple[Node, ...], parents: tuple[tuple[int, ...], ...], cpds: Mapping[Node, Any]
) -> tuple[Array, ...]:
    """Return the checked tables; the same array given to many nodes is checked once."""
    checked: dict[int, Array] = {}
    tables: list[Array] = []
    for node, above in zip(order, parents, strict=True):
        given = cpds[node]
        table = checked.get(id(given))
        if table is None:
            table = checked[id(given)] = _table(given, node)
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


_MOST_PEOPLE = 12
"""Most people of a household: the last one's table has an axis for each of the others."""


def household(size: int, outside: float, passed: float) -> BayesianNetwork:
    """Return the network of a household, each person "well" or "ill".

    Everyone catches flu from outside with probability ``outside``, and from each ill person who
    was exposed before them with probability ``passed``:
    Pr[well | j ill before] = (1 - outside) (1 - passed)^j.

    >>> household(2, outside=.1, passed=.5).law(1).round(4)
    array([0.855, 0.145])
    """
    size = check_count(size, "size of the household", 1)
    if size > _MOST_PEOPLE:
        raise InvalidModel(
            f"a household has at most {MOST_ENTRIES} people, found {size}; use Groups"
        )
    for name, value in (("outside", outside), ("passed", passed)):
        if not 0 <= value <= 1:
            raise InvalidModel(f"{name} must be a probability, found {value}")
    cpds = {}
    for person in range(size):
        table = np.zeros((2,) * person + (2,))
        for before in product((0, 1), repeat=person):
            if outside == 1 or (passed == 1 and any(before)):
                table[before] = (0.0, 1.0)
                continue
            spared = math.log1p(-outside)
            spared += sum(before) * math.log1p(-passed) if any(before) else 0.0
            table[before] = (math.exp(spared), -math.expm1(spared))  # both good to the last digits
        cpds[person] = table
    edges = [(one, two) for two in range(size) for one in range(two)]
    return BayesianNetwork(edges, cpds, states=("well", "ill"))


@dataclass(frozen=True, slots=True)
class Contagion(Model):
    """Households like `household`, with a transmission probability in an interval.

    The flu example of [wang2016]; the leakage is the worst over all probabilities from ``low`` to
    ``high``. ``outside`` is one number.

    >>> flu = Contagion(3, outside=.1, passed=(.1, .5))
    >>> flu.network(.1).law(1).round(4), flu.states
    (array([0.891, 0.109]), ('well', 'ill'))
    """

    kind: ClassVar[str] = "contagion"
    family: ClassVar[str] = "network"
    records_are_persons: ClassVar[bool] = True

    size: int
    outside: float
    passed: tuple[float, float]

    def __post_init__(self) -> None:
        """Check both ends."""
        ends = self.passed
        listed: object = ends
        if not isinstance(listed, Sequence) or len(listed) != 2:
            raise InvalidModel(f"passed must be two probabilities (low, high), found {ends!r}")
        for end in ends:
            household(self.size, self.outside, end)
        if ends[0] > ends[1]:
            raise InvalidModel(f"passed must be (low, high), found {ends!r}")
        object.__setattr__(self, "passed", (float(ends[0]), float(ends[1])))

    @property
    def length(self) -> int:
        """The number of people."""
        return self.size

    @property
    def states(self) -> tuple[State, ...]:
        """Well or ill."""
        return ("well", "ill")

    def network(self, passed: float) -> BayesianNetwork:
        """Return the household at one probability; every entry of its tables is monotone in it."""
        return household(self.size, self.outside, passed)

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the household at both ends of the interval."""
        return [self.network(passed) for passed in dict.fromkeys(self.passed)]

    def several(self) -> bool:
        """Return whether the transmission probability is an interval."""
        return self.passed[0] < self.passed[1]

    def describe(self) -> str:
        """Return the model in one sentence."""
        return (
            f"household of {self.size} people, flu caught outside with probability "
            f"{self.outside:g} and passed on with {self.passed[0]:g} to {self.passed[1]:g}"
        )

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "kind": self.kind, "size": self.size, "outside": self.outside,
            "passed": list(self.passed),
        }  # fmt: skip

    @classmethod
    def from_law_dict(cls, description: Any) -> "Contagion":
        """Return the model described by `law_dict`."""
        read = fields(description, "a contagion", ("outside", "passed", "size"), ("kind",))
        passed = read["passed"]
        if not isinstance(passed, list | tuple) or len(passed) != 2:
            raise InvalidModel("'passed' must be two probabilities, the least and the largest")
        low, high = (number(end, "passed") for end in passed)
        return cls(whole(read["size"], "size"), number(read["outside"], "outside"), (low, high))


def connected(count: int, links: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Return the connected components of ``count`` nodes, in the order of their first nodes.

    >>> connected(4, [(3, 0)])
    [(0, 3), (1,), (2,)]
    """
    leader = list(range(count))

    def find(node: int) -> int:
        while leader[node] != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for one, two in links:
        leader[find(one)] = find(two)
    parts: dict[int, list[int]] = {}
    for node in range(count):
        parts.setdefault(find(node), []).append(node)
    return [tuple(part) for part in parts.values()]
