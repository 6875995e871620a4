"""The Wasserstein distance of any scalar query on a small chain, by enumeration of all series.

Probabilities are exact rationals (the model's floating-point entries taken as they are), so a tie
is a tie and nothing is rounded but the answers themselves.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from undertow.bounds.chains.quilt import chain_pairs
from undertow.errors import InvalidInput, MethodRefused
from undertow.models.markov import MarkovChain
from undertow.queries import AnyQuery, Count, Linear, Mean, Query, State, Sum

__all__ = ["MOST_SERIES", "enumerable", "query_distance"]

MOST_SERIES = 16_384
"""Most series that are enumerated."""

_NUMBERS = (
    "'wasserstein' is a distance between single numbers, and this query answers something else; "
    "use method='quilt' or 'exchange'"
)


def enumerable(chain: MarkovChain) -> bool:
    """Return whether a chain has few enough series.

    >>> enumerable(MarkovChain([[.9, .1], [.3, .7]], length=14))
    True
    """
    return chain.length is not None and chain.size**chain.length <= MOST_SERIES


def query_distance(
    chain: MarkovChain,
    query: AnyQuery,
    pairs: Sequence[tuple[State, State]] | None = None,
    records: Sequence[int] | None = None,
) -> float:
    """Return W: two values of a record move the answer by at most W under a best joint drawing.

    The largest, over ``records`` and ``pairs``, W-infinity distance between the laws of the answer
    given either value, as in section 3 of [wang2016]. Sums, means and linear queries take
    the numbers of the states. Cost O(n k^n).

    >>> chain = MarkovChain([[.9, .1], [.3, .7]], length=4)
    >>> query_distance(chain, Query(max)), query_distance(chain, Query(sum))
    (1.0, 4.0)
    """
    if query.per_state or query.selects:
        raise MethodRefused(_NUMBERS)
    query = chain.valued(query)
    length = chain.length
    if length is None or not enumerable(chain):
        raise MethodRefused(
            f"'wasserstein' for {type(query).__name__} enumerates all series, at most "
            f"{MOST_SERIES}; give the chain a length of at most "
            f"{int(math.log(MOST_SERIES) / math.log(chain.size))}, or use method='exchange'"
        )
    indexed = chain_pairs(chain, pairs)
    places = range(length) if records is None else records
    laws: dict[tuple[int, int], dict[float, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for series, probability in _series(chain, length):
        answer = _answer(query, [chain.states[state] for state in series])
        for record in places:
            laws[record, series[record]][answer] += probability
    worst = 0.0
    for record in places:
        for x, other in indexed.tolist():
            if x < other and (record, x) in laws and (record, other) in laws:
                worst = max(worst, _distance(laws[record, x], laws[record, other]))
    return worst


def _series(chain: MarkovChain, length: int) -> list[tuple[tuple[int, ...], Fraction]]:
    """Return every possible series with its probability, up to rounding of the model."""
    steps = [
        [[Fraction(float(entry)) for entry in row] for row in chain.step(record)]
        for record in range(length - 1)
    ]
    found: list[tuple[tuple[int, ...], Fraction]]
    found = [((state,), Fraction(float(p))) for state, p in enumerate(chain.initial) if p > 0]
    for step in steps:
        found = [
            ((*series, state), probability * step[series[-1]][state])
            for (series, probability), state in product(found, range(chain.size))
            if step[series[-1]][state]
        ]
    return found


def _distance(first: dict[float, Fraction], second: dict[float, Fraction]) -> float:
    """Return W-infinity of two laws on the line, each up to a factor: match mass in order."""
    totals = sum(first.values()), sum(second.values())
    left = [(v, m * totals[1]) for v, m in sorted(first.items())]
    right = [(v, m * totals[0]) for v, m in sorted(second.items())]
    worst = 0.0
    while left and right:
        (a, mass), (b, other) = left[0], right[0]
        worst = max(worst, abs(a - b))
        moved = min(mass, other)
        left[0], right[0] = (a, mass - moved), (b, other - moved)
        left, right = left[mass == moved :], right[other == moved :]
    return worst


def _answer(query: AnyQuery, series: list[State]) -> float:
    match query:
        case Count():
            return float(query.evaluate(series, ()))
        case Sum() | Mean():
            return float(sum(_added(query, series)))
        case Linear() if query.weights.ndim == 1:
            values = _numbers(query, series)
            return math.fsum(w * v for w, v in zip(query.weights, values, strict=True))
        case Query():
            return _scalar(query.function(series))
        case _:
            raise MethodRefused(_NUMBERS)


def _added(query: Sum | Mean, series: list[State]) -> tuple[Fraction, ...]:
    """Return what the records of a series add, as they are released: rounded to the lattice."""
    found = query.added(series, len(series))
    if found is None:
        raise MethodRefused(_STATES)
    return found


def _numbers(query: Linear, series: list[State]) -> list[float]:
    values = dict(query.values or ())
    if not values:
        raise MethodRefused(_STATES)
    return [values[state] for state in series]


_STATES = (
    "'wasserstein' for sums enumerates the numbers of the states, and the query gives none; say "
    "values={state: number}"
)


def _scalar(answer: Any) -> float:
    try:
        number = float(answer)
    except (TypeError, ValueError) as error:
        raise MethodRefused(_NUMBERS) from error
    if not math.isfinite(number):
        raise InvalidInput("the query must answer a finite number for every series")
    return number
