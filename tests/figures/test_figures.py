"""Figures: what is drawn is what the tables and certificates say."""

from dataclasses import replace

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.published import lange_constant, zhao_constant
from undertow.certificate import Leakage
from undertow.diagnostics.chain_orders import OrderCase, OrderTable
from undertow.diagnostics.windows import budget_by_window, by_persistence
from undertow.errors import InvalidInput, NotSupported
from undertow.figures.canvas import figure_bytes
from undertow.figures.costs import draw_errors, draw_orders, draw_renewals, draw_windows
from undertow.figures.curves import (
    Curves,
    DeltaCurves,
    Mark,
    delta_curves,
    draw_deltas,
    draw_leakage,
    leakage_curves,
)
from undertow.models.fitting.hypotheses import Autocorrelation
from undertow.planning.compare import ErrorCurves

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
LEVELS = [0.05, 0.5, 1.0, 2.0, 4.0]
# theory.md section 1, printed to twelve digits
ANY = [0.192471001157, 1.985846982792, 3.474873376754, 5.430933968243, 8.057752706747]
IGNORANT = [0.189850986248, 1.985846982792, 3.458264743769, 5.198346780382, 7.502272897300]


@pytest.fixture(scope="module")
def curves():
    return leakage_curves(CHAIN, LEVELS, 4032)


@pytest.fixture(scope="module")
def axes(curves):
    marks = [Mark(1.0, 3.4749, "here"), Mark(0.2503, 1.0, "there", lift=40)]
    (found,) = draw_leakage(curves, marks, "A title").axes
    return found


def series(axes, name):
    (line,) = [line for line in axes.lines if line.get_label() == name]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def words(axes):
    return [text.get_text() for text in axes.texts]


def test_curves_are_the_reference_values(curves):
    assert curves.any == pytest.approx(ANY, abs=1e-9)
    assert curves.ignorant == pytest.approx(IGNORANT, abs=1e-9)
    assert curves.lange == lange_constant(CHAIN)
    assert curves.zhao == zhao_constant(CHAIN)
    assert curves.length == 4032


def test_curves_are_certified_upper_ends(curves):
    for level, value in zip(LEVELS, curves.any, strict=True):
        assert value == ut.leakage(ut.PureDP(level), CHAIN).upper


@pytest.mark.parametrize("levels", [[], [1.0, 0.5], [1.0, 1.0]])
def test_levels_must_increase(levels):
    with pytest.raises(InvalidInput, match="increasing"):
        leakage_curves(CHAIN, levels)


def test_every_line_is_labelled_beside_its_end(axes):
    said = "\n".join(words(axes))
    for expected in (
        "Lange 2024, published\nε + 8.05",
        "Zhao et al. 2017, published\nε + 10.64",
        "exact, attacker knows\nany other records",
        "exact, attacker knows\nno other record",
        "ε, attacker knows\nall other records",
        "n ε, any dependence (n = 4,032)",
        "here",
        "there",
    ):
        assert expected in said
    assert axes.get_title(loc="left") == "A title"
    assert "DP level" in axes.get_xlabel()
    assert axes.get_legend() is None


def test_bounds_that_do_not_apply_are_not_drawn():
    zeros = ut.MarkovChain([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.3, 0.3, 0.4]])
    curves = leakage_curves(zeros, [0.5, 1.0])
    assert curves.lange is None
    assert curves.zhao is None
    (axes,) = draw_leakage(curves).axes
    assert {line.get_label() for line in axes.lines} == {"any", "ignorant", "informed"}


def test_infinite_leakage_leaves_a_gap():
    levels = np.array([1.0, 2.0])
    without = Curves(levels, np.array([3.0, np.inf]), levels, None, None, None)
    figure = draw_leakage(without)
    assert np.isfinite(figure.axes[0].get_ylim()).all()
    assert figure_bytes(figure, "png")


def test_files(axes):
    png, svg = figure_bytes(axes.figure, "png"), figure_bytes(axes.figure, "svg")
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(png[place : place + 4], "big") for place in (16, 20))
    assert (width, height) == (1376, 832)
    assert len(png) > 20_000
    assert b"<svg" in svg
    assert "Lange 2024, published" in svg.decode()
    assert figure_bytes(axes.figure, "png") == png
    assert figure_bytes(axes.figure, "svg") == svg
    assert b"<dc:date>" not in svg


EPSILONS = np.geomspace(0.1, 20, 25)
METHODS = (
    "exact", "exchange", "quilt", "quilt-approx", "wasserstein",
    "group", "lange", "zhao", "zhao-multistep",
)  # fmt: skip
PUBLISHED = {"lange", "zhao", "zhao-multistep"}
WEAKER = {"quilt-approx", "wasserstein"}


