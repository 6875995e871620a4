"""Failed checks of a model, and the names of those that somebody has taken upon themselves.

A guarantee is proved under a model. Where a check of the model failed, the records speak against
it, and nothing is planned, budgeted or accounted under it unless each failed check is accepted by
name. `undertow.planning.doors` says what accepting costs, and which models need no acceptance.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from undertow.errors import FailedChecks, InvalidInput
from undertow.numerics import check_listed, shown

if TYPE_CHECKING:
    from undertow.models.checks import Check

__all__ = ["SAME_RECORDS", "accept_option", "accepted", "check_accepted", "failed", "listed"]

SAME_RECORDS = "same-records"
"""Accepts that the records to be released are those that the model was fitted to; no check."""


def failed(checks: "Iterable[Check]") -> "tuple[Check, ...]":
    """Return the checks that failed, in their order.

    >>> from undertow.models.checks import Check
    >>> [check.name for check in failed([Check("time", "failed", ""), Check("order", "passed", "")])]
    ['time']
    """  # noqa: E501
    return tuple(check for check in checks if check.outcome == "failed")


def accepted(checks: "Sequence[Check]", accept: object, *, all_of: bool = True) -> tuple[str, ...]:
    """Return the names that are accepted, or refuse a failed check that is not among them.

    Each failed check must be named, and nothing else may be but ``"same-records"``. With
    ``all_of=False`` a failed check may be missing from ``accept``.

    >>> from undertow.models.checks import Check
    >>> checks = Check("order", "failed", "two records predict more"), Check("time", "passed", "")
    >>> accepted(checks, ["order"])
    ('order',)
    >>> accepted(checks, ["time"])
    Traceback (most recent call last):
    ...
    undertow.errors.InvalidInput: 'time' did not fail and needs no acceptance; 'order' did
    """
    names, broken = _names(accept), [check.name for check in failed(checks)]
    for name in names:
        if name not in (*broken, SAME_RECORDS):
            which = f"{listed(broken)} did" if broken else "no check of this model did"
            raise InvalidInput(f"{name[:40]!r} did not fail and needs no acceptance; {which}")
    if all_of:
        check_accepted(checks, names)
    return tuple(name for name in (*broken, SAME_RECORDS) if name in names)


def check_accepted(checks: "Iterable[Check]", names: Sequence[str]) -> None:
    """Refuse checks of which one failed and is not among the accepted names."""
    missing = [check for check in failed(checks) if check.name not in names]
    if missing:
        raise FailedChecks(
            f"{_refused(missing)}; {accept_option([*names, *(one.name for one in missing)])} takes "
            "that upon you, and every promise says so",
            tuple(check.name for check in missing),
        )


def accept_option(names: Iterable[str]) -> str:
    """Return names as the argument that accepts them.

    >>> accept_option(["order"]), accept_option(["order", "time"])
    ("accept=('order',)", "accept=('order', 'time')")
    """
    return f"accept={tuple(names)!r}"


def listed(names: Sequence[str]) -> str:
    """Return quoted names in words.

    >>> listed(["order"]), listed(["order", "memory", "time"])
    ("'order'", "'order', 'memory' and 'time'")
    """
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}" if first else last


def _refused(missing: "Sequence[Check]") -> str:
    plural = "checks" if len(missing) > 1 else "check"
    reasons = "; ".join(f"{check.name}: {check.words}" for check in missing)
    return f"the records speak against the model, which failed the {plural} {reasons}"


def _names(accept: object) -> list[str]:
    names = check_listed(accept, "accept")
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"accept is a list of names of checks, found {shown(name)}")
    return list(dict.fromkeys(names))
