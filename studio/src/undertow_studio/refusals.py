"""Refusals in the words of a page: what was found, and what to do about it."""

from undertow.rounding import visible

__all__ = ["in_words"]


def in_words(error: BaseException) -> str:
    """Return what a refusal says, in one line in which nothing is hidden.

    >>> in_words(ValueError("choose a  column"))
    'choose a column'
    """
    if isinstance(error, MemoryError):
        return "this needs more memory than there is; use fewer states, or fewer records"
    return visible(" ".join(str(error).split()))
