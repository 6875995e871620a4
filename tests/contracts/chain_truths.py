"""The truth about leakages of chains, and what a certified interval must do about it.

The oracle enumerates; it shares no code with what it judges. Enumerated counts are right to
ROUNDING. Each linear program returns a value attained by an actual epsilon-DP likelihood, so it
must not exceed `upper` by more than ROUNDING, and is within PROGRAM of its optimum.
"""

import math
from typing import Any

from hypothesis import settings

import undertow as ut
from tests.contracts.chains import Example, example
from undertow.testing.enumeration import (
    additive_noise_likelihood,
    mechanism_leakage,
    pure_dp_leakage,
)

ROUNDING = 1e-12  # relative to max(1, value): sums of positive floats, logs of their ratios
PROGRAM = 1e-9  # how far the oracle lets a linear program be from its optimum
CLOSED = 1e-8  # how far apart the ends of an exact method may be
LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=12)
NAMED: tuple[Any, ...] = ("any", "ignorant", "informed")


def slack(value):
    return ROUNDING * max(1.0, value) if math.isfinite(value) else 0.0


def against_of(who):
    """The package's word for the oracle's adversary."""
    return who if isinstance(who, str) else ut.Adversary(*who)


def weights(size, states):
    return [int(state in states) for state in range(size)]


def dp_truth(family, k, n, seed, epsilon, who):
    return pure_dp_leakage(example(family, k, n, seed).joint, epsilon, who).leakage


def count_truth(chain: Example, states, scale, who):
    table = additive_noise_likelihood(weights(chain.size, states), scale, chain.length)
    return mechanism_leakage(chain.joint, table, who).leakage


def encloses(leak, truth, error=0.0):
    """The certified interval contains the truth, which the oracle may underestimate by `error`."""
    assert leak.lower <= truth + error + slack(truth)
    assert truth <= leak.upper + slack(truth)


def closed(leak):
    assert leak.lower <= leak.upper
    assert leak.upper - leak.lower <= CLOSED * max(1.0, leak.lower)


def evidence(joint, likelihood, known, target, value):
    """E[likelihood | known, target = value], summed data set by data set."""
    index = [slice(None)] * joint.ndim
    for record, fact in (*known, (target, value)):
        index[record] = fact
    weight = joint[tuple(index)]
    assert weight.sum() > 0
    return float((weight * likelihood[tuple(index)]).sum() / weight.sum())
