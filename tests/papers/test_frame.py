"""The frame of the reproductions: verdicts follow from numbers, pages are whole."""

import json
import math
from pathlib import Path

import pytest

from undertow.errors import InvalidInput
from undertow_papers import registry, store
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import (
    VERDICTS,
    Claim,
    Compared,
    Improved,
    Listing,
    Origin,
    Recomputed,
    WorstCase,
)
from undertow_papers.pages import manifest
from undertow_papers.registry import Result, Setting, recompute


@pytest.mark.parametrize(
    ("finding", "verdict", "why"),
    [
        (Compared("a", 1.0, 1.004, 0.005), "reproduced", ""),
        (Compared("a", 1.0, 1.006, 0.005, cause="rounding"), "differs", "rounding"),
        (Compared("a", 1.0, 1.006, 0.005), "differs", "cause unknown"),
        (Compared("a", 1.0, 2.0, 0.1, wrong="off by one"), "corrected", "off by one"),
        (Compared("a", 1.0, 1.0, 0.1, wrong="off by one"), "reproduced", ""),
        (Claim("a", 3.9, 4.0), "reproduced", ""),
        (Claim("a", 4.5, 4.0, witness="K = {1}"), "corrected", "K = {1}"),
        (Claim("a", 4.5, 4.0, relation=">="), "reproduced", ""),
        (Claim("a", 3.5, 4.0, relation=">="), "corrected", "no witness"),
        (Claim("a", 3.5, 4.0, 0.1, relation="=="), "corrected", "no witness"),
        (Improved("a", 4.0, 15264.0), "improved", "3816 times better"),
        (Improved("a", 5.0, 5.0), "not improved", "nothing to gain"),
        (Improved("a", 0.9, 0.6, larger_is_better=True), "improved", "1.5 times better"),
        (Improved("a", 0.0, 1.0), "improved", "inf times better"),
    ],
)
def test_verdicts_follow_from_numbers(finding, verdict, why):
    assert finding.verdict == verdict in VERDICTS
    assert finding.why == why


def test_an_outcome_needs_numbers():
    with pytest.raises(InvalidInput, match="at least one finding"):
        Recomputed(())
    with pytest.raises(InvalidInput, match="not a number"):
        Recomputed((Compared("a", math.nan, 1.0, 0.1),))
    two = Recomputed((Compared("a", 1.0, 1.0, 0.1), Claim("b", 5.0, 4.0)))
    assert two.verdicts == {"reproduced": 1, "corrected": 1}


def test_an_outcome_is_the_sum_of_its_parts():
    table = Listing("Errors", ("method",), (("exact",),))
    chart = Chart("chart", "A chart", ())
    claims = [Claim("a", 1.0, 2.0), Claim("b", 1.0, 2.0)]
    made = Recomputed.of(
        iter(["one", claims[0], chart, table, Origin(real=False), claims[1], "two"])
    )
    assert made == Recomputed(tuple(claims), (chart,), ("one", "two"), "stand-in", tables=(table,))
    assert Recomputed.of(iter(claims)).data == "none"


@pytest.mark.parametrize(("relation", "found"), [("<=", "c"), (">=", "a"), ("==", "a")])
def test_the_worst_case_is_kept(relation, found):
    cases = [(1.0, 4.0, "a"), (1.0, 4.0, "as bad"), (4.0, 4.0, "b"), (6.0, 4.0, "c")]
    worst = WorstCase.of(cases, relation)
    assert (worst.where, worst.tried) == (found, 4)
    assert worst.claim("x") == Claim("x", worst.ours, worst.theirs, 1e-9, relation, found)
    assert worst.compared("x", 0.5) == Compared("x", worst.ours, worst.theirs, 0.5, "derived")


CALLS: list[int] = []


