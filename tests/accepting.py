"""The failed checks of a fitted model, for tests that are about something else."""

from typing import Any


def broken(model: Any) -> list[str]:
    """Return the names of the checks that failed: what `calibrate` must be told to accept.

    >>> import undertow as ut
    >>> broken(ut.MarkovChain([[.9, .1], [.3, .7]]))
    []
    """
    return [check.name for check in model.checks if check.outcome == "failed"]
