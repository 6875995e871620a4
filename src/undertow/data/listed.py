"""Series that came in lists or arrays, as a release sees them: public facts, no table library."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from undertow.data.grid import Shape
from undertow.data.scopes import Scope
from undertow.data.types import check_kinds
from undertow.queries import State

__all__ = ["Listed"]


@dataclass(frozen=True, slots=True)
class Listed:
    """The public facts about plain series: all of them are whole, and each is a person's.

    What one record is, is not asked of them: they take the model's word.

    >>> Listed((3, 5)).shape().longest
    5
    """

    lengths: Sequence[int]
    kinds: frozenset[str] = field(default=frozenset(), kw_only=True)
    """The types of the records, which are public."""

    def check_types(self, states: Sequence[State]) -> None:
        """Refuse records none of whose types can be a state's."""
        check_kinds(self.kinds, states, "the list of records")

    def shape(self) -> Shape:
        """Return the public facts."""
        sizes = [int(length) for length in self.lengths]
        return Shape(
            sum(sizes), len(sizes), max(sizes), gaps=False, series=max(sizes), shortest=min(sizes),
            windowed=False, split=False,
        )  # fmt: skip

    def touched(self) -> tuple[Any, ...]:
        """Return the fields of the scope: all records."""
        return None, None, None, None, "time"

    def scope(self) -> Scope:
        """Return which records a release touches: all."""
        return Scope()

    def asked(self) -> dict[str, Any]:
        """Return what is read, as JSON."""
        return {"source": "the list of records"}

    def identity(self) -> None:
        """Return nothing: a list has neither persons nor times to be known by."""

    def bounds(self) -> None:
        """Return nothing: a list has no window."""