def computed(setting):
    """A result of no paper."""
    CALLS.append(1)
    line = Trace("exact", (1.0, 2.0), (1.0, 0.5))
    band = Trace("range", (1.0, 2.0), (0.9, 0.4), "band", (1.1, 0.6))
    panel = Panel("a", "epsilon", "error", (line, band), ("linear", "log"), (0.0, 3.0))
    bars = Panel(
        "b",
        "",
        "error",
        (Trace("x", (0.0, 1.0), (1.0, 2.0), "bars"),),
        ticks=("one", "a longer one"),
    )
    points = Panel("c", "x", "y", (Trace("read off", (1.0,), (2.0,), "points"),
                                   Trace("theirs", (1.0,), (2.0,), "theirs")))  # fmt: skip
    return Recomputed(
        (Compared("a | b", 1.0, 1.0, 0.1), Claim("<claim>", 5.0, math.inf)),
        (Chart("chart", "A chart", (panel, bars, points), "caption"),),
        ("a note",),
        "real" if setting.data else "stand-in",
        tables=(Listing("Errors", ("method", "error"), (("exact", "4.0"),)),),
    )


FAKE = Result("wang2016", "fake", "A <result>", computed)


def test_runs_are_stored_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_drawn", lambda run, folder: [])  # `test_pages_are_whole` draws
    CALLS.clear()
    told: list[bool] = []
    setting = Setting(seed=3)
    for _ in range(2):
        runs = store.reproduce(
            [FAKE], setting, tmp_path, told=lambda _, cached: told.append(cached)
        )
    assert told == [False, True]
    assert len(CALLS) == 1
    assert runs[0].outcome == computed(setting)
    assert runs[0].outcome.findings[1].theirs == math.inf
    store.reproduce([FAKE], setting, tmp_path, fresh=True)
    store.reproduce([FAKE], Setting(seed=4), tmp_path)
    assert len(CALLS) == 4  # one by hand above
    for kept in (tmp_path / ".store").iterdir():
        kept.write_text("{}")
    store.reproduce([FAKE], setting, tmp_path)
    assert len(CALLS) == 5


def test_pages_are_whole(tmp_path):
    runs = store.reproduce([FAKE], Setting(), tmp_path)
    page, text = (tmp_path / "index.html").read_text(), (tmp_path / "index.md").read_text()
    for said in ("synthetic stand-in", "a note", "Errors", "reproduced"):
        assert said in page
        assert said in text
    assert "A &lt;result&gt;" in page
    assert "&lt;claim&gt;" in page
    assert "a \\| b" in text
    for kind in ("svg", "png"):
        assert (tmp_path / "figures" / f"wang2016-chart.{kind}").stat().st_size > 1000
    assert "figures/wang2016-chart.svg" in page
    written = json.loads((tmp_path / "manifest.json").read_text())
    assert written == json.loads(json.dumps(manifest(runs, Setting())))
    assert written["verdicts"] == {"reproduced": 2}
    assert "undertow" in written["versions"]


def test_results_are_found_by_name():
    everything = registry.find_results()
    assert {found.paper for found in everything} == set(registry.PAPERS)
    assert len({found.id for found in everything}) == len(everything)
    some = everything[0]
    assert registry.find_results([some.id]) == [some]
    assert some in registry.find_results([some.paper])
    for name in ("nobody1999", f"{some.paper}:fig99"):
        with pytest.raises(InvalidInput, match="there is no result"):
            registry.find_results([name])
    with pytest.raises(InvalidInput, match="no new result"):
        registry.result(some.paper, some.item, "twice")(computed)
    with pytest.raises(InvalidInput, match="no new result"):
        registry.result("nobody1999", "fig1", "of no paper")(computed)


def test_files_are_found_or_not(tmp_path):
    (tmp_path / "galton").mkdir()
    (tmp_path / "galton" / "galton.csv").write_text("x\n")
    assert Setting(data=tmp_path).file("galton", "galton.csv") == Path(
        tmp_path, "galton", "galton.csv"
    )
    assert Setting(data=tmp_path).file("galton", "other.csv") is None
    assert Setting().file("galton", "galton.csv") is None


def test_a_line_has_as_many_places_as_values():
    with pytest.raises(InvalidInput, match="2 places"):
        Trace("odd", (1.0, 2.0), (1.0,))


def test_recompute_takes_time():
    run = recompute(FAKE, Setting())
    assert run.seconds >= 0
    assert run.result is FAKE
