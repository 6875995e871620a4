"""Arbitrary dependence inside groups of bounded size."""

from dataclasses import dataclass
from typing import Any, ClassVar

from undertow.base_query import BaseQuery, State
from undertow.errors import NotSupported
from undertow.models.base import Model
from undertow.models.described import fields, whole
from undertow.models.markov import MarkovChain
from undertow.numerics import check_count

__all__ = ["Groups"]


@dataclass(frozen=True, slots=True)
class Groups(Model):
    """Records in independent groups of at most ``size``, with any dependence inside a group.

    >>> Groups(4).describe()
    'independent groups of at most 4 records, any dependence inside a group'
    """

    kind: ClassVar[str] = "groups"
    family: ClassVar[str] = "groups"

    size: int

    def __post_init__(self) -> None:
        """Check the size."""
        object.__setattr__(self, "size", check_count(self.size, "group size", 1))

    @property
    def length(self) -> None:
        """None: there may be any number of groups."""
        return

    @property
    def states(self) -> tuple[State, ...]:
        """Empty: records may have any values."""
        return ()

    def most_records(self) -> int:
        """Return the size of a group."""
        return self.size

    def dependent_records(self) -> int:
        """Return the size of a group."""
        return self.size

    def endless(self) -> "Groups":
        """Return the groups themselves."""
        return self

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return one group whose records are copies of each other, and one without dependence."""
        states: tuple[State, ...]
        if query.named:
            states = (query.named[0], ("other than", query.named))
        elif query.ends is not None and query.records is None:
            states = query.ends
        else:
            raise NotSupported(
                f"groups name no states, so no data can be drawn for a {type(query).__name__}; "
                "audit a plan for a Count or a Sum, or one for a MarkovChain"
            )
        even, size = [[0.5, 0.5], [0.5, 0.5]], max(self.size, 2)
        copied = [[1.0, 0.0], [0.0, 1.0]] if self.size > 1 else even
        return [MarkovChain(matrix, states, [0.5, 0.5], length=size) for matrix in (copied, even)]

    def describe(self) -> str:
        """Return the model in one sentence."""
        return f"independent groups of at most {self.size} records, any dependence inside a group"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {"kind": self.kind, "size": self.size}

    @classmethod
    def from_dict(cls, description: Any) -> "Groups":
        """Return the model described by `to_dict`."""
        read = fields(description, "a groups model", ("size",), ("kind",))
        return cls(whole(read["size"], "group size", 2**53))
