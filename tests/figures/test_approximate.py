"""The leakage against delta, and renewing budgets: what is drawn is what is proved."""

import numpy as np
import pytest

import undertow as ut
from undertow.diagnostics.windows import by_persistence
from undertow.errors import NotSupported
from undertow.figures.canvas import figure_bytes
from undertow.figures.costs import draw_renewals
from undertow.figures.curves import DeltaCurves, delta_curves, draw_deltas

COUPLES = ut.Groups(2)


def drawn(axes, name):
    (line,) = [line for line in axes.lines if line.get_label() == name]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def curves(mechanism, delta=1e-6, model=COUPLES):
    return delta_curves(mechanism, model, ut.leakage(mechanism, model, delta=delta))


def test_a_curve_is_the_certificate():
    found = curves(ut.GDP(0.1))
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
    found = curves(ut.ApproximateDP(1.0, 1e-6), 1e-5)
    assert found.pure == 2.0
    assert found.own == ((1.0, 1e-6),)
    (axes,) = draw_deltas(found).axes
    x, y = drawn(axes, "own")
    assert list(y) == [1.0, 1.0]
    assert x[0] == 1e-6
    assert set(drawn(axes, "pure")[1]) == {2.0}


def test_laplace_noise_has_its_pure_leakage():
    noise = ut.Laplace(ut.Sum(0, 1), 2.0)
    found = curves(noise)
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
