"""What weakens a guarantee: clauses of the first sentence of every plan, answer and report.

A guarantee is proved under a model. Each function here names one way in which the records may not
be what the model describes, or the plan may assume something about them; `Plan.guarantee` joins
what they say, so that nobody reads the number without it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from undertow.models.acceptance import SAME_RECORDS, failed, listed
from undertow.models.origins import CURATORS
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
    "largest_known",
    "premise",
    "reading_error",
    "readings_moved",
]

UNBOUNDED = "not bounded: no bound covers all that the records suggest instead of the model"


def conditions_of(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return the clauses that weaken the guarantee of a plan, the weightiest first."""
    parts = (_checks, _origin, _missing, _values, _records)
    return tuple(clause for part in parts for clause in part(plan))


def largest_known(plan: "Plan[Any]") -> tuple[float, bool]:
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
    known, bounded = largest_known(plan)
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
    """
    broken, *rest = checked(checks, ())
    if failed(checks):
        broken = f"not bounded unless the model is true all the same: {broken}"
    return (broken, *rest)


def _checks(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return which checks failed and were accepted, and what was not tested."""
    return checked(plan.checks, plan.accepted) if plan.unit == "record" else ()


def _origin(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return what is known of the records that the model was fitted to."""
    return () if plan.audience == "public" else (f"{CURATORS}: this plan is the curator's",)


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
    said = str(plan.model.records)
    accepted = "the model may be fitted to the very records that are released, which was accepted"
    clauses = ((f"records are {said}" if said else ""), accepted * (SAME_RECORDS in plan.accepted))
    return tuple(clause for clause in clauses if clause)
