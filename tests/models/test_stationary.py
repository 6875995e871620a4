"""The stationary law, judged in exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from undertow.errors import InvalidModel
from undertow.models.chains import stationary_law

ACCURACY = 1e-13  # relative, for every entry: k^2 roundings of 1.1e-16 and some to spare
MANY = settings(deadline=None, derandomize=True, database=None, max_examples=80)


def exact_law(matrix):
    """Solve pi P = pi over the rationals; the diagonal is what the other entries leave."""
    size = len(matrix)
    rates = [[Fraction(float(entry)) for entry in row] for row in matrix]
    for state in range(size):
        rates[state][state] = -sum(rates[state][:state] + rates[state][state + 1 :], Fraction(0))
    # columns of the balance equations, the last replaced by "the law sums to one"
    system = [[rates[x][y] for x in range(size)] for y in range(size - 1)]
    system.append([Fraction(1)] * size)
    right = [Fraction(0)] * (size - 1) + [Fraction(1)]
    for column in range(size):
        pivot = next(row for row in range(column, size) if system[row][column])
        system[column], system[pivot] = system[pivot], system[column]
        right[column], right[pivot] = right[pivot], right[column]
        for row in range(size):
            if row != column and system[row][column]:
                factor = system[row][column] / system[column][column]
                system[row] = [
                    a - factor * b for a, b in zip(system[row], system[column], strict=True)
                ]
                right[row] -= factor * right[column]
    return [right[row] / system[row][row] for row in range(size)]


def relative_errors(matrix):
    for found, exact in zip(stationary_law(np.array(matrix)), exact_law(matrix), strict=True):
        yield abs(Fraction(float(found)) / exact - 1) if exact else Fraction(float(found))


tiny = st.sampled_from([1.0, 0.3, 1e-3, 1e-9, 1e-30, 1e-90])


@st.composite
def matrices(draw):
    size = draw(st.integers(2, 6))
    rows = []
    for _ in range(size):
        parts = [draw(tiny) * draw(st.integers(1, 9)) for _ in range(size)]
        rows.append([part / sum(parts) for part in parts])
    return rows


@MANY
@given(matrices())
def test_every_entry_is_accurate_however_small(matrix):
    assert max(relative_errors(matrix)) < ACCURACY


def test_tiny_entries_against_the_closed_form():
    q, r = 1e-90, 0.5
    law = stationary_law(np.array([[1.0, q], [r, 0.5]]))
    assert law[1] == pytest.approx(q / (q + r), rel=1e-15, abs=0)
    ladder = np.array([[1.0, 1e-40, 0.0], [0.5, 0.5, 1e-40], [0.0, 0.5, 0.5]])
    assert stationary_law(ladder)[2] == pytest.approx(4e-80, rel=1e-14, abs=0)


@MANY
@given(matrices())
def test_the_law_is_stationary_and_sums_to_one(matrix):
    law = stationary_law(np.array(matrix))
    assert (law > 0).all()
    assert law.sum() == pytest.approx(1.0, abs=1e-15)
    assert law @ np.array(matrix) == pytest.approx(law, rel=1e-14, abs=1e-16)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_periodic_chains_have_one(size):
    cycle = np.roll(np.eye(size), 1, axis=1)
    assert stationary_law(cycle) == pytest.approx(np.full(size, 1 / size), rel=1e-15)
    bipartite = np.array([[0, 0, 0.2, 0.8], [0, 0, 0.5, 0.5], [0.3, 0.7, 0, 0], [0.6, 0.4, 0, 0]])
    assert max(relative_errors(bipartite.tolist())) < ACCURACY


def test_transient_states_have_probability_zero_exactly():
    matrix = np.array(
        [[0.5, 0.25, 0.25, 0.0], [0.0, 0.3, 0.7, 0.0], [0.0, 0.6, 0.4, 0.0], [0.9, 0.0, 0.0, 0.1]]
    )
    law = stationary_law(matrix)
    assert law[[0, 3]].tolist() == [0.0, 0.0]
    assert law[1:3] == pytest.approx([6 / 13, 7 / 13], rel=1e-15)
    absorbing = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    assert stationary_law(absorbing).tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "matrix",
    [
        np.eye(2),
        np.eye(3),
        [[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5]],
        [[1, 0, 0], [0.3, 0.3, 0.4], [0, 0, 1]],
    ],
    ids=["frozen", "three", "blocks", "two-traps"],
)
def test_two_closed_classes_are_refused(matrix):
    with pytest.raises(InvalidModel, match="several closed classes"):
        stationary_law(np.array(matrix, dtype=float))
