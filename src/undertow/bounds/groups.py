"""Any dependence among a bounded number of records."""

import math
from dataclasses import replace
from fractions import Fraction

from undertow.adversaries import Against
from undertow.bounds.metric import refused
from undertow.certificate import Leakage
from undertow.errors import MethodRefused
from undertow.mechanisms import Levelled, MetricDP, PureDP
from undertow.models.base import Model
from undertow.models.groups import Groups
from undertow.numerics import divide_up
from undertow.secrets import Person

__all__ = [
    "RELATED",
    "group_leakage",
    "leakage",
    "person_leakage",
    "person_records",
    "window_leakage",
]


RELATED = (
    "secret=Person() takes persons to be independent, and in this model every record is a person: "
    "relatives and housemates are not; hide one record"
)
"""Why a model of related persons does not bound what is revealed about a whole person."""


def leakage(mechanism: Levelled | MetricDP, model: Groups, against: Against) -> Leakage:
    """Return size * epsilon, which copies of one record attain.

    >>> leakage(PureDP(0.5), Groups(4), "any").upper
    2.0
    """
    return group_leakage(refused(mechanism), model.size, against)


def window_leakage(level: float, model: Groups, against: Against, window: int) -> Leakage:
    """Compute the leakage of a DP level about ``window`` records: w * size * epsilon.

    The records lie in at most w groups, which have at most w * size records. Given the known
    records the others are independent of them: averaged over those an output's likelihood still
    changes by at most a factor e^epsilon per record, and all w * size of them may change. Where
    each lies in a group of its own and the others are copies of it, they do. Whoever knows all
    others learns w * epsilon.

    >>> window_leakage(0.5, Groups(4), "any", 3).upper
    6.0
    """
    size = window if against == "informed" else window * model.size
    bracket = group_leakage(PureDP(level), size, "any")
    note = f"at most {model.size} records depend on each other, in any way"
    return replace(bracket, against=against, assumptions=(note, _touched(window)))


def _touched(window: int) -> str:
    """Return the assumption about the groups of a window's records."""
    return f"the {window} records of a window may lie in as many groups"


def group_leakage(
    mechanism: Levelled, size: int, against: Against, length: int | None = None
) -> Leakage:
    """Return size * epsilon: the general bound for any dependence among ``size`` records.

    Theorem 4.2 of [lange2024]; copies of one record attain it, so it is exact for the class of
    all dependences. The informed attacker learns epsilon only.

    >>> group_leakage(PureDP(0.5), 4, "any").upper
    2.0
    """
    exact = Fraction(1 if against == "informed" else size)
    if isinstance(mechanism, PureDP):
        level, attained = divide_up(exact * Fraction(mechanism.epsilon), 1.0), True
    else:
        moved = Fraction(mechanism.query.sensitivity_upper(length))
        level = divide_up(exact * moved, mechanism.scale)
        attained = mechanism.query.integral and not mechanism.query.selects
    return Leakage(
        math.nextafter(level, 0.0) if attained else 0.0, level,
        "group", against,
        assumptions=(f"at most {size} records depend on each other, in any way",),
        citation="Theorem 4.2 of [lange2024]",
    )  # fmt: skip


def person_records(model: Model) -> int:
    """Return the most records that a person has under a model, or refuse one that does not say.

    All of them count, independent of each other or not: a person's records are replaced together.

    >>> from undertow import MarkovChain
    >>> person_records(MarkovChain([[.3, .7], [.3, .7]], length=30)), person_records(Groups(4))
    (30, 4)
    """
    members = model.members()
    if any(member.records_are_persons for member in members):
        raise MethodRefused(RELATED)
    sizes = [member.most_records() for member in members]
    bounded = [size for size in sizes if size is not None]
    if len(bounded) < len(sizes):
        raise MethodRefused(
            "secret=Person() multiplies by the most records that a person may have; give the chain "
            "a length"
        )
    return max(bounded)


def person_leakage(mechanism: Levelled, model: Model, against: Against) -> Leakage:
    """Compute the leakage of replacing all records of a person: group privacy, any dependence.

    The level of m replaced records, or how far m records move the answer over the scale.

    >>> from undertow import Count, DiscreteLaplace
    >>> person_leakage(DiscreteLaplace(Count("active"), 60.0), Groups(30), "any").upper
    0.5
    """
    size = person_records(model)
    if isinstance(mechanism, PureDP):
        upper = divide_up(size * Fraction(mechanism.epsilon), 1.0)
    else:
        upper = divide_up(mechanism.query.person_upper(size, model.length), mechanism.scale)
    return Leakage(
        0.0, upper, "person", against, secret=Person(), valid_for="any",
        assumptions=(
            "a person has at most as many records as the model says",
            "different persons are independent",
        ),
        citation="definition of person-level differential privacy",
    )  # fmt: skip
