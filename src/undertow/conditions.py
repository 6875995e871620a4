"""What weakens a guarantee: clauses of the first sentence of every plan, answer and report.

A guarantee is proved under a model. Each function here names one way in which the records may not
be what the model describes, or the plan may assume something about them; `Plan.guarantee` joins
what they say, so that nobody reads the number without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from undertow.models.acceptance import SAME_RECORDS, failed, listed
from undertow.models.origins import CURATORS
from undertow.rounding import above, below, odds

if TYPE_CHECKING:
    from undertow.models.checks import Check
    from undertow.plan import Plan

__all__ = [
    "Suggested",
    "checked",
    "conditions_of",
    "doubts",
    "exact_answer",
    "premise",
    "reading_error",
    "readings_moved",
]

UNBOUNDED = "not bounded: no bound covers all that the records suggest instead of the model"


def conditions_of(plan: "Plan[Any]") -> tuple[str, ...]:
    """Return the clauses that weaken the guarantee of a plan, the weightiest first."""
    parts = (_checks, _origin, _missing, _values, _records)
    return tuple(clause for part in parts for clause in part(plan))


@dataclass(frozen=True, slots=True)
class Suggested:
    """The leakage under the models that failed checks suggest instead of the fitted one.

    ``most`` is the largest bound known, under the model or under what one failed check suggests.
    ``bounded`` says whether it is a bound on all that the records suggest: not where a failed check
    suggests no model with a bound, and not where several failed, because no model has all that they
    suggest. ``attained`` is the largest leakage of an attack where no bound is known.
    """

    most: float
    attained: float = 0.0
    bounded: bool = True

    @classmethod
    def by(cls, checks: "Sequence[Check]", own: float) -> "Suggested":
        """Return what checks say of a leakage that is at most ``own`` if the model is true.

        >>> from undertow.models.checks import Check
        >>> Suggested.by([Check("order", "failed", "", leakage=(1.5, 2.0))], 1.0)
        Suggested(most=2.0, attained=0.0, bounded=True)
        """
        ends = [check.leakage or (0.0, None) for check in failed(checks)]
        uppers = [upper for _, upper in ends if upper is not None]
        attained = max((lower for lower, upper in ends if upper is None), default=0.0)
        return cls(max([own, *uppers]), attained, len(uppers) == len(ends) <= 1)

    @classmethod
    def of(cls, plan: "Plan[Any]") -> "Suggested":
        """Return what the checks of a plan say of what it leaks.

        A plan for whole persons, and one against an attacker who knows all other records, hold
        whatever the dependence among records.
        """
        depends = plan.unit == "record" and plan.against != "informed"
        return cls.by(plan.checks if depends else (), plan.leakage.upper)

    def worse(self, own: float) -> bool:
        """Return whether more is known, or feared, than a leakage of at most ``own``."""
        return not self.bounded or self.most > own

    def unbounded(self) -> tuple[str, ...]:
        """Return that there is no bound, and what an attack attains, as clauses."""
        attack = (
            f"an attack on what the records suggest attains a leakage of {below(self.attained)}"
        )
        return (*[UNBOUNDED] * (not self.bounded), *[attack] * (self.attained > 0))

    def beyond(self, limit: float) -> tuple[str, ...]:
        """Return what is known beyond a limit, as clauses; nothing where the limit is a bound.

        >>> Suggested(2.0).beyond(1.0)
        ('under what the records suggest instead of the model it is a factor 7.39 (leakage 2)',)
        """
        most = (
            "under what the records suggest instead of the model it is a factor "
            f"{odds(self.most)} (leakage {above(self.most)})"
        )
        return (*self.unbounded(), *[most] * (self.most > limit))


def premise(plan: "Plan[Any]") -> str:
    """Return what must stand before a number that holds under the plan's model alone.

    "" where no failed check is known to cost more.
    """
    worse = Suggested.of(plan).worse(plan.leakage.upper)
    return "if the model were true, " if worse else ""


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


def exact_answer(plan: "Plan[Any]") -> str:
    """Return what an error bar is about: the truth, or what stands for it, in words."""
    query: Any = plan.query
    stands = query.values is not None and reading_error(plan) != 0
    return "the answer on the numbers of the states" if stands else "the truth"


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
    clauses = (said, accepted * (SAME_RECORDS in plan.accepted))
    return tuple(clause for clause in clauses if clause)
