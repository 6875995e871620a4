"""Attractive laws (log-supermodular, MTP2 [karlin1980]): chains, hidden chains and networks.

The *margin* is the least second difference of ln p in two records given all others; a law is
attractive if it is at least 0. Logarithms are rounded down, and margins near 0 are decided in exact
arithmetic. Theorems and the check are in docs/theory-memory.md, "Attractive laws".
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import Any

import numpy as np

from undertow.errors import InvalidInput
from undertow.models.base import Model
from undertow.numerics import Array, log_error

__all__ = [
    "Attractiveness",
    "attractive_order",
    "hidden_margin",
    "is_attractive",
    "kernel_margin",
    "network_margin",
    "order_margin",
    "total_margin",
]

MOST_CELLS = 2**12
"""Cells of the joint table of two records and their neighbours that are looked at one by one; past
them each conditional table must be attractive by itself (cost)."""

MOST_ORDER = 8
"""The longest memory that is checked (cost 4^order)."""

MOST_HIDDEN = 4
"""Hidden states for each symbol whose orders are all tried (cost: the square of their
factorial)."""


@dataclass(frozen=True, slots=True)
class Attractiveness:
    """Attractiveness (MTP2) of a law: true only if it is certain, with its margin.

    ``margin`` is the least second difference, rounded down; at least 0 if the law is attractive.
    ``alternating`` is that of the same law with every second record relabelled, where that makes
    sense: chains of two states. ``reason`` says what stands in the way.

    >>> bool(Attractiveness(0.25)), bool(Attractiveness(-0.1, reason="lag 2"))
    (True, False)
    """

    margin: float
    alternating: float | None = None
    reason: str = ""

    def __bool__(self) -> bool:
        """Return whether the law is certainly attractive."""
        return self.margin >= 0

    @property
    def relabelled(self) -> bool:
        """Whether the law is certainly attractive once every second record is relabelled."""
        return self.alternating is not None and self.alternating >= 0


def is_attractive(model: Model) -> Attractiveness:
    """Return whether a model is attractive (its law is MTP2), and by what margin.

    For chains of order one (states in their order) and two (two states), hidden chains, trees and
    networks; of other models nothing is known, and the answer is no. Chains of order two: exact, by
    the sums of two neighbouring conditional tables. Hidden chains: a sufficient condition, that
    some order of the hidden states makes their steps and symbols totally positive. Networks: exact
    for small tables, and otherwise that each of them is attractive.

    >>> from undertow import MarkovChain
    >>> from undertow.models import SecondOrderChain
    >>> verdict = is_attractive(MarkovChain([[.9, .1], [.3, .7]]))
    >>> bool(verdict), round(verdict.margin, 4)
    (True, 3.0445)
    >>> breathing = SecondOrderChain([[[.72, .28], [.42, .58]], [[.9, .1], [.36, .64]]])
    >>> bool(is_attractive(breathing)), round(is_attractive(breathing).margin, 2)
    (False, -1.25)
    """
    if not isinstance(model, Model):
        raise InvalidInput(f"a model is required, found {type(model).__name__}")
    margins: dict[str, Callable[[Any], Attractiveness]] = {
        "markov-chain": _chain,
        "second-order-chain": _second_order,
        "hidden-chain": _hidden,
        "network": _network,
    }
    if model.kind in margins:
        return margins[model.kind](model)
    return Attractiveness(-math.inf, reason=f"not known for {model.describe()}")


_ZERO_PROBABILITY = (
    "a transition or a table has a probability of 0, and the theorem is about positive laws"
)


def _chain(chain: Any) -> Attractiveness:
    steps = chain.transition.reshape(-1, chain.size, chain.size)  # (steps, from, to)
    if chain.size < 2:
        return Attractiveness(-math.inf, reason="the records have one value")
    if not (steps > 0).all():
        return Attractiveness(-math.inf, reason=_ZERO_PROBABILITY)
    margin = min(kernel_margin(step) for step in steps)
    other = None
    if chain.size == 2:  # every second record relabelled: rows, or columns, change places
        other = min(kernel_margin(step[:, ::-1]) for step in steps)
    reason = "" if margin >= 0 else "a step makes a change likelier than staying would"
    return Attractiveness(margin, other, reason)


def _second_order(chain: Any) -> Attractiveness:
    if chain.size != 2:
        return Attractiveness(
            -math.inf, reason=f"order two is checked for two states, found {chain.size}"
        )
    if not (chain.transition > 0).all():
        return Attractiveness(-math.inf, reason=_ZERO_PROBABILITY)
    margin, other = order_margin(chain.transition), order_margin(chain.transition, True)
    reason = "" if margin >= 0 else "given some context two records push each other apart"
    return Attractiveness(margin, other, reason)


def _hidden(chain: Any) -> Attractiveness:
    symbols = [chain.states.index(symbol) for symbol in chain.symbols]
    if len(chain.states) != 2:
        return Attractiveness(-math.inf, reason="hidden chains are checked for two symbols")
    table = chain.order_table()
    if table is not None:  # hidden states are runs of records
        margin = order_margin(table)
        reason = "" if margin >= 0 else "given some context two records push each other apart"
        return Attractiveness(margin, order_margin(table, True), reason)
    margin = hidden_margin(chain.transition, symbols)
    reason = "" if margin >= 0 else "no order of the hidden states is totally positive"
    return Attractiveness(margin, None, reason)


def _network(network: Any) -> Attractiveness:
    if not all((table > 0).all() for table in network.tables):
        return Attractiveness(-math.inf, reason=_ZERO_PROBABILITY)
    scopes = [(*parents, place) for place, parents in enumerate(network.parents)]
    margin = network_margin(network.tables, scopes)
    reason = "" if margin >= 0 else "two records push each other apart, given some values of others"
    return Attractiveness(margin, None, reason)


def _signed(
    plus: Sequence[float], minus: Sequence[float], logs: Callable[[float], float] = math.log
) -> float:
    """Return ln of the product of some numbers over that of others, rounded down, its sign exact.

    >>> _signed([.5, .5], [.25, 1.0])
    0.0
    """
    terms = [logs(value) for value in plus] + [-logs(value) for value in minus]
    total = math.fsum(terms)
    error = log_error(4 * len(terms), 1 + max(map(abs, terms)))
    if abs(total) > 2 * error:
        return total - error
    numbers = [math.prod(map(Fraction, side)) for side in (plus, minus)]
    if numbers[0] < numbers[1]:
        return min(total - error, -5e-324)
    return max(total - error, 0.0)


def kernel_margin(kernel: Array) -> float:
    """Return the least second difference of ln kernel over neighbouring rows and columns.

    A chain is attractive if every step is: its second differences are those of the steps. Cost
    O(k^2).

    >>> round(kernel_margin(np.array([[.9, .1], [.3, .7]])), 6)
    3.044522
    """
    rows, columns = kernel.shape
    return min(
        _signed(
            [float(kernel[x, y]), float(kernel[x + 1, y + 1])],
            [float(kernel[x, y + 1]), float(kernel[x + 1, y])],
        )
        for x in range(rows - 1)
        for y in range(columns - 1)
    )


def order_margin(table: Array, alternating: bool = False) -> float:
    """Return the margin of a stationary chain of order m and two states, from its table.

    ``table`` has shape (2,) * (m + 1): contexts oldest first, the next record last. For all lags
    d = 1 .. m, with j = i + d, and all contexts, the sums over t = j .. i + m of the second
    difference of ln p(x_t | the m records before) in records i and j. Conditioned on m records
    beyond either end of a series all second differences are such sums; those records are sent
    to infinity, and laws of fewer records of an attractive law are attractive. With
    ``alternating`` every second record is relabelled. Cost 4^m.

    >>> round(order_margin(np.array([[.9, .1], [.3, .7]])), 6)
    3.044522
    """
    order = table.ndim - 1
    if order > MOST_ORDER:
        return -math.inf
    least = math.inf
    for lag in range(1, order + 1):
        # records i - m + lag .. i + m: those before i + lag that t = j sees, and up to the last t
        first, last = lag - order, order
        others = [place for place in range(first, last + 1) if place not in (0, lag)]
        for context in product((0, 1), repeat=len(others)):
            values = dict(zip(others, context, strict=True))
            for turn in (0, 1) if alternating else (0,):
                least = min(least, _difference(table, lag, values, turn if alternating else None))
    return least


def _difference(table: Array, lag: int, values: dict[int, int], turn: int | None) -> float:
    """Return one second difference in the records 0 and ``lag``, given the values of others.

    ``turn`` is the parity of the records that are relabelled, None for none.
    """
    order = table.ndim - 1
    plus: list[float] = []
    minus: list[float] = []
    for x, y in product((0, 1), repeat=2):
        record = {**values, 0: x, lag: y}
        if turn is not None:
            record = {place: value ^ ((place + turn) % 2) for place, value in record.items()}
        side = plus if x == y else minus
        for t in range(lag, order + 1):
            side.append(float(table[tuple(record[place] for place in range(t - order, t + 1))]))
    return _signed(plus, minus)


def hidden_margin(transition: Array, symbols: Sequence[int]) -> float:
    """Return a margin of a hidden chain of two symbols, -inf where none is found.

    Enough that in some order of the hidden states, those of symbol 0 before those of symbol 1, all
    2 x 2 minors of the transition matrix are at least 0: then hidden states and records together
    are attractive, and laws of some records of an attractive law are. Zeros are admitted where
    every hidden state can be followed by either symbol, so that every series of records can occur.
    The margin is the least second difference of the steps between neighbouring hidden states, 0
    where a zero stands in the way. Cost: all orders within each symbol, up to four states each.

    >>> calm, busy = [.6, .3, .07, .03], [.3, .4, .2, .1]
    >>> steps = np.array([calm, busy, [.1, .2, .4, .3], [.03, .07, .3, .6]])
    >>> round(hidden_margin(steps, [0, 0, 1, 1]), 4)
    0.1542
    """
    marks = np.asarray(symbols)
    parts = [np.flatnonzero(marks == symbol).tolist() for symbol in (0, 1)]
    if not all(parts) or max(map(len, parts)) > MOST_HIDDEN:
        return -math.inf
    reach = np.stack([transition[:, part].sum(axis=1) for part in parts])
    if not (reach > 0).all():
        return -math.inf
    best = -math.inf
    for low, high in product(*(permutations(part) for part in parts)):
        order = [*low, *high]
        best = max(best, total_margin(transition[np.ix_(order, order)]))
    return best


def total_margin(matrix: Array) -> float:
    """Return the least second difference over all pairs of rows and columns; zeros are exact."""
    if (matrix > 0).all():
        return kernel_margin(matrix)
    size = range(len(matrix))
    for (x, z), (y, w) in product(combinations(size, 2), repeat=2):
        straight = Fraction(float(matrix[x, y])) * Fraction(float(matrix[z, w]))
        if straight < Fraction(float(matrix[x, w])) * Fraction(float(matrix[z, y])):
            return -math.inf
    return 0.0


def network_margin(tables: Sequence[Array], scopes: Sequence[tuple[int, ...]]) -> float:
    """Return the margin of a product of positive tables, each over the variables of its scope.

    The second difference of two variables is the sum of those of the tables that hold both; over
    all values of the other variables of these tables, or where these are too many, the sum of the
    least of each table. inf where no table holds two variables: they are independent.

    >>> step = np.array([[.9, .1], [.3, .7]])
    >>> round(network_margin([np.array([.5, .5]), step], [(0,), (0, 1)]), 6)
    3.044522
    """
    held = _holding(tables, scopes)
    return min((_pair_margin(*held[pair], pair) for pair in held), default=math.inf)


def _holding(
    tables: Sequence[Array], scopes: Sequence[tuple[int, ...]]
) -> dict[tuple[int, int], tuple[list[Array], list[tuple[int, ...]]]]:
    """Return the tables, with their scopes, that hold each pair of variables."""
    held: dict[tuple[int, int], tuple[list[Array], list[tuple[int, ...]]]] = {}
    for table, scope in zip(tables, scopes, strict=True):
        for pair in combinations(sorted(scope), 2):
            both = held.setdefault(pair, ([], []))
            both[0].append(table)
            both[1].append(scope)
    return held


def _pair_margin(
    tables: Sequence[Array], scopes: Sequence[tuple[int, ...]], pair: tuple[int, int]
) -> float:
    """Return the least second difference of a pair, from the tables that hold both."""
    held = list(zip(tables, scopes, strict=True))
    sizes = {v: n for table, scope in held for v, n in zip(scope, table.shape, strict=True)}
    if math.prod(sizes.values()) > MOST_CELLS:
        places = [tuple(scope.index(variable) for variable in pair) for scope in scopes]
        return sum(map(_table_margin, tables, places))
    others = [variable for variable in sizes if variable not in pair]
    least = math.inf
    steps = product(*(range(sizes[variable] - 1) for variable in pair))
    for low in steps:
        for context in product(*(range(sizes[variable]) for variable in others)):
            values = dict(zip(others, context, strict=True))
            sides: tuple[list[float], list[float]] = ([], [])
            for up in product((0, 1), repeat=2):
                values.update({v: at + more for v, at, more in zip(pair, low, up, strict=True)})
                sides[up[0] ^ up[1]].extend(
                    float(table[tuple(values[v] for v in scope)]) for table, scope in held
                )
            least = min(least, _signed(*sides))
    return least


def _table_margin(table: Array, axes: tuple[int, ...]) -> float:
    """Return the least second difference of one table in two of its axes, its sign exact."""
    moved = np.moveaxis(table, axes, (0, 1))
    corners = [moved[1:, 1:], moved[:-1, :-1], moved[1:, :-1], moved[:-1, 1:]]
    logs = [np.log(corner) for corner in corners]
    second = logs[0] + logs[1] - logs[2] - logs[3]
    error = log_error(16, 1 + max(float(np.abs(one).max()) for one in logs))
    least = float(second.min()) - error
    if abs(least) > 4 * error:
        return least
    close = np.stack([corner[second <= 4 * error] for corner in corners], axis=1)  # (cells, 4)
    exact = min(_signed(cell[:2], cell[2:]) for cell in np.unique(close, axis=0).tolist())
    return max(least, 0.0) if exact >= 0 else exact


def attractive_order(
    tables: Sequence[Array], scopes: Sequence[tuple[int, ...]], variables: int
) -> tuple[bool, ...] | None:
    """Return the variables whose states to reverse so that a positive product is attractive.

    Reversing the order of one variable's values turns the sign of all its second differences, so
    every pair asks for the same order of both, or for opposite ones; a walk through the pairs
    finds out whether all can be had at once. All False where the law is attractive as it is, None
    where no choice is. Records of two states are relabelled so.

    >>> step = np.array([[.2, .8], [.7, .3]])
    >>> attractive_order([np.array([.5, .5]), step, step], [(0,), (0, 1), (1, 2)], 3)
    (False, True, False)
    """
    signs: dict[int, list[tuple[int, bool]]] = {variable: [] for variable in range(variables)}
    for pair, (some, theirs) in _holding(tables, scopes).items():
        turned = [np.flip(t, s.index(pair[0])) for t, s in zip(some, theirs, strict=True)]
        fits = [_pair_margin(each, theirs, pair) >= 0 for each in (some, turned)]
        if not any(fits):
            return None
        if not all(fits):  # a pair that fits both ways asks for nothing
            for one, other in (pair, pair[::-1]):
                signs[one].append((other, fits[1]))
    flips: dict[int, bool] = {}
    for root in range(variables):
        stack = [] if root in flips else [root]
        flips.setdefault(root, False)
        while stack:
            one = stack.pop()
            for other, apart in signs[one]:
                if other not in flips:
                    flips[other] = flips[one] ^ apart
                    stack.append(other)
                elif flips[other] != flips[one] ^ apart:
                    return None
    return tuple(flips[variable] for variable in range(variables))
