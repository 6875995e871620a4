"""The picture of an attack: success against epsilon, the bound beside it."""

import numpy as np
import pytest

from undertow.auditing.attackers import average_bound
from undertow.errors import InvalidInput
from undertow.figures.series import Guarantee, Hit, draw_attacks

pytest.importorskip("matplotlib")
LEVELS = np.linspace(0, 3, 31)
GUARANTEE = Guarantee(LEVELS, np.array([average_bound([0.6, 0.4], x) for x in LEVELS]), 0.6)
HITS = [
    Hit("viterbi", 2.0, 0.72, 0.70, 0.75),
    Hit("viterbi", 1.0, 0.65, 0.62, 0.70),
    Hit("correlation-aware", 2.0, 0.73, 0.71, 0.75, covered=False),
    Hit("informed", 2.0, 0.80, 0.79, 0.82, bound=0.9),
    Hit("neighbour", 2.0, 0.731, 0.70, 0.74),
]


@pytest.fixture(scope="module")
def axes():
    figure = draw_attacks(HITS, GUARANTEE, "Attacks")
    figure.canvas.draw()
    return figure.axes[0]


def line(axes, label):
    """The points of a line, which may be that of error bars."""
    for one in axes.containers:
        if one.get_label() == label:
            return one.lines[0]
    return next(one for one in axes.lines if one.get_label() == label)


def test_points_of_an_attacker_are_joined_in_order(axes):
    found = line(axes, "viterbi")
    assert found.get_ydata() == pytest.approx([0.65, 0.72])
    assert found.get_xdata() == pytest.approx([1.0, 2.0], abs=0.05)
    bars = next(one for one in axes.containers if one.get_label() == "viterbi").lines[2][0]
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    assert np.allclose(ends, [[0.62, 0.70], [0.70, 0.75]])


def test_the_bound_stands_beside_them(axes):
    assert line(axes, "bound").get_ydata() == pytest.approx(GUARANTEE.bounds)
    assert line(axes, "by the prior").get_ydata() == pytest.approx([0.6, 0.6])
    assert line(axes, "informed, at most").get_ydata() == pytest.approx([0.9])


def test_attackers_whom_the_guarantee_leaves_out_are_hollow(axes):
    assert line(axes, "correlation-aware").get_markerfacecolor() == "white"
    assert line(axes, "viterbi").get_markerfacecolor() != "white"
    words = [text.get_text() for text in axes.texts]
    assert any("does not cover" in text for text in words)
    covered = draw_attacks(HITS[:2], GUARANTEE).axes[0]
    assert not any("does not cover" in text.get_text() for text in covered.texts)


def test_nothing_to_draw():
    with pytest.raises(InvalidInput, match="no attack"):
        draw_attacks([], GUARANTEE)
