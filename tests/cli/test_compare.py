"""`undertow compare`: one row per method, the guarantee kept or not, and the figure."""

import json

import pytest

import undertow as ut
from tests.cli.calls import CHAIN, NAMED, call, call_json, strict
from undertow.planning import compare as comparison

VALUES = ("--values", "inactive=0,active=1")
SHORT = (*NAMED, "--length", 10)
ASKED = ("compare", *SHORT, "--count", "active", "--limit", 1)
CHAIN_10 = ut.MarkovChain(
    [[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"), length=10
)
SECTIONS = (
    "Methods that keep the guarantee",
    "Methods that DO NOT keep the guarantee",
    "Methods that do not apply",
)


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


def without_time(fields):
    for row in fields["rows"]:
        del row["seconds"]
    return fields


def test_json_is_the_library_answer():
    found = call_json(*ASKED)
    table = comparison.compare(ut.Count("active"), CHAIN_10, 1.0)
    assert without_time(found) == json.loads(json.dumps(without_time(table.to_dict())))


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


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")])
def test_figure(tmp_path, name, start):
    path = tmp_path / name
    result = call(*ASKED, "--figure", path)
    assert result.exit_code == 0
    assert not result.stderr
    assert str(path) in result.stdout
    assert path.read_bytes().startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [name]


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
