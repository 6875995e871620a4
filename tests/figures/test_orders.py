"""The figure of orders shows what is proved as proved, and what is only attained as open."""

import numpy as np
import pytest

import undertow as ut
from undertow.certificate import Leakage
from undertow.diagnostics.chain_orders import OrderCase, OrderTable
from undertow.figures.costs import draw_orders
from undertow.models.fitting.hypotheses import Autocorrelation

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])


def case(name, order, hidden, bic, scale, upper):
    leak = Leakage(1.1, upper, "hidden", "ignorant")
    return OrderCase(name, order, hidden, CHAIN, 2, -bic / 2, bic, 4.0, scale, leak)


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
