"""How much work a call is, as the same number on every machine: no test looks at the clock."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(function: Callable[..., Any], *arguments: Any) -> int:
    """How many functions, of Python and of C, are called on the way.

    >>> calls(abs, -1) < calls(lambda: [abs(number) for number in range(100)])
    True
    """
    found = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function(*arguments)
    finally:
        sys.setprofile(before)
    return found
