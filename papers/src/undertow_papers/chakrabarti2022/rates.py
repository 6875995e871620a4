"""How often attackers on series are right, exactly: all outputs of a short series, weighed."""

from typing import Literal

import numpy as np

from undertow import MarkovChain
from undertow.auditing.inference import Hidden, check_length, hidden
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import LocalMechanism
from undertow.numerics import Array, check_count

__all__ = ["success_rate"]

_MOST_ROWS = 2**22
"""Different outputs on one side of the target: a limit of memory."""

_MOST_PAIRS = 2**30
"""Pairs of outputs on both sides that are weighed one by one: a limit of time."""


def success_rate(
    channel: LocalMechanism,
    chain: MarkovChain,
    target: int,
    length: int | None = None,
    attacker: Literal["prior", "single-bit", "correlation-aware"] = "correlation-aware",
) -> float:
    """Return the probability that an attacker guesses one record right, over data and outputs.

    For the correlation-aware attacker that is sum_z max_x Pr[X_t = x, z]. Outputs before and
    after the target are listed apart; for two states the pairs of both are weighed in sorted
    order, so that time and memory are 2^(n/2) rather than 2^n. Exact up to rounding.

    >>> from undertow import RandomizedResponse
    >>> rho = 1 / (np.exp(.5) + 1)
    >>> flips = RandomizedResponse.binary(rho, rho)
    >>> chain = MarkovChain([[.932, .068], [.068, .932]], length=30)
    >>> round(success_rate(flips, chain, 14), 9)  # Figure 2 of [chakrabarti2022]
    0.729930063
    >>> round(success_rate(flips, chain, 14, attacker="single-bit"), 9)
    0.622459331
    """
    model = hidden(channel, chain)
    records = _length(channel, chain, length)
    if check_count(target, "target", 0) >= records:
        raise InvalidInput(f"record {target} is wanted, of {records} records, counted from 0")
    law = chain.law(target)
    if attacker == "prior":
        return float(law.max())
    if attacker == "single-bit":
        return _alone(model, law, target)
    if attacker != "correlation-aware":
        raise InvalidInput(
            f"attacker must be 'prior', 'single-bit' or 'correlation-aware', found {attacker!r}"
        )
    before = model.start[None, :]  # (outputs of the records before, hidden states)
    for record in range(target):
        before = _branched(before, model, record) @ model.step(record)
    after = np.ones((1, model.start.size))  # (outputs of the records after, hidden states)
    for record in range(records - 1, target, -1):
        after = _branched(after, model, record) @ model.step(record - 1).T
    own = _branched(after, model, target)  # (outputs of the target and after, hidden states)
    if model.start.size == 2:
        return _paired(before, own)
    return _one_by_one(before, own, model)


def _alone(model: Hidden, law: Array, target: int) -> float:
    """Return how often the state that the output speaks for is right, the prior if for none."""
    total = 0.0
    for row in model.outputs(target, own=True):
        guess = law.argmax() if row.max() == row.min() else row.argmax()
        total += float(law[guess] * row[guess])
    return total


def _paired(before: Array, after: Array) -> float:
    """Return the sum over all pairs of the larger of two products.

    State 1 is guessed where before[1] after[1] > before[0] after[0]: for each output after the
    target, those before it whose odds exceed a threshold.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.where(before.any(axis=1), before[:, 1] / before[:, 0], 0.0)  # (outputs before,)
        threshold = np.where(after.any(axis=1), after[:, 0] / after[:, 1], 0.0)  # (outputs after,)
    order = np.argsort(odds)
    # mass of state 0 below each rank, and of state 1 from each rank on: (outputs before + 1,)
    below = np.concatenate([[0.0], np.cumsum(before[order, 0])])
    beyond = np.concatenate([[0.0], np.cumsum(before[order[::-1], 1])])[::-1]
    place = np.searchsorted(odds[order], threshold, side="right")  # (outputs after,)
    return float((after[:, 0] * below[place] + after[:, 1] * beyond[place]).sum())


def _one_by_one(before: Array, after: Array, model: Hidden) -> float:
    if len(before) * len(after) > _MOST_PAIRS:
        raise NotSupported(
            f"{len(before)} times {len(after)} outputs are too many to weigh; take a shorter "
            "series, or simulate"
        )
    chunk, total = max(1, 2**22 // after.size), 0.0
    for begin in range(0, len(before), chunk):
        # (outputs before, outputs after, hidden states)
        joint = before[begin : begin + chunk, None, :] * after[None, :, :]
        total += float(model.records(joint).max(axis=2).sum())
    return total


def _length(channel: LocalMechanism, chain: MarkovChain, length: int | None) -> int:
    if length is None:
        length = channel.length or chain.length
    if length is None:
        raise InvalidInput("the chain has no length; say how many records: length=30")
    records = check_count(length, "length", 1)
    check_length(chain, records)
    if channel.length not in (None, records):
        raise InvalidInput(f"the redaction is for exactly {channel.length} records")
    return records


def _branched(masses: Array, model: Hidden, record: int) -> Array:
    """Return the masses of all outputs so far with each output of one more record."""
    rows = [row for row in model.outputs(record) if row.any()]
    if len(masses) * len(rows) > _MOST_ROWS:
        raise NotSupported(
            "there are too many outputs on one side of the target to list; take a shorter series, "
            "or simulate"
        )
    return np.concatenate([masses * row for row in rows])  # (outputs, hidden states)
