"""Flips of short series: how they are planned, and what they leak by enumeration."""

from hypothesis import settings
from hypothesis import strategies as st

from undertow.models.chains import MarkovChain
from undertow.planning.calibrate import calibrate
from undertow.queries import Series
from undertow.testing.enumeration import chain_joint, mechanism_leakage, product_channel_likelihood

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=25)
THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]
OPTIMUM = 1e-6
STAY = st.floats(0.02, 0.98)


def calibrate_series(model, epsilon, against="any", method="best", objective=None):
    return calibrate(Series(), model, epsilon, against, method=method, objective=objective)


def two(q, r, length=None, **more):
    return MarkovChain([[1 - q, q], [r, 1 - r]], length=length, **more)


def rates(plan):
    return plan.mechanism.matrix[0, 1], plan.mechanism.matrix[1, 0]


def truth(matrix, chain, against="any"):
    """The leakage by enumeration."""
    joint = chain_joint(chain.initial, chain.transition, length=chain.length)
    table = product_channel_likelihood([matrix] * chain.length)
    return mechanism_leakage(joint, table, against).leakage
