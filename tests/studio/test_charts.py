"""Charts of the studio: what is drawn is what was given, and nothing in them can act."""

import datetime as dt
import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from markupsafe import Markup

import undertow as ut
from undertow.errors import InvalidInput, NotSupported
from undertow_studio import charts
from undertow_studio.charts.calendar import calendar_chart
from undertow_studio.charts.lines import cost_chart, fading_chart, leakage_chart
from undertow_studio.charts.models import (
    chain_picture,
    correlation_picture,
    family_picture,
    group_picture,
)
from undertow_studio.charts.strips import odds_bar, record_strip
from undertow_studio.charts.svg import Scale, join, picture, tag
from undertow_studio.fits import Fading
from undertow_studio.odds import Belief, allowed
from undertow_studio.pages.attacker import Cell, ValueBelief
from undertow_studio.pages.costs import CostLine, Costs
from undertow_studio.pages.release import BudgetYear, Day

HOSTILE = '"><script>alert(1)</script><i onload=x style="a" \x1b[2J\u202e&'
ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))


def guess(prior=0.25, change=1.0, limit=1.0, value="active"):
    odds = prior / (1 - prior) * math.exp(change)
    after = odds / (1 + odds)
    ends = allowed(prior, limit) if math.isfinite(limit) else Belief(prior, 0.0, 1.0)
    laws = ((1 - prior, prior), (1 - after, after))
    return ValueBelief(7, value, ("inactive", value), laws, change, change, limit, ends, "a reason")


def year(weekly=0.02):
    weeks = [dt.date(2026, 1, 5) + dt.timedelta(weeks=week) for week in range(20)]
    days = [Day(day.isoformat(), 0.02, 0.0, 0.02 * (n + 1)) for n, day in enumerate(weeks)]
    days.append(Day("2026-05-20", 0.0, 0.05, 0.45))
    return BudgetYear(1.0, "2026-01-01", "2026-05-25", tuple(days), weekly)


def costs(names=("exact", "group")):
    places = (0.1, 1.0, 10.0)
    lines = [
        CostLine(name, "certified" if place % 2 == 0 else "published", "any",
              tuple((place + 1) * 40.0 / limit for limit in places))
        for place, name in enumerate(names)
    ]  # fmt: skip
    return Costs(places, tuple(lines), 1.0)


def random_chain(size, seed=0, names=None):
    rows = np.random.default_rng(seed).dirichlet(np.ones(size), size=size)
    return ut.MarkovChain(rows, states=names)


FADING = Fading((0, 1, 2), (1.0, 0.5, 0.25), (1.0, 0.6, 0.2), (0.0, 0.05, 0.06), None)
FAMILY = ut.Pedigree(
    {"kim": ("bob", "ann"), "lee": ("bob", "ann"), "max": ("kim", "sue"), "tom": ("lee", None)}
)
GAUSSIAN = ut.MultivariateGaussian(0, [[1, -0.5, 0.25], [-0.5, 1, 0.5], [0.25, 0.5, 1]])
ALL = {
    "chain": chain_picture(ACTIVITY),
    "six states": chain_picture(random_chain(6)),
    "many states": chain_picture(random_chain(12)),
    "family": family_picture(FAMILY, known=["bob"], target="max"),
    "group": group_picture(5),
    "large group": group_picture(400),
    "correlation": correlation_picture(GAUSSIAN),
    "class": correlation_picture(ut.MultivariateGaussian.bounded(3, 0.275)),
    "fading": fading_chart(FADING),
    "leakage": leakage_chart(costs()),
    "costs": cost_chart(costs(("exact", "lange", "group", "zhao", "quilt"))),
    "odds": odds_bar(guess()),
    "no limit": odds_bar(guess(limit=math.inf)),
    "calendar": calendar_chart(year()),
    "strip": record_strip([Cell(0, "known", "idle"), Cell(1, "target"), Cell(2, "unknown")]),
    "hostile chain": chain_picture(random_chain(3, names=(HOSTILE, "b", "c"))),
    "hostile states": chain_picture(random_chain(8, names=(HOSTILE, *"bcdefgh"))),
    "hostile family": family_picture(ut.Pedigree({HOSTILE: ("bob", "ann")}), target=HOSTILE),
    "hostile method": cost_chart(costs((HOSTILE, "b"))),
    "hostile odds": odds_bar(guess(value=HOSTILE)),
    "hostile strip": record_strip(
        [Cell(0, "known", HOSTILE, HOSTILE, why=HOSTILE), Cell(1, "unknown", why=HOSTILE)], HOSTILE
    ),
}


def elements(chart):
    return list(ET.fromstring(chart).iter())


def drawings(chart):
    return [element for element in elements(chart) if element.tag == "svg"]


@pytest.mark.parametrize("name", ALL)
def test_nothing_in_a_chart_can_act(name):
    for element in elements(ALL[name]):
        assert element.tag.lower() not in ("script", "style", "foreignobject", "a", "use", "image")
        for key, value in element.attrib.items():
            assert key != "style"
            assert not key.startswith(("on", "xlink", "href"))
            assert "javascript:" not in value
            assert "\x1b" not in value
            assert "\u202e" not in value
    words = " ".join(ET.fromstring(ALL[name]).itertext())
    assert "\x1b" not in words
    assert "\u202e" not in words


@pytest.mark.parametrize("name", [name for name in ALL if "strip" not in name])
def test_a_chart_speaks_to_those_who_do_not_see_it(name):
    wide, narrow = drawings(ALL[name])
    for svg in (wide, narrow):
        assert svg.get("role") == "img"
        labels = {e.get("id"): "".join(e.itertext()) for e in svg if e.tag in ("title", "desc")}
        named = svg.get("aria-labelledby").split()
        assert sorted(named) == sorted(labels)
        assert all(labels[one].strip() for one in named)
    assert wide.get("viewBox").split()[2] == "720"
    assert narrow.get("viewBox").split()[2] == "340"
    found = [e.get("id") for e in elements(ALL[name]) if e.get("id")]
    assert len(found) == len(set(found))


