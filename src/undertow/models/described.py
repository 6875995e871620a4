"""Descriptions of models as files hold them: fields, numbers and names of the right types.

A file is somebody else's: a truth value is no number here, a text is no number, a field that is not
known is not passed over. What the numbers mean is checked by the models themselves.
"""

import sys
from collections.abc import Hashable
from typing import Any

from undertow.errors import InvalidInput, InvalidModel

__all__ = ["fields", "names", "number", "numbers", "read_name", "text", "whole"]

LARGEST = 10**8
"""Largest length or size that a file may ask for: beyond it, nothing fits into memory."""

HUGE = sys.float_info.max
"""Numbers beyond it, whole ones included, are no floats any more."""

LONGEST = 100_000
"""Characters of one text in a file: assumptions over long lists of models are long."""


def fields(
    description: Any, what: str, needed: tuple[str, ...], more: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the description if it has all fields that are needed, and none that is unknown.

    >>> fields({"size": 3}, "a groups model", ("size",))
    {'size': 3}
    """
    if not isinstance(description, dict):
        raise InvalidModel(f"{what} is described by an object with fields; found something else")
    for key in needed:
        if key not in description:
            raise InvalidModel(f"{what} needs {key!r}; none was found")
    known = (*needed, *more)
    for key in description:
        if key not in known:
            raise InvalidModel(
                f"{what} has no field {str(key)[:40]!r}; its fields are {', '.join(known)}"
            )
    return description


def numbers(value: Any) -> Any:
    """Return a number, or nested lists of numbers, as they are; refuse anything else.

    >>> numbers([[0.5, 0.5], [1, 0]])
    [[0.5, 0.5], [1, 0]]
    """
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, list | tuple):
            left.extend(item)
        elif isinstance(item, bool) or not isinstance(item, int | float):
            raise InvalidInput(
                f"numbers are required here, found {type(item).__name__}; pass a rectangular "
                "nested list of real numbers"
            )
        elif isinstance(item, int) and abs(item) > HUGE:
            raise InvalidInput("a whole number is beyond all floats; numbers must be finite")
    return value


def number(value: Any, name: str) -> float:
    """Return a single finite number as it is.

    >>> number(0.5, "rho")
    0.5
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{name} must be a number, found {type(value).__name__}")
    if not abs(value) <= HUGE:
        raise InvalidInput(f"{name} must be finite, found a number beyond all floats")
    return value


def whole(value: Any, name: str, most: int = LARGEST) -> Any:
    """Return the value unless it is a whole number that is too large; None passes.

    >>> whole(5, "length")
    5
    """
    if isinstance(value, int) and abs(value) > most:
        raise InvalidModel(f"{name} must be at most {most:g}, found more")
    return value


def names(value: Any, what: str) -> Any:
    """Return a list of texts and finite numbers as it is; None passes.

    >>> names(["inactive", "active"], "states")
    ['inactive', 'active']
    """
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise InvalidModel(f"{what} must be a list of names, found {type(value).__name__}")
    for name in value:
        if not isinstance(name, str | int | float):
            raise InvalidModel(
                f"{what} must be texts or numbers, found {type(name).__name__}; name them plainly"
            )
        finite = isinstance(name, str) or abs(name) <= HUGE
        if not finite:
            raise InvalidModel(f"{what} named by numbers must be finite")
    return value


def text(value: Any, what: str) -> str:
    """Return a text of bounded length without control characters.

    >>> text("two good days", "a note")
    'two good days'
    """
    if not isinstance(value, str):
        raise InvalidModel(f"{what} must be a text, found {type(value).__name__}")
    if len(value) > LONGEST:
        raise InvalidModel(f"{what} must be at most {LONGEST} characters long")
    if any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in value):
        raise InvalidModel(f"{what} must not hold control characters")
    return value


def read_name(node: Any) -> Hashable:
    """Return a name from a file, where tuples have become lists.

    >>> read_name(["f1", [3]])
    ('f1', (3,))
    """
    if isinstance(node, list | tuple):
        return tuple(read_name(part) for part in node)
    if node is None or isinstance(node, str | int | float):
        return node
    raise InvalidModel(
        f"names must be texts, numbers or lists of these, found {type(node).__name__}"
    )
