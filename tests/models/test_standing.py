"""What a fit stands for: its region by default, its point where that is asked for."""

import json

import numpy as np
import pytest
from scipy import stats

import undertow as ut
from undertow.errors import MethodRefused, NotSupported
from undertow.models.base import stands_for
from undertow.models.classes import ChainBox
from undertow.models.registry import model_from_dict, model_to_dict

TRUE = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], ("off", "on"))
THREE = ut.MarkovChain([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]], ("a", "b", "c"))


def fit(chain, records=3000, seed=1, **more):
    return ut.MarkovChain.fit(chain.simulate(records, seed=seed), public=True, **more)


def written(model):
    return model_from_dict(json.loads(json.dumps(model_to_dict(model))))


@pytest.mark.parametrize("chain", [TRUE, THREE], ids=["two", "three"])
def test_all_numbers_of_a_fit_are_those_of_its_region(chain):
    fitted = fit(chain)
    box = fitted.region()
    assert isinstance(box, ChainBox)
    state = fitted.states[1]
    assert ut.leakage(ut.PureDP(0.5), fitted) == ut.leakage(ut.PureDP(0.5), box)
    assert ut.dp_budget(fitted, 1.0) == ut.dp_budget(box, 1.0)
    assert ut.dp_budget(fitted, 1.0) < ut.dp_budget(fitted.point(), 1.0)
    plan = ut.calibrate(ut.Count(state), fitted, 1.0)
    assert plan == ut.calibrate(ut.Count(state), box, 1.0)
    assert plan.model == box
    assert "confidence 0.95" in " ".join(plan.leakage.assumptions)
    rows = ut.compare(ut.Count(state), fitted, 1.0, methods=["exchange"])
    assert rows["exchange"].scale == plan.mechanism.scale


@pytest.mark.parametrize("chain", [TRUE, THREE], ids=["two", "three"])
def test_a_plan_from_a_file_is_that_in_memory(chain):
    fitted = fit(chain)
    read = written(fitted)
    assert read == fitted
    assert "transition" in model_to_dict(fitted)
    assert stands_for(read) == stands_for(fitted)
    assert stands_for(read).checks == stands_for(fitted).checks
    state = fitted.states[1]
    assert ut.calibrate(ut.Count(state), read, 1.0) == ut.calibrate(ut.Count(state), fitted, 1.0)
    assert stands_for(written(fitted.point())) == fitted.point()
    pair = ut.ModelSet([fitted, fit(chain, seed=2)])
    assert stands_for(written(pair)) == stands_for(pair)


def test_a_ledger_of_a_fit_is_that_of_its_region(tmp_path):
    fitted = fit(TRUE)
    ledger = ut.Ledger(tmp_path / "book.db", "t", model=fitted, limit=1.0, memory=False)
    assert ledger.model == fitted.region()
    assert ledger.left() == pytest.approx(ut.dp_budget(fitted.region(), 1.0))


def test_the_point_is_the_plain_chain_and_says_so():
    point = fit(TRUE).point()
    assert point == fit(TRUE)
    assert stands_for(point) is point
    (sample,) = [check for check in point.checks if check.name == "sample"]
    assert sample.outcome == "not tested"
    assert "estimate itself" in sample.words
    assert [c.name for c in point.checks] == [c.name for c in fit(TRUE).checks]
    assert TRUE.point() is TRUE
    assert TRUE.checks == ()


def test_what_has_no_solver_on_regions_names_the_point():
    fitted = fit(TRUE)
    for query, method in ((ut.Count("on"), "exact"), (ut.Series(), "exact")):
        with pytest.raises(MethodRefused, match=r"its point\(\) takes the estimate"):
            ut.calibrate(query, fitted, 1.0, method=method)
        ut.calibrate(query, fitted.point(), 1.0, method=method)  # the door exists
    with pytest.raises(NotSupported, match=r"its point\(\) takes the estimate"):
        ut.calibrate(ut.Redacted(protect=[5]), fit(TRUE, length=9), 3.0)
    ut.calibrate(ut.Redacted(protect=[5]), fit(TRUE, length=9).point(), 3.0)
    with pytest.raises(NotSupported, match=r"MarkovChain\.point"):
        ut.certify(ut.PureDP(1.0), fitted)
    ut.certify(ut.PureDP(1.0), fitted.point())


def test_regions_of_three_states_cover_the_chain():
    """Null: the box misses with probability 5% at most; 60 series; false alarms below 1e-6."""
    missed = 0
    for seed in range(60):
        box = fit(THREE, 500, seed).region()
        inside = (box.lower <= THREE.transition) & (THREE.transition <= box.upper)
        missed += not inside.all()
    assert missed <= stats.binom.isf(1e-6, 60, 0.05)
    narrow = sum(
        not ((low <= THREE.transition) & (THREE.transition <= high)).all()
        for low, high in (np.moveaxis(fit(THREE, 500, s).intervals(0.8), -1, 0) for s in range(60))
    )
    assert narrow > stats.binom.isf(1e-6, 60, 0.05)  # intervals one by one do not hold together


def test_no_chain_of_a_region_leaks_more_than_it():
    fitted = fit(THREE, 2000)
    box, generator = fitted.region(), np.random.default_rng(3)
    bound = ut.leakage(ut.PureDP(0.3), fitted).upper
    tried = 0
    while tried < 6:
        step = generator.uniform(-0.04, 0.04, (3, 3))
        matrix = fitted.transition + step - step.mean(axis=1, keepdims=True)
        if (matrix >= box.lower).all() and (matrix <= box.upper).all():
            tried += 1
            assert ut.leakage(ut.PureDP(0.3), ut.MarkovChain(matrix)).lower <= bound


def test_checks_travel_with_every_copy():
    fitted = fit(TRUE)
    failed = [c.name for c in fitted.checks if c.outcome == "failed"]
    for model in (
        fitted.region(), fitted.point(), fitted.endless(), stands_for(fitted).endless(),
        ut.ModelSet([fitted, TRUE]), stands_for(ut.ModelSet([fitted, TRUE])), written(fitted),
        ut.ModelSet([fitted]).endless(),
    ):  # fmt: skip
        assert [c.name for c in model.checks] == [c.name for c in fitted.checks]
        assert [c.name for c in model.checks if c.outcome == "failed"] == failed
