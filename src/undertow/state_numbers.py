"""The number of each state, for queries that add records up.

A model with states says nothing about the readings within a state, so a sum of readings has no
proof under it: a record counts as the number of its state. The number is stated in the query, or
the middle of the bin that the state is, or the name of the state itself. Used by `Sum`, `Mean` and
`Linear`.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from undertow.base_query import State, as_numbers
from undertow.errors import InvalidInput, UnknownState
from undertow.numerics import check_number, up

__all__ = ["Values", "farthest", "numbers_of", "read_values"]

Values = tuple[tuple[State, float], ...]
"""Each state with its number."""

Ends = tuple[float, float]


def read_values(values: Any) -> Values | None:
    """Return the numbers of states as pairs, or refuse what gives a state no finite number.

    >>> read_values({"low": 0.2, "high": 1.6})
    (('low', 0.2), ('high', 1.6))
    """
    if values is None:
        return None
    labelled = isinstance(values, Mapping) or hasattr(type(values), "items")
    try:
        pairs = [(state, number) for state, number in (values.items() if labelled else values)]
        distinct = len({state for state, _ in pairs})
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            "values give each state its number, as in values={'low': 0.2, 'high': 1.6}"
        ) from error
    if not pairs or distinct < len(pairs):
        raise InvalidInput("values give each state one number; name each state once")
    return tuple((state, float(check_number(number, "a value"))) for state, number in pairs)


def numbers_of(
    values: Values | None, states: Sequence[State], cuts: Sequence[float], ends: Ends | None
) -> Values:
    """Return the number of each state in the model's order, or refuse states without one.

    Numbers that were stated come first, then the middles of bins, then names that are numbers.
    ``ends`` close the two open bins, and bins are cut off at them.

    >>> numbers_of(None, ("low", "mid", "high"), (1.0, 3.0), (0.0, 6.0))
    (('low', 0.5), ('mid', 2.0), ('high', 4.5))
    """
    if values is not None:
        stated = dict(values)
        for state in stated:
            if state not in states:
                known = ", ".join(map(repr, states[:12]))
                raise UnknownState(
                    f"values name {state!r}, which is no state of the model; its states are {known}"
                )
        for state in states:
            if state not in stated:
                raise InvalidInput(
                    f"values give no number for the state {state!r}; every state needs one"
                )
        return tuple((state, stated[state]) for state in states)
    if len(states) == len(cuts) + 1 > 1:
        if ends is None:
            raise InvalidInput(
                "the first and the last bin have no end, so no middle; say what each state counts "
                f"as: values={{{_example(states)}}}"
            )
        middles = [low + (high - low) / 2 for low, high in pairwise(_edges(cuts, ends))]
        return tuple(zip(states, middles, strict=True))
    numbers = as_numbers(states)
    if numbers is None:
        raise InvalidInput(
            "numbers are added up, and the states of this model are names: the model says nothing "
            "about readings within a state, so a record counts as the number of its state; say "
            f"which, values={{{_example(states)}}}"
        )
    return tuple(zip(states, numbers, strict=True))


def farthest(values: Values, cuts: Sequence[float], ends: Ends) -> float | None:
    """Return how far a reading is at most from the number of its bin, rounded up; None if unknown.

    Readings and numbers are clipped to ``ends``. The worst case over all readings, never measured.

    >>> farthest((("low", 0.5), ("mid", 2.0), ("high", 4.5)), (1.0, 3.0), (0.0, 6.0))
    1.5
    """
    if len(values) != len(cuts) + 1:
        return None
    low, high = ends
    numbers = [Fraction(min(max(number, low), high)) for _, number in values]
    bins = pairwise(map(Fraction, _edges(cuts, ends)))
    most = max(
        max(abs(number - one), abs(number - other))
        for number, (one, other) in zip(numbers, bins, strict=True)
    )
    found = float(most)
    return found if Fraction(found) >= most else up(found)


def _edges(cuts: Sequence[float], ends: Ends) -> list[float]:
    """Return the ends of all bins, cut off at the ends of the range."""
    low, high = ends
    return [low, *(min(max(float(cut), low), high) for cut in cuts), high]


def _example(states: Sequence[State]) -> str:
    """Return what values of these states look like."""
    shown = [f"{state!r}: {place}" for place, state in enumerate(states[:2])]
    return ", ".join([*shown, *(["..."] if len(states) > 2 else [])])