def test_a_chain_keeps_its_numbers():
    for svg in drawings(ALL["chain"]):
        found = {
            (e.get("data-from"), e.get("data-to")): float(e.get("data-p"))
            for e in svg.iter("g")
            if e.get("data-p")
        }
        assert found == {
            (x, y): float(ACTIVITY.transition[i, j])
            for i, x in enumerate(ACTIVITY.states)
            for j, y in enumerate(ACTIVITY.states)
        }
        shares = [float(e.get("data-share")) for e in svg.iter("g") if e.get("data-share")]
        assert shares == ACTIVITY.initial.tolist()
        widths = {e.get("data-p"): float(e.find("path").get("stroke-width"))
                  for e in svg.iter("g") if e.get("data-p")}  # fmt: skip
        assert [widths[p] for p in sorted(widths, key=float)] == sorted(widths.values())


def test_nothing_to_draw_is_refused():
    nothing = Costs((1.0, 2.0), (CostLine("a", "certified", "any", (None, None)),))
    with pytest.raises(NotSupported, match="nothing to draw"):
        cost_chart(nothing)


def test_a_strip_is_a_form():
    (strip,) = [ET.fromstring(ALL["strip"])]
    buttons = list(strip.iter("button"))
    assert [b.attrib["value"] for b in buttons] == ["0", "2"]
    assert {b.attrib["name"] for b in buttons} == {"toggle"}
    assert {b.attrib["type"] for b in buttons} == {"submit"}
    assert [b.attrib["aria-pressed"] for b in buttons] == ["true", "false"]
    assert [b.attrib["class"] for b in buttons] == ["cell known", "cell unknown"]
    (target,) = [e for e in strip.iter("span") if e.get("class") == "cell target"]
    assert "the target" in "".join(target.itertext())
    erased = record_strip([Cell(3, "unknown", erased=True, why="always erased")])
    assert "record 3: unknown, erased; always erased" in erased


def test_odds_are_said_and_drawn():
    for svg in drawings(ALL["odds"]):
        before, after = (
            next(e for e in svg.iter("circle") if e.get("class") == kind)
            for kind in ("before", "after")
        )
        assert float(before.get("data-p")) == 0.25
        assert float(after.get("data-p")) == pytest.approx(0.4754, abs=1e-4)
        (band,) = [e for e in svg.iter("rect") if e.get("data-upper")]
        left, wide = float(band.get("x")), float(band.get("width"))
        # the change is the limit: the end of the way is the edge of what is allowed
        assert float(after.get("cx")) == pytest.approx(left + wide, abs=0.02)
        middle = float(before.get("cx"))
        assert middle == pytest.approx(left + wide / 2, abs=0.02)
    assert "from 1 in 4 to" in ALL["odds"]
    assert "no limit for this attacker" in ALL["no limit"]


def test_a_calendar_has_every_day():
    for svg in drawings(ALL["calendar"]):
        days = [e for e in svg.iter("rect") if e.find("title") is not None]
        assert len(days) == 365
        kinds = [e.get("class") for e in days]
        assert kinds.count("day spent") == 20
        assert kinds.count("day reserved") == 1
        assert kinds.count("day weekly today") == 1
        planned = [kind for kind in kinds if "weekly" in kind or "over" in kind]
        assert len(planned) == len(year().weeks())
    over = calendar_chart(year(weekly=0.04))
    assert "no longer fits" in over
    assert "a weekly release would no longer fit" in over


def test_what_a_chart_has_no_room_for_is_refused():
    for name in ("script", "style", "foreignObject", "a b", "a><"):
        with pytest.raises(InvalidInput, match="no element"):
            tag(name)
    for attribute in ("style", "onload", "onClick", "x y"):
        with pytest.raises(InvalidInput, match="no attribute"):
            tag("g", **{attribute: "x"})
    for name in ("", "1a", "a b", 'a"'):
        with pytest.raises(InvalidInput, match="the name of a chart"):
            picture(name, "a", "b", lambda width: (1.0, []))
    for ends in ((1, 1), (2, 1), (0, math.inf), (math.nan, 1)):
        with pytest.raises(InvalidInput, match="no axis"):
            Scale(ends[0], ends[1], 0, 1)
    with pytest.raises(InvalidInput, match="no axis"):
        Scale(0, 1, 0, 1, log=True)


def test_markup_is_safe_for_templates_and_text_is_not():
    made = tag("b", "<", tag("i", "x"))
    assert made.__html__() == "<b>&lt;<i>x</i></b>"
    assert isinstance(join([made, "<"]), Markup)
    assert join([made, "<"], "") == "<b>&lt;<i>x</i></b>&lt;"


def test_colours_have_contrast():
    """Every colour of words has a contrast of at least 4.5 : 1 on the paper, in both themes."""
    css = (Path(charts.__file__).parents[1] / "static" / "charts.css").read_text("utf-8")
    blocks = re.findall(r"\{([^{}]*--paper:[^{}]*)\}", css)
    assert len(blocks) == 3
    assert blocks[1].split() == blocks[2].split()
    for block in blocks:
        named = dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", block))
        paper = luminance(named["paper"])
        for name in ("ink", "quiet", *(f"c{n}" for n in range(10))):
            for ground in (paper, luminance(named["wash"])):
                light, dark = (
                    max(luminance(named[name]), ground),
                    min(luminance(named[name]), ground),
                )
                assert (light + 0.05) / (dark + 0.05) >= 4.5, name


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
