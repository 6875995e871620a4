"""One record of a strip, as it is drawn."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Cell", "Role"]

Role = Literal["target", "known", "unknown"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One record: its role, what the attacker knows of it, and what is shown of it.

    ``value`` is what a known record is known to be, ``output`` what was released in its place, ""
    where nothing is. ``why`` says why a record is erased, or cannot be forgotten. ``label`` is
    its name, where it has one.
    """

    record: int
    role: Role
    value: str = ""
    output: str = ""
    erased: bool = False
    why: str = ""
    label: str = ""
