"""Attractive networks of two states: exact for one adversary by one elimination.

The theorem of `undertow.bounds.memory.attractive`, on any graph: N(u) for all values of the known
records is one sum of a product of tables, with the target and the known records left. To the
ignorant every record is a target in turn; to attackers who know any records of a small network
every record is known to be 0, known to be 1, or weighed and summed. Nodes whose values have to be
read in reverse for the law to be attractive (`attractive_order`) are weighed in reverse too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.graphs import attack_on
from undertow.bounds.memory.attractive import (
    DEEPEST,
    FAINT,
    MOST_CASES,
    Sums,
    best_case,
    check_cases,
)
from undertow.certificate import Leakage, Witness
from undertow.errors import NotSupported
from undertow.models.attractive import attractive_order
from undertow.models.networks import BayesianNetwork, Factor, eliminate
from undertow.numerics import ROUNDOFF, Array, up

__all__ = [
    "MOST_RECORDS",
    "Ratios",
    "WorstNetworkCase",
    "attractive_leakage",
    "network_finding",
    "node_orders",
]


MOST_RECORDS = 10
"""Records of a network whose known sets and values are all gone through (cost n 3^n)."""

MOST_TARGETS = 96
"""Records that are targets in turn where nothing is known (cost: an elimination for each)."""

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Ratios:
    """Log-limits of one record: towards state 0, and towards 1.

    ``upper`` bounds it, ``attained`` is what some likelihood has in all records at once.
    """

    upper: Pair
    attained: Pair

    @classmethod
    def level(cls, upper: float, attained: float | None = None) -> "Ratios":
        """Return those of a DP level."""
        low = upper if attained is None else attained
        return cls((upper, upper), (low, low))


@dataclass(frozen=True, slots=True)
class WorstNetworkCase:
    """The worst case: its two ends, the target and its two values, and what is known.

    Nodes are places; ``known`` pairs them with values. ``rewarded`` is the value of each unknown
    record that the worst likelihood rewards.
    """

    lower: float
    upper: float
    target: int
    pair: tuple[int, int]
    known: tuple[tuple[int, int], ...]
    rewarded: tuple[tuple[int, int], ...]

    def witness(self, network: BayesianNetwork) -> Witness:
        """Return the attack in the network's own words."""
        sets = {place: (value,) for place, value in self.rewarded}
        return attack_on(network, self.target, self.pair, dict(self.known), sets)

    @property
    def alike(self) -> bool:
        """Whether every record is rewarded for the same value, as by far answers of a count."""
        return len({value for _, value in self.rewarded}) < 2


def attractive_leakage(
    ratios: Ratios, network: BayesianNetwork, against: Against
) -> tuple[Leakage, WorstNetworkCase] | None:
    """Return the leakage of a connected network of two states, None where it is not known so.

    >>> cpds = {0: [.5, .5], 1: [.5, .5], 2: [[[.9, .1], [.6, .4]], [[.6, .4], [.2, .8]]]}
    >>> flu = BayesianNetwork([(0, 2), (1, 2)], cpds)
    >>> attractive_leakage(Ratios.level(1.0), flu, "ignorant") is None  # given 2 they push apart
    True
    >>> path = BayesianNetwork([(0, 1)], {0: [.5, .5], 1: [[.9, .1], [.2, .8]]})
    >>> leak, case = attractive_leakage(Ratios.level(1.0), path, Adversary(0))
    >>> round(leak.lower, 6), round(leak.upper, 6), case.pair
    (1.706275, 1.706275, (1, 0))
    """
    try:
        case = network_finding(network, ratios, against)
    except NotSupported:
        return None
    if case is None:
        return None
    # all records at once: sharper where the level is so small that rounding shows
    upper = min(case.upper, up(network.length * max(ratios.upper)))
    leak = Leakage(
        min(case.lower, upper), upper, "exchange", against, case.witness(network),
        assumptions=(
            "the records follow the stated network",
            "the law of the records is attractive, which was checked",
        ),
        citation="attractive laws (docs, theory-memory)",
    )  # fmt: skip
    return leak, case


def network_finding(
    network: BayesianNetwork, ratios: Ratios, against: Against
) -> WorstNetworkCase | None:
    """Return the worst case over targets, known values and both directions, None where unknown.

    Refuses with `NotSupported` what is too large or too rare. Known records of other connected
    components are left at their first state: they say nothing. Cost: some eliminations.
    """
    if network.size != 2 or max(ratios.upper) > DEEPEST or against == "informed":
        return None
    most = {"any": MOST_RECORDS, "ignorant": MOST_TARGETS}
    if isinstance(against, str) and network.length > most[against]:
        raise NotSupported(f"{network.length} records are too many to go through")
    turned = node_orders(network)
    if turned is None:
        return None
    work = _Work(network, ratios, turned)
    if isinstance(against, Adversary):
        places = network.places
        known = [places[record] for record in against.known]
        return work.fixed(places[against.target], known)
    if against == "any":
        return work.any()
    return _worst([work.fixed(place, ()) for place in network.places])


@lru_cache(maxsize=64)
def node_orders(network: BayesianNetwork) -> tuple[bool, ...] | None:
    """Return which nodes are to be read in reverse for a network to be attractive, None if none.

    Of positive tables only.
    """
    if not all((table > 0).all() for table in network.tables):
        return None
    scopes = [(*parents, place) for place, parents in enumerate(network.parents)]
    return attractive_order(network.tables, scopes, len(network.nodes))


