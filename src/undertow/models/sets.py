"""Sets of models: the leakage is the worst case over the set."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from undertow.errors import InvalidModel
from undertow.models.classes import ChainBox, MixingClass
from undertow.models.contagion import Contagion
from undertow.models.described import fields, text, whole
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.models.groups import Groups
from undertow.models.markov import MarkovChain
from undertow.models.network import BayesianNetwork
from undertow.models.pedigree import Pedigree

__all__ = ["AnyModel", "ModelSet", "SingleModel", "members", "model_from_dict"]


@dataclass(frozen=True, slots=True)
class ModelSet:
    """A finite list of models, any of which may be the true one.

    >>> still = MarkovChain([[.9, .1], [.3, .7]])
    >>> lively = MarkovChain([[.7, .3], [.4, .6]])
    >>> len(ModelSet([still, lively]).models)
    2
    >>> ModelSet([still, lively], note="two good days").describe()
    'any one of 2 models (two good days)'
    """

    models: tuple["AnyModel", ...]
    note: str | None

    def __init__(self, models: Iterable["AnyModel"], note: str | None = None) -> None:
        """Keep the models; refuse an empty set and mixed state names."""
        try:
            members = tuple(models)
        except TypeError as error:
            raise InvalidModel(
                f"a model set needs a list of models, found {type(models).__name__}"
            ) from error
        if not members:
            raise InvalidModel("a model set needs at least one model")
        for position, member in enumerate(members):
            if not isinstance(member, AnyModel):
                raise InvalidModel(
                    f"member {position} of the set is a {type(member).__name__}, not a model"
                )
        if note is not None and not isinstance(note, str):
            raise InvalidModel(f"the note of a set must be a text, found {type(note).__name__}")
        named = [member for member in _flat(members) if not isinstance(member, Groups)]
        names = {member.states for member in named}
        lengths = {member.length for member in named}
        if len(names) > 1 or len(lengths) > 1:
            raise InvalidModel(
                "the models of a set must have the same state names in the same order, and the "
                "same length: they describe the same records"
            )
        object.__setattr__(self, "models", members)
        object.__setattr__(self, "note", note)

    def describe(self) -> str:
        """Return the model in one sentence."""
        return f"any one of {len(self.models)} models" + (f" ({self.note})" if self.note else "")

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        note = {} if self.note is None else {"note": self.note}
        return {"kind": "set", "models": [member.to_dict() for member in self.models], **note}


SingleModel = (
    MarkovChain
    | Groups
    | ChainBox
    | MixingClass
    | MultivariateGaussian
    | GaussianClass
    | BayesianNetwork
    | Pedigree
    | Contagion
)
AnyModel = SingleModel | ModelSet


def _flat(members: Iterable[AnyModel]) -> list[SingleModel]:
    found: list[SingleModel] = []
    for member in members:
        found.extend(_flat(member.models) if isinstance(member, ModelSet) else [member])
    return found


def members(model: AnyModel) -> list[SingleModel]:
    """Return the single models behind a model, sets inside sets included.

    >>> len(members(ModelSet([Groups(2), ModelSet([Groups(3), Groups(4)])])))
    3
    """
    return _flat([model])


def model_from_dict(description: Any) -> AnyModel:
    """Return the model described by a ``to_dict``; a bare chain may leave ``kind`` out.

    >>> model_from_dict({"kind": "groups", "size": 3})
    Groups(size=3)
    """
    if not isinstance(description, dict):
        raise InvalidModel("a model is described by an object with a 'kind'; found something else")
    kind = description.get("kind", "markov-chain")
    if kind == "markov-chain":
        return MarkovChain.from_dict(description)
    if kind == "groups":
        if "size" not in description:
            raise InvalidModel("a groups model needs a 'size'; none was found")
        read = fields(description, "a groups model", ("size",), ("kind",))
        return Groups(whole(read["size"], "group size", 2**53))
    if kind == "set":
        members = description.get("models")
        if not isinstance(members, list):
            raise InvalidModel("a model set needs a list 'models'; none was found")
        note = fields(description, "a model set", ("models",), ("kind", "note")).get("note")
        said = None if note is None else text(note, "the note of a set")
        return ModelSet([model_from_dict(member) for member in members], said)
    if isinstance(kind, str) and kind in _READERS:
        return _READERS[kind](description)
    known = ", ".join(("markov-chain", "groups", "set", *_READERS))
    raise InvalidModel(f"unknown kind of model {repr(kind)[:40]}; known: {known}")


_READERS: dict[str, Callable[[dict[str, Any]], AnyModel]] = {
    "box": ChainBox.from_dict,
    "mixing": MixingClass.from_dict,
    "gaussian": MultivariateGaussian.from_dict,
    "gaussian-class": GaussianClass.from_dict,
    "network": BayesianNetwork.from_dict,
    "pedigree": Pedigree.from_dict,
    "contagion": Contagion.from_dict,
}
