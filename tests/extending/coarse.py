"""A query as somebody would add it: the number of records in each of several groups of states."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from undertow.errors import InvalidInput, UnknownState
from undertow.numerics import up
from undertow.queries import BaseQuery, State


@dataclass(frozen=True, slots=True, init=False)
class CoarseHistogram(BaseQuery):
    """The number of records in each group of states, as in ``{"still": ["sit", "lie"], ...}``.

    A replaced record leaves one group for another, or for the states in no group: l1 sensitivity 2.
    """

    kind: ClassVar[str] = "coarse-histogram"
    integral: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    groups: tuple[tuple[str, tuple[State, ...]], ...]

    def __init__(self, groups: Mapping[str, Sequence[State]]) -> None:
        """Check that there are groups, and that no state is in two of them."""
        table = tuple((name, tuple(states)) for name, states in groups.items())
        every = [state for _, states in table for state in states]
        if len(table) < 2 or len(set(every)) < len(every):
            raise InvalidInput("at least two groups are needed, with each state in one at most")
        object.__setattr__(self, "groups", table)

    def on(self, states: Sequence[State], rest: State | None = None) -> "CoarseHistogram":
        """Return the query for a model with these states, or refuse one that lacks some."""
        for name, members in self.groups:
            for state in members:
                if state not in states:
                    raise UnknownState(f"group {name!r} has the state {state!r}, the model has not")
        return self

    def bins(self, states: Sequence[State]) -> tuple[tuple[State, ...], ...]:
        """Return the states that each number counts."""
        return tuple(members for _, members in self.groups)

    def numbers(self, states: Sequence[State]) -> int:
        """Return how many numbers the answer has."""
        return len(self.groups)

    def cells(self, states: Sequence[State]) -> tuple[State, ...]:
        """Return the name of each number."""
        return tuple(name for name, _ in self.groups)

    def words(self) -> str:
        """Return the question for people."""
        return "number of records in " + ", ".join(repr(name) for name, _ in self.groups)

    def sensitivity(self, length: int | None = None) -> float:
        """Return 2: one group loses a record and another gains it."""
        return 2.0

    def euclidean(self, length: int | None = None) -> float:
        """Return the square root of 2, rounded up."""
        return up(math.sqrt(2.0))

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plan files hold it."""
        return {"kind": self.kind, "groups": {name: list(states) for name, states in self.groups}}

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> "CoarseHistogram":
        """Return the question of a plan file, or refuse what is none."""
        groups = description.get("groups")
        if not isinstance(groups, dict) or not all(isinstance(s, list) for s in groups.values()):
            raise InvalidInput("a coarse histogram has groups, each with a list of states")
        return cls(groups)
