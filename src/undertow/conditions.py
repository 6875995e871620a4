"""What weakens a guarantee: clauses of the first sentence of every plan, answer and report.

A guarantee is proved under a model. Each function here names one way in which the records may not
be what the model describes, or the plan may assume something about them; `Plan.guarantee` joins
what they say, so that nobody reads the number without it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from undertow.plan import Plan

__all__ = ["SAME", "conditions_of"]

SAME = "same-records"
"""What a plan accepts that may be released from the very records its model was fitted to."""


def conditions_of(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return the clauses that weaken the guarantee of a plan, the weightiest first."""
    parts = (_checks, _origin, _missing, _values, _records)
    return tuple(clause for part in parts for clause in part(plan))


def _checks(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return what failed checks that were accepted cost, and what was not tested."""
    return ()


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
    said = str(plan.model.records)
    accepted = "the model may be fitted to the very records that are released, which was accepted"
    clauses = ((f"records are {said}" if said else ""), accepted * (SAME in plan.accepted))
    return tuple(clause for clause in clauses if clause)
