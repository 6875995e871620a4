"""What came out of a strip of records, weighed: exactly, up to rounding.

Flips and erasures by the forward-backward recursion over the records, O(n k^2) for n records; noisy
answers by the law of (state, total), O(n^2 k^2).
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.auditing.attackers import Totals, totals
from undertow.auditing.inference import Hidden, hidden
from undertow.errors import InvalidInput
from undertow.models.chains import MarkovChain
from undertow.numerics import Array
from undertow.plan import Plan

if TYPE_CHECKING:
    from undertow_studio.views.strips import Strip

__all__ = ["weighed"]


def weighed(strip: "Strip", chain: MarkovChain) -> tuple[Array, Array]:
    """Return the prior of the target and ln Pr[what came out | its state, known], (k,) each.

    The logarithms are up to a constant, and -inf for states that cannot be.
    """
    if strip.plan.task == "answer" and strip.answer is not None:
        return _answered(strip, chain, totals(strip.plan.noise, chain.states, strip.length))
    return _shown(strip, chain, _seen(strip.plan, chain))


def _seen(plan: Plan[Any], chain: MarkovChain) -> Hidden:
    """Return the hidden chain of a plan for a series; of an answer, the chain itself."""
    if plan.task != "answer":
        return hidden(plan.mechanism, chain)
    ones = np.ones((1, chain.size))
    steps = np.array(chain.transition[None] if chain.homogeneous else chain.transition)
    return Hidden(np.array(chain.initial), steps, ones, np.arange(chain.size), ones, 0)


def _shown(strip: "Strip", chain: MarkovChain, model: Hidden) -> tuple[Array, Array]:
    """Weigh outputs record by record: messages from both ends of the strip to the target.

    Both with the outputs and without: their ratio is the likelihood of the outputs given what is
    known. Hidden states of one state of the record stand next to each other.
    """
    last = strip.first + strip.length - 1
    found = []
    for seen in (False, True):
        ahead = np.array(model.law(strip.first))  # (hidden,): up to a factor that cancels
        scale = 0.0
        for record in range(strip.first, strip.target + 1):
            if record > strip.first:
                ahead = ahead @ model.step(record - 1)
            ahead = ahead * _told(strip, chain, model, record, seen)
            ahead, scale = _rescaled(ahead, scale)
        back = np.ones(len(model.owner))
        for record in range(last, strip.target, -1):
            back = model.step(record - 1) @ (back * _told(strip, chain, model, record, seen))
            back, scale = _rescaled(back, scale)
        found.append((model.records(ahead * back), scale))
    (plain, low), (joint, high) = found
    if not plain.sum() > 0:
        raise InvalidInput("what is known of these records cannot be, under the model")
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(plain > 0, np.log(joint) - np.log(plain), -np.inf) + high - low
    return plain / plain.sum(), logs


def _told(strip: "Strip", chain: MarkovChain, model: Hidden, record: int, seen: bool) -> Array:
    """Return what is known and shown of one record, as a weight of each hidden state."""
    told = np.ones(len(model.owner))
    if record in strip.known:
        told = told * (model.owner == chain.index(strip.known[record]))
    if seen and record in strip.rates:
        told = told * np.exp(np.asarray(strip.rates[record]))[model.owner]
    if not seen or record not in strip.outputs:
        return told
    shown = strip.outputs[record]
    channel = strip.plan.mechanism
    if shown is None:
        if model.erased is None:
            raise InvalidInput("flips erase no record")
        return np.asarray(told * model.emission[model.erased[record]])
    names = channel.names(chain.states)
    if shown not in names:
        raise InvalidInput(f"no record is shown as {shown!r}; it is one of {names}")
    told = told * model.emission[names.index(shown)]
    if model.erased is not None:  # shown: not erased
        told = told * (1 - model.emission[model.erased[record]])
    return np.asarray(told)


def _answered(strip: "Strip", chain: MarkovChain, made: Totals) -> tuple[Array, Array]:
    """Weigh a noisy answer: the law of (state of the target, total) meets the law of the noise."""
    before = _tallied(strip, chain, made, range(strip.first, strip.target), 1)
    after = _tallied(
        strip, chain, made, range(strip.first + strip.length - 1, strip.target, -1), -1
    )
    joint = np.zeros((chain.size, strip.length * max(made.adds) + 1))  # (state, total)
    for state, add in enumerate(_adds(strip, made, strip.target)):
        both = np.convolve(before[state], after[state])
        joint[state, add : add + len(both)] = both
    law = joint.sum(axis=1)
    if not law.sum() > 0:
        raise InvalidInput("what is known of these records cannot be, under the model")
    answer = strip.answer
    if made.pair and not isinstance(answer, tuple):  # the other number is what is left of them
        answer = (strip.length - (answer or 0.0), answer or 0.0)
    units = made.units([answer], strip.length)
    weights = made.log_weights(units, joint.shape[1] - 1)[0]  # (totals,)
    peak = float(weights.max())
    # (states,): ln E[noise law | state of the target, known]
    told = joint @ np.exp(weights - peak)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(law > 0, np.log(told) - np.log(law), -np.inf)
    return law / law.sum(), logs


def _tallied(
    strip: "Strip", chain: MarkovChain, made: Totals, records: range, way: int
) -> Array:  # fmt: skip
    """Return for each state of the target the total of one side, (k, totals), up to one factor.

    To the left jointly with the law of the target, to the right given it.
    """
    most = len(records) * max(made.adds)
    table = np.zeros((chain.size, most + 1))
    table[:, 0] = chain.law(strip.first) if way > 0 else 1.0
    for record in records:
        grown = np.zeros_like(table)
        for state, add in enumerate(_adds(strip, made, record)):
            known = strip.known.get(record)
            if known is None or chain.index(known) == state:
                grown[state, add:] = table[state, : most + 1 - add]
        step = chain.step(record) if way > 0 else chain.step(record - 1)
        table = step.T @ grown if way > 0 else step @ grown
    if math.isinf(float(table.max())) or not table.max() > 0:
        raise InvalidInput("what is known of these records cannot be, under the model")
    return np.asarray(table / table.max())


def _adds(strip: "Strip", made: Totals, record: int) -> tuple[int, ...]:
    """Return what each state of a record adds to the answer: nothing outside the window."""
    if strip.window is None or strip.window[0] <= record < strip.window[1]:
        return made.adds
    return tuple(0 for _ in made.adds)


def _rescaled(message: Array, scale: float) -> tuple[Array, float]:
    peak = float(message.max())
    if not peak > 0:
        raise InvalidInput("what is known and shown cannot be, under the model and the plan")
    return message / peak, scale + math.log(peak)
