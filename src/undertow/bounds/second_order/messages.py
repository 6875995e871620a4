"""What one attack reveals on a chain of order two, summed record by record, rounded both ways.

An attack says of every record how likely what is seen of it is under 0 and under 1; of a known
record one of the two is 0. Given the target's value x, with forward messages over pairs of
neighbours,

    N(x) = sum over all series with that value of Pr[series] prod_t w_t(x_t),

the leakage is ln N(1)/N(0) - ln N~(1)/N~(0), N~ with the known records alone. For attractive laws
(`undertow.models.attractive`) w_t = e^{theta x_t} is the worst that any algorithm of a level can
do.

**Rounding.** N is a sum of products of non-negative numbers: with u = 2^-53 an entry of the law of
pairs has an error of 4 u, every step multiplies by two numbers of at most 2 u each, sums two
products and is scaled, at most 8 u; logarithms of the scales add their own rounding, relative to
their sum. The four sums of n records differ from the truth by at most 8 (n + 4) u each, relatively.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from undertow.bounds.second_order.gaps import binary_laws
from undertow.models.second_order import SecondOrderChain
from undertow.numerics import ROUNDOFF, Array

__all__ = ["Played", "attack_values", "open_values", "played"]


@dataclass(frozen=True, slots=True)
class Played:
    """What an attack reveals: ln N(1)/N(0) - ln N~(1)/N~(0) lies between both ends."""

    lower: float
    upper: float


def attack_values(
    chain: SecondOrderChain, weights: Array, known: Array, target: int
) -> tuple[Array, float]:
    """Return the log-likelihood ratio of 1 against 0 of many attacks at once, and its error.

    ``weights`` (attacks, records, 2) are the likelihoods of what is seen, ``known`` (attacks,
    records, 2) is 1 where a value is possible given what is known and 0 elsewhere; both leave the
    target's two values open. Attacks that cannot occur are NaN. Cost O(attacks records).
    """
    law, _ = binary_laws(chain)
    both = np.stack([weights * known, known])  # (2, attacks, records, 2): with outputs and without
    sums = []
    for value in (1, 0):
        table = both.copy()
        table[:, :, target, 1 - value] = 0.0
        sums.append(_log_sums(law, chain.transition, table))
    with np.errstate(invalid="ignore"):
        found = (sums[0][0] - sums[0][1]) - (sums[1][0] - sums[1][1])
    largest = max((float(np.abs(s[np.isfinite(s)]).max(initial=0.0)) for s in sums), default=0.0)
    records = weights.shape[1]
    error = 64 * ROUNDOFF * (records + 8 + largest)
    return np.asarray(found), error


def _log_sums(law: Array, step: Array, table: Array) -> Array:
    """Return ln of the sum over all series of the law times the table: shape (2, attacks)."""
    records = table.shape[2]
    if records == 1:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log((law.sum(axis=0) * table[:, :, 0]).sum(axis=2)))
    message = law * table[:, :, 0, :, None] * table[:, :, 1, None, :]  # (2, attacks, x, y)
    total = np.zeros(table.shape[:2])
    with np.errstate(divide="ignore", invalid="ignore"):
        for record in range(2, records):
            message = np.einsum("vbxy,xyz->vbyz", message, step) * table[:, :, record, None, :]
            top = message.max(axis=(2, 3), keepdims=True)
            message = message / np.where(top > 0, top, 1.0)
            total += np.log(top[..., 0, 0])
        return np.asarray(total + np.log(message.sum(axis=(2, 3))))


def played(
    chain: SecondOrderChain, weights: Array, known: Sequence[tuple[int, int]], target: int
) -> Played:
    """Return what one attack reveals, with weights (records, 2) and known records and values.

    >>> chain = SecondOrderChain([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]])
    >>> attack = played(chain, np.exp([[0, 0], [0, 1.0], [0, 1.0]]), [(0, 0)], 1)
    >>> round(attack.lower, 6), attack.upper - attack.lower < 1e-11
    (1.549948, True)
    """
    table = np.ones((1, len(weights), 2))
    for record, value in known:
        table[0, record, 1 - value] = 0.0
    values, error = attack_values(chain, weights[None], table, target)
    found = float(values[0])
    return Played(found - error, found + error)


def open_values(chain: SecondOrderChain, weights: Array) -> tuple[Array, float]:
    """Return what every record leaks to someone who knows nothing, 1 against 0, and the error.

    ``weights`` (records, 2) are the likelihoods of what is seen of the records around a target, and
    of the target itself. Cost O(records), two passes.
    """
    law, _ = binary_laws(chain)
    step, records = chain.transition, len(weights)
    if records == 1:
        return np.log(weights[:, 1] / weights[:, 0]), 8 * ROUNDOFF
    forward = np.empty((records, 2, 2))  # the pair (t - 1, t), all before it seen; from t = 1
    forward[1] = law * weights[0, :, None] * weights[1]
    for record in range(2, records):
        message = np.einsum("xy,xyz->yz", forward[record - 1], step) * weights[record]
        forward[record] = message / message.max()
    backward = np.ones((records, 2, 2))  # the pair (t - 1, t), all after it seen
    for record in range(records - 2, 0, -1):
        message = np.einsum("xyz,z,yz->xy", step, weights[record + 1], backward[record + 1])
        backward[record] = message / message.max()
    both = forward * backward
    sums = both.sum(axis=1)  # (records, x)
    sums[0] = both[1].sum(axis=1)
    prior = law.sum(axis=0)
    found = np.log(sums[:, 1] / sums[:, 0]) - np.log(prior[1] / prior[0])
    return np.asarray(found), 64 * ROUNDOFF * (records + 8 + float(np.abs(found).max()))
