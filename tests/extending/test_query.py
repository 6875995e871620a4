"""A query is added by one class and one line of a registry, and works."""

from typing import Any

import polars as pl
import pytest

import undertow as ut
from tests.extending.coarse import CoarseHistogram
from undertow import plan as plan_files
from undertow.testing.enumeration import additive_noise_likelihood, chain_joint, mechanism_leakage

CHAIN = ut.MarkovChain(
    [[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.1, 0.2, 0.7]], states=("lie", "sit", "walk"), length=3
)
QUERY: Any = CoarseHistogram({"still": ["lie", "sit"], "moving": ["walk"]})


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(plan_files.QUERIES, CoarseHistogram.kind, CoarseHistogram.from_dict)


@pytest.fixture
def plan():
    return ut.calibrate(QUERY, CHAIN, limit=2.0)


def test_plan_and_file(plan):
    assert plan.leakage.proves(2.0)
    assert ut.Plan.from_json(plan.to_json()) == plan
    with pytest.raises(ut.errors.UnknownState, match="'walk'"):
        ut.calibrate(QUERY, ut.MarkovChain(CHAIN.transition[:2, :2] / 0.9, ("lie", "sit")))


def test_no_output_reveals_more_than_the_plan_says(plan):
    joint = chain_joint(CHAIN.initial, CHAIN.transition, length=3)
    # both numbers move by one: the answer is that of one count with half the scale
    moving = additive_noise_likelihood([0.0, 0.0, 1.0], plan.mechanism.scale / 2, 3)
    assert mechanism_leakage(joint, moving).leakage <= plan.leakage.upper


@pytest.mark.parametrize("table", [False, True])
def test_release_and_report(plan, table):
    records = ["lie", "walk", "sit"]
    wide = ut.calibrate(QUERY, CHAIN, limit=60.0)  # hardly any noise
    data = ut.Data(pl.DataFrame({"x": records}), value="x") if table else records
    out = ut.release(wide, data)
    assert out.value == {"still": 2, "moving": 1}
    assert QUERY.words() in out.report().text()


def test_audit(plan):
    assert not ut.audit(plan, 2_000, seed=1).refuted
