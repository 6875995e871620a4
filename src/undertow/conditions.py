"""What weakens a guarantee: clauses of the first sentence of every plan, answer and report.

A guarantee is proved under a model. Each function here names one way in which the records may not
be what the model describes, or the plan may assume something about them; `Plan.guarantee` joins
what they say, so that nobody reads the number without it.
"""

from typing import TYPE_CHECKING, Any

from undertow.rounding import above

if TYPE_CHECKING:
    from undertow.plan import Plan

__all__ = ["conditions_of", "reading_error", "readings_moved"]


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
    if plan.missing == "any":
        return ("assumes that which values are missing depends on no record",)
    if plan.missing != "none":
        return (f"missing values are records in state {plan.missing!r}",)
    unlike = "" if plan.rest is None else f" (one that is counts as {plan.rest!r})"
    return (f"assumes that no value is missing{unlike}",)


def _values(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return what stands for the readings within a state, and how far off that may be."""
    query: Any = plan.query
    error = reading_error(plan)
    if query.values is None or error == 0:
        return ()
    distance = (
        "how far readings are from their state's number is not known"
        if error is None
        else f"a reading, clipped to the range, lies within {above(error)} of it"
    )
    return (f"a record counts as the number of its state, and {distance}",)


def reading_error(plan: "Plan[Any]") -> float | None:
    """Return how far a reading is at most from the number of its state, None where unknown.

    The worst case over all readings, from cut points and bounds; never measured on records.
    """
    rule = plan.model.state_rule()
    return None if rule is None else rule.farthest(plan.query)


def readings_moved(plan: "Plan[Any]", rows: int | None) -> str | None:
    """Return how far rounding readings to the numbers of states moves an answer, in words.

    None where no number stands for a state. Without ``rows`` it is told for each record.
    """
    query: Any = plan.query
    if query.values is None:
        return None
    error = reading_error(plan)
    if error is None:
        return "how far readings are from their state's number is not known"
    if rows is None:
        return f"rounding a reading to its state's number moves it by at most {above(error)}"
    moved = above(query.carried(error, rows)) if error else "0"
    return f"rounding readings to their state's number moves the answer by at most {moved}"


def _records(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return what the model says that its records are."""
    return ()
