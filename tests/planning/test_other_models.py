"""A plan under other models: its table says what `leakage` says, and whether guarantees hold."""

import gzip
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import undertow as ut
from tests.accepting import broken
from undertow.certificate import Leakage
from undertow.diagnostics.other_models import ModelCase, Robustness, robustness
from undertow.errors import InvalidInput, NotSupported
from undertow.figures.canvas import figure_bytes
from undertow.figures.costs import draw_robustness
from undertow.models.second_order import SecondOrderChain
from undertow.secrets import Records

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("UNDERTOW_DATA") or ROOT.parent / "shared" / "data")
CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], ("idle", "active"))
LONG = SecondOrderChain([[[0.918, 0.082], [0.288, 0.712]], [[0.835, 0.165], [0.087, 0.913]]])


@pytest.fixture(scope="module")
def fit():
    return ut.MarkovChain.fit(LONG.simulate(20_000, seed=1), public=True)


@pytest.fixture(scope="module")
def table(fit):
    plan = ut.calibrate(ut.Series(), fit.point(), limit=4.0, method="exact", accept=broken(fit))
    return robustness(plan, factors=(0.5, 1.0, 2.0), fitted=fit)


def test_each_cell_of_the_grid_is_the_leakage_of_its_chain(fit, table):
    plan = ut.calibrate(ut.Series(), fit.point(), limit=4.0, method="exact", accept=broken(fit))
    q, r = fit.transition[0, 1], fit.transition[1, 0]
    for case in table:
        if case.kind != "grid":
            continue
        odds = [p / (1 - p) * f for p, f in zip((q, r), case.factors, strict=True)]
        moved = [o / (1 + o) for o in odds]
        other = ut.MarkovChain([[1 - moved[0], moved[0]], [moved[1], 1 - moved[1]]])
        assert case.leakage.upper == pytest.approx(
            ut.leakage(plan.mechanism, other).upper, rel=1e-9
        )
    assert len([case for case in table if case.kind == "grid"]) == 9
    assert table["odds of leaving x 1, x 1"].leakage.upper == pytest.approx(4.0)


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


def test_more_states_are_moved_together_and_their_region_is_bounded():
    chain = ut.MarkovChain([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    fit = ut.MarkovChain.fit(chain.simulate(3000, seed=1), public=True)
    plain = ut.MarkovChain(fit.transition, fit.states)
    plan = ut.calibrate(ut.Count(2), plain, limit=1.0, method="exchange")
    found = robustness(plan, factors=(0.5, 2.0), fitted=fit)
    names = [case.name for case in found]
    assert names[:3] == ["planned", "odds of leaving x 0.5", "odds of leaving x 2"]
    assert found.verdicts["odds of leaving x 0.5"] == "broken"
    region = found["0.95 region of the fit"]
    assert region.whole
    assert region.leakage.upper == ut.leakage(plan.mechanism, fit.region()).upper
    assert region.leakage.upper > 1.0
    moved = found["odds of leaving x 0.5"].leakage
    matrix = fit.transition / (1 + np.diag(fit.transition))[:, None]
    np.fill_diagonal(matrix, 2 * np.diag(matrix))
    assert moved.upper == pytest.approx(
        ut.leakage(plan.mechanism, ut.MarkovChain(matrix)).upper, rel=1e-9
    )


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
    assert text.startswith("limit: 4, to an attacker who knows any other records\nmodel")
    assert "second order" in text
    described = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert described["limit"] == 4.0
    assert described["cases"][0]["verdict"] == "kept"
    assert described["cases"][-1]["witness"].startswith("target record")
    unbounded = replace(table, cases=(ModelCase("x", "other", Leakage(1, math.inf, "e", "any")),))
    assert unbounded.to_dict()["cases"][0]["upper"] is None
    assert "not known" in str(unbounded)


def test_what_cannot_be_checked_is_refused():
    plan = ut.calibrate(ut.Count("active"), CHAIN, limit=1.0)
    with pytest.raises(InvalidInput, match="Plan"):
        robustness(CHAIN)  # type: ignore[arg-type]
    with pytest.raises(NotSupported, match="persons"):
        robustness(replace(plan, leakage=replace(plan.leakage, secret=ut.Person())))
    some = replace(plan.leakage, secret=Records([3]))
    with pytest.raises(NotSupported, match="some values"):
        robustness(replace(plan, leakage=some))
    with pytest.raises(InvalidInput, match="factor"):
        robustness(plan, factors=(0.0,))


# --- the figure -----------------------------------------------------------------------------------


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def test_the_map_shows_every_cell_and_the_intervals_every_model(table):
    figure = draw_robustness(table, "A title")
    chart, models = figure.axes
    shown = [text.get_text() for text in chart.texts]
    assert len(shown) == 10  # nine cells and a caption
    assert len(chart.images) == 1
    broken = [text for text in chart.texts if text.get_fontweight() == "bold"]
    judged = [case.verdict(4.0) for case in table if case.kind == "grid"]
    assert len(broken) == judged.count("broken")
    found = lines(models)
    for case in table:
        if case.kind == "grid":
            continue
        assert np.asarray(found[f"{case.name}: attack"].get_xdata()) == case.leakage.lower
        assert np.asarray(found[f"{case.name}: bound"].get_xdata()) == case.leakage.upper
    assert list(np.asarray(found["guarantee"].get_xdata())) == [4.0, 4.0]
    assert "A title" in [text.get_text() for text in figure.texts]
    assert figure_bytes(figure, "svg") == figure_bytes(draw_robustness(table, "A title"), "svg")


def test_no_bound_is_an_arrow_and_a_line_serves_more_states():
    leak = Leakage(1.0, math.inf, "corners", "any")
    grid = [
        ModelCase(f"x {f}", "grid", Leakage(1 / f, 1 / f, "exact", "any"), factors=(f,))
        for f in (0.5, 1.0, 2.0)
    ]
    table = Robustness((ModelCase("far", "other", leak), *grid), 1.0, "any", (0, 1, 2))
    line, models = draw_robustness(table).axes
    assert "far: no bound" in lines(models)
    assert np.asarray(lines(line)["grid"].get_ydata()).tolist() == [2.0, 1.0, 0.5]
    (alone,) = draw_robustness(replace(table, cases=table.cases[:1])).axes
    assert "far: attack" in lines(alone)
    with pytest.raises(InvalidInput, match="nothing to draw"):
        draw_robustness(replace(table, cases=(ModelCase("far", "other", None, "why"),)))


# --- real records ---------------------------------------------------------------------------------


def heart(name):
    path = FOLDER / "heartrate" / f"{name}.txt.gz"
    if not path.is_file():
        pytest.skip("no heart-rate records: set UNDERTOW_DATA to the folder that holds heartrate/")
    with gzip.open(path, "rt") as file:
        rates = np.loadtxt(file)[:, 1]
    return (rates >= rates.mean()).astype(int).tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("N5", 5.19), ("N10", 4.67)])
def test_heart_rates_remember_more_than_the_plan_assumes(name, least):
    """The guarantee of 4 is broken where the truth is the fitted chain of order two."""
    series = heart(name)
    fit = ut.MarkovChain.fit(series, length=len(series), public=True)
    assert fit.order_test().p_value < 1e-12
    found = robustness(ut.calibrate(ut.Series(), fit, limit=4.0, accept=broken(fit)), factors=())
    assert found["second order"].leakage.lower > least
    assert found["second order"].leakage.upper < 8.2
    assert found.verdicts["0.95 region of the fit"] == "broken"
