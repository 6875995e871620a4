"""What plans for flipped and redacted series must keep: their guarantee, whole grains, their file.

The oracles are `tests.oracles.series` (what a mechanism leaks) and `local_search` (how good a plan
could have been); neither shares code with the package.
"""

import json
from fractions import Fraction
from typing import Any

import numpy as np

import undertow as ut
from tests.oracles import series as oracle

GUARANTEE = 1e-12  # rounding of the oracle, relative to max(1, epsilon)
SEARCH = 1e-6  # how much better than the plan the oracle's search may be
GRAIN = Fraction(1, 2**53)
calibrate: Any = ut.calibrate
RATES = {
    "sticky": (0.1, 0.1),
    "uneven": (0.2, 0.35),
    "rare": (0.03, 0.6),
    "common": (0.5, 0.2),
    "negative": (0.8, 0.7),
    "wild": (0.6, 0.95),
}
THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]


def binary(name, length=None):
    q, r = RATES[name]
    return ut.MarkovChain([[1 - q, q], [r, 1 - r]], length=length)


def keeps_its_guarantee(plan, chain, epsilon, against):
    """Enumerated, the mechanism leaks no more than was proved, and that no more than asked."""
    assert plan.limit == epsilon
    assert plan.against == against
    assert plan.leakage.upper <= epsilon
    truth = oracle.truth(plan.mechanism, chain, against)
    assert truth <= plan.leakage.upper * (1 + GUARANTEE)
    assert truth >= plan.leakage.lower - GUARANTEE * max(1.0, truth)
    return truth


def is_dyadic(table):
    return all(Fraction(float(entry)) % GRAIN == 0 for entry in np.ravel(table))


def rows_sum_exactly(matrix):
    return all(sum(map(Fraction, map(float, row))) == 1 for row in matrix)


def travels(plan):
    """The plan survives its file, and the file says whom it protects against."""
    text = plan.to_json()
    assert ut.Plan.from_json(text) == plan
    body = json.loads(text)
    assert body["leakage"]["against"] == plan.against
    who = {"any": "any other records", "ignorant": "no other record", "informed": "all other"}
    assert who[plan.against] in plan.guarantee()
