"""Plans of every method on small chains, and what keeps their guarantee."""

from typing import Any

import numpy as np

import undertow as ut
from tests.contracts.chains import Example
from tests.oracles import chains as oracles
from undertow.methods import METHODS as REGISTRY
from undertow.secrets import ONE_RECORD

METHODS = REGISTRY["answer"]
ROUNDING = 1e-12  # of the enumeration: sums of positive floats
SAME = 1e-9  # relative, two computations of one scale
WHO: tuple[Any, ...] = ("any", "ignorant", "informed")
CERTIFIED = ("exact", "exchange", "quilt", "quilt-approx", "wasserstein", "group", "dependent")
PUBLISHED = ("lange", "zhao", "zhao-multistep")
RIVALS = ("influence-curve", "temporal")  # published too, and shown for the ignorant attacker
GAUSSIAN = ("closed", "sweep")  # of Gaussian noise alone; tests/planning/test_approximate.py
TABULATED = ("optimal",)  # noise without a scale; tests/planning/test_optimal.py
ON_CHAINS = (*CERTIFIED, *PUBLISHED, *RIVALS)
IGNORANT = ("quilt-approx", "wasserstein")
ALONE = (*IGNORANT, *RIVALS)  # whoever knows other records is not covered
SMALL = [(2, 5, (1,), 1.0), (3, 4, (0, 2), 3.0)]  # states, records, counted, epsilon


def secret_of(pairs=None, records=None):
    """The secret of some pairs of values, of some records, or of any one record."""
    if pairs is not None:
        return ut.Pairs(pairs, records)
    return None if records is None else ut.Records(records)


def slack(value):
    return ROUNDING * max(1.0, value)


def calibrate(chain: Example, counted, epsilon, who, method, **more):
    return ut.calibrate(ut.Count(counted), chain.model(), epsilon, who, method=method, **more)


def scale(model, epsilon, who, method, counted=(1,), **more):
    plan = ut.calibrate(ut.Count(counted), model, epsilon, who, method=method, **more)
    return plan.mechanism.scale


def table(chain: Example, counted, noise):
    return oracles.noisy_answer(chain.size, chain.length, noise, oracles.counted(counted))


def mixes(chain: Example):
    """One transition matrix, irreducible and aperiodic: what `quilt-approx` needs."""
    homogeneous = chain.transition.ndim == 2
    return homogeneous and bool((np.linalg.matrix_power(chain.transition, 64) > 0).all())


def kept(plan, chain: Example, likelihood, who, **some):
    """The guarantee, and the certificate that comes with it."""
    truth = oracles.leakage(chain.joint, likelihood, who, **some)
    assert truth <= plan.limit + slack(plan.limit)
    assert truth <= plan.leakage.upper + slack(truth)
    if not any("worst algorithm" in words for words in plan.leakage.assumptions):
        told = {} if plan.leakage.secret == ONE_RECORD else some
        whole = oracles.leakage(chain.joint, likelihood, who, **told)
        assert plan.leakage.lower <= whole + slack(whole)
    return truth
