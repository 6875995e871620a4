"""Attractive fits of hidden chains: the step against a general solver, and whole fits."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import undertow as ut
from undertow import diagnostics
from undertow.errors import InvalidInput
from undertow.models import is_attractive
from undertow.models.fitting.hidden import MARGIN, Laws, ascended, attractive_rows
from undertow.models.fitting.passes import Passes
from undertow.models.fitting.series import unbroken

REGIMES = ut.HiddenChain(
    [[0.96, 0.02, 0.02, 0.0], [0.02, 0.62, 0.2, 0.16], [0.18, 0.34, 0.47, 0.01],
     [0.0, 0.18, 0.0, 0.82]], (0, 0, 1, 1),
)  # fmt: skip
"""Regimes of an activity record: not attractive."""


def solved(counts):
    """The largest sum c ln T over totally positive T, in the logarithms, by a general solver."""
    size = len(counts)
    pairs = list(itertools.product(range(size - 1), repeat=2))

    def table(x):
        return x.reshape(size, size)

    constraints = [
        {"type": "ineq", "fun": lambda x: 1 - np.exp(table(x)).sum(axis=1)},
        {
            "type": "ineq",
            "fun": lambda x: np.array([
                table(x)[i, j] + table(x)[i + 1, j + 1] - table(x)[i, j + 1] - table(x)[i + 1, j]
                - MARGIN for i, j in pairs
            ]),
        },
    ]  # fmt: skip
    solve: Any = minimize
    found = solve(
        lambda x: -(counts * table(x)).sum() / counts.sum(), np.full(size * size, -np.log(size)),
        constraints=constraints, method="SLSQP", options={"maxiter": 500, "ftol": 1e-14},
    )  # fmt: skip
    return -found.fun * counts.sum()


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_step_finds_the_likeliest_totally_positive_matrix(size):
    generator = np.random.default_rng(size)
    for _ in range(3):
        counts = generator.gamma(1.0, 100.0, (size, size))
        rows = attractive_rows(counts, generator.dirichlet(np.ones(size), size))
        assert rows.sum(axis=1) == pytest.approx(np.ones(size), abs=1e-14)
        minors = rows[1:, 1:] * rows[:-1, :-1] / (rows[1:, :-1] * rows[:-1, 1:])
        assert minors.min() >= 1
        assert (counts * np.log(rows)).sum() == pytest.approx(solved(counts), rel=1e-7)


def test_the_likelihood_never_falls():
    read = unbroken(REGIMES.simulate(1500, seed=2))
    owner = np.repeat([0, 1], 2)
    rows = attractive_rows(np.zeros((4, 4)), REGIMES.transition + 0.01)
    laws, passes = (
        Laws(np.full((1, 4), 0.25), rows[None, None]),
        Passes(read.codes, read.ends, owner),
    )
    values = []
    for _ in range(25):
        value, laws = ascended(passes, laws, attractive=True)
        values.append(value[0])
    assert min(np.diff(values)) > -1e-7
    assert values[-1] > values[0] + 1


def test_an_attractive_fit_is_attractive_and_costs_little():
    records = REGIMES.simulate(6000, seed=3)
    free = ut.HiddenChain.fit(records, (0, 1), starts=4, public=True)
    bound = ut.HiddenChain.fit(records, (0, 1), starts=4, public=True, attractive=True)
    assert not is_attractive(free)
    assert is_attractive(bound)
    assert (bound.transition > 0).all()
    assert bound.log_likelihood < free.log_likelihood
    # far better than a chain of order two, which has a third of its parameters
    pairs = diagnostics.orders(records, (0, 1), orders=(2,), hidden=(), public=True)
    assert bound.bic < pairs.best.bic
    assert bound.symbols == (0, 0, 1, 1)


def test_attractive_fits_are_for_two_states():
    with pytest.raises(InvalidInput, match="two states, found 3"):
        ut.HiddenChain.fit([0, 1, 2, 1, 0, 2], attractive=True, public=True)
