"""Numbers for people: few digits, the last one rounded to the safe side."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = ["DIGITS", "above", "below", "odds"]

DIGITS = 7
"""Digits shown to people; the last is rounded to the safe side."""

_LN10_BELOW = Context(prec=60, rounding=ROUND_FLOOR).ln(Decimal(10)) - Decimal("1e-58")
"""A number just below ln 10."""


def above(value: float, digits: int = DIGITS) -> str:
    """Return ``value`` with few digits, rounded up.

    >>> above(3.47487337675)
    '3.474874'
    """
    return _rounded(value, digits, ROUND_CEILING)


def below(value: float, digits: int = DIGITS) -> str:
    """Return ``value`` with few digits, rounded down.

    >>> below(3.47487337675)
    '3.474873'
    """
    return _rounded(value, digits, ROUND_FLOOR)


def odds(leakage: float) -> str:
    """Return the factor e^leakage by which odds can move, rounded up.

    >>> odds(1.0), odds(5000.0), odds(math.inf)
    ('2.72', '10^2172', 'without limit')
    """
    if math.isinf(leakage):
        return "without limit"
    if leakage > 50:
        precise = Context(prec=60, rounding=ROUND_CEILING)
        power = precise.divide(Decimal(leakage), _LN10_BELOW).to_integral(ROUND_CEILING)
        return f"10^{power}"
    return above(math.nextafter(math.exp(leakage), math.inf), 3)


def _rounded(value: float, digits: int, direction: str) -> str:
    if not math.isfinite(value):
        return str(value)
    number = Context(prec=digits, rounding=direction).create_decimal(Decimal(value))
    number = number.normalize()
    if number == 0 or 1e-4 <= abs(value) < 1e12:
        return f"{number:f}"
    return f"{number:e}".replace("e+", "e")
