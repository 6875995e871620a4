"""Laws of every method of `calibrate`, on random chains."""

import math

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.contracts.chains import Example
from tests.contracts.method_plans import IGNORANT, PUBLISHED, SAME, calibrate, kept, scale, table
from tests.grids import law

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=15)


@st.composite
def matrices(draw, most=3):
    """Positive transition matrices with entries in parts of at most 60."""
    size = draw(st.integers(2, most))
    rows = st.lists(st.integers(1, 20), min_size=size, max_size=size)
    return np.array([(row := np.array(draw(rows))) / row.sum() for _ in range(size)])


APPLICABLE = [("quilt", "ignorant"), ("quilt", "any"), *((m, "ignorant") for m in IGNORANT)]
epsilons = st.floats(0.1, 8.0)


@law(
    LAWS,
    2,
    matrix=matrices(),
    n=st.integers(2, 12),
    epsilon=epsilons,
    random=st.randoms(use_true_random=False),
)
def test_relabelling_changes_nothing(matrix, n, epsilon, random):
    order = list(range(len(matrix)))
    random.shuffle(order)
    turned = ut.MarkovChain(matrix[np.ix_(order, order)], states=order, length=n)
    chain = ut.MarkovChain(matrix, length=n)
    for method, who in [*APPLICABLE, *((method, "any") for method in PUBLISHED)]:
        level = epsilon + 50 if method in PUBLISHED else epsilon
        one, two = scale(chain, level, who, method), scale(turned, level, who, method)
        assert one == pytest.approx(two, rel=1e-8)


@law(LAWS, 2, matrix=matrices(), n=st.integers(2, 20), epsilon=epsilons)
def test_reading_backwards_changes_nothing(matrix, n, epsilon):
    chain = ut.MarkovChain(matrix, length=n)
    for method, who in APPLICABLE:
        one, two = (scale(model, epsilon, who, method) for model in (chain, chain.reverse()))
        assert one == pytest.approx(two, rel=1e-8)


@law(LAWS, 2, matrix=matrices(), n=st.integers(2, 20), epsilon=epsilons, factor=st.floats(1.0, 3.0))
def test_more_epsilon_is_never_more_noise(matrix, n, epsilon, factor):
    chain = ut.MarkovChain(matrix, length=n)
    for method, who in APPLICABLE:
        more = scale(chain, epsilon * factor, who, method)
        assert more <= scale(chain, epsilon, who, method) * (1 + SAME)


@law(LAWS, 2, matrix=matrices(), n=st.integers(2, 5), epsilon=st.floats(0.2, 6.0))
def test_guarantees_on_random_chains(matrix, n, epsilon):
    chain = Example("random", matrix, "stationary", n)
    for method, who in APPLICABLE:
        plan = calibrate(chain, (1,), epsilon, who, method=method)
        assert math.isfinite(plan.leakage.upper)
        kept(plan, chain, table(chain, (1,), plan.mechanism.scale), who)
