"""Markov quilts and Wasserstein distances of small networks, by enumeration.

A quilt Q of record i separates i from what is remote; N, with i in it, is near. The answer of a
tau-DP algorithm says at most |N| tau + e(Q | i), with e the max-influence (Theorem 4.4 of
[wang2016]; docs, theory: networks).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Literal

import numpy as np

from undertow.bounds.channels.quilts import Score
from undertow.bounds.channels.wasserstein import w_infinity
from undertow.bounds.graphs import dependent, moral_neighbours, reachable
from undertow.bounds.networks.counts import VANISHING, AnswerLattice, count_tally, exact_law, rarest
from undertow.errors import MethodRefused, NotSupported
from undertow.models.networks import BayesianNetwork, Node
from undertow.numerics import ROUNDOFF, Array, log_ratio
from undertow.queries import Count, State

__all__ = [
    "NetworkQuilt",
    "max_influence",
    "network_distance",
    "network_quilt",
]


QUILT_NODES = 3
"""Most nodes in a quilt that is tried."""

CASES = 4**9
"""Most ways to know some of the records for which conditional influences are computed."""

QUILT_RECORDS = 64
"""Most records of a network whose quilts are searched."""


@dataclass(frozen=True, slots=True)
class NetworkQuilt:
    """The worst record and its best quilt: the nodes of it, and how many records are near."""

    value: float
    record: int
    nodes: tuple[Node, ...]
    near: int
    influence: float


def network_quilt(
    network: BayesianNetwork,
    against: Literal["any", "ignorant"],
    score: Score,
    pairs: Sequence[tuple[State, State]] | None = None,
    records: Sequence[int] | None = None,
) -> NetworkQuilt:
    """Return the worst record of a network and its best quilt of at most `QUILT_NODES` nodes.

    ``score`` weighs records near against influence, as for chains. Influences are rounded up.
    Refuses with `MethodRefused` networks that are too large.

    >>> from undertow.bounds.channels.quilts import Bound
    >>> kernel = [[.9, .1], [.3, .7]]
    >>> path = BayesianNetwork([(0, 1), (1, 2)], {0: [.75, .25], 1: kernel, 2: kernel})
    >>> quilt = network_quilt(path, "ignorant", Bound(2.0))
    >>> round(quilt.value, 6), quilt.record, quilt.nodes
    (5.89182, 1, (0, 2))
    """
    if network.length > QUILT_RECORDS:
        raise MethodRefused(
            f"'quilt' looks through networks of at most {QUILT_RECORDS} records, found "
            f"{network.length}; use method='exchange'"
        )
    if rarest(network) < VANISHING:
        raise MethodRefused(
            "'quilt' sums over all records, and some combination of values is too improbable for "
            "that; use method='exact' or 'group'"
        )
    wanted = _pairs(network, pairs)
    places = network.places
    targets = places if records is None else [places[record] for record in records]
    worst = NetworkQuilt(0.0, 0, (), 0, 0.0)
    for target in targets:
        best = _best_quilt(network, target, against, score, wanted)
        placed = replace(best, record=places.index(target))
        worst = max(worst, placed, key=lambda quilt: quilt.value)
    return worst


def _best_quilt(
    network: BayesianNetwork,
    target: int,
    against: Literal["any", "ignorant"],
    score: Score,
    pairs: Sequence[tuple[int, int]],
) -> NetworkQuilt:
    """Return the best quilt of one record."""
    law = network.law(network.nodes[target])
    pairs = [(x, y) for x, y in pairs if law[x] > 0 and law[y] > 0]
    if not pairs:
        return NetworkQuilt(0.0, 0, (), 0, 0.0)
    best = NetworkQuilt(math.inf, 0, (), 0, math.inf)
    table = _odds(network, target) if against == "any" else None
    for quilt, near in _quilts(network, target, against):
        if float(score.value(np.array(float(near)), np.array(0.0))) >= best.value:
            continue
        if not quilt:
            influence = 0.0
        elif table is not None:
            influence = _conditional(network, table, target, quilt, pairs)
        else:
            influence = max_influence(network, target, quilt, pairs)
        value = float(score.value(np.array(float(near)), np.array(influence)))
        if value < best.value:
            nodes = tuple(network.nodes[place] for place in quilt)
            best = NetworkQuilt(value, 0, nodes, near, influence)
    return best


def _quilts(
    network: BayesianNetwork, target: int, against: Literal["any", "ignorant"]
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the quilts of a target with the number of records near it."""
    around, records = moral_neighbours(network), {*network.places}
    others = sorted(reachable(around, target, ()) & records)
    for number in range(QUILT_NODES + 1):
        for quilt in combinations(others, number):
            if against == "any":
                inside = reachable(around, target, quilt)
            else:
                inside = dependent(network, target, quilt)
            yield quilt, 1 + len(inside & records - {*quilt})


