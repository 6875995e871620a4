"""A model is added by one file, one module of bounds and one line of a registry, and works."""

import json

import pytest

import undertow as ut
from tests.extending.sensor import StuckSensor
from undertow.models import registry

SENSOR = StuckSensor(stuck=0.5, share=0.3, length=40)
ON = ut.Count("on")


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    line = registry.Kind(
        "tests.extending.sensor:StuckSensor", "tests.extending.sensor_bounds:PROVERS"
    )
    monkeypatch.setitem(registry.KINDS, "stuck-sensor", line)


@pytest.fixture
def plan():
    return ut.calibrate(ON, SENSOR, 1.0)


@pytest.mark.parametrize("against", ["any", "ignorant", "informed", ut.Adversary(3, [1, 5])])
def test_leakage(against):
    found = ut.leakage(ut.PureDP(0.5), SENSOR, against)
    assert found.upper == ut.leakage(ut.PureDP(0.5), SENSOR.chain(), against).upper
    assert ut.leakage(ut.RandomizedResponse.binary(0.3, 0.3), SENSOR, against).upper > 0
    both = ut.leakage(ut.PureDP(0.5), ut.ModelSet([SENSOR, SENSOR.chain()]), against)
    assert both.upper == found.upper


def test_calibrate_and_compare(plan):
    assert plan.leakage.proves(1.0)
    same = ut.calibrate(ON, SENSOR.chain(), 1.0, method="exchange")
    assert plan.noise.scale == pytest.approx(same.noise.scale, rel=1e-9)
    assert ut.dp_budget(SENSOR, 1.0) == pytest.approx(1 / plan.noise.scale, rel=1e-9)
    table = ut.compare(ON, SENSOR, 1.0)
    made = [row for row in table.rows if row.plan is not None]
    assert {row.method for row in made} >= {"exchange", "group"}


def test_plan_files(plan):
    again = ut.Plan.from_json(plan.to_json())
    assert again == plan
    assert isinstance(again.model, StuckSensor)
    assert json.loads(plan.to_json())["model"] == SENSOR.to_dict()


def test_release_and_report(plan, tmp_path):
    data = ut.Data(SENSOR.chain().simulate(seed=1))
    ledger = ut.Ledger(tmp_path / "year.db", dataset="w25", model=SENSOR, limit=2.0)
    out = ut.release(plan, data, ledger=ledger)
    assert 0 <= ledger.leakage().upper <= 1.0
    said = out.report().text()
    assert SENSOR.describe() in said


def test_audit(plan):
    assert not ut.audit(plan, 2_000, seed=1).refuted
