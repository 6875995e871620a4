"""Review and release: dry runs spend nothing, releases are accounted, code gives the same plan."""

import json
import shlex
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import undertow as ut
from tests.studio.conftest import found
from tests.studio.test_pages import asked, begun, table, upload, work_of
from undertow.plan import Plan

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=("still", "moving"))
READING = {"value": "steps", "person": "who", "time": "when", "every": "1",
           "state": "steps > 0", "states": "still,moving"}  # fmt: skip


@pytest.fixture
def account(tmp_path, monkeypatch):
    monkeypatch.setenv("UNDERTOW_STATE", str(tmp_path / "state"))
    where = str(tmp_path / "year.db")
    return ut.Ledger(where, "w25", model=CHAIN, limit=3.0), where


def released(client, work):
    assert client.post(f"/w/{work}/dry-run").url.path.endswith("/release")
    return client.post(f"/w/{work}/release", data={"meant": "yes"})


def test_an_example_is_released_from_the_account_of_a_demonstration(client):
    work = work_of(asked(client, begun(client, "family"), states="BB"))
    before = client.get(f"/w/{work}/release").text
    assert "0% of the budget" in before
    tried = client.post(f"/w/{work}/dry-run").text
    assert "nothing was drawn" in tried
    assert client.post(f"/w/{work}/release", data={}).status_code == 422  # not meant
    first = client.post(f"/w/{work}/release", data={"meant": "yes"})
    assert first.url.path.endswith("/released")
    value = found(r'class="answer">(-?\d+)<', first.text)
    again = client.post(f"/w/{work}/release", data={"meant": "yes"})
    assert found(r'class="answer">(-?\d+)<', again.text) == value
    report = json.loads(client.get(f"/w/{work}/report.json").text)
    assert report["numbers"][0]["value"] == int(value)
    for ending in ("html", "txt", "csv"):
        answer = client.get(f"/w/{work}/report.{ending}")
        assert answer.headers["content-disposition"].startswith("attachment")
        assert value in answer.text
    assert "0% of the budget" not in client.get(f"/w/{work}/release").text
    assert value in client.get(f"/w/{work}/statement").text


def test_a_table_is_released_into_the_account_that_was_named(opened, account):
    ledger, where = account
    client, _ = opened(ledger=where, dataset="w25")
    work = work_of(upload(client, table()))
    fitted = client.post(f"/w/{work}/data", data=READING | {"model": "ledger"})
    work = work_of(asked(client, work_of(fitted), states="moving"))
    assert not ledger.entries()
    client.get(f"/w/{work}/release")
    client.post(f"/w/{work}/dry-run")
    assert not ledger.entries()  # nothing was spent
    done = released(client, work)
    (entry,) = ledger.entries()
    assert entry.status == "confirmed"
    assert entry.release_id in done.text
    # the same question in another tab is the same release
    other = work_of(asked(client, work, states="moving"))
    replayed = released(client, other)
    assert len(ledger.entries()) == 1
    pattern = r'class="answer">(-?\d+)<'
    assert found(pattern, replayed.text) == found(pattern, done.text)
    assert "weekly release" in client.get(f"/w/{work}/release").text


def test_a_plan_that_was_brought_along_is_released_on_a_table_that_follows(opened, account):
    ledger, where = account
    client, _ = opened(ledger=where, dataset="w25")
    plan = ut.calibrate(ut.Count("moving"), CHAIN, limit=0.5)
    file = {"plan": ("plan.json", plan.to_json().encode())}
    work = work_of(client.post("/new/plan", files=file))
    assert "there is no table here" in client.get(f"/w/{work}/release").text.lower()
    given = {"table": ("week.csv", table().encode())}
    answer = client.post(f"/w/{work}/upload", files=given)
    assert "Use these columns" in answer.text
    ready = client.post(f"/w/{work_of(answer)}/data", data=READING)
    assert ready.url.path.endswith("/release")
    assert client.get(f"/w/{work_of(ready)}/plan.json").text == plan.to_json() + "\n"
    released(client, work_of(ready))
    (entry,) = ledger.entries()
    assert entry.status == "confirmed"


def test_a_model_fitted_to_the_table_is_refused_in_words(opened, account):
    ledger, where = account
    client, _ = opened(ledger=where, dataset="w25")
    work = work_of(upload(client, table()))
    fitted = client.post(f"/w/{work}/data", data=READING | {"model": "fit"})
    work = work_of(asked(client, work_of(fitted), states="moving"))
    answer = client.post(f"/w/{work}/dry-run")
    assert answer.status_code == 422
    assert "fitted to these very records" in answer.text
    assert not ledger.entries()


