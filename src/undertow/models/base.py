"""What every correlation model is: a frozen description of how records depend on each other."""

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self, SupportsIndex, TypeVar

from undertow.base_query import BaseQuery, State
from undertow.errors import UnknownState
from undertow.models.records import RecordDescription
from undertow.numerics import shown

if TYPE_CHECKING:
    from undertow.models.checks import Check
    from undertow.models.hidden_law import HiddenLaw
    from undertow.models.markov import MarkovChain

__all__ = ["Model"]

M = TypeVar("M", bound="Model")


class Model:
    """What a model says about itself; the answers here are those of most models.

    A model is a frozen dataclass with this base, a ``kind``, ``describe``, ``to_dict`` and
    ``from_dict``, and a line in `undertow.models.registry` that names it and the module which
    proves its leakages.
    """

    __slots__ = ("_checks", "_records")

    kind: ClassVar[str]
    """Its name in files, and in the registry."""

    family: ClassVar[str] = "other"
    """Which solvers of `undertow.planning` know it: chain, second-order, network, gaussian, groups,
    other."""

    records_are_persons: ClassVar[bool] = False
    """Whether every record is a person, so that persons depend on each other."""

    if TYPE_CHECKING:

        @property
        def length(self) -> int | None:
            """The number of records, None for series of any length."""

        @property
        def states(self) -> tuple[State, ...]:
            """The values that a record can have, () for numbers and where none are named."""

    @property
    def checks(self) -> "tuple[Check, ...]":
        """What was tested before the model was believed; () for one that was not fitted."""
        return getattr(self, "_checks", ())

    def with_checks(self, checks: "Sequence[Check]") -> Self:
        """Return the same model with what was tested; two such models are equal."""
        return self._marked(_checks=tuple(checks))

    @property
    def records(self) -> RecordDescription:
        """What one record of the model is: its step, its states, its series, its context."""
        return getattr(self, "_records", RecordDescription())

    def with_records(self, records: RecordDescription) -> Self:
        """Return the same model for records of this description; two such models are equal."""
        return self._marked(_records=records)

    def _marked(self, **marks: Any) -> Self:
        """Return a copy with other marks."""
        other = copy(self)
        for name, mark in marks.items():
            object.__setattr__(other, name, mark)
        return other

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Return how a copy is made, in this process or another: with its marks.

        What was tested of a model stays with it, which the fields of a dataclass alone do not say.
        """
        marks = {name: getattr(self, name) for name in Model.__slots__ if hasattr(self, name)}
        parts: Any = super().__reduce_ex__(2)
        return _copied, (type(self), parts[2], marks)

    def of_the_same_records(self, other: M) -> M:
        """Return another model with what was tested of this one, and what its records are."""
        return other.with_checks(self.checks).with_records(self.records)

    def describe(self) -> str:
        """Return the model in one plain sentence."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description with a ``kind`` field."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, description: Any) -> "Model":
        """Return the model described by `to_dict`, or refuse what is none."""
        raise NotImplementedError

    def several(self) -> bool:
        """Return whether it stands for several laws, any one of which may be true."""
        return False

    def members(self) -> "list[Model]":
        """Return the single models behind this one: itself, or those of a set."""
        return [self]

    def most_records(self) -> int | None:
        """Return the most records that one person has, None if the model does not say."""
        return self.length

    def dependent_records(self) -> int | None:
        """Return the most records that depend on each other, None if there is no bound."""
        return self.length

    def endless(self) -> "Model | None":
        """Return the model for series of any length, None if there is none."""
        return None

    def first_order(self) -> "MarkovChain | None":
        """Return the chain of order one with the same pairs of neighbours, of a longer memory."""
        return None

    def examples(self, query: BaseQuery) -> "Sequence[Model]":
        """Return laws of the class that data can be drawn from to answer a query, () if none."""
        return ()

    def hidden_law(self) -> "HiddenLaw | None":
        """Return the records as what a chain of hidden states shows, None where they are not."""
        return None

    def unproved(self) -> str:
        """Return what to do where no upper end of a leakage is known, "" if one usually is."""
        return ""

    def reach(self) -> str:
        """Return how far back a record looks, as "each record depends on ..."; "" if unordered."""
        return ""

    def disclaimers(self) -> tuple[str, ...]:
        """Return what a guarantee under the model says nothing about, for its assumptions."""
        return ()

    def order(self) -> tuple[Any, ...]:
        """Return the names of the records of its examples in its own order, () if it is theirs."""
        return ()

    def index(self, state: State) -> int:
        """Return the place of a state; of 1 and True, and 1 and 1.0, the one of the same type.

        >>> from undertow.models.markov import MarkovChain
        >>> MarkovChain([[.5, .5], [.5, .5]], states=("a", "b")).index("b")
        1
        """
        try:
            hash(state)
        except TypeError as error:
            raise UnknownState(f"a state is a name or a number, found {shown(state)}") from error
        for place, name in enumerate(self.states):
            if name == state and type(name) is type(state):
                return place
        if state in self.states:
            return self.states.index(state)
        known = ", ".join(map(repr, self.states[:12]))
        raise UnknownState(f"the model has no state {state!r}; its states are {known}")


def _copied(kind: type[M], state: Any, marks: dict[str, Any]) -> M:
    """Return the model of a kind with these fields and marks."""
    other: Any = object.__new__(kind)
    other.__setstate__(state)
    for name, mark in marks.items():
        object.__setattr__(other, name, mark)
    return other  # type: ignore[no-any-return]
