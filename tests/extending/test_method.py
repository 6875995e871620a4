"""A method is added by one module and one entry of the registry, and works."""

import pytest

import undertow as ut
from tests.extending.rounded import POWER_OF_TWO
from undertow.methods import METHODS

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
COUNT = ut.Count("active")


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(METHODS["answer"], POWER_OF_TWO.name, POWER_OF_TWO)


@pytest.fixture
def plan():
    return ut.calibrate(COUNT, CHAIN, limit=1.0, method="power-of-two")


def test_plan_and_file(plan):
    assert plan.mechanism.scale == 4.0  # the exchange rate asks for 3.9948
    assert plan.leakage.proves(1.0)
    assert plan.leakage.upper == pytest.approx(ut.leakage(ut.PureDP(0.25), CHAIN).upper)
    assert ut.Plan.from_json(plan.to_json()) == plan


def test_compare_has_its_row():
    table = ut.compare(COUNT, CHAIN, limit=1.0, methods=["exchange", "power-of-two"])
    rows = {row.method: row.scale for row in table}
    assert rows["power-of-two"] == 4.0 > rows["exchange"]
    assert table.best.method == "exchange"


def test_models_that_it_is_not_for_are_refused():
    with pytest.raises(ut.errors.MethodRefused, match="power-of-two"):
        ut.calibrate(COUNT, ut.Groups(3), limit=1.0, method="power-of-two")


def test_release(plan):
    out = ut.release(plan, CHAIN.simulate(50, seed=1))
    assert isinstance(out.value, int)
    assert "method 'power-of-two'" in out.report().text()
