"""The Wasserstein distance of a count on a network, in exact arithmetic."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

from undertow.bounds.networks.laws import exact_law
from undertow.bounds.networks.tally import AnswerLattice, count_tally
from undertow.errors import MethodRefused, NotSupported
from undertow.models.network import BayesianNetwork
from undertow.queries import Count, State

__all__ = ["network_distance", "w_infinity"]

RECORDS = 24
"""Most records of one part of a network whose laws are computed as fractions (cost)."""


def network_distance(
    network: BayesianNetwork,
    query: Count,
    pairs: Sequence[tuple[State, State]] | None = None,
    records: Sequence[int] | None = None,
) -> int:
    """Return W: two values of a record move the count by at most W under a best joint drawing.

    The largest W-infinity distance between the laws of the count given either value, over
    ``records`` and ``pairs`` (section 3 of [wang2016]). Connected components of the network
    move apart from each other: only the target's own part matters.

    >>> twins = BayesianNetwork([("a", "b")], {"a": [.5, .5], "b": [[1, 0], [0, 1]]})
    >>> network_distance(twins, Count(1))
    2
    """
    counted = [network.index(state) for state in query.states]
    marks = [state in counted for state in range(network.size)]
    named = None if pairs is None else {
        frozenset((network.index(x), network.index(y))) for x, y in pairs
    }  # fmt: skip
    wanted = None if records is None else {network.observed[record] for record in records}
    worst = 0
    seen: set[object] = set()
    for part in network.parts():
        targets = [node for node in part.observed if wanted is None or node in wanted]
        shape = part.shape(), tuple(part.numbers[node] for node in targets)
        if not targets or shape in seen:
            continue
        seen.add(shape)
        if part.length > RECORDS:
            raise MethodRefused(
                f"'wasserstein' compares laws of at most {RECORDS} records that depend on each "
                f"other, found {part.length}; use method='exact' or 'exchange'"
            )
        tally = count_tally(marks, part.length)
        for node in targets:
            worst = max(worst, _of_target(part, part.numbers[node], marks, tally, named))
    return worst


def _of_target(
    part: BayesianNetwork, target: int, marks: Sequence[bool], tally: AnswerLattice,
    pairs: set[frozenset[int]] | None,
) -> int:  # fmt: skip
    try:
        laws = exact_law(part, tally, target)
    except NotSupported as error:
        raise MethodRefused(f"'wasserstein' does not apply: {error}; use method='exact'") from error
    worst = 0
    for pair in combinations(range(len(laws)), 2):
        if pairs is not None and frozenset(pair) not in pairs:
            continue
        one, two = (
            {count + marks[state]: mass for count, mass in enumerate(laws[state]) if mass}
            for state in pair
        )
        if one and two:
            worst = max(worst, w_infinity(one, two))
    return worst


def w_infinity(one: dict[int, Fraction], two: dict[int, Fraction]) -> int:
    """Return W-infinity of two laws on the line, each up to a factor: match mass in order.

    >>> w_infinity({0: Fraction(1)}, {0: Fraction(1, 2), 3: Fraction(1, 2)})
    3
    """
    # cross-multiplied: both laws then have the same mass
    totals = sum(one.values()), sum(two.values())
    left = [(value, mass * totals[1]) for value, mass in sorted(one.items())]
    right = [(value, mass * totals[0]) for value, mass in sorted(two.items())]
    worst = i = j = 0
    while i < len(left) and j < len(right):
        (a, mass), (b, other) = left[i], right[j]
        worst = max(worst, abs(a - b))
        moved = min(mass, other)
        left[i], right[j] = (a, mass - moved), (b, other - moved)
        i, j = i + (mass == moved), j + (other == moved)
    return worst
