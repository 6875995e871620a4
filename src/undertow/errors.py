"""Every error that undertow raises on purpose.

The tree::

    UndertowError
    ├── InvalidInput (ValueError)      an argument has a wrong type or value
    │   ├── InvalidModel               a correlation model is malformed
    │   ├── UnknownState               a state that the model does not have
    │   ├── RecordsDiffer              the records differ from those the model describes
    │   ├── InvalidPlan                a plan file is foreign, damaged or from another version
    │   └── InvalidCertificate         a certificate is malformed, or claims more than it proves
    ├── NotSupported                   a valid question that no certified method answers
    │   ├── MethodRefused              the named method does not prove the requested leakage
    │   │   ├── Infeasible             it would prove it for a larger epsilon only
    │   │   └── IncompleteSeries       its proof needs all values, and some may be missing
    │   ├── SameRecords                the records to be protected are those that were fitted
    │   ├── EffortSpent                the search needs more work than was allowed
    │   ├── NoPublicForm               a result of a fit without noise has no public form
    │   └── NothingToProtect           every record is certain under the model
    ├── FailedChecks                   checks of the model failed and were not accepted
    ├── LedgerError                    the account of what was released
    │   ├── BudgetExceeded             the release exceeds the limit; names what fits
    │   ├── LedgerConflict             entries that exclude each other
    │   ├── LedgerDamaged              the ledger is not what was written, or no ledger
    │   └── LedgerUnavailable          the database cannot be reached, or the disk is full
    └── Contradiction                  two certified bounds disagree: a defect, never a user error

    AccountWarning (UserWarning)       something about the account that a curator should look at
    EffortWarning (UserWarning)        a search ended with its effort spent: its result is proved
    DisclosureWarning (UserWarning)    a model fitted to private data is itself a disclosure

A message says what is required, what was found and where, and what to do. It never contains a
private data value.
"""

from collections.abc import Sequence

__all__ = [
    "AccountWarning",
    "BudgetExceeded",
    "Contradiction",
    "DisclosureWarning",
    "EffortSpent",
    "EffortWarning",
    "FailedChecks",
    "IncompleteSeries",
    "Infeasible",
    "InvalidCertificate",
    "InvalidInput",
    "InvalidModel",
    "InvalidPlan",
    "LedgerConflict",
    "LedgerDamaged",
    "LedgerError",
    "LedgerUnavailable",
    "MethodRefused",
    "NoPublicForm",
    "NotSupported",
    "NothingToProtect",
    "RecordsDiffer",
    "SameRecords",
    "UndertowError",
    "UnknownState",
]


class UndertowError(Exception):
    """Base of all errors raised on purpose."""


class InvalidInput(UndertowError, ValueError):  # noqa: N818  (errors are named for what happened)
    """An argument has a wrong type or value."""


class InvalidModel(InvalidInput):
    """A correlation model is malformed."""


class UnknownState(InvalidInput):
    """A state was named that the model does not have."""


class RecordsDiffer(InvalidInput):
    """The records differ from those that the model describes.

    ``differences`` are triples: what differs, what the model says, what the data say.
    """

    def __init__(self, differences: Sequence[tuple[str, str, str]], advice: str) -> None:
        """Show both sides of everything that differs."""
        shown = "; ".join(
            f"{what}: {model} in the model, {data} in the data" for what, model, data in differences
        )
        super().__init__(f"the model is about records of another kind: {shown}; {advice}")
        self.differences = tuple(differences)


class InvalidPlan(InvalidInput):
    """A plan file is foreign, damaged, edited by hand or from another version."""


class InvalidCertificate(InvalidInput):
    """A certificate is malformed, or its proof does not give the upper end that it claims."""


class NotSupported(UndertowError):  # noqa: N818
    """The question is valid, but no certified method answers it."""


class MethodRefused(NotSupported):
    """The named method does not prove the requested leakage."""


class IncompleteSeries(MethodRefused):
    """The proof of the named method needs a value of every record, and some may be missing."""


class Infeasible(MethodRefused):
    """The method needs a larger epsilon; every one above ``smallest`` will do."""

    def __init__(self, message: str, smallest: float) -> None:
        """Store the infimum of the feasible epsilons."""
        super().__init__(message)
        self.smallest = smallest


class SameRecords(NotSupported):
    """The records that are to be protected are those that the model was fitted to."""


class EffortSpent(NotSupported):
    """The search needs more work than was allowed; work is counted, the same on every machine."""


class NoPublicForm(NotSupported):
    """A result of a fit to private records without noise has no public form."""


class NothingToProtect(NotSupported):
    """Every record is certain under the model: nothing can leak, and no noise is needed."""


class FailedChecks(UndertowError):  # noqa: N818
    """The records speak against the model: checks in ``names`` failed, and were not accepted."""

    def __init__(self, message: str, names: tuple[str, ...]) -> None:
        """Store the names of the failed checks."""
        super().__init__(message)
        self.names = names


class LedgerError(UndertowError):
    """The account of what was released refuses, or cannot be kept."""


class BudgetExceeded(LedgerError):  # noqa: N818
    """A release no longer fits the limit; ``left`` is the DP level that still would."""

    def __init__(self, message: str, left: float) -> None:
        """Store the remaining level."""
        super().__init__(message)
        self.left = left


class LedgerConflict(LedgerError):  # noqa: N818
    """Entries that must not stand beside each other: another model, another release's id."""


class LedgerDamaged(LedgerError):  # noqa: N818
    """The ledger is not what was written to it, or the file is no ledger."""


class LedgerUnavailable(LedgerError):  # noqa: N818
    """The database cannot be reached, is locked, or has no room left; nothing was written."""


class Contradiction(UndertowError):  # noqa: N818
    """Two certified bounds of the same quantity exclude each other; please report it."""


class AccountWarning(UserWarning):
    """Something about the account that a curator should look at: a second one of the same data."""


class EffortWarning(UserWarning):
    """A search ended with its effort spent: what it returns is proved, and more may be provable."""


class DisclosureWarning(UserWarning):
    """A model fitted to private data is itself a disclosure: it is not protected by any noise."""