def max_influence(
    network: BayesianNetwork,
    target: int,
    quilt: Sequence[int],
    pairs: Sequence[tuple[int, int]] | None = None,
) -> float:
    """Return the largest ln Pr[quilt | x] / Pr[quilt | x'], Definition 4.2 of [wang2016].

    Nodes are places, pairs are of states; rounded up.

    >>> pair = BayesianNetwork([(0, 1)], {0: [.5, .5], 1: [[.9, .1], [.3, .7]]})
    >>> round(max_influence(pair, 0, [1]), 6)
    1.94591
    """
    names = [network.nodes[place] for place in (target, *quilt)]
    # (states of the target, values of the quilt)
    joint = network.law(names).reshape(network.size, -1)
    own = joint.sum(axis=1)  # (states,): Pr[x]
    listed = _pairs(network, None) if pairs is None else pairs
    top = 0.0
    for x, other in listed:
        if own[x] > 0 and own[other] > 0:
            ratio = log_ratio(joint[x], joint[other]) - math.log(own[x] / own[other])
            top = max(top, float(np.nanmax(ratio)))
    return top + _pad(network)


def _odds(network: BayesianNetwork, target: int) -> Array:
    """Return ln Pr[x, known] for every value of the target and every way to know other records.

    The first axis is the target; each other record has one more state, unknown.
    """
    if (network.size + 1) ** (network.length - 1) > CASES:
        raise MethodRefused(
            f"'quilt' against all attackers goes through every known set, too many for "
            f"{network.length} records; say against='ignorant', or use method='exchange'"
        )
    names = [network.nodes[target], *(n for n in network.observed if n != network.nodes[target])]
    table = network.law(names)  # (target, other records ...)
    for axis in range(1, table.ndim):
        # one more state: unknown
        table = np.concatenate([table, table.sum(axis=axis, keepdims=True)], axis=axis)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(table))


def _conditional(
    network: BayesianNetwork,
    table: Array,
    target: int,
    quilt: Sequence[int],
    pairs: Sequence[tuple[int, int]],
) -> float:
    """Return the largest influence on a quilt, given whatever else is known; rounded up."""
    others = [n for n in network.observed if n != network.nodes[target]]
    axes = [others.index(network.nodes[place]) for place in quilt]
    top = 0.0
    for x, other in pairs:
        with np.errstate(invalid="ignore"):
            odds = table[x] - table[other]  # NaN where neither is possible
        # (states + 1, ...): one axis per other record
        both = np.isfinite(table[x]) & np.isfinite(table[other])
        # the largest odds once the quilt is known, in agreement with what was known of it
        known = np.where(np.isnan(odds), -np.inf, odds)
        for axis in axes:
            # this record of the quilt known
            values = np.take(known, range(network.size), axis=axis)
            known = np.concatenate([values, values.max(axis=axis, keepdims=True)], axis=axis)
        gain = known[both] - odds[both]  # the quilt's influence, given what is known
        if gain.size:
            top = max(top, float(gain.max()))
    return top + _pad(network)


def _pairs(
    network: BayesianNetwork, pairs: Sequence[tuple[State, State]] | None
) -> list[tuple[int, int]]:
    if pairs is None:
        return list(permutations(range(network.size), 2))
    named = [(network.index(x), network.index(y)) for x, y in pairs]
    return list(dict.fromkeys([*named, *((y, x) for x, y in named)]))


def _pad(network: BayesianNetwork) -> float:
    """Return the rounding error of the log of a ratio of two sums of products."""
    return 4.0 * ROUNDOFF * (len(network.nodes) + 2) * (network.size + 4) + 4.0 * ROUNDOFF * 700


COMPARED_RECORDS = 24
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
        if part.length > COMPARED_RECORDS:
            raise MethodRefused(
                f"'wasserstein' compares laws of at most {COMPARED_RECORDS} records that depend "
                f"on each other, found {part.length}; use method='exact' or 'exchange'"
            )
        tally = count_tally(marks, part.length)
        for node in targets:
            worst = max(worst, _target_distance(part, part.numbers[node], marks, tally, named))
    return worst


def _target_distance(
    part: BayesianNetwork, target: int, marks: Sequence[bool], tally: AnswerLattice,
    pairs: set[frozenset[int]] | None,
) -> int:  # fmt: skip
    """Return the distance of the answer's laws for one record."""
    try:
        laws = exact_law(part, tally, target)
    except NotSupported as error:
        raise MethodRefused(f"'wasserstein' does not apply: {error}; use method='exact'") from error
    worst = 0
    for pair in combinations(range(len(laws)), 2):
        if pairs is not None and frozenset(pair) not in pairs:
            continue
        one, two = (
            {float(count + marks[state]): mass for count, mass in enumerate(laws[state]) if mass}
            for state in pair
        )
        if one and two:
            worst = max(worst, int(w_infinity(one, two)))
    return worst
