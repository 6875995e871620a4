"""Names that were given up: they still work, and say what took their place."""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

__all__ = ["renamed", "warn"]

F = TypeVar("F", bound=Callable[..., Any])


def renamed(**names: str) -> Callable[[F], F]:
    """Return a decorator that takes keywords by their old names too, old = new, with a warning."""

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            for old, new in names.items():
                if old in keywords and new not in keywords:
                    warn(f"{function.__name__}({old}=...)", f"{new}=")
                    keywords[new] = keywords.pop(old)
            return function(*args, **keywords)

        return cast("F", call)

    return decorate


def warn(old: str, new: str) -> None:
    """Say that the caller's caller uses a name that was given up."""
    warnings.warn(
        f"{old} is deprecated: it is a limit on leakage, not a DP level; write {new}",
        DeprecationWarning,
        stacklevel=3,
    )
