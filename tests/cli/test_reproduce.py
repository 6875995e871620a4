"""`undertow reproduce`: lists, one result, its files, and wrong usage."""

import json

from tests.cli.calls import call, call_json, strict
from undertow_papers.registry import find_results

RESULT = "wang2016:lemma4.7"


def test_the_list_names_every_result():
    said = call("reproduce", "--list").stdout
    listed = call_json("reproduce", "--list")["results"]
    assert [row["id"] for row in listed] == [found.id for found in find_results()]
    for row in listed:
        assert row["id"] in said
    only = call_json("reproduce", "wang2016", "--list")["results"]
    assert {row["id"].split(":")[0] for row in only} == {"wang2016"}


def test_one_result(tmp_path):
    folder = tmp_path / "out"
    said = call("reproduce", RESULT, "--quick", "--output", folder)
    assert said.exit_code == 0
    assert RESULT in said.stdout
    assert "reproduced" in said.stdout
    body = strict((folder / "manifest.json").read_text())
    again = call_json("reproduce", RESULT, "--quick", "--output", folder)
    assert json.loads(json.dumps(again)) == body
    assert [row["id"] for row in body["results"]] == [RESULT]
    assert (folder / "index.html").is_file()
    assert (folder / "index.md").is_file()


def test_wrong_usage(tmp_path):
    for arguments in (
        (),
        (RESULT, "--seed", "-1"),
        (RESULT, "--data", tmp_path / "nowhere", "--output", tmp_path),
    ):
        assert call("reproduce", *arguments).exit_code == 2


def test_refusals(tmp_path):
    result = call("reproduce", "nobody1999:fig1")
    assert result.exit_code == 1
    assert "there is no result" in result.stderr
    taken = tmp_path / "taken"
    taken.write_text("")
    result = call("reproduce", RESULT, "--quick", "--output", taken)
    assert result.exit_code == 1
    assert "cannot write to" in result.stderr
