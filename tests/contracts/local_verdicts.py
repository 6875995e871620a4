"""Verdicts on certified leakages of local mechanisms, for the tests that compare with the oracle.

The oracle's sums of positive long doubles are right to ROUNDING.
"""

import math

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
