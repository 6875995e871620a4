"""The figure shows what the leakage function says, and labels it."""

import builtins
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text

import undertow as ut
from undertow.bounds.published import lange_constant, zhao_constant
from undertow.errors import InvalidInput, NotSupported
from undertow.figures.canvas import apart, check_drawing, figure_bytes
from undertow.figures.costs import draw_errors
from undertow.figures.curves import Curves, Mark, draw_leakage, leakage_curves
from undertow.figures.series import draw_redaction
from undertow.planning.compare import ErrorCurves, error_curves

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


def test_each_level_ticks_once():
    ticks: list[None] = []
    leakage_curves(CHAIN, LEVELS[:2], tick=lambda: ticks.append(None))
    assert len(ticks) == 2


@pytest.mark.parametrize("levels", [[], [1.0, 0.5], [1.0, 1.0]])
def test_levels_must_increase(levels):
    with pytest.raises(InvalidInput, match="increasing"):
        leakage_curves(CHAIN, levels)


def test_length_is_that_of_the_chain_by_default():
    assert leakage_curves(CHAIN, [1.0]).length is None
    short = ut.MarkovChain(CHAIN.transition, length=5)
    assert leakage_curves(short, [1.0]).length == 5


def test_drawn_series(axes, curves):
    x = np.array(LEVELS)
    for name, expected in (
        ("any", curves.any),
        ("ignorant", curves.ignorant),
        ("informed", x),
        ("Lange 2024", x + curves.lange),
        ("Zhao et al. 2017", x + curves.zhao),
    ):
        drawn = series(axes, name)
        assert np.array_equal(drawn[0], x), name
        assert np.array_equal(drawn[1], expected), name
    rising = series(axes, "general")
    assert rising[1][1] / rising[0][1] == pytest.approx(4032)


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


def test_labels_do_not_overlap(axes):
    figure = axes.figure
    figure.draw_without_rendering()
    beside = [text for text in axes.texts if text.get_position()[0] == 1.015]
    boxes = [text.get_window_extent() for text in beside]
    assert len(boxes) == 5
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert box.y1 <= figure.bbox.y1


def test_places_move_apart_and_keep_their_order():
    places = [0.5, 0.51, 0.9, 0.52]
    moved = apart(places, 0.1)
    assert np.argsort(moved).tolist() == np.argsort(places).tolist()
    assert np.diff(np.sort(moved)).min() >= 0.1 - 1e-3
    assert moved[2] == 0.9
    assert apart([0.2, 0.8], 0.1) == [0.2, 0.8]


@pytest.mark.parametrize("place", [0.0, 1.0])
def test_places_stay_inside(place):
    moved = np.sort(apart([place] * 9, 0.05))
    assert np.diff(moved).min() >= 0.05 - 1e-3
    assert moved[0] >= 0.0
    assert moved[-1] <= 1.0


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


def test_missing_matplotlib_says_what_to_install(monkeypatch, curves):
    real = builtins.__import__

    def fake(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", fake)
    with pytest.raises(NotSupported, match=r"undertow\[plot\]"):
        draw_leakage(curves)
    with pytest.raises(NotSupported, match=r"undertow\[plot\]"):
        check_drawing()


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


def test_published_is_dashed_and_ignorant_only_is_thin(errors_axes):
    lines = {line.get_label(): line for line in errors_axes.lines}
    for name in METHODS:
        assert (lines[name].get_linestyle() == "--") == (name in PUBLISHED), name
        assert (lines[name].get_linewidth() < 2) == (name in WEAKER), name


def test_every_method_is_labelled_once_and_those_alike_together(errors_axes):
    assert beside(errors_axes) == [
        "exact, exchange",
        "quilt",
        "quilt-approx (ignorant only)",
        "wasserstein (ignorant only)",
        "group",
        "lange (published)",
        "zhao (published)",
        "zhao-multistep (published)",
    ]
    assert {"limit 1", "expected absolute error of a released number"} < set(words(errors_axes))
    assert errors_axes.get_title(loc="left") == "A title"
    assert errors_axes.get_legend() is None


@pytest.mark.parametrize("long", [False, True])
def test_error_labels_do_not_overlap(long):
    title = "A title" * (14 if long else 1)
    figure = draw_errors(crowd(), title, 1.0)
    (axes,) = figure.axes
    figure.draw_without_rendering()
    boxes = [t.get_window_extent() for t in axes.texts if t.get_text() in beside(axes)]
    assert len(boxes) == 8
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert box.y1 <= figure.bbox.y1
    (heading,) = [text for text in axes.findobj(Text) if text.get_text() == title]
    assert heading.get_window_extent().x1 <= figure.bbox.x1


def test_nothing_is_called_weak_where_that_is_what_was_asked():
    asked = replace(crowd(), protects=dict.fromkeys(METHODS, "ignorant"))
    (axes,) = draw_errors(asked).axes
    assert not any("ignorant" in label for label in beside(axes))
    assert all(line.get_linewidth() > 2 for line in axes.lines if line.get_label() in METHODS)


def test_vanishing_errors_do_not_squash_the_rest(errors_axes):
    low, high = errors_axes.get_ylim()
    assert high > 152_640
    assert 1e-2 < low < 0.1


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


def test_errors_of_a_real_chain():
    chain = ut.MarkovChain(CHAIN.transition, length=30)
    curves = error_curves(ut.Count(1), chain, [0.5, 1.0, 12.0])
    said = "\n".join(words(draw_errors(curves).axes[0]))
    for name in ("exact", "group", "lange (published)", "zhao (published)"):
        assert name in said


def test_error_files_are_the_same_every_time():
    files = {figure_bytes(draw_errors(crowd(), "A title"), "svg") for _ in range(2)}
    assert len(files) == 1
    assert "quilt-approx (ignorant only)" in files.pop().decode()


# --- redacted series ------------------------------------------------------------------------------


def redaction():
    chain = ut.MarkovChain([[0.95, 0.05], [0.2, 0.8]], ("low", "high"), length=60)
    return ut.calibrate(ut.Redacted(30), chain, limit=1.0)


def test_a_redacted_series_shows_what_is_left_and_how_likely_that_was():
    plan = redaction()
    shown = ut.sanitize(plan, ["low"] * 60, insecure_seed=1)
    series, probabilities = sorted(
        draw_redaction(plan, shown, "A title").axes, key=lambda a: -a.get_position().y0
    )
    crosses = [line for line in series.lines if line.get_label() == "erased"]
    erased = sorted(int(np.asarray(line.get_xdata())[0]) for line in crosses)
    first, last = (round(edge) for edge in probabilities.get_xlim())
    assert erased == [t for t in range(first, last + 1) if shown[t] is None]
    assert 30 in erased
    for place, state in enumerate(plan.states):
        (line,) = (line for line in probabilities.lines if line.get_label() == state)
        found = plan.mechanism.probabilities[np.asarray(line.get_xdata(), dtype=int), place]
        assert np.array_equal(line.get_ydata(), found)
    assert series.get_title(loc="left") == "A title"


def test_probabilities_alone_can_be_drawn_and_lengths_must_agree():
    plan = redaction()
    assert len(draw_redaction(plan).axes) == 1
    with pytest.raises(InvalidInput, match="for 60 records, the series to draw has 2"):
        draw_redaction(plan, ["low", None])
