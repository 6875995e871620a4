"""The grids themselves: nothing is lost, and any two values meet in the gate."""

import inspect
import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from tests.grids import each, law, pairwise

SHAPES = [(2, 2), (2, 2, 2), (13, 3, 3), (6, 2, 3), (4, 3, 2, 2), (2, 2, 2, 4, 3)]


def gate(cases):
    return [case for case in cases if pytest.mark.soak not in case.marks]


def grid(shape):
    names = [f"x{axis}" for axis in range(len(shape))]
    return pairwise(names, *(range(size) for size in shape)).args


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_combination_is_there_once(shape):
    names, cases = grid(shape)
    assert names == [f"x{axis}" for axis in range(len(shape))]
    assert [case.values for case in cases] == list(itertools.product(*map(range, shape)))
    assert all(tuple(case.marks) in ((), (pytest.mark.soak,)) for case in cases)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_two_values_meet_in_the_gate(shape):
    kept = [case.values for case in gate(grid(shape)[1])]
    for one, two in itertools.combinations(range(len(shape)), 2):
        met = {(values[one], values[two]) for values in kept}
        assert met == set(itertools.product(range(shape[one]), range(shape[two])))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_value_is_seen_in_the_gate(shape):
    names = [f"x{axis}" for axis in range(len(shape))]
    cases = each(names, *(range(size) for size in shape)).args[1]
    kept = [case.values for case in gate(cases)]
    assert [case.values for case in cases] == list(itertools.product(*map(range, shape)))
    assert len(kept) == max(shape)
    assert [set(axis) for axis in zip(*kept, strict=True)] == [set(range(size)) for size in shape]


def test_a_law_is_tried_as_often_as_said():
    seen: list[int] = []

    @law(settings(max_examples=40, database=None, derandomize=True), 5, number=st.integers())
    def property_of_numbers(number, least):
        """What is said."""
        seen.append(max(number, least))

    assert property_of_numbers.__name__ == "property_of_numbers"
    assert property_of_numbers.__doc__ == "What is said."
    assert list(inspect.signature(property_of_numbers).parameters) == ["cases", "least"]
    (mark,) = property_of_numbers.pytestmark
    assert [(case.values, len(case.marks)) for case in mark.args[1]] == [((5,), 0), ((40,), 1)]
    for cases in (5, 40):
        seen.clear()
        property_of_numbers(cases, least=3)
        assert len(seen) == cases
        assert min(seen) == 3
