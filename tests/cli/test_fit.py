"""`undertow fit`: from a file of records to a model file, without the records."""

import json

import pytest

import undertow as ut
from tests.cli.calls import call, strict
from undertow.models.base import stands_for
from undertow.models.sets import model_from_dict

WARNING = "undertow: warning: a model fitted to private records is itself a disclosure"
SERIES = [{"n": "no", "y": "yes", "-": "NA"}[letter] for letter in "nyynn-ynnynyynnny"]
SECRET = "Hesperus"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    lines = [f"{i // 9},{word},{3 if word == 'yes' else 0}" for i, word in enumerate(SERIES)]
    path.write_text("\n".join(["day,word,steps", *lines]) + "\n")
    return path


def fit_json(*arguments):
    """Return the JSON of a fit, after checking that it warned once."""
    result = call("fit", *arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith(WARNING)
    assert len(result.stderr.splitlines()) == 1
    found = strict(result.stdout)
    assert result.stderr == f"undertow: warning: {found['warning']}\n"
    return found


def expected(series=(SERIES,), **options):
    split = [[None if word == "NA" else word for word in words] for words in series]
    return ut.MarkovChain.fit(split, public=True, **options)


def test_json_is_the_library_answer(table):
    found = fit_json(table, "--value", "word")
    chain = expected()
    assert model_from_dict(found["model"]) == chain
    assert found["states"] == ["no", "yes"]
    assert found["transition"] == chain.transition.tolist()
    assert found["stationary"] == chain.initial.tolist()
    assert found["counts"] == chain.counts.tolist()
    assert found["intervals"] == chain.intervals(0.95).tolist()
    test = chain.order_test()
    assert found["order_test"] == {
        "statistic": test.statistic,
        "degrees": test.degrees,
        "p_value": test.p_value,
        "words": test.words(),
    }
    assert found["unseen"] == []
    assert (found["sequences"], found["records"], found["missing"]) == (1, 17, 1)
    assert (found["prior"], found["confidence"]) == (0.0, 0.95)


def test_the_file_is_a_model_and_holds_no_counts(table, tmp_path):
    path = tmp_path / "model.json"
    result = call("fit", table, "--value", "word", "--length", 20, "--output", path)
    assert result.exit_code == 0
    assert f"written to   {path}" in result.stdout
    text = path.read_text()
    assert "counts" not in text
    assert "triples" not in text
    body = strict(text)
    assert body["records"]["state"] == {"column": "word"}
    own = {"kind", "transition", "states", "start", "length", "region"}
    assert body.keys() - {"checks", "records"} == own | {"origin"}
    assert body["origin"] == "not public"
    assert model_from_dict(body) == expected(length=20)
    failed = [check["name"] for check in body["checks"] if check["outcome"] == "failed"]
    accept = ("--accept", ",".join(failed)) if failed else ()
    plan = call("plan", "--model", path, "--count", "yes", "--limit", 1, *accept)
    assert plan.exit_code == 0, plan.output


FITS = {
    "one": (),
    "point": ("--point",),
    "cohorts": ("--by", "day"),
    "two": ("--order", "2", "--prior", "0.5"),
    "auto": ("--order", "auto", "--prior", "0.5"),
}


@pytest.mark.parametrize("asked", FITS)
def test_public_records_make_public_models(table, tmp_path, asked):
    """Said to be public, no fit warns, and its plans may be published; unsaid, each is marked."""
    path, plan = tmp_path / "model.json", tmp_path / "plan.json"
    options = ("--value", "word", "--person", "day", *FITS[asked], "--output", path, "--force")
    for said, origin in ((("--public",), "public"), ((), "not public")):
        result = call("fit", table, *options, *said)
        assert result.exit_code == 0, result.output
        assert result.stderr.startswith(WARNING) == (origin == "not public")
        assert json.loads(path.read_text())["origin"] == origin
        assert model_from_dict(json.loads(path.read_text())).origin == origin
    refused = call("fit", table, *options, "--public", "--private", 0.1, "--ledger", "x.db")
    assert refused.exit_code == 2
    if asked == "one":
        same = ("--accept", "same-records")
        made = call(
            "plan", "--model", path, "--count", "yes", "--limit", 1, *same, "--output", plan
        )
        assert "this plan is the curator's" in made.stdout
        assert ut.Plan.from_json(plan.read_text()).audience == "curator"
        answer, report = tmp_path / "answer.json", tmp_path / "report.txt"
        files = ("--output", answer, "--report", report)
        released = call(
            "release", table, "--plan", plan, "--value", "word", "--person", "day", *files
        )
        assert released.exit_code == 0, released.output
        assert "this plan is the curator's" in released.stdout
        assert json.loads(answer.read_text())["audience"] == "curator"
        assert "For the curator only" in report.read_text()
        certificate = ("--certificate", tmp_path / "proof.json")
        for asked_for in (("plan", "--count", "yes", "--limit", 1), ("leakage", "--epsilon", 1)):
            denied = call(*asked_for, "--model", path, *certificate)
            assert denied.exit_code == 1
            assert "fit --private" in denied.stderr
            assert not (tmp_path / "proof.json").exists()


def test_a_file_is_not_replaced_unless_forced(table, tmp_path):
    path = tmp_path / "model.json"
    path.write_text("mine")
    refused = call("fit", table, "--value", "word", "--output", path)
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert path.read_text() == "mine"
    assert call("fit", table, "--value", "word", "--output", path, "--force").exit_code == 0
    assert model_from_dict(json.loads(path.read_text())) == expected()
    assert call("fit", table, "--value", "word", "--force").exit_code == 2


def test_the_file_holds_the_region_or_the_point_alone(table, tmp_path):
    path = tmp_path / "chain.json"
    options = ("fit", table, "--value", "word", "--confidence", 0.9, "--output", path)
    assert call(*options).exit_code == 0
    model = model_from_dict(json.loads(path.read_text()))
    assert stands_for(model) == expected().region(0.9)
    leak = call("leakage", "--model", path, "--epsilon", 1)
    assert leak.exit_code == 0, leak.output
    assert call(*options, "--point", "--force").exit_code == 0
    alone = model_from_dict(json.loads(path.read_text()))
    assert stands_for(alone) is alone
    assert alone == model == expected()
    refused = call("plan", "--model", path, "--redacted", "--protect", 3, "--limit", 3)
    assert "--point" not in refused.output


def test_unseen_transitions_and_what_a_prior_does(tmp_path):
    path = tmp_path / "three.csv"
    path.write_text("x\n" + "\n".join("abcabcaabbcc") + "\n")
    said = call("fit", path, "--value", "x").stdout
    assert "a to c, b to a, c to b; estimated as impossible" in said
    assert "--prior 0.5 would give the first of them probability 0.091" in said
    assert fit_json(path, "--value", "x")["unseen"] == [["a", "c"], ["b", "a"], ["c", "b"]]
    smoothed = call("fit", path, "--value", "x", "--prior", 0.5).stdout
    assert "made possible by the prior of 0.5" in smoothed
    assert "estimated as impossible" not in smoothed
    assert fit_json(path, "--value", "x", "--prior", 0.5)["transition"][0][2] == pytest.approx(
        0.5 / 5.5
    )


REFUSED = {
    "a column that is not there": (("--value", "w"), "InvalidInput", "no column 'w' among its 3"),
    "an expression that is none": (
        ("--value", "steps", "--state", "steps >"),
        "InvalidInput",
        "cannot be read",
    ),
    "one state": (("--value", "steps", "--state", "steps < 9"), "InvalidModel", "two different"),
    "too few states named": (
        ("--value", "word", "--states", "no,maybe"),
        "UnknownState",
        "record",
    ),
    "a state that never occurs": (
        ("--value", "word", "--states", "no,yes,maybe"),
        "InvalidModel",
        "prior",
    ),
    "a negative prior": (("--value", "word", "--prior", -1), "InvalidInput", "found -1"),
    "an impossible confidence": (
        ("--value", "word", "--confidence", 1.5),
        "InvalidInput",
        "confidence",
    ),
    "a length of one": (("--value", "word", "--length", 1), "InvalidInput", "at least 2"),
}


@pytest.mark.parametrize(("arguments", "kind", "words"), REFUSED.values(), ids=REFUSED)
def test_refusals_are_one_line_and_quote_no_record(table, arguments, kind, words):
    result = call("fit", table, *arguments, "--json")
    assert result.exit_code == 1
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert strict(result.stdout)["error"] == kind
    assert "'yes'" not in result.output


def test_measurements_are_not_states(tmp_path):
    path = tmp_path / "many.csv"
    many = [f"{i / 7:.6f},{SECRET}{i},{i % 100}" for i in range(101)]
    path.write_text("\n".join(["rate,name,count", *many]) + "\n")
    for column in ("rate", "name"):
        result = call("fit", path, "--value", column)
        assert result.exit_code == 1
        assert "more than 100 different values, too many for states; make states" in result.stderr
        assert "--state" in result.stderr
        assert SECRET not in result.output
    assert call("fit", path, "--value", "count", "--state", "count > 3").exit_code == 0
    assert len(fit_json(path, "--value", "count")["states"]) == 100


def test_a_table_without_records(tmp_path):
    path = tmp_path / "none.csv"
    path.write_text("x,y\n")
    result = call("fit", path, "--value", "x")
    assert result.exit_code == 1
    assert "two different" in result.stderr


def test_length_completes_a_region(table, tmp_path):
    path = tmp_path / "region.json"
    assert call("fit", table, "--value", "word", "--output", path).exit_code == 0
    said = call("plan", "--model", path, "--length", 40, "--count", "yes", "--limit", 1)
    assert said.exit_code == 0, said.output
    assert "40 records" in said.stdout