def _worst(cases: Sequence[WorstNetworkCase]) -> WorstNetworkCase:
    shown = max(cases, key=lambda each: each.lower)
    upper = max(each.upper for each in cases)
    return WorstNetworkCase(
        shown.lower, upper, shown.target, shown.pair, shown.known, shown.rewarded
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """A network, how far a record speaks, and which nodes are read in reverse."""

    network: BayesianNetwork
    ratios: Ratios
    turned: tuple[bool, ...]

    def fixed(self, target: int, known: Sequence[int]) -> WorstNetworkCase:
        """Return the worst case of one target and set of known records."""
        network = self.network
        inside = next(part for part in network.components() if target in part)
        near = [place for place in known if place in inside]
        check_cases(2, len(near))
        unknown = [place for place in network.places if place in inside and place not in near]
        plain = self._sums(inside, target, near, {})
        worst_cases = []
        for value in (1, 0):
            weights = {place: self._weights(place, target, value) for place in unknown}
            seen = self._sums(inside, target, near, weights)
            best = best_case(seen, plain, (value, 1 - value), (2,) * len(near))
            if best is None:
                raise NotSupported("a case of a positive law cannot be impossible")
            values = dict(zip(near, best.known, strict=True))
            facts = tuple((place, values.get(place, 0)) for place in known)
            worst_cases.append(
                self._case(best.value, best.error, target, value, facts, unknown)
            )  # fmt: skip
        return _worst(worst_cases)

    def any(self) -> WorstNetworkCase:
        """Return the worst case of all targets and known sets of a small network."""
        network = self.network
        places, records = network.places, network.length
        sizes = {place: table.shape[-1] for place, table in enumerate(network.tables)}
        law = eliminate(self._factors(range(len(sizes)), {}), list(places), sizes, floor=FAINT)
        error = self._error(range(len(sizes)), records)
        worst_cases = []
        for axis, target in enumerate(places):
            others = [place for place in places if place != target]
            plain = _opened(np.moveaxis(law, axis, 0), np.ones((records - 1, 2)))
            for value in (1, 0):
                rows = [self._weights(place, target, value) for place in others]
                seen = _opened(np.moveaxis(law, axis, 0), np.array(rows).reshape(-1, 2))
                own = self._weights(target, target, value)
                logs = np.log(seen) + np.log(own)[:, None]
                best = best_case(
                    Sums(logs, error), Sums(np.log(plain), error), (value, 1 - value),
                    (3,) * len(others),
                )  # fmt: skip
                if best is None:
                    raise NotSupported("a case of a positive law cannot be impossible")
                # of each other record: known to be 0, known to be 1, unknown
                cases = list(zip(others, best.known, strict=True))
                facts = tuple((place, code) for place, code in cases if code < 2)
                unknown = [target, *(place for place, code in cases if code == 2)]
                worst_cases.append(
                    self._case(best.value, best.error, target, value, facts, unknown)
                )
        return _worst(worst_cases)

    def _case(
        self, value: float, error: float, target: int, state: int,
        facts: tuple[tuple[int, int], ...], unknown: Sequence[int],
    ) -> WorstNetworkCase:  # fmt: skip
        # the value grows with every ratio, by at most as much: what is attained is so far below
        loose = max(u - a for u, a in zip(self.ratios.upper, self.ratios.attained, strict=True))
        lower = max(value - error - len(unknown) * loose * (1 + 1e-9), 0.0)
        rewarded = tuple((place, self._rewarded(place, target, state)) for place in unknown)
        pair = (state, 1 - state)
        return WorstNetworkCase(
            lower, max(value + error, 0.0), target, pair, tuple(sorted(facts)), rewarded
        )

    def _rewarded(self, place: int, target: int, state: int) -> int:
        """Return the value of a record that the worst likelihood rewards."""
        return state if self.turned[place] == self.turned[target] else 1 - state

    def _weights(self, place: int, target: int, state: int) -> Array:
        """Return the weights of both values of an unknown record, the larger one 1."""
        wanted = self._rewarded(place, target, state)
        return np.where(np.arange(2) == wanted, 1.0, math.exp(-self.ratios.upper[wanted]))

    def _factors(self, inside: Sequence[int], weights: dict[int, Array]) -> list[Factor]:
        network = self.network
        tables: list[Factor] = [
            (network.tables[place], (*network.parents[place], place)) for place in inside
        ]
        return [*tables, *((row, (place,)) for place, row in weights.items())]

    def _sums(
        self, inside: Sequence[int], target: int, known: Sequence[int], weights: dict[int, Array]
    ) -> Sums:
        sizes = {place: self.network.tables[place].shape[-1] for place in inside}
        keep = [target, *known]
        table = eliminate(
            self._factors(inside, weights), keep, sizes, 2 * MOST_CASES * 2**8, floor=FAINT
        )  # (values of the target, of each known record)
        return Sums(np.log(table).reshape(2, -1), self._error(inside, len(weights)))

    def _error(self, inside: Sequence[int], weights: int) -> float:
        """Return the error of the logarithm of a sum of products of so many tables and weights.

        Every table is multiplied once and every node summed out once, over its states; what is left
        of a sum is a table to be multiplied again. A weight e^-a has an error of 4 a roundings.
        """
        states = sum(self.network.tables[place].shape[-1] for place in inside)
        deepest = max(self.ratios.upper)
        roundings = 2 * (len(inside) + weights) + states + 4 * (deepest + 1) * weights
        return float(2 * ROUNDOFF * (roundings + 8))


def _opened(law: Array, weights: Array) -> Array:
    """Return sums with each record but the first known to be 0, known to be 1, or weighed.

    ``law`` has an axis for each record, ``weights`` (records - 1, 2); shape (2, 3^(records - 1)).
    """
    for axis, row in enumerate(weights, 1):
        zero, one = np.take(law, [0], axis), np.take(law, [1], axis)
        law = np.concatenate([zero, one, row[0] * zero + row[1] * one], axis)
    return np.asarray(law.reshape(2, -1))
