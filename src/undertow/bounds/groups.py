"""Any dependence among a bounded number of records."""

import math
from fractions import Fraction

from undertow.adversaries import Against
from undertow.bounds.metric import refused
from undertow.certificate import Leakage
from undertow.mechanisms import Levelled, MetricDP, PureDP
from undertow.models.groups import Groups
from undertow.numerics import divide_up

__all__ = ["group_leakage", "leakage"]


def leakage(mechanism: Levelled | MetricDP, model: Groups, against: Against) -> Leakage:
    """Return size * epsilon, which copies of one record attain.

    >>> leakage(PureDP(0.5), Groups(4), "any").upper
    2.0
    """
    return group_leakage(refused(mechanism), model.size, against)


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
        level, attained = divide_up(exact * moved, mechanism.scale), mechanism.query.integral
    return Leakage(
        math.nextafter(level, 0.0) if attained else 0.0, level,
        "group", against,
        assumptions=(f"at most {size} records depend on each other, in any way",),
        citation="Theorem 4.2 of [lange2024]",
    )  # fmt: skip
