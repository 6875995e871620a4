"""Arbitrary dependence inside groups of bounded size."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Any, ClassVar

from undertow.errors import InvalidModel, NotSupported
from undertow.models.base import Model
from undertow.models.chains import MarkovChain
from undertow.models.validation import fields, names, state_names, whole
from undertow.numerics import check_count
from undertow.queries import BaseQuery, State

__all__ = ["Groups"]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Groups(Model):
    """Records in independent groups of at most ``size``, with any dependence inside a group.

    The members of a household, the patients of a practice, the linked loci of a family. ``states``
    names the values of a record, which a histogram and flips need; without, records may have any.

    >>> Groups(4).describe()
    'independent groups of at most 4 records, any dependence inside a group'
    >>> Groups(5, states=("smoker", "other")).states
    ('smoker', 'other')
    """

    kind: ClassVar[str] = "groups"
    family: ClassVar[str] = "groups"

    size: int
    states: tuple[State, ...]

    def __init__(self, size: int, states: Sequence[State] | None = None) -> None:
        """Check the size and the names."""
        object.__setattr__(self, "size", check_count(size, "group size", 1))
        object.__setattr__(self, "states", () if states is None else _named(states))

    def __repr__(self) -> str:
        """Return how the model is written."""
        named = f", states={self.states!r}" if self.states else ""
        return f"Groups(size={self.size}{named})"

    @property
    def length(self) -> None:
        """None: there may be any number of groups."""
        return

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
            others = [state for state in self.states if state not in query.named]
            states = (query.named[0], others[0] if others else ("other than", query.named))
        elif (query.per_state or query.selects) and self.states:
            states = self.states[:2]
        elif query.values and query.records is None:
            numbers = dict(query.values)
            states = min(numbers, key=numbers.__getitem__), max(numbers, key=numbers.__getitem__)
        elif query.ends is not None and query.records is None:
            states = query.ends
        else:
            raise NotSupported(
                f"groups name no states, so no data can be drawn for a {type(query).__name__}; "
                "name them, Groups(size, states=...), or audit a plan for a Count or a Sum"
            )
        even, size = [[0.5, 0.5], [0.5, 0.5]], max(self.size, 2)
        copied = [[1.0, 0.0], [0.0, 1.0]] if self.size > 1 else even
        return [MarkovChain(matrix, states, [0.5, 0.5], length=size) for matrix in (copied, even)]

    def describe(self) -> str:
        """Return the model in one sentence."""
        return f"independent groups of at most {self.size} records, any dependence inside a group"

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        named = {"states": list(self.states)} if self.states else {}
        return {"kind": self.kind, "size": self.size, **named}

    @classmethod
    def from_law_dict(cls, description: Any) -> "Groups":
        """Return the model described by `law_dict`."""
        read = fields(description, "a groups model", ("size",), ("kind", "states"))
        size = whole(read["size"], "group size", 2**53)
        return cls(size, names(read.get("states"), "states"))


def _named(states: Any) -> tuple[State, ...]:
    """Return the names of the states, at least two and all different, or refuse them."""
    names = state_names(states, len(states) if isinstance(states, Sized) else 0)
    if len(names) < 2:
        raise InvalidModel(
            f"states must name at least two values of a record, found {len(names)}; leave them "
            "out where a record may have any value"
        )
    return names
