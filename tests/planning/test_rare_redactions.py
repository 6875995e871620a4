"""Redactions of chains with steps that all but never happen: a plan, or a reason, never a crash."""

import undertow as ut
from tests.grids import each
from undertow.errors import MethodRefused, NotSupported
from undertow.methods import METHODS as REGISTRY

RARE = (1e-15, 1e-17, 1e-18, 1e-40, 1e-99)
METHODS = tuple(REGISTRY["redact"])
MODELS = {
    "leaves rarely": lambda rare: ut.MarkovChain([[0.5, 0.5], [rare, 1.0]]),
    "is rarely left": lambda rare: ut.MarkovChain([[1.0, rare], [0.5, 0.5]]),
    "stays": lambda rare: ut.MarkovChain([[1.0, rare], [rare, 1.0]]),
    "alternates": lambda rare: ut.MarkovChain([[rare, 1.0], [1.0, rare]]),
    "starts rarely": lambda rare: ut.MarkovChain([[0.5, 0.5], [0.4, 0.6]], start=[rare, 1.0]),
    "given start": lambda rare: ut.MarkovChain([[0.5, 0.5], [rare, 1.0]], start=[0.5, 0.5]),
    "three states": lambda rare: ut.MarkovChain(
        [[0.5, 0.5 - rare, rare], [0.3, 0.3, 0.4], [rare, 0.4, 0.6 - rare]]
    ),
}


@each(
    ("rare", "model", ("protect", "length"), "against"),
    RARE, MODELS, [(0, 4), (2, 5), (7, 20)], ["any", "ignorant"],
)  # fmt: skip
def test_rare_steps_are_planned_or_refused(rare, model, protect, length, against):
    chain = MODELS[model](rare)
    for method in METHODS:
        query = ut.Redacted(protect=protect, length=length)
        try:
            plan = ut.calibrate(query, chain, limit=1.0, against=against, method=method)
        except (MethodRefused, NotSupported):
            continue
        certified = REGISTRY["redact"][plan.method].certified
        assert plan.leakage.proves(1.0) or not certified
        assert 0 <= plan.utility <= 1
