"""Arbitrary dependence inside groups of bounded size."""

from dataclasses import dataclass
from typing import Any

from undertow.numerics import check_count

__all__ = ["Groups"]


@dataclass(frozen=True, slots=True)
class Groups:
    """Records in independent groups of at most ``size``, with any dependence inside a group.

    >>> Groups(4).describe()
    'independent groups of at most 4 records, any dependence inside a group'
    """

    size: int

    def __post_init__(self) -> None:
        """Check the size."""
        object.__setattr__(self, "size", check_count(self.size, "group size", 1))

    def describe(self) -> str:
        """Return the model in one sentence."""
        return f"independent groups of at most {self.size} records, any dependence inside a group"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {"kind": "groups", "size": self.size}
