"""What all records together give away about one of them, if pairs were all there is to it.

The total loss of a scale, max over i of Delta_i / scale + sum over j of rho_ij Delta_j / scale, as
the dependent perturbation mechanism of [liu2016] has it, for chains, networks and Gaussian
records. Everything is rounded to nearest: totals propose a scale and prove nothing (see
`undertow.bounds.dependence.coefficients`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.bounds.dependence.separation import level_separations, log_laws, separations
from undertow.errors import MethodRefused, NothingToProtect
from undertow.models.markov import MarkovChain
from undertow.models.network import BayesianNetwork
from undertow.numerics import MAX_STEPS, Array
from undertow.queries import AnyQuery, Count, Linear

__all__ = ["Parts", "Total", "chain_total", "gaussian_total", "network_total", "parts_of"]

Total = Callable[[float], float]

FORGOTTEN = 1e-15
"""Largest difference of two rows of P^t at which records t apart count as independent (to nearest:
no guarantee rests on a total)."""

MOST_RECORDS = 128
"""Most records of which all pairs are looked at, where no two pairs are alike."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What each record contributes to an answer: numbers for its states, or only a range.

    With ``answers`` every state has its number and ``spans`` is their range; without, a record may
    move the answer by its span in any way, and the algorithm counts as the worst of its DP level.
    ``spans`` has one entry if all records are alike.

    >>> parts_of(Count("a"), ("a", "b", "c"), length=3).answers
    array([1., 0., 0.])
    """

    answers: Array | None
    spans: Array

    def losses(self, logs: Array, records: npt.NDArray[np.intp] | int, scale: float) -> Array:
        """Return rho_ij Delta_j / scale for tables of log-laws of the records j given i."""
        if self.answers is not None:
            return separations(logs, self.answers, scale)
        spans = self.spans[0] if len(self.spans) == 1 else self.spans[records]
        return level_separations(logs, spans / scale)


def parts_of(query: AnyQuery, states: tuple[Any, ...], length: int | None) -> Parts:
    """Return what each record contributes: a count's states are 0 or 1, the rest is a range.

    >>> parts_of(Linear([1.0, -2.0], spread=3.0), (0, 1), length=2).spans
    array([3., 6.])
    """
    if isinstance(query, Count):
        answers = np.array([float(state in query.states) for state in states])
        return Parts(answers, np.array([np.ptp(answers)]))
    if isinstance(query, Linear):
        return Parts(None, np.abs(query.weights) * query.spread)
    return Parts(None, np.array([query.sensitivity(length)]))


def chain_total(chain: MarkovChain, query: AnyQuery) -> Total:
    """Return the total loss of a scale on a chain.

    Records t apart have the law P^t, and backwards its reversal pi_y P^t(y, x) / pi_x. A chain with
    a stationary start needs one table for each distance, O(t k^3); any other one for each pair, up
    to `MOST_RECORDS` records. Beyond `MAX_STEPS` distances a chain that has not forgotten counts
    with the largest coefficient, 1.

    >>> pair = MarkovChain([[.8, .2], [.2, .8]], length=2)
    >>> round(chain_total(pair, Count(1))(1.587533097), 8)
    1.0
    """
    reduced = chain.visited()
    if reduced is None:
        raise NothingToProtect("every record is certain under this model: no noise is needed")
    parts = parts_of(query, reduced.states, reduced.length)
    alike = len(parts.spans) == 1
    if isinstance(reduced.start, str) and alike:
        return _by_distance(reduced, parts)
    length = reduced.length
    if length is None or length > MOST_RECORDS:
        raise MethodRefused(
            "no two pairs of records are alike on this chain, and coefficients of all pairs are "
            f"looked at for at most {MOST_RECORDS} records"
        )
    laws = reduced.marginals(length)
    tables: dict[tuple[int, int], Array] = {}
    for i in range(length):
        step = np.eye(reduced.size)
        for j in range(i + 1, length):
            step = step @ reduced.step(j - 1)  # Pr[X_j | X_i], (k, k)
            both = laws[i][:, None] * step  # (k, k): joint of records i and j
            tables[i, j], tables[j, i] = both, both.T
    return _by_pairs(tables, parts, length)


def network_total(network: BayesianNetwork, query: AnyQuery) -> Total:
    """Return the total loss of a scale on a network of at most `MOST_RECORDS` records.

    >>> pair = BayesianNetwork([("a", "b")], {"a": [.5, .5], "b": [[.8, .2], [.2, .8]]})
    >>> round(network_total(pair, Count(1))(1.587533097), 8)
    1.0
    """
    length = network.length
    if length > MOST_RECORDS:
        raise MethodRefused(
            f"coefficients of all pairs of records are looked at for at most {MOST_RECORDS} "
            f"records, found {length}"
        )
    tables: dict[tuple[int, int], Array] = {}
    records = {node: place for place, node in enumerate(network.observed)}
    for group in network.components():
        members = [n for place in group if (n := network.nodes[place]) in records]
        for first, one in enumerate(members):
            for two in members[first + 1 :]:
                both = network.law([one, two])
                i, j = records[one], records[two]
                tables[i, j], tables[j, i] = both, both.T
    return _by_pairs(tables, parts_of(query, network.states, length), length)


def gaussian_total(covariance: Array, weights: Array, spread: float, clipped: bool) -> Total:
    """Return the total loss of a scale for a weighted sum of jointly Gaussian records.

    Record i moves by at most ``spread`` and takes the mean of record j along by beta_ji times that
    (`undertow.bounds.dependence.coefficients.gaussian_coefficients`); ``clipped`` records move by
    at most the spread themselves.

    >>> total = gaussian_total(np.array([[1, .5], [.5, 4]]), np.ones(2), 1.0, clipped=False)
    >>> total(1.0), gaussian_total(np.array([[1, 3], [3, 16]]), np.ones(2), 1.0, True)(1.0)
    (1.5, 2.0)
    """
    moves = np.abs(covariance) / np.diag(covariance)[:, None]  # (n, n): |beta_ji|, row i
    if clipped:
        moves = np.minimum(moves, 1.0)
    reach = float((moves @ np.abs(weights)).max()) * spread
    return lambda scale: reach / scale


def _by_distance(chain: MarkovChain, parts: Parts) -> Total:
    """Return the total of a stationary chain, whose pairs differ in their distance only."""
    steps, forgets = _powers(chain)
    # (distances, x, contributions): records after the target
    right, answers = _grouped(parts, steps)
    # pi_y P^t(y, x): before it
    left, _ = _grouped(parts, np.swapaxes(chain.initial[:, None] * steps, 1, 2))
    parts = Parts(answers, parts.spans)
    span, length = float(parts.spans[0]), chain.length
    if length is None and not forgets:
        raise MethodRefused(
            "the chain does not forget where it was, so infinitely many records depend on each "
            "other in full"
        )

    def total(scale: float) -> float:
        # (distances,) each
        sides = [np.cumsum(parts.losses(logs, 0, scale)) for logs in (left, right)]
        if length is None:
            return span / scale + float(sides[0][-1] + sides[1][-1])
        rest = 0.0 if forgets else span / scale
        reach = np.arange(length)
        worst = np.zeros(length)
        for side, away in zip(sides, (reach, reach[::-1]), strict=True):
            known = np.concatenate([[0.0], side])  # sums over the nearest 0, 1, 2, ... records
            near = np.minimum(away, len(side))  # (length,)
            worst += known[near] + (away - near) * rest
        return span / scale + float(worst.max())

    return total


def _powers(chain: MarkovChain) -> tuple[Array, bool]:
    """Return P, P^2, ... until the chain has forgotten, at most `MAX_STEPS`, and whether it has."""
    most = MAX_STEPS if chain.length is None else min(MAX_STEPS, chain.length - 1)
    found, step = [], np.eye(chain.size)
    for _ in range(most):
        step = step @ chain.transition
        found.append(step)
        if np.ptp(step, axis=0).max() <= FORGOTTEN:
            return np.array(found), True  # (distances, k, k)
    return np.array(found), False


def _grouped(parts: Parts, tables: Array) -> tuple[Array, Array | None]:
    """Return the log-laws of the contributions, states with the same number taken together."""
    if parts.answers is None:
        return log_laws(tables), None
    answers = np.unique(parts.answers)
    sums = [tables[..., parts.answers == value].sum(axis=-1) for value in answers]
    return log_laws(np.stack(sums, axis=-1)), answers


def _by_pairs(tables: dict[tuple[int, int], Array], parts: Parts, length: int) -> Total:
    """Return the total over pairs that are given one by one, each by its joint law."""
    spans = np.broadcast_to(parts.spans, (length,))
    if not tables:
        return lambda scale: float(spans.max()) / scale
    targets = np.array([i for i, _ in tables])
    others = np.array([j for _, j in tables])
    logs, answers = _grouped(parts, np.stack(list(tables.values())))
    parts = Parts(answers, parts.spans)

    def total(scale: float) -> float:
        losses = parts.losses(logs, others, scale)
        sums = np.bincount(targets, weights=losses, minlength=length)  # (length,): by target
        return float((spans / scale + sums).max())

    return total
