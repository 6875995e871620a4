"""Types of records, which are public, held against the states of a model.

What is public of a frame or a Parquet file is the declared type of its column, of a list and of a
column of Python objects the set of the Python types in it. A CSV column has no type: its fields are
read as the model's states are, and what fails is foreign. Records that can be in no state, whatever
they are, are refused; foreign records of a type that fits are private, and never an error.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from undertow.data.objects import is_missing, plain
from undertow.data.sql import NUMBER, TEXT, TRUTH
from undertow.errors import InvalidInput
from undertow.queries import State

__all__ = ["check_fields", "check_kinds", "kind_of_value", "kinds_of"]

_WORDS = {TEXT: "text", NUMBER: "numbers", TRUTH: "truth values"}


def kind_of_value(value: Any) -> str:
    """Return what a value is: a text, a number, a truth value, or the name of another type.

    >>> kind_of_value("1"), kind_of_value(1.5), kind_of_value(True), kind_of_value((1, 2))
    ('text', 'number', 'truth', 'tuple')
    """
    value = plain(value)
    if isinstance(value, str):
        return TEXT
    if isinstance(value, bool):
        return TRUTH
    if isinstance(value, int | float | Decimal | Fraction):
        return NUMBER
    return type(value).__name__


def kinds_of(records: Any) -> frozenset[str]:
    """Return what the records of a list or an array are, () where all are missing.

    Of an array, its declared type; of a list, the set of the types in it.

    >>> sorted(kinds_of(["a", 1, None])), kinds_of([None])
    (['number', 'text'], frozenset())
    """
    dtype = getattr(records, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biufU":
        return frozenset({{"b": TRUTH, "U": TEXT}.get(dtype.kind, NUMBER)})
    listed = records.reshape(-1) if isinstance(records, np.ndarray) else records
    there = (one for one in listed if one is not np.ma.masked and not is_missing(one))
    return frozenset(map(kind_of_value, there))


def check_kinds(kinds: Iterable[str], states: Sequence[State], what: str) -> None:
    """Refuse records none of whose types can be a state's; truth values count as the numbers 0, 1.

    >>> check_kinds({"text", "number"}, ("rest", "move"), "the list")
    >>> check_kinds({"truth"}, (0, 1), "the list")
    """
    given, wanted = set(kinds), {kind_of_value(state) for state in states}
    if TRUTH in given:
        given.add(NUMBER)
    if not given or not wanted or given & wanted:
        return
    found = " and ".join(sorted(_WORDS.get(kind, kind) for kind in set(kinds)))
    named = ", ".join(map(repr, states[:4]))
    raise InvalidInput(
        f"{what} holds {found}, and no such value is one of the states {named}"
        f"{', ...' if len(states) > 4 else ''}; say what makes a state of it: an expression, "
        "Data(..., state='value > 0') or --state 'value > 0', or a mapping, "
        "Data(..., state={True: ...})"
    )


def check_fields(states: Sequence[State], what: str) -> None:
    """Refuse fields of a CSV file as truth values: which are true cannot be told from a type.

    >>> check_fields((0, 1), "column 'steps'")
    """
    if states and all(isinstance(state, bool) for state in states):
        raise InvalidInput(
            f"the states are True and False, and {what} is of a CSV file, which has no types; say "
            "which of its fields are True: state='value > 0' or --state 'value > 0', or state="
            "\"value = 'true'\", with the name of the column"
        )
