"""What a fitted model stands for: the set of models that its records leave plausible.

An estimate is never the truth. Whoever takes a model (`undertow.leakage`, `dp_budget`, `calibrate`,
`compare`, `Ledger`) asks here first, and answers for the confidence region of a fit; a model that
was written by hand stands for itself, and so does the point of a fit (`Model.point`). This is the
one place where that is decided.
"""

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from undertow.errors import MethodRefused, NotSupported
from undertow.models.base import Model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from undertow.models.fitting.checks import Check

__all__ = ["accounted", "estimated", "pointing", "stands_for"]


def stands_for(model: Model) -> Model:
    """Return the model that guarantees are given for.

    A fit of order one stands for its confidence region at the confidence of the region, 0.95 unless
    another was asked for; a set for what its members stand for; all others for themselves.

    >>> from undertow.models.chains import MarkovChain
    >>> chain = MarkovChain.from_counts([[90, 10], [9, 21]], public=True)
    >>> stands_for(chain).kind, stands_for(chain.point()).kind
    ('box', 'markov-chain')
    """
    region = model.plausible_region()
    if region is None:
        return model
    sentence = "; ".join(dict.fromkeys(region.disclaimers()))
    return model.passed_on(region, accounted(model.checks, "sample", sentence))


@contextmanager
def pointing(model: Model) -> "Iterator[None]":
    """Name the point of a fit where nothing can be done for its region.

    >>> from undertow.models.chains import MarkovChain
    >>> with pointing(MarkovChain.from_counts([[90, 10], [9, 21]], public=True)):
    ...     raise NotSupported("no proof")
    Traceback (most recent call last):
    undertow.errors.NotSupported: no proof; this is a fit, which stands for its confidence region: \
its point() takes the estimate for the truth, and the promise says so
    """
    try:
        yield
    except NotSupported as reason:
        plain = type(reason) in (NotSupported, MethodRefused)  # others have parts of their own
        if not plain or stands_for(model) is model:
            raise
        raise type(reason)(
            f"{reason}; this is a fit, which stands for its confidence region: its point() takes "
            "the estimate for the truth, and the promise says so"
        ) from reason


def accounted(checks: "Sequence[Check]", name: str, sentence: str) -> "tuple[Check, ...]":
    """Return the checks for a model that accounts for one of them, and how it does.

    >>> from undertow.models.fitting.checks import Check
    >>> accounted([Check("sample", "not tested", "30 records")], "sample", "a region")[0].words
    '30 records; a region'
    """
    return tuple(
        replace(check, outcome="passed", words=f"{check.words}; {sentence}", alternative=None)
        if check.name == name and sentence not in check.words
        else check
        for check in checks
    )


def estimated(checks: "Sequence[Check]") -> "tuple[Check, ...]":
    """Return the checks for the point of a fit: nothing accounts for the error of its estimate.

    >>> from undertow.models.fitting.checks import Check
    >>> estimated([Check("sample", "passed", "900 records")])[0].outcome
    'not tested'
    """
    return tuple(
        replace(
            check,
            outcome="not tested",
            words=f"the estimate itself is taken for the truth; {check.words}",
        )
        if check.name == "sample"
        else check
        for check in checks
    )
