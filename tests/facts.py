"""The numbers of reference.toml, and how closely a printed number must be met."""

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

FACTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("reference.toml").read_text("utf-8"))
ACTIVITY: dict[str, Any] = FACTS["activity"]


def half_unit(printed: str) -> float:
    """Half a unit of the last digit of a printed number.

    >>> half_unit("3.9948")
    5e-05
    """
    return float(Decimal(1).scaleb(int(Decimal(printed).as_tuple().exponent)) / 2)
