"""A plan under other models: its table says what `leakage` says, and whether guarantees hold."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

import undertow as ut
from tests.accepting import broken
from undertow.certificate import Leakage
from undertow.diagnostics.other_models import ModelCase, robustness
from undertow.errors import InvalidInput, NotSupported
from undertow.models.second_order import SecondOrderChain
from undertow.secrets import Records

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], ("idle", "active"))
LONG = SecondOrderChain([[[0.918, 0.082], [0.288, 0.712]], [[0.835, 0.165], [0.087, 0.913]]])


@pytest.fixture(scope="module")
def fit():
    return ut.MarkovChain.fit(LONG.simulate(20_000, seed=1), public=True)


@pytest.fixture(scope="module")
def table(fit):
    plan = ut.calibrate(ut.Series(), fit.point(), limit=4.0, method="exact", accept=broken(fit))
    return robustness(plan, factors=(0.5, 1.0, 2.0), fitted=fit)


def test_verdicts(table):
    assert table.verdicts["planned"] == "kept"
    assert table.verdicts["odds of leaving x 0.5, x 0.5"] == "broken"
    assert table.verdicts["odds of leaving x 2, x 2"] == "kept"
    assert table.verdicts["0.95 region of the fit"] == "broken"
    assert table.verdicts["second order"] == "broken"
    assert table.worst.name == "odds of leaving x 0.5, x 0.5"
    closed, wide = Leakage(1, 1, "exact", "any"), Leakage(0.5, 3, "exact", "any")
    assert ModelCase("one", "other", closed).verdict(1.0) == "kept"
    assert ModelCase("one", "other", closed, whole=False).verdict(1.0) == "open"
    assert ModelCase("one", "other", wide).verdict(1.0) == "open"
    assert ModelCase("one", "other", None, "not known").verdict(1.0) == "open"


def test_the_region_is_bounded_and_its_corners_attain_the_lower_end(fit, table):
    plan = ut.calibrate(ut.Series(), fit.point(), limit=4.0, method="exact", accept=broken(fit))
    region = fit.region(0.95)
    case = table["0.95 region of the fit"]
    corners = [ut.leakage(plan.mechanism, corner) for corner in region.corners()]
    assert case.leakage.lower == max(leak.lower for leak in corners)
    assert case.leakage.upper == ut.leakage(plan.mechanism, region).upper
    assert case.whole


def test_a_region_without_a_bound_says_so(fit):
    noise = ut.XorNoise(0.2, 0.3)
    leak = ut.leakage(noise, fit.point())
    plan = ut.Plan(noise, fit.point(), 9.0, leak, "xor")
    case = robustness(plan, factors=(), fitted=fit)["0.95 region of the fit"]
    assert case.leakage.lower >= leak.lower
    assert not case.whole
    assert case.verdict(9.0) == "open"
    assert "no bound" in str(case.reason)
    found = robustness(plan, factors=(), fitted=fit)
    assert "XorNoise" in str(found["second order"].reason)


def test_other_models_by_name_and_reasons():
    plan = ut.calibrate(ut.Count("active"), CHAIN, limit=1.0)
    same = SecondOrderChain.of(CHAIN)
    ticks: list[None] = []
    found = robustness(
        plan, factors=(), second_order=same, tick=lambda: ticks.append(None),
        others={
            "a family": ut.Groups(3),
            "order two": same,
            "far": ut.MarkovChain.mixing(["idle", "active"], pi_min=0.2, gap=0.3),
        },
    )  # fmt: skip
    assert len(ticks) == len(found.cases) == 5
    assert found["a family"].leakage.upper == pytest.approx(3 / plan.mechanism.scale)
    assert found["order two"].leakage == found["second order"].leakage
    both = found["order two"].leakage
    assert both.lower <= plan.leakage.upper
    assert plan.leakage.lower <= both.upper <= 1.0
    assert found["far"].leakage is None
    assert "mixes" in str(found["far"].reason)
    with pytest.raises(InvalidInput, match="no case"):
        found["elsewhere"]


def test_chains_that_change_have_no_grid():
    chain = ut.MarkovChain(CHAIN.transition, start=[1.0, 0.0], length=6)
    plan = ut.calibrate(ut.Count(1), chain, limit=1.0)
    grid = robustness(plan)["grid"]
    assert grid.leakage is None
    assert "stationary" in str(grid.reason)
    never = ut.Plan(plan.mechanism, ut.Groups(2), 1.0, plan.leakage, "group")
    assert [case.kind for case in robustness(never)] == ["planned"]


def test_redactions_are_checked_for_their_protected_records():
    chain = ut.MarkovChain([[0.8, 0.2], [0.3, 0.7]], length=12)
    plan = ut.calibrate(ut.Redacted(protect=5, length=12), chain, limit=1.0)
    found = robustness(plan, factors=(0.5, 1.0), second_order=SecondOrderChain.of(chain))
    assert found.verdicts["odds of leaving x 1, x 1"] == "kept"
    assert found.verdicts["odds of leaving x 0.5, x 0.5"] == "broken"
    leak = found["second order"].leakage
    assert leak.lower <= plan.leakage.upper + 1e-9
    assert leak.lower == pytest.approx(plan.leakage.lower, abs=1e-6)
    assert leak.upper >= plan.leakage.lower


def test_the_table_in_words_and_as_json(table):
    text = str(table)
    assert text.startswith(
        "limit: 4 about the odds between any two values of one record, to an attacker who knows "
        "any other records; no record is missing\nmodel"
    )
    assert "second order" in text
    described = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert described["limit"] == 4.0
    assert described["cases"][0]["verdict"] == "kept"
    assert described["cases"][-1]["witness"].startswith("target record")
    unbounded = replace(table, cases=(ModelCase("x", "other", Leakage(1, math.inf, "e", "any")),))
    assert unbounded.to_dict()["cases"][0]["upper"] is None
    assert "not known" in str(unbounded)


@pytest.mark.parametrize(
    ("secret", "delta", "said"),
    [
        (ut.Window(3), 0.0, "any two histories of 3 records in a row, to"),
        (ut.Window(3), 1e-6, "any two histories of 3 records in a row at a delta of 1e-06, to"),
        (ut.Person(), 0.0, "any two histories of one person, to"),
    ],
)
def test_others_are_held_to_the_secret_and_the_delta_of_the_plan(secret, delta, said):
    chain = ut.MarkovChain(CHAIN.transition, CHAIN.states, length=20)
    noise: Any = "gaussian" if delta else None
    plan = ut.calibrate(ut.Count("active"), chain, 1.0, secret=secret, delta=delta, noise=noise)
    other = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], CHAIN.states, length=20)
    table = robustness(plan, factors=(), others={"other": other})
    assert f"limit: 1 about the odds between {said}" in str(table)
    assert table.to_dict()["secret"] == secret.to_dict()
    assert (table.to_dict()["delta"], table.to_dict()["missing"]) == (delta, "any")
    for case in table:
        assert (case.leakage.secret, case.leakage.delta) == (secret, delta)
    expected = ut.leakage(plan.mechanism, other, secret=secret, delta=delta)
    assert table["other"].leakage.upper == expected.upper
    single = ut.leakage(plan.mechanism, other, delta=delta)
    assert table["other"].leakage.upper > (0.9 if secret.person else single.upper)


def test_a_longer_person_breaks_what_a_shorter_one_was_promised():
    chain = ut.MarkovChain(CHAIN.transition, CHAIN.states, length=20)
    plan = ut.calibrate(ut.Count("active"), chain, 1.0, secret=ut.Person())
    longer = ut.MarkovChain(CHAIN.transition, CHAIN.states, length=40)
    table = robustness(plan, factors=(), others={"longer": longer, "endless": CHAIN})
    assert table.verdicts == {"planned": "kept", "longer": "open", "endless": "open"}
    assert table["longer"].leakage.upper == pytest.approx(2.0)


def test_what_cannot_be_checked_is_refused():
    plan = ut.calibrate(ut.Count("active"), CHAIN, limit=1.0)
    with pytest.raises(InvalidInput, match="Plan"):
        robustness(CHAIN)  # type: ignore[arg-type]
    some = replace(plan.leakage, secret=Records([3]))
    with pytest.raises(NotSupported, match="some values"):
        robustness(replace(plan, leakage=some))
    with pytest.raises(InvalidInput, match="factor"):
        robustness(plan, factors=(0.0,))
