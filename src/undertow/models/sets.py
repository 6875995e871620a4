"""Sets of models: the leakage is the worst case over the set."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from undertow.errors import InvalidModel
from undertow.models.base import Model
from undertow.models.fitting.checks import Check, estimated, without_alternatives, worst_of
from undertow.models.records import Origin, RecordDescription, together, weakest
from undertow.models.registry import model_from_dict
from undertow.models.validation import fields, text
from undertow.queries import State

__all__ = ["AnyModel", "ModelSet", "SingleModel", "model_from_dict"]


@dataclass(frozen=True, slots=True)
class ModelSet(Model):
    """A finite list of models, any of which may be the true one.

    >>> from undertow import MarkovChain
    >>> still = MarkovChain([[.9, .1], [.3, .7]])
    >>> lively = MarkovChain([[.7, .3], [.4, .6]])
    >>> len(ModelSet([still, lively]).models)
    2
    >>> ModelSet([still, lively], note="two good days").describe()
    'any one of 2 models (two good days)'
    """

    kind: ClassVar[str] = "set"

    models: tuple[Model, ...]
    note: str | None

    def __init__(self, models: Iterable[Model], note: str | None = None) -> None:
        """Check that the set is not empty and its members name the same states."""
        try:
            members = tuple(models)
        except TypeError as error:
            raise InvalidModel(
                f"a model set needs a list of models, found {type(models).__name__}"
            ) from error
        if not members:
            raise InvalidModel("a model set needs at least one model")
        for position, member in enumerate(members):
            if not isinstance(member, Model):
                raise InvalidModel(
                    f"member {position} of the set is a {type(member).__name__}, not a model"
                )
        if note is not None and not isinstance(note, str):
            raise InvalidModel(f"the note of a set must be a text, found {type(note).__name__}")
        single = [one for member in members for one in member.members()]
        # groups may be of any number of records, and name states only if they want to
        names = {one.states for one in single if one.family != "groups" or one.states}
        lengths = {one.length for one in single if one.family != "groups"}
        if len(names) > 1 or len(lengths) > 1:
            raise InvalidModel(
                "the models of a set must have the same state names in the same order, and the "
                "same length: they describe the same records"
            )
        together(member.records for member in members)  # refuses members about other records
        object.__setattr__(self, "models", members)
        object.__setattr__(self, "note", note)

    @property
    def length(self) -> int | None:
        """The number of records, where the members fix it."""
        return next((one.length for one in self.models if one.length is not None), None)

    @property
    def states(self) -> tuple[State, ...]:
        """The states, where the members name them."""
        return next((one.states for one in self.models if one.states), ())

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the set, or else the worst of its members' checks."""
        own = self.provenance.checks
        return worst_of(member.checks for member in self.models) if own is None else own

    @property
    def origin(self) -> Origin:
        """The origin of the set and its members that discloses most."""
        return weakest((self.provenance.origin, *(member.origin for member in self.models)))

    @property
    def records(self) -> RecordDescription:
        """The description of the set's records, or else that of its members."""
        own = self.provenance.records
        return together(member.records for member in self.models) if own is None else own

    def plausible_region(self) -> Model | None:
        """Return the set of its members' regions; None if all stand for themselves."""
        own = self.provenance.region
        regions = [member.plausible_region() for member in self.models]
        if own is not None or all(region is None for region in regions):
            return own
        pairs = zip(regions, self.models, strict=True)
        return ModelSet((region or member for region, member in pairs), self.note)

    def point(self) -> "ModelSet":
        """Return the set of the points of its members."""
        if self.plausible_region() is None:
            return self
        alone = ModelSet((member.point() for member in self.models), self.note)
        return self.passed_on(alone, estimated(self.checks))

    def members(self) -> list[Model]:
        """Return the single models, those of sets inside the set included."""
        return [one for member in self.models for one in member.members()]

    def disclaimers(self) -> tuple[str, ...]:
        """Return those of all members."""
        return tuple(dict.fromkeys(one for member in self.models for one in member.disclaimers()))

    def endless(self) -> "ModelSet | None":
        """Return the set for series of any length, if every member has one."""
        members = [member.endless() for member in self.models]
        if not all(members):
            return None
        return self.passed_on(ModelSet([m for m in members if m is not None], self.note))

    def every_nth(self, step: int) -> "ModelSet":
        """Return the set of the laws of every ``step``-th record, if every member has one."""
        thinned = ModelSet([member.every_nth(step) for member in self.models], self.note)
        thinned = self.passed_on(thinned, without_alternatives(self.checks))
        return thinned.with_records(self.records.thinned(step))

    def describe(self) -> str:
        """Return the model in one sentence."""
        return f"any one of {len(self.models)} models" + (f" ({self.note})" if self.note else "")

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        note = {} if self.note is None else {"note": self.note}
        return {"kind": self.kind, "models": [member.law_dict() for member in self.models], **note}

    @classmethod
    def from_law_dict(cls, description: Any) -> "ModelSet":
        """Return the set described by `law_dict`."""
        if not isinstance(description.get("models"), list):
            raise InvalidModel("a model set needs a list 'models'; none was found")
        note = fields(description, "a model set", ("models",), ("kind", "note")).get("note")
        words = None if note is None else text(note, "the note of a set")
        return cls([model_from_dict(member) for member in description["models"]], words)


AnyModel = Model
SingleModel = Model