def test_who_accepts_that_the_same_records_are_released_is_told_so(opened, tmp_path, monkeypatch):
    monkeypatch.setenv("UNDERTOW_STATE", str(tmp_path / "state"))
    client, _ = opened()
    work = work_of(upload(client, table()))
    fitted = client.post(f"/w/{work}/data", data=READING | {"model": "fit"})
    page = client.get(f"/w/{work_of(fitted)}/question").text
    assert 'value="same-records"' in page
    plain = work_of(asked(client, work_of(fitted), states="moving"))
    for page in ("costs", "attacker", "release"):  # no number before what weakens it
        text = client.get(f"/w/{plain}/{page}").text
        body = text[text.index("<h1>") :].lower()
        assert body.index("the records suggest") < body.index("2.72"), page
    assert "very records" not in client.get(f"/w/{plain}/release").text
    taken = {"states": "moving", "accept": ["order", "memory", "time", "same-records"]}
    work = work_of(asked(client, work_of(fitted), **taken))
    said = client.get(f"/w/{work}/release").text
    assert "the very records that are released, which was accepted" in said
    plan = json.loads(client.get(f"/w/{work}/plan.json").text)
    assert plan["accepted"][-1] == "same-records"
    held = Plan.from_json(json.dumps(plan))
    accept = [name for name in held.accepted if name != "same-records"]
    ut.Ledger(where := str(tmp_path / "own.db"), "w25", held.model, 3.0, accept=accept)
    client, _ = opened(ledger=where, dataset="w25")
    work = work_of(upload(client, table()))
    fitted = client.post(f"/w/{work}/data", data=READING | {"model": "fit"})
    work = work_of(asked(client, work_of(fitted), **taken))
    assert client.post(f"/w/{work}/dry-run").status_code == 200
    done = client.post(f"/w/{work}/release", data={"meant": "yes"}).text
    assert "these are the records that the model was fitted to" in done


def test_papers_of_a_fit_to_the_private_table_are_the_curators(opened, account):
    """Every page that may be printed, and every file, says whose it is; none for a stated model."""
    ledger, where = account
    client, _ = opened(ledger=where, dataset="w25")
    for model, curators in (("ledger", False), ("fit", True)):
        work = work_of(upload(client, table()))
        work = work_of(client.post(f"/w/{work}/data", data=READING | {"model": model}))
        work = work_of(asked(client, work, states="moving"))
        for page in ("release", "statement"):
            text = client.get(f"/w/{work}/{page}").text
            assert ("For the curator only" in text) == curators
            assert ("this plan is the curator" in text) == curators
        plan = json.loads(client.get(f"/w/{work}/plan.json").text)
        assert plan.get("audience", "public") == ("curator" if curators else "public")
    assert not ledger.entries()


@pytest.mark.parametrize("page", ["dry-run", "release"])
def test_a_read_only_studio_releases_nothing(opened, page):
    client, _ = opened(read_only=True)
    work = work_of(asked(client, begun(client, "correlation"), kind="sum", high="9"))
    shown = client.get(f"/w/{work}/release")
    assert "read-only" in shown.text
    assert 'name="meant"' not in shown.text
    assert client.post(f"/w/{work}/{page}", data={"meant": "yes"}).status_code == 422


def test_looking_at_what_was_released_releases_nothing(opened):
    client, studio = opened()
    work = work_of(asked(client, begun(client, "correlation"), kind="sum", high="9"))
    assert client.get(f"/w/{work}/released").url.path.endswith("/release")
    assert not [job for job in studio.jobs._jobs.values() if job.key[0] == "release"]
    assert client.get(f"/w/{work}/report.json").status_code == 422


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("activity", {"states": "active", "against": "ignorant"}),
        ("activity", {"kind": "histogram", "unit": "window", "window": "1h", "every": "5m"}),
        ("family", {"states": "BB", "against": "these", "target": "1", "known": "0 2"}),
        ("correlation", {"kind": "mean", "low": "80", "high": "180"}),
        ("chain", {"kind": "histogram"}),
        ("chain", {"kind": "redacted", "protect": "8", "length": "20"}),
        ("chain", {"kind": "series", "limit": "2"}),
    ],
)
def test_the_command_and_the_python_of_a_page_give_its_plan(
    opened, name, fields, tmp_path, monkeypatch
):
    client, studio = opened()
    if name == "chain":
        work = work_of(client.post("/draw/chain", data={"states": "2", "p0-0": "70", "p0-1": "30"}))
    else:
        work = begun(client, name)
        source = studio.works.find(work).source
        (tmp_path / source.name).write_bytes(source.path.read_bytes())
    work = work_of(asked(client, work, **fields))
    (tmp_path / "model.json").write_text(client.get(f"/w/{work}/model.json").text)
    wanted = json.loads(client.get(f"/w/{work}/plan.json").text)
    monkeypatch.chdir(tmp_path)
    shell = client.get(f"/w/{work}/code.sh").text
    for line in shell.splitlines():
        if line.startswith("undertow plan"):
            assert run(line) == 0
    made = json.loads((tmp_path / "plan.json").read_text())
    assert without_checks(made) == without_checks(wanted)
    (tmp_path / "plan.json").unlink()
    python = client.get(f"/w/{work}/code.py").text
    upto = python.partition("plan.json")[0].rpartition("\n")[0]
    write = 'Path("plan.json").write_text(plan.to_json())'
    exec(compile(f"{upto}\n{write}\n", "code.py", "exec"), {})
    made = json.loads((tmp_path / "plan.json").read_text())
    assert without_checks(made) == without_checks(wanted)


def without_checks(plan):
    """Return a plan without what was tested, and without where the file that was fitted is."""
    plan.get("model", {}).get("records", {}).pop("source", None)
    return {name: part for name, part in plan.items() if name not in ("checksum", "checks")}


def run(line):
    from undertow.cli.app import app

    return CliRunner().invoke(app, shlex.split(line)[1:]).exit_code


def test_without_its_packages_the_studio_says_what_to_install():
    code = (
        "import sys; sys.modules['fastapi'] = None; sys.modules['uvicorn'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "gone = ('fastapi', 'uvicorn')\n"
        "u.find_spec = lambda name, *a: None if name in gone else find(name, *a)\n"
        "sys.argv = ['undertow', 'studio', '--no-browser']; from undertow.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install undertow-studio" in done.stderr
