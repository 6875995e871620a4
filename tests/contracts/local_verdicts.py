"""Verdicts on leakages and plans of local mechanisms; the oracle's sums are right to ROUNDING."""

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np

import undertow as ut
from tests.oracles import series as oracle

ROUNDING = 1e-12  # relative to max(1, value): of the oracle, and of the package's lower end
CLOSED = 1e-9  # how far apart the ends may be where the leakage is exact


def slack(value):
    return ROUNDING * max(1.0, value) if math.isfinite(value) else 0.0


def encloses(leak, truth):
    assert leak.lower <= leak.upper
    assert leak.lower <= truth + slack(truth)
    assert truth <= leak.upper + slack(truth)


def closed(leak):
    if math.isinf(leak.lower):
        assert math.isinf(leak.upper)
    else:
        assert leak.upper - leak.lower <= CLOSED * max(1.0, leak.lower)


def attained(leak, mechanism, chain, against):
    """The witness is an attacker of the kind that was asked about, and attains the lower end."""
    witness = leak.witness
    if witness is None:
        assert leak.lower == 0
        return
    known = {record for record, _ in witness.known}
    assert witness.value != witness.other
    assert witness.target not in known
    if against == "ignorant":
        assert not known
    if isinstance(against, ut.Adversary):
        assert witness.target == against.target
        assert known <= set(against.known)  # those beyond the nearest do not matter
    if isinstance(mechanism, ut.Redaction):
        assert witness.target in mechanism.protect
    reached = oracle.replay(witness, mechanism, chain)
    assert reached >= leak.lower - slack(leak.lower)


def judged(mechanism, chain, against="any", exact=None):
    """Compare one leakage with the oracle; return it."""
    leak = ut.leakage(mechanism, chain, against)
    encloses(leak, oracle.truth(mechanism, chain, against))
    assert leak.against == against
    attained(leak, mechanism, chain, against)
    if exact if exact is not None else chain.size == 2:
        closed(leak)
    return leak


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
