"""Numbers rounded to the safe side, and names with control characters escaped."""

import math
import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = ["DIGITS", "above", "below", "columns", "odds", "stated", "visible"]

DIGITS = 7
"""The digits of printed numbers; the last is rounded to the safe side."""

_LN10_BELOW = Context(prec=60, rounding=ROUND_FLOOR).ln(Decimal(10)) - Decimal("1e-58")
"""A number just below ln 10."""

_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # controls of terminals, ESC and DEL among them
    "\xad\u180e\u200b-\u200d\u2060-\u2065\ufeff"  # characters of no width
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # what turns the direction of text around
    "\u2028\u2029\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # separators, tags
    "\ud800-\udfff]"  # halves of characters
)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of text, each column as wide as its widest cell.

    >>> columns([["what", "how much"], ["tea", "2"]])
    ['what  how much', 'tea   2']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


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


def stated(value: float) -> str:
    """Return a number from a user in its shortest form, not rounded.

    >>> stated(2e-5), stated(1e-6), stated(0.5)
    ('2e-5', '1e-6', '0.5')
    """
    return re.sub(r"e([+-])0*", lambda match: f"e{match[1].strip('+')}", f"{value:.15g}")


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


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return text with control and invisible characters escaped.

    Control characters, terminal escapes, changes of direction, characters of no width and halves
    of surrogate pairs become Python escapes; all other characters stay. ``lines`` keeps line
    breaks.

    >>> print(visible("idle\x1b[2J"), visible("a\nb"), visible("Zürich, 東京"))
    idle\x1b[2J a\nb Zürich, 東京
    """
    return _HIDDEN.sub(lambda match: _escaped(match[0], lines), text)


def _escaped(letter: str, lines: bool) -> str:
    if lines and letter == "\n":
        return letter
    return letter.encode("unicode_escape").decode("ascii")


def _rounded(value: float, digits: int, direction: str) -> str:
    if not math.isfinite(value):
        return str(value)
    number = Context(prec=digits, rounding=direction).create_decimal(Decimal(value))
    number = number.normalize()
    if number == 0 or 1e-4 <= abs(value) < 1e12:
        return f"{number:f}"
    return f"{number:e}".replace("e+", "e")
