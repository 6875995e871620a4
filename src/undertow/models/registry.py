"""The kinds of models by their names in files: the class of each, and its provers.

A new model is one module beside this one, one in `undertow.bounds`, and one line here. Both are
imported at first use.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from undertow.errors import InvalidModel
from undertow.models.base import Model
from undertow.models.fitting.checks import checks_from_list, origin_of
from undertow.models.records import RecordDescription, check_origin, weakest

__all__ = [
    "KINDS",
    "Kind",
    "described_model",
    "law_to_dict",
    "model_from_dict",
    "model_to_dict",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """A class ``module:name``, and its provers ``module:name`` (`undertow.bounds.protocol`).

    No provers where the leakage is that of the members.
    """

    model: str
    provers: str | None


KINDS: dict[str, Kind] = {
    "markov-chain": Kind(
        "undertow.models.chains:MarkovChain", "undertow.bounds.levels.chains:PROVERS"
    ),
    "context-chain": Kind(
        "undertow.models.chains:ContextChain", "undertow.bounds.levels.chains:PROVERS"
    ),
    "groups": Kind("undertow.models.groups:Groups", "undertow.bounds.groups:PROVERS"),
    "set": Kind("undertow.models.sets:ModelSet", None),
    "box": Kind("undertow.models.classes:ChainBox", "undertow.bounds.levels.classes:PROVERS"),
    "mixing": Kind("undertow.models.classes:MixingClass", "undertow.bounds.levels.classes:PROVERS"),
    "second-order-chain": Kind(
        "undertow.models.second_order:SecondOrderChain",
        "undertow.bounds.memory.second_order:PROVERS",
    ),
    "hidden-chain": Kind(
        "undertow.models.hidden:HiddenChain", "undertow.bounds.memory.hidden:PROVERS"
    ),
    "periodic-hidden-chain": Kind(
        "undertow.models.hidden:PeriodicHiddenChain", "undertow.bounds.memory.hidden:PERIODIC"
    ),
    "gaussian": Kind(
        "undertow.models.gaussian:MultivariateGaussian", "undertow.bounds.gaussian.leakages:PROVERS"
    ),
    "gaussian-class": Kind(
        "undertow.models.gaussian:GaussianClass", "undertow.bounds.gaussian.leakages:PROVERS"
    ),
    "network": Kind(
        "undertow.models.networks:BayesianNetwork", "undertow.bounds.networks.leakages:PROVERS"
    ),
    "pedigree": Kind(
        "undertow.models.pedigrees:Pedigree", "undertow.bounds.networks.pedigrees:PROVERS"
    ),
    "contagion": Kind(
        "undertow.models.networks:Contagion", "undertow.bounds.networks.contagions:PROVERS"
    ),
}


def model_from_dict(description: Any) -> Model:
    """Return the model described by a ``to_dict``; a bare chain may leave ``kind`` out.

    >>> model_from_dict({"kind": "groups", "size": 3})
    Groups(size=3)
    """
    if not isinstance(description, dict):
        raise InvalidModel("a model is described by an object with a 'kind'; found something else")
    kind = description.get("kind", "markov-chain")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidModel(f"unknown kind of model {repr(kind)[:40]}; known: {', '.join(KINDS)}")
    module, name = KINDS[kind].model.split(":")
    return described_model(getattr(import_module(module), name), description)


def described_model(kind: type[Model], description: Any) -> Model:
    """Return the model of a kind described by its ``to_dict``."""
    if not isinstance(description, dict):
        return kind.from_law_dict(description)  # refuses it
    own = {key: value for key, value in description.items() if key not in _PROVENANCE_FIELDS}
    model = kind.from_law_dict(own)
    if "records" in description:
        model = model.with_records(RecordDescription.from_dict(description["records"]))
    if "origin" in description:
        model = model.with_origin(check_origin(description["origin"]))
    if "checks" in description:
        checks = checks_from_list(description["checks"])
        model = model.with_checks(checks).with_origin(weakest((model.origin, origin_of(checks))))
    if "region" in description:
        model = model.with_region(model.passed_on(model_from_dict(description["region"])))
    return model


_PROVENANCE_FIELDS = ("checks", "origin", "records", "region")
"""Fields of a file beside the law of the model."""


def law_to_dict(model: Model) -> dict[str, Any]:
    """Return a model as plans and ledgers store it: its law, records and origin.

    >>> from undertow.models.groups import Groups
    >>> from undertow.models.records import RecordDescription
    >>> law_to_dict(Groups(3).with_records(RecordDescription(unit="household")))
    {'kind': 'groups', 'size': 3, 'records': {'unit': 'household'}}
    """
    records = model.records.to_dict()
    origin = {} if model.origin == "hand" else {"origin": model.origin}
    return {**model.law_dict(), **({"records": records} if records else {}), **origin}


def model_to_dict(model: Model) -> dict[str, Any]:
    """Return a model as files store it: its law, records, origin, checks and region.

    >>> from undertow.models.groups import Groups
    >>> model_to_dict(Groups(3))
    {'kind': 'groups', 'size': 3}
    """
    checks = [check.to_dict() for check in model.checks]
    region = model.plausible_region()
    return {
        **law_to_dict(model),
        **({} if region is None else {"region": _region_to_dict(region, model)}),
        **({"checks": checks} if checks else {}),
    }


def _region_to_dict(region: Model, model: Model) -> dict[str, Any]:
    """Return a region, with its origin where that is another than the model's."""
    origin = {} if region.origin == model.origin else {"origin": region.origin}
    return {**region.law_dict(), **origin}
