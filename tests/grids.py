"""Grids of cases of which the gate runs a part and `make soak` the rest.

Most defects show with one value, or with two values that meet: the gate runs a subset in which any
two values of any two axes meet, or each value once where axes hardly interact; the soak runs every
other combination.
"""

import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import given, settings

from tests.contracts.covering import covering

Name = str | tuple[str, ...]  # a tuple where the values of one axis are tuples


def pairwise(
    names: Sequence[Name], *axes: Iterable[Any], indirect: Sequence[str] = ()
) -> pytest.MarkDecorator:
    """Parametrize a test by all combinations; in the gate every pair of values occurs.

    >>> mark = pairwise(("x", "y", "z"), "ab", "cd", "ef")
    >>> [case.id for case in mark.args[1] if not case.marks]
    ['a-c-e', 'a-d-f', 'b-c-f', 'b-d-e']
    """
    return _grid(names, axes, indirect, _covering)


def _grid(
    names: Sequence[Name], axes: Sequence[Iterable[Any]], indirect: Sequence[str],
    cover: Callable[[Sequence[int]], set[tuple[int, ...]]],
) -> pytest.MarkDecorator:  # fmt: skip
    values = [_named(name, axis) for name, axis in zip(names, axes, strict=True)]
    chosen = cover([len(axis) for axis in values])
    cases = []
    for place in itertools.product(*(range(len(axis)) for axis in values)):
        parts = [axis[i] for axis, i in zip(values, place, strict=True)]
        found = tuple(itertools.chain.from_iterable(part.values for part in parts))
        marks = [mark for part in parts for mark in part.marks]
        name = "-".join(str(part.id) for part in parts)
        cases.append(_soaked(pytest.param(*found, marks=marks, id=name), place in chosen))
    flat = [each for name in names for each in ((name,) if isinstance(name, str) else name)]
    return pytest.mark.parametrize(flat, cases, indirect=list(indirect))


def each(
    names: Sequence[Name], *axes: Iterable[Any], indirect: Sequence[str] = (),
    few: int | None = None,
) -> pytest.MarkDecorator:  # fmt: skip
    """Parametrize a test by all combinations; in the gate every value of every axis occurs once.

    For axes that hardly interact, such as kinds of models and sizes. ``few`` where so many do:
    seeds, or sizes that only repeat each other.

    >>> mark = each(("x", "y"), "abcd", "ef")
    >>> [case.id for case in mark.args[1] if not case.marks]
    ['a-e', 'b-f', 'c-e', 'd-f']
    """
    return _grid(names, axes, indirect, lambda sizes: _once(sizes, few))


def law(whole: settings, few: int, **strategies: Any) -> Callable[[Any], Any]:
    """Draw ``few`` random cases of a property in the gate, as many as ``whole`` says in the soak.

    Parameters without a strategy come from fixtures and other marks.
    """

    def wrap(test: Callable[..., None]) -> Callable[..., None]:
        def run(cases: int, **fixed: Any) -> None:
            settings(whole, max_examples=cases)(given(**strategies)(test))(**fixed)

        others = [
            part for name, part in inspect.signature(test).parameters.items()
            if name not in strategies
        ]  # fmt: skip
        own = inspect.Parameter("cases", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([own, *others])  # type: ignore[attr-defined]
        run.__name__, run.__qualname__ = test.__name__, test.__qualname__
        run.__doc__, run.__module__ = test.__doc__, test.__module__
        runs = [pytest.param(few), pytest.param(whole.max_examples, marks=[pytest.mark.soak])]
        marked: Callable[..., None] = pytest.mark.parametrize("cases", runs)(run)
        return marked

    return wrap


def _named(name: Name, axis: Iterable[Any]) -> list[ParameterSet]:
    """Return the values of an axis as parameters with ids."""
    found = []
    for number, case in enumerate(axis):
        param = case
        if not isinstance(case, ParameterSet):
            param = pytest.param(case) if isinstance(name, str) else pytest.param(*case)
        plain = all(isinstance(v, str | int | float | None) for v in param.values)
        spoken = "-".join(map(str, param.values)) if plain else f"{name}{number}"
        found.append(pytest.param(*param.values, marks=param.marks, id=param.id or spoken))
    return found


def _soaked(case: ParameterSet, kept: bool) -> ParameterSet:
    marks = case.marks if kept else [*case.marks, pytest.mark.soak]
    return pytest.param(*case.values, marks=marks, id=case.id)


def _once(sizes: Sequence[int], few: int | None) -> set[tuple[int, ...]]:
    """Choose as many combinations as the longest axis has values; shorter axes start again."""
    return {tuple(number % size for size in sizes) for number in range(few or max(sizes))}


def _covering(sizes: Sequence[int]) -> set[tuple[int, ...]]:
    """Choose combinations in which all pairs of places occur; all of them along a single axis."""
    every = list(itertools.product(*map(range, sizes)))
    return set(every) if len(sizes) < 2 else {every[number] for number in covering(every)}
