"""What weakens a guarantee: clauses of the first sentence of every plan, answer and report.

A guarantee is proved under a model. Each function here names one way in which the records may not
be what the model describes, or the plan may assume something about them; `Plan.guarantee` joins
what they say, so that nobody reads the number without it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from undertow.models.acceptance import failed, listed
from undertow.rounding import above, odds

if TYPE_CHECKING:
    from undertow.models.checks import Check
    from undertow.plan import Plan

__all__ = [
    "UNBOUNDED",
    "at_most",
    "checked",
    "claimed",
    "conditions_of",
    "doubts",
    "premise",
    "weakest",
]

UNBOUNDED = "not bounded: no bound covers all that the records suggest instead of the model"


def conditions_of(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return the clauses that weaken the guarantee of a plan, the weightiest first."""
    parts = (_checks, _origin, _missing, _values, _records)
    return tuple(clause for part in parts for clause in part(plan))


def weakest(plan: "Plan[Any]") -> tuple[float, bool]:
    """Return the largest leakage known, and whether it is a bound whatever failed checks suggest.

    Known is what is proved under the model, and of a check that failed what is proved, or else
    attained, under the model that it suggests. A plan for whole persons, and one against an
    attacker who knows all other records, hold whatever the dependence among records.
    """
    depends = plan.unit == "record" and plan.against != "informed"
    return _worst(plan.checks if depends else (), plan.leakage.upper)


def at_most(checks: "Sequence[Check]", limit: float) -> tuple[str, ...]:
    """Return what is known of a leakage limit where checks failed, as clauses.

    >>> from undertow.models.checks import Check
    >>> at_most([Check("order", "failed", "", leakage=(1.5, 2.0))], 1.0)
    ('under what the records suggest instead of the model it is a factor 7.39 (leakage 2)',)
    """
    known, bounded = _worst(checks, limit)
    return claimed(known, limit, bounded=bounded)


def claimed(known: float, limit: float, *, bounded: bool) -> tuple[str, ...]:
    """Return what is known beyond a limit, as clauses; nothing where the limit is a bound."""
    clauses = [] if bounded else [UNBOUNDED]
    if known > limit:
        clauses.append(
            "under what the records suggest instead of the model it is a factor "
            f"{odds(known)} (leakage {above(known)})"
        )
    return tuple(clauses)


def _worst(checks: "Sequence[Check]", own: float) -> tuple[float, bool]:
    ends = [check.leakage or (0.0, None) for check in failed(checks)]
    known = [lower if upper is None else upper for lower, upper in ends]
    return max([own, *known]), all(upper is not None for _, upper in ends)


def premise(plan: "Plan[Any]") -> str:
    """Return what must stand before a number that holds under the plan's model alone.

    "" where no failed check is known to cost more.
    """
    known, bounded = weakest(plan)
    return "" if bounded and known <= plan.leakage.upper else "if the model were true, "


def checked(checks: "Sequence[Check]", accepted: Sequence[str]) -> tuple[str, ...]:
    """Return what was found when a model was held against records, as clauses.

    >>> from undertow.models.checks import Check
    >>> checked((Check("order", "failed", ""), Check("time", "not tested", "")), ["order"])
    ("the check 'order' failed and was accepted", "'time' was not tested")
    >>> checked((), ())
    ('the model was not checked against records',)
    """
    if not checks:
        return ("the model was not checked against records",)
    broken = [check.name for check in failed(checks)]
    untested = [check.name for check in checks if check.outcome == "not tested"]
    taken = [name for name in broken if name in accepted]
    left = [name for name in broken if name not in accepted]
    clauses = (
        (taken, "the check {} failed and was accepted", "the checks {} failed and were accepted"),
        (left, "the check {} failed", "the checks {} failed"),
        (untested, "{} was not tested", "{} were not tested"),
    )
    return tuple(
        (several if len(names) > 1 else one).format(listed(names))
        for names, one, several in clauses
        if names
    )


def doubts(checks: "Sequence[Check]") -> tuple[str, ...]:
    """Return what a leakage under a model says of the checks of that model, as assumptions.

    >>> from undertow.models.checks import Check
    >>> doubts([Check("order", "failed", "")])
    ("not bounded unless the model is true all the same: the check 'order' failed",)
    >>> doubts([Check("order", "passed", "")])
    ()
    """
    clauses = checked(checks, ())
    if not failed(checks):
        return clauses
    return (f"not bounded unless the model is true all the same: {clauses[0]}", *clauses[1:])


def _checks(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return which checks failed and were accepted, and what was not tested."""
    return checked(plan.checks, plan.accepted) if plan.unit == "record" else ()


def _origin(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return what is known of the records that the model was fitted to."""
    return ()


def _missing(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return what the proof assumes about missing records."""
    return ()


def _values(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return what stands for the readings within a state, and how far off that may be."""
    return ()


def _records(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return what the model says that its records are."""
    return ()
