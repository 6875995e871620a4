"""`undertow compare`: one row per method, the guarantee kept or not, and the figure."""

import json

import numpy as np
import pytest

import undertow as ut
from tests.cli.calls import CHAIN, NAMED, call, call_json, strict
from undertow.cli import compare as compare_command
from undertow.methods import methods_for
from undertow.planning import compare as comparison

VALUES = ("--values", "inactive=0,active=1")
SHORT = (*NAMED, "--length", 10)
ASKED = ("compare", *SHORT, "--count", "active", "--limit", 1)
CHAIN_10 = ut.MarkovChain(
    [[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"), length=10
)
SECTIONS = ("Methods that keep the guarantee", "Methods that DO NOT keep the guarantee", "Methods that do not apply")
COMPLETE = "Methods that keep it if no value is missing"


def sections(text):
    """Return the cells of the rows under each heading, by method."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in text.splitlines():
        if not line.startswith(" "):
            heading = line
            found[heading] = {}
        else:
            cells = [cell.strip() for cell in line.strip().split("  ") if cell.strip()]
            found[heading][cells[0]] = cells[1:]
    return found


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(compare_command, "_POINTS", 2)


def without_time(fields):
    for row in fields["rows"]:
        del row["seconds"]
    return fields


def test_json_is_the_library_answer():
    found = call_json(*ASKED)
    table = comparison.compare(ut.Count("active"), CHAIN_10, 1.0)
    assert without_time(found) == json.loads(json.dumps(without_time(table.to_dict())))


def test_words():
    result = call(*ASKED)
    assert result.exit_code == 0
    assert not result.stderr
    assert "number of records in 'active'" in result.stdout
    assert "a leakage of at most 1 to an attacker who knows any other records" in result.stdout
    found = sections(result.stdout)
    kept, missed, out = (found[heading] for heading in SECTIONS)
    assert list(found) == ["What each method costs", SECTIONS[0], COMPLETE, *SECTIONS[1:]]
    assert found[COMPLETE].keys() == {"method", "optimal"}
    assert {"exact", "exchange", "quilt", "group"} <= kept.keys()
    alone = {"quilt-approx", "wasserstein", "influence-curve", "temporal"}
    assert alone >= missed.keys() - {"method"}
    assert {"lange", "zhao"} <= out.keys()
    header = [
        "scale",
        "error",
        "95% within",
        "x optimum",
        "leaks",
        "protects against",
        "basis",
        "time",
    ]
    assert kept["method"] == header
    plan = ut.calibrate(ut.Count("active"), CHAIN_10, 1.0, method="exact")
    scale, error, bar, times, leaks, protects, basis, time = kept["exact"]
    least = ut.calibrate(ut.Count("active"), CHAIN_10, 1.0, method="optimal").expected_error
    assert float(times) == pytest.approx(plan.expected_error / least, rel=1e-3)
    assert plan.mechanism.scale <= float(scale) <= plan.mechanism.scale * 1.0001
    assert plan.expected_error <= float(error) <= plan.expected_error * 1.0001
    assert float(bar) == plan.accuracy(0.05)
    assert float(leaks) == pytest.approx(1.0, abs=1e-6)
    assert (protects, basis) == ("any attacker", "certified")
    assert time.endswith((" ms", " s"))
    for row in missed.values():
        assert row[-3] in ("ignorant only", "protects against")
    assert "needs a limit above 8.046" in out["lange"][0]


def test_every_method_has_its_row():
    found = sections(call(*ASKED).stdout)
    shown = [found[heading] for heading in (*SECTIONS, COMPLETE)]
    listed = [name for rows in shown for name in rows if name != "method"]
    expected = methods_for(ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]]))
    assert sorted(listed) == sorted(expected)
    assert {row["method"] for row in call_json(*ASKED)["rows"]} == set(expected)


def test_published_methods_are_marked():
    found = sections(call(*ASKED[:-1], 15).stdout)
    assert found[SECTIONS[0]]["lange"][-2] == "published"
    assert found["What each method costs"]["least error"] != ["lange"]


def test_against():
    found = sections(call(*ASKED, "--against", "ignorant").stdout)
    assert {"quilt", "quilt-approx", "wasserstein"} <= found[SECTIONS[0]].keys()
    assert SECTIONS[1] not in found
    one = call_json(*ASKED, "--target", 5, "--known", "2,9")
    assert one["against"] == "an attacker who wants record 5 and knows 2, 9"
    said = sections(call(*ASKED, "--target", 5, "--known", "2,9").stdout)
    assert said[SECTIONS[0]]["exact"][4] == "this attacker only"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--histogram",),
        ("--sum", "0,5", *VALUES),
        ("--mean", "0,1", *VALUES),
        ("--count", "active"),
    ],
)
def test_queries(arguments):
    result = call("compare", *SHORT, *arguments, "--limit", 1)
    assert result.exit_code == 0
    assert "exchange" in sections(result.stdout)[SECTIONS[0]]


def test_no_method_may_keep_the_guarantee():
    copies = ("--transition", "0,0.5,0.5;1,0,0;1,0,0", "--count", 1, "--limit", 1)
    result = call("compare", *copies)
    assert result.exit_code == 0
    assert "no certified method gives it" in result.stdout
    assert sections(result.stdout).keys() == {"What each method costs", SECTIONS[2]}
    assert call_json("compare", *copies)["best"] is None


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")])
def test_figure(tmp_path, name, start):
    path = tmp_path / name
    result = call(*ASKED, "--figure", path)
    assert result.exit_code == 0
    assert not result.stderr
    assert str(path) in result.stdout
    assert path.read_bytes().startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.usefixtures("quick")
def test_a_figure_is_not_replaced_unless_forced(tmp_path):
    path = tmp_path / "a.svg"
    path.write_text("mine")
    refused = call(*ASKED, "--figure", path)
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert path.read_text() == "mine"
    found = call_json(*ASKED, "--figure", path, "--force")
    assert found["figure"] == str(path)
    assert "Number of records in 'active', protected from any attacker" in path.read_text()


def test_the_figure_spans_the_epsilon_asked_for(tmp_path, monkeypatch):
    grids = []

    def fake(query, model, epsilons, against, tick, **more):
        assert more == {"delta": 0.0, "releases": 1, "protect": ut.Window(1)}
        for _ in epsilons:
            tick()
        grids.append(np.array(epsilons))
        return comparison.ErrorCurves(
            limits=grids[0],
            errors={"exact": 1 / grids[0]},
            protects={"exact": "any"},
            certified={"exact": True},
        )

    monkeypatch.setattr(comparison, "error_curves", fake)
    assert call(*ASKED[:-1], 2, "--figure", tmp_path / "a.svg").exit_code == 0
    assert grids[0][[0, -1]] == pytest.approx([0.2, 40.0])
    assert len(grids[0]) == 25
    assert np.diff(np.log(grids[0])) == pytest.approx(np.log(200) / 24)


REFUSED = {
    "epsilon zero": (("compare", *SHORT, "--count", "active", "--limit", 0), "found 0.0"),
    "unknown state": (("compare", *SHORT, "--count", "x", "--limit", 1), "no state 'x'"),
    "rows": (("compare", "--transition", "1,1;0,1", "--count", 1, "--limit", 1), "row 0"),
    "a folder that is not there": ((*ASKED, "--figure", "no/such/a.png"), "no directory"),
}
UNREADABLE = {
    "no question": ("compare", *SHORT, "--limit", 1),
    "two questions": (*ASKED, "--histogram"),
    "no epsilon": ("compare", *CHAIN, "--count", 1),
    "no model": ("compare", "--count", 1, "--limit", 1),
    "a figure of an unknown kind": (*ASKED, "--figure", "a.pdf"),
    "forced to nowhere": (*ASKED, "--force"),
    "two attackers": (*ASKED, "--against", "any", "--target", 1),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(arguments, words):
    result = call(*arguments, "--json")
    assert result.exit_code == 1
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert strict(result.stdout).keys() == {"error", "message"}


@pytest.mark.parametrize("arguments", UNREADABLE.values(), ids=UNREADABLE)
def test_wrong_usage(arguments):
    result = call(*arguments)
    assert result.exit_code == 2
    assert "Error" in result.stderr
    assert not result.stdout


def test_without_matplotlib_nothing_is_computed(tmp_path, monkeypatch):
    from undertow.errors import NotSupported
    from undertow.figures import canvas

    def missing():
        raise NotSupported("figures need matplotlib; install it with: pip install 'undertow[plot]'")

    def never(*_, **__):
        raise AssertionError("computed in vain")

    monkeypatch.setattr(canvas, "_matplotlib", missing)
    monkeypatch.setattr(comparison, "compare", never)
    result = call(*ASKED, "--figure", tmp_path / "a.png")
    assert result.exit_code == 1
    assert "undertow[plot]" in result.stderr


def test_a_terminal_gets_a_table():
    env = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"}
    result = call(*ASKED, env=env)
    assert "\x1b[" in result.stdout
    assert "wasserstein" in result.stdout
