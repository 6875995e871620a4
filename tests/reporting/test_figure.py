"""The figure of a release: every number a dot with its bar, on one axis, in plain SVG."""

import xml.etree.ElementTree as ET

import pytest

import undertow as ut
from undertow.errors import NotSupported
from undertow.figures.canvas import MOST_DRAWN, Bar, figure_bytes, released_figure
from undertow.figures.series import draw_redaction

SVG = "{http://www.w3.org/2000/svg}"


def read(estimates):
    """Return the root, the dots as x positions, the ends of the bars, and the axis as (x, text)."""
    root = ET.fromstring(released_figure(estimates))
    dots = [float(dot.attrib["cx"]) for dot in root.iter(f"{SVG}circle")]
    bars = []
    for path in root.iter(f"{SVG}path"):
        start, rest = path.attrib["d"].removeprefix("M").split(" ", 1)
        bars.append((float(start), float(rest.split("H")[1].split("M")[0])))
    texts = list(root.iter(f"{SVG}text"))
    axis = [
        (float(text.attrib["x"]), float(str(text.text).replace(",", "")))
        for text in texts
        if text.attrib.get("text-anchor") == "middle"
    ]
    return root, dots, bars, axis


def test_dots_bars_and_axis_agree():
    values = [120.0, -40.0, 3.5]
    _, dots, bars, axis = read([Bar(f"{v}", v, 12.0, f"{v}") for v in values])
    (x0, t0), *_, (x1, t1) = axis
    scale = (x1 - x0) / (t1 - t0)
    for value, dot, (low, high) in zip(values, dots, bars, strict=True):
        assert dot == pytest.approx(x0 + (value - t0) * scale, abs=0.2)
        assert low == pytest.approx(x0 + (value - 12 - t0) * scale, abs=0.2)
        assert high == pytest.approx(x0 + (value + 12 - t0) * scale, abs=0.2)


@pytest.mark.parametrize("value", [0, 5, -3, 10**15, 2.0**50])
def test_numbers_without_an_error(value):
    _, dots, _, axis = read([Bar("", value, 0.0, str(value))])
    assert len(dots) == 1
    assert axis


def test_no_more_than_a_page_of_numbers_is_drawn():
    estimates = [Bar(f"week {n}", n, 2.0, str(n)) for n in range(MOST_DRAWN + 40)]
    root, dots, _, _ = read(estimates)
    assert len(dots) == MOST_DRAWN
    title = root.find(f"{SVG}title")
    assert title is not None
    assert f"(the first {MOST_DRAWN} of {MOST_DRAWN + 40})" in str(title.text)
    with pytest.raises(NotSupported, match="nothing was released"):
        released_figure([])


def test_names_of_states_are_neither_formulas_nor_commands():
    """Null: a state named like a formula stops the drawing, and an escape stands in the file."""
    states = ("$\\frac$ 5", "idle\x1b[31m")
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=states, length=20)
    plan = ut.calibrate(ut.Redacted(9), chain, limit=2.0)
    shown = [None if place == 9 else states[place % 2] for place in range(20)]
    content = figure_bytes(draw_redaction(plan, shown, states[0]), "svg")
    ET.fromstring(content)
    text = content.decode()
    assert "$\\frac$ 5" in text
    assert "idle\\x1b[31m" in text
    assert "\x1b" not in text
