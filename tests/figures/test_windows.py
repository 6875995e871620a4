"""The figure of budgets against windows shows the table, and labels it."""

import numpy as np
import pytest

import undertow as ut
from undertow.diagnostics.windows import budget_by_window
from undertow.figures.costs import draw_windows

CHAIN = ut.MarkovChain([[0.8, 0.2], [0.4, 0.6]], length=6)


def drawn(axes, name):
    (line,) = [line for line in axes.lines if line.get_label() == name]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def test_the_figure_shows_the_table():
    table = budget_by_window(CHAIN, 1.0)
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
    table = budget_by_window(ut.MarkovChain(CHAIN.transition), 1.0, windows=(2, 4))
    (axes,) = draw_windows(table).axes
    assert not [line for line in axes.lines if line.get_label() == "person"]
    assert "2 records" in " ".join(text.get_text() for text in axes.texts)