def crowd():
    """Nine curves as they are on the activity chain: two alike, three that begin late."""
    slopes = dict(zip(METHODS, (4.0, 4.001, 13.0, 120.0, 9.0, 15264.0, 1.0, 1.2, 2.0), strict=True))
    errors = {}
    for name, slope in slopes.items():
        spent = EPSILONS - (8.0 if name in PUBLISHED else 0.0)
        with np.errstate(over="ignore", divide="ignore"):
            errors[name] = np.where(spent > 0, 1 / np.sinh(spent / slope), np.nan)
    return ErrorCurves(
        limits=EPSILONS,
        errors=errors,
        protects={name: "ignorant" if name in WEAKER else "any" for name in METHODS},
        certified={name: name not in PUBLISHED for name in METHODS},
    )


def beside(axes):
    """Return the labels in the margin."""
    return [text.get_text() for text in axes.texts if text.get_position()[0] == 1.085]


@pytest.fixture(scope="module")
def errors_axes():
    (found,) = draw_errors(crowd(), "A title", 1.0).axes
    return found


def test_drawn_errors(errors_axes):
    for name, values in crowd().errors.items():
        x, y = series(errors_axes, name)
        assert np.array_equal(x, EPSILONS)
        assert np.array_equal(y, values, equal_nan=True), name
    assert errors_axes.get_xscale() == errors_axes.get_yscale() == "log"
    assert series(errors_axes, "asked")[0].tolist() == [1.0, 1.0]


def test_nothing_is_called_weak_where_that_is_what_was_asked():
    asked = replace(crowd(), protects=dict.fromkeys(METHODS, "ignorant"))
    (axes,) = draw_errors(asked).axes
    assert not any("ignorant" in label for label in beside(axes))
    assert all(line.get_linewidth() > 2 for line in axes.lines if line.get_label() in METHODS)


def test_one_epsilon_and_methods_that_never_apply():
    alone = ErrorCurves(
        limits=np.array([1.0]),
        errors={"exact": np.array([4.0]), "lange": np.array([np.nan]), "new": np.array([9.0])},
        protects={"exact": "any", "lange": "any", "new": "any"},
        certified={"exact": True, "lange": False, "new": True},
    )
    figure = draw_errors(alone)
    assert beside(figure.axes[0]) == ["exact", "new"]
    assert figure_bytes(figure, "png").startswith(b"\x89PNG")


def test_nothing_to_draw_is_said():
    nothing = ErrorCurves(
        limits=np.array([1.0, 2.0]),
        errors={"exact": np.array([np.nan, np.nan])},
        protects={"exact": "any"},
        certified={"exact": True},
    )
    with pytest.raises(NotSupported, match="nothing to draw"):
        draw_errors(nothing)


COUPLES = ut.Groups(2)


def drawn(axes, name):
    (line,) = [line for line in axes.lines if line.get_label() == name]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def certified_curves(mechanism, delta=1e-6, model=COUPLES):
    return delta_curves(mechanism, model, ut.leakage(mechanism, model, delta=delta))


def test_a_curve_is_the_certificate():
    found = certified_curves(ut.GDP(0.1))
    leak = ut.leakage(ut.GDP(0.1), COUPLES, delta=1e-6)
    assert {*found.proved, found.asked} == {*leak.curve}
    assert found.asked == (leak.upper, 1e-6)
    assert found.pure is None
    own = ut.GDP(0.1).curve()
    assert all(epsilon == own.epsilon(delta) for epsilon, delta in found.own)
    (axes,) = draw_deltas(found, "A title").axes
    x, y = drawn(axes, "asked")
    assert (x[0], y[0]) == (1e-6, leak.upper)
    x, y = drawn(axes, "pairs")
    assert {*zip(y, x, strict=True)} == {*found.proved}
    words = " ".join(text.get_text() for text in axes.texts)
    assert "at δ = 1e-6" in words
    assert "(dots: proved)" in words


def test_a_single_pair_beside_the_pure_leakage():
    found = certified_curves(ut.ApproximateDP(1.0, 1e-6), 1e-5)
    assert found.pure == 2.0
    assert found.own == ((1.0, 1e-6),)
    (axes,) = draw_deltas(found).axes
    x, y = drawn(axes, "own")
    assert list(y) == [1.0, 1.0]
    assert x[0] == 1e-6
    assert set(drawn(axes, "pure")[1]) == {2.0}


def test_laplace_noise_has_its_pure_leakage():
    noise = ut.Laplace(ut.Sum(0, 1), 2.0)
    found = certified_curves(noise)
    assert found.pure == pytest.approx(1.0)
    figure_bytes(draw_deltas(found), "svg")


