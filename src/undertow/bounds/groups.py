"""Any dependence among a bounded number of records."""

import math
from dataclasses import replace
from fractions import Fraction

from undertow.adversaries import Against
from undertow.bounds.metric import refused
from undertow.certificate import Leakage
from undertow.mechanisms import Levelled, MetricDP, PureDP
from undertow.models.groups import Groups
from undertow.numerics import divide_up

__all__ = ["group_leakage", "leakage", "window_leakage"]


def leakage(mechanism: Levelled | MetricDP, model: Groups, against: Against) -> Leakage:
    """Return size * epsilon, which copies of one record attain.

    >>> leakage(PureDP(0.5), Groups(4), "any").upper
    2.0
    """
    return group_leakage(refused(mechanism), model.size, against)


def window_leakage(level: float, model: Groups, against: Against, window: int) -> Leakage:
    """Return what all algorithms of a DP level leak about ``window`` records: w * size * epsilon.

    The records lie in at most w groups, which have at most w * size records. Given the known
    records the others are independent of them: averaged over those an output's likelihood still
    changes by at most a factor e^epsilon per record, and all w * size of them may change. Where
    each lies in a group of its own and the others are copies of it, they do. Whoever knows all
    others learns w * epsilon.

    >>> window_leakage(0.5, Groups(4), "any", 3).upper
    6.0
    """
    size = window if against == "informed" else window * model.size
    found = group_leakage(PureDP(level), size, "any")
    said = f"at most {model.size} records depend on each other, in any way"
    return replace(found, against=against, assumptions=(said, _touched(window)))


def _touched(window: int) -> str:
    """Return what is assumed of where the records of a window lie."""
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
