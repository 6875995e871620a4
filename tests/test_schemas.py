"""The JSON Schemas that are shipped hold for every file that is written, and refuse broken ones."""

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

import undertow as ut
from tests import plan_gallery
from undertow.models.registry import KINDS
from undertow.models.second_order import SecondOrderChain

SCHEMAS = {
    name: json.loads(files("undertow.schemas").joinpath(f"{name}.json").read_text("utf-8"))
    for name in ("certificate", "model", "plan")
}
REGISTRY = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values()
)
LONG = plan_gallery.LONG
FITTED = ut.MarkovChain.fit(LONG.simulate(3000, seed=1), LONG.states, public=True)
SECOND = SecondOrderChain.of(LONG)
MODELS: dict[str, Any] = {
    "order two": SECOND,
    "hidden": ut.HiddenChain.of(LONG),
    "hidden, mixed": ut.HiddenChain.of(LONG).mixed(0.01),
    "hidden by context": ut.HiddenChain.periodic(
        {"night": [[0.9, 0.1], [0.4, 0.6]], "day": [[0.5, 0.5], [0.2, 0.8]]}, LONG.states
    ).mixed(),
    "class of Gaussian models": plan_gallery.CLASS,
    "described": ut.MarkovChain(LONG.transition, LONG.states, every="5m"),
    "fitted": FITTED,
    "private names": ut.BayesianNetwork([], {"ann": [0.5, 0.5]}, states=(True, 2)),
    "families": ut.Pedigree({"kim": ("bob", "ann")}, allele_frequency=(0.1, 0.3)),
    "set": plan_gallery.SET,
    "box": plan_gallery.BOX,
}
PLANS = {
    "at a delta": lambda: ut.calibrate(ut.Count("active"), LONG, limit=1.0, delta=1e-6),
    "several releases": lambda: ut.calibrate(
        ut.Histogram(), LONG, limit=1.0, delta=1e-6, releases=4
    ),
    "table": lambda: ut.calibrate(
        ut.Count("active"), plan_gallery.SHORT, limit=1.0, method="optimal"
    ),
    "fit": lambda: ut.calibrate(ut.Count("active"), FITTED, limit=1.0),
}


def problems(name, text):
    """Return what a schema finds wrong with a file."""
    validator = jsonschema.Draft202012Validator(SCHEMAS[name], registry=REGISTRY)
    return [error.message for error in validator.iter_errors(json.loads(text))]


@pytest.mark.parametrize("name", SCHEMAS)
def test_they_are_schemas(name):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("name", plan_gallery.EVERY)
def test_every_plan_of_the_gallery_and_its_model_hold(name):
    plan = plan_gallery.plan(name)
    assert not problems("plan", plan.to_json())
    assert not problems("model", json.dumps(plan.model.to_dict()))


@pytest.mark.parametrize("name", PLANS)
def test_other_plans_hold(name):
    assert not problems("plan", PLANS[name]().to_json())


@pytest.mark.parametrize("name", MODELS)
def test_models_hold(name):
    assert not problems("model", json.dumps(MODELS[name].to_dict()))


def test_every_kind_of_model_has_its_part():
    assert {one["properties"]["kind"]["const"] for one in SCHEMAS["model"]["oneOf"]} == set(KINDS)


@pytest.mark.parametrize(
    "mechanism",
    [ut.PureDP(1.0), ut.DiscreteLaplace(ut.Count("active"), 4.0),
     ut.RandomizedResponse.binary(0.2, 0.3), ut.Laplace(ut.Histogram(), 8.0)],
    ids=repr,
)  # fmt: skip
def test_certificates_hold(mechanism):
    assert not problems("certificate", ut.certify(mechanism, LONG).to_json())


def test_broken_files_are_refused():
    plan = json.loads(plan_gallery.plan("exact").to_json())
    for change in (
        {"version": 1}, {"limit": 0}, {"unit": "record"}, {"more": 1}, {"checksum": "x"},
        {"model": {"kind": "markov-chain"}}, {"model": {"kind": "no kind"}}, {"scale": -1.0},
        {"channel": {"kind": "xor", "rho0": 0.1, "rho1": 0.2}},
    ):  # fmt: skip
        assert problems("plan", json.dumps(plan | change)), change
    for name in plan:
        part = {key: value for key, value in plan.items() if key != name}
        assert problems("plan", json.dumps(part)), name
    certificate = json.loads(ut.certify(ut.PureDP(1.0), LONG).to_json())
    for name in certificate.keys() - {"conditions"}:
        part = {key: value for key, value in certificate.items() if key != name}
        assert problems("certificate", json.dumps(part)), name
