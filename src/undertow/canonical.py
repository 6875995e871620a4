"""The one JSON text of a value: what goes into a ledger or a plan, and what its hash is of.

A text that reads back as another value, or that some reader cannot hold, would be there for ever:
a ledger only grows, and a plan is signed. So such values are refused before they are written.
"""

from json import dumps, loads
from typing import Any

from undertow.errors import InvalidInput

__all__ = ["DEEPEST", "canonical", "depth", "is_unicode"]

DEEPEST = 100
"""Lists and objects within each other, at most: a reader's stack holds them."""


def canonical(value: Any, what: str) -> str:
    """Return the one JSON text of a value, or refuse what JSON would change.

    Half of a surrogate pair (a text that no UTF-8 holds) is refused in names and values, and so are
    lists nested more than `DEEPEST` deep.

    >>> canonical({"b": 0.1, "a": [1]}, "result")
    '{"a":[1],"b":0.1}'
    """
    try:
        text = dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
        same = loads(text) == value and is_unicode(value) and depth(value) <= DEEPEST
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise InvalidInput(
            f"the {what} must be plain JSON that reads back as it was: dictionaries with texts as "
            f"keys, lists at most {DEEPEST} deep, texts of whole characters, finite numbers; write "
            "pairs as lists"
        )
    return text


def is_unicode(value: Any) -> bool:
    """Return whether every text in a JSON value can be written in UTF-8.

    >>> is_unicode(["a", {"b": "é"}]), is_unicode({"\\ud800": 1})
    (True, False)
    """
    try:
        dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def depth(tree: Any) -> int:
    """Return how many lists and objects lie within each other; counting ends beyond `DEEPEST`.

    >>> depth([1, {"a": []}])
    3
    """
    level, deep = [tree], 0
    while level := [part for part in level if isinstance(part, dict | list)]:
        deep += 1
        level = [
            part
            for found in level
            for part in (found.values() if isinstance(found, dict) else found)
        ]
        if deep > DEEPEST:
            break
    return deep