def test_what_cannot_be_drawn():
    with pytest.raises(NotSupported, match="a curve to draw"):
        delta_curves(ut.PureDP(1.0), COUPLES, ut.leakage(ut.PureDP(1.0), COUPLES))
    nothing = DeltaCurves((), ((1.0, 1e-6),), None, (float("inf"), 1e-6), "closed")
    with pytest.raises(NotSupported, match="nothing finite"):
        draw_deltas(nothing)


def test_renewals_are_drawn_as_they_are_proved():
    table = by_persistence((1.0, 2.0), (0.5, 0.7, 0.9))
    leaks, spent = draw_renewals(table, "A title", mark=0.9).axes
    for level, row in zip(table.levels, table.leakages, strict=True):
        x, y = drawn(leaks, f"{level:g}")
        assert (tuple(x), tuple(y)) == (table.persistences, row)
    assert tuple(drawn(spent, "budget")[1]) == table.budgets
    assert set(drawn(spent, "limit")[1]) == {1.0}
    assert drawn(leaks, "mark")[1][0] == table.leakages[1][2]
    words = [text.get_text() for axes in (leaks, spent) for text in axes.texts]
    assert {"7.59", "0.115", "leakage about one day"} <= set(words)  # to the safe sides
    (plain, _) = draw_renewals(table, period="week", mark=0.65).axes
    assert "mark" not in {line.get_label() for line in plain.lines}
    figure_bytes(draw_renewals(table), "svg")


LAZY = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])


def case(name, order, hidden, bic, scale, upper):
    leak = Leakage(1.1, upper, "hidden", "ignorant")
    return OrderCase(name, order, hidden, LAZY, 2, -bic / 2, bic, 4.0, scale, leak)


def table(planned=1.0):
    cases = (
        case("order 1", 1, 0, 1300.0, (4.0, 4.001), 1.2),
        case("order 3", 3, 0, 1200.0, (7.5, None), np.inf),
        case("2 hidden per state", 0, 2, 1210.0, None, 2.0),
    )
    return OrderTable(
        cases, 500, 1.0, "ignorant", Autocorrelation(9.0, 4.0, 50, 0.01, 3.0, 8), (), planned
    )


def points(axes, label):
    return [tuple(np.ravel(line.get_xydata())) for line in axes.lines if line.get_label() == label]


def test_open_points_are_attacks():
    bic, noise, leaks = draw_orders(table(), "A title").axes
    assert points(noise, "proved") == [(0, 4.001)]
    assert points(noise, "attack") == [(1, 7.5)]
    (open_point,) = [line for line in noise.lines if line.get_label() == "attack"]
    assert open_point.get_markerfacecolor() == "white"
    assert points(noise, "autocorrelation")[0][1] == 9.0
    assert points(leaks, "proved") == [(0, 1.2), (2, 2.0)]
    assert points(leaks, "attack") == [(1, 1.1)]
    words = {text.get_text() for axes in (bic, noise, leaks) for text in axes.texts}
    assert {"best", "+100", "not known", "limit of the plan"} <= words
    assert "≥ 7.5" in words


def test_without_a_plan_there_are_two_panels():
    assert len(draw_orders(table(None)).axes) == 2


def test_words_name_what_can_be_planned_with():
    found = table()
    assert found.best.name == "order 3"
    assert found.words().endswith("of those that can be planned with, order 1")
    assert "at least 7.5" in str(found)
    with pytest.raises(ut.errors.InvalidInput, match="no case"):
        found["order 9"]


SHORT = ut.MarkovChain([[0.8, 0.2], [0.4, 0.6]], length=6)


def test_the_figure_shows_the_table():
    table = budget_by_window(SHORT, 1.0)
    (axes,) = draw_windows(table, "A title").axes
    sizes, levels = drawn(axes, "windows")
    assert sizes.tolist() == [1, 2, 3, 6]
    assert levels.tolist() == [row.level for row in table]
    assert drawn(axes, "independent")[1][1] == 0.5
    assert drawn(axes, "person")[1] == pytest.approx([1 / 6, 1 / 6])
    words = " ".join(text.get_text() for text in axes.texts)
    assert "one record" in words
    assert "all 6 records of a person: 0.1666" in words


def test_a_chain_of_any_length_has_no_person():
    table = budget_by_window(ut.MarkovChain(SHORT.transition), 1.0, windows=(2, 4))
    (axes,) = draw_windows(table).axes
    assert not [line for line in axes.lines if line.get_label() == "person"]
    assert "2 records" in " ".join(text.get_text() for text in axes.texts)
