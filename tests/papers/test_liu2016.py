"""The fragment of liu2016, recomputed: which claims hold, which break, and by how much."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from undertow_papers.liu2016.separations import QUERIES, example_separation
from undertow_papers.registry import PAPERS, Setting, find_results, printed, recompute

DATA = Path(os.environ.get("UNDERTOW_DATA") or Path(__file__).parents[3] / "shared" / "data")
CORRECTED = {  # how many findings of each result refute the paper
    "def3": 1, "thm3": 3, "thm4": 2, "thm7": 1, "sec6a": 1, "sec6b:many": 4,
}  # fmt: skip
ITEMS = (
    "def3", "def4", "thm2", "thm3", "thm4", "thm5", "thm6", "thm7", "eq12", "fig6", "sec6a",
    "sec6b", "sec6b:two", "sec6b:many", "data:gowalla", "data:gowalla-attack",
)  # fmt: skip


@cache
def outcome(item, data=None):
    (found,) = find_results([f"liu2016:{item}"])
    return recompute(found, Setting(data=data)).outcome


def finding(item, start, data=None):
    """The one finding whose name starts so."""
    (found,) = [f for f in outcome(item, data).findings if f.name.startswith(start)]
    return found


def test_all_results_are_listed():
    assert "liu2016" in PAPERS
    assert {found.item for found in find_results(["liu2016"])} == set(ITEMS)


@pytest.mark.parametrize("item", ITEMS)
def test_verdicts(item):
    found = outcome(item)
    assert found.verdicts.get("corrected", 0) == CORRECTED.get(item, 0)
    for each in found.findings:
        assert each.why != "cause unknown"
        assert each.why != "no witness"
    differing = [each.name for each in found.findings if each.verdict == "differs"]
    assert differing == (
        ["product, dependent, in units of epsilon (epsilon 1)"] if item == "fig6" else []
    )
    assert found.data == ("stand-in" if item in ("thm2",) or ":gowalla" in item else "none")


def test_figure_6():
    numbers = printed("liu2016")["fig6"]
    assert numbers["sum"] == [1.5, 1.0]
    for name, expected in (("sum", 1.5), ("difference", 0.5), ("product", 0.760395051)):
        assert example_separation(QUERIES[name], 1.0) == pytest.approx(expected, abs=1e-5)
    for name, query in QUERIES.items():  # densities drawn in the chart are densities
        (panel,) = [p for p in outcome("fig6").charts[0].panels if p.title == name]
        for line in panel.lines:
            assert np.trapezoid(line.y, line.x) == pytest.approx(1.0, abs=0.05)
        assert example_separation(query, 2.0) > example_separation(query, 1.0)


def test_the_attack_learns_more_than_the_guarantee_only_from_friends():
    (chart,) = outcome("data:gowalla-attack").charts
    known, guarantee = chart.panels[1].lines
    assert guarantee.label == "w/o ties = guarantee of DP"
    assert all(leak > 2 * level for leak, level in zip(known.y, known.x, strict=True))
    assert guarantee.y == pytest.approx(guarantee.x)
    for line in chart.panels[0].lines:
        assert list(line.y) == sorted(line.y)
        assert line.y[-1] == 1.0


def test_real_check_ins():
    if not (DATA / "gowalla" / "checkins_nyc.csv.gz").is_file():
        pytest.skip("no check-ins: set UNDERTOW_DATA to the folder that holds gowalla/")
    for item in ("thm2", "data:gowalla", "data:gowalla-attack"):
        found = outcome(item, DATA)
        assert found.data == "real"
        assert set(found.verdicts) <= {"reproduced", "improved", "not improved"}
    leak = finding("thm2", "with social ties, epsilon 1:", DATA)
    assert leak.ours == pytest.approx(2.521792, abs=1e-5)
    scale = finding("data:gowalla", "noise at epsilon 1: coefficients", DATA)
    assert (scale.ours, scale.theirs) == pytest.approx((34.41131, 55.6), abs=1e-4)
