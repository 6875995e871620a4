"""The pages: the whole path on simulated records, bad files, hostile names, second tabs."""

import io
import json
import re
import stat
from typing import Any

import pytest

from tests.studio.conftest import found
from undertow_studio.questions import Question

CANARY = "7319173"
"""A private value: it must be in no answer."""


def table(rows=400):
    lines = ["who,when,steps"]
    for person in ("a", "b"):
        for step in range(rows // 2):
            value = CANARY if (step // 3) % 2 else "0"
            lines.append(f"{person},{step},{value}")
    return "\n".join(lines) + "\n"


def upload(client, text, name="week.csv"):
    content = text if isinstance(text, bytes) else text.encode()
    return client.post("/new/upload", files={"table": (name, io.BytesIO(content))})


def work_of(answer):
    return answer.url.path.split("/")[2]


def begun(client, name="activity"):
    answer = client.post("/new/example", data={"name": name})
    assert answer.status_code == 200, answer.text
    return work_of(answer)


def drawn(client):
    """Return a piece of work with a chain, which costs next to nothing."""
    return work_of(client.post("/draw/chain", data={"states": "2"}))


def asked(client, work, **fields):
    form: dict[str, Any] = {
        "kind": "count",
        "states": "active",
        "unit": "record",
        "against": "any",
        "limit": "1",
    }
    form["accept"] = ["sample", "order", "memory", "time", "hours", "persons"]  # those that failed
    return client.post(f"/w/{work}/question", data=form | fields)


def test_the_start_offers_examples_a_file_a_drawing_and_a_plan(client):
    page = client.get("/").text
    for words in ("A week of activity", "A family", "Use your own table", "Define a model"):
        assert words in page
    assert "style=" not in page
    assert not re.search(r"<script(?! type=\"module\" src=)", page)
    assert not re.search(r"\son[a-z]+=", page)


def test_everything_a_page_loads_is_the_studios_own(client):
    page = client.get("/").text
    links = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert links
    assert not [one for one in links if one.startswith(("http", "//", "data:"))]
    for one in links:
        if one.startswith("/static/"):
            assert client.get(one).status_code == 200


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("activity", {}),
        ("family", {"states": "BB"}),
        ("correlation", {"kind": "mean", "low": "80", "high": "180"}),
    ],
)
def test_the_whole_path_on_every_example(client, name, fields):
    work = begun(client, name)
    depends = client.get(f"/w/{work}/depends")
    assert "Dependence model" in depends.text
    assert "<svg" in depends.text
    work = work_of(asked(client, work, **fields))
    for page, words in {
        "costs": "Expected error",
        "attacker": "Worst case",
        "release": ">Guarantee<",
        "statement": "privacy impact assessment",
        "data": "simulated",
    }.items():
        answer = client.get(f"/w/{work}/{page}")
        assert answer.status_code == 200, answer.text
        assert words in answer.text
        assert "style=" not in answer.text
    plan = client.get(f"/w/{work}/plan.json")
    assert json.loads(plan.text)["limit"] == 1.0
    again = client.post("/new/plan", files={"plan": ("plan.json", plan.content)})
    assert again.url.path.endswith("/release")
    assert client.get(f"/w/{work_of(again)}/plan.json").text == plan.text


def test_failed_checks_have_boxes_to_tick(opened):
    """Nothing is planned under a fit that failed until each failed check is ticked."""
    client, _ = opened()
    states = ["0"] * 60 + ["0", "1"] * 60 + ["1"] * 60  # it drifts, and has no order
    text = "\n".join(["when,state", *(f"{when},{state}" for when, state in enumerate(states * 4))])
    work = work_of(upload(client, text + "\n"))
    reading = {"value": "state", "time": "when", "every": "1", "model": "fit"}
    work = work_of(client.post(f"/w/{work}/data", data=reading))
    page = client.get(f"/w/{work}/question").text
    failed = re.findall(r'name="accept" value="(\w+)"', page)
    assert failed
    state = found(r'<option value="(\w+)"', page)
    refused = asked(client, work, states=state, accept=failed[1:])
    assert refused.status_code == 422
    assert failed[0] in refused.text
    taken = work_of(asked(client, work, states=state, accept=failed))
    answer = client.get(f"/w/{taken}/release")
    assert answer.status_code == 200, answer.text
    promise = found(r'<p class="promise">(.*?)</p>', answer.text)
    assert promise.startswith(("Not bounded", "Under what the records suggest"))
    assert "accepted" in promise
    assert "--accept" in client.get(f"/w/{taken}/code.sh").text
    assert json.loads(client.get(f"/w/{taken}/plan.json").text)["accepted"] == failed


def test_methods_and_lines_stand_beside_the_plan(client):
    work = work_of(asked(client, begun(client, "correlation"), kind="sum", high="9"))
    methods = client.get(f"/w/{work}/methods")
    assert "chosen" in methods.text
    assert "certified" in methods.text
    lines = client.get(f"/w/{work}/lines")
    assert "<svg" in lines.text
    assert "Values as a table" in lines.text


def test_a_changed_question_leaves_the_old_one_alone(client):
    work = drawn(client)
    first = work_of(asked(client, work, states="active", limit="1"))
    second = work_of(asked(client, first, states="inactive", limit="2"))
    assert first != second
    assert 'value="1"' in client.get(f"/w/{first}/question").text
    assert 'value="2"' in client.get(f"/w/{second}/question").text
    assert json.loads(client.get(f"/w/{first}/plan.json").text)["limit"] == 1.0
    third = client.post(f"/w/{second}/limit", data={"limit": "0.5"})
    assert json.loads(client.get(f"/w/{work_of(third)}/plan.json").text)["limit"] == 0.5


@pytest.mark.parametrize(
    "fields",
    [
        {"limit": "0"}, {"limit": "-1"}, {"limit": "nan"}, {"limit": "many"}, {"limit": "1e9"},
        {"kind": "everything"}, {"unit": "window", "window": ""},
        {"unit": "window", "window": "1h"},
        {"against": "these", "target": "-1"}, {"against": "these", "known": "a,b"},
        {"states": "<script>"},
    ],
)  # fmt: skip
def test_a_question_that_cannot_be_asked_is_said_on_the_form(client, fields):
    answer = asked(client, drawn(client), **({"every": ""} | fields))
    assert answer.status_code == 422
    assert "This cannot be done" in answer.text
    assert "<script>" not in answer.text


def test_an_uploaded_table_is_private_and_goes_with_the_studio(opened):
    client, studio = opened()
    answer = upload(client, table())
    assert answer.url.path.endswith("/read")
    (kept,) = studio.folder.path.glob("*.csv")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(studio.folder.path.stat().st_mode) == 0o700
    assert str(studio.folder.path) not in answer.text
    studio.close()
    assert not studio.folder.path.exists()


def test_no_private_value_is_in_any_answer(opened):
    client, _ = opened()
    work = work_of(upload(client, table()))
    reading = {"value": "steps", "person": "who", "time": "when", "every": "1",
               "state": "steps > 0", "states": "still,moving"}  # fmt: skip
    fitted = client.post(f"/w/{work}/data", data=reading)
    assert fitted.status_code == 200, fitted.text
    work = work_of(asked(client, work_of(fitted), states="moving"))
    pages = ["data", "read", "depends", "question", "costs", "methods", "attacker", "release",
             "statement", "plan.json", "model.json", "code.py", "code.sh"]  # fmt: skip
    for page in pages:
        answer = client.get(f"/w/{work}/{page}")
        assert answer.status_code == 200, (page, answer.text)
        assert CANARY not in answer.text
        assert CANARY not in str(answer.headers)
    assert "NOT PRIVATE" in client.get(f"/w/{work}/depends").text
    refused = client.post(f"/w/{work}/release", data={"meant": "yes"})
    assert refused.status_code == 422  # there is no account
    assert "--ledger" in refused.text


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("week.csv", b"", "empty"),
        ("week.csv", b"PAR1" + b"\0" * 100, "not CSV"),
        ("week.parquet", b"who,steps\n1,2\n", "not Parquet"),
        ("week.csv.gz", b"who,steps\n1,2\n", "not gzip"),
        ("week.csv", b"12,34\n56,78\n", "header"),
        ("week.xlsx", b"x", "ends in"),
        ("", b"who\n", "choose a table"),
        ("week.csv", b"\xff\xfe\xff,\xff\n1,2\n", "UTF-8"),
    ],
)
def test_bad_files_are_refused_in_words(client, name, content, words):
    answer = upload(client, content, name)
    assert answer.status_code == 422
    assert words in answer.text
    assert "56" not in answer.text.replace("256", "")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff", b"{" * 5000, b'{"format": "undertow-plan"}']
)
def test_bad_plans_are_refused_in_words(client, content):
    answer = client.post("/new/plan", files={"plan": ("plan.json", content)})
    assert answer.status_code == 422


def test_a_hostile_column_is_a_name_and_nothing_else(client):
    name = '"><img src=x onerror=alert(1)>'
    text = f'"{name.replace(chr(34), chr(34) * 2)}",who\n' + "a,1\nb,1\n" * 40
    page = upload(client, text, "<b>.csv")
    assert page.status_code == 200
    assert "<img" not in page.text
    assert "<b>" not in page.text
    assert "&lt;img" in page.text
    fitted = client.post(f"/w/{work_of(page)}/data", data={"value": name})
    assert fitted.status_code == 200
    assert "<img" not in fitted.text


def test_columns_that_are_not_there_and_states_that_cannot_be_are_said_on_the_form(client):
    work = work_of(upload(client, table()))
    for fields in ({"value": "nope"}, {"value": "steps", "state": "drop table"},
                   {"value": "steps", "every": "5m"}, {"value": ""}):  # fmt: skip
        answer = client.post(f"/w/{work}/data", data=fields)
        assert answer.status_code == 422, fields
        assert "This cannot be done" in answer.text


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("chain", {"states": "3", "p0-0": "10", "p0-1": "30", "p0-2": "0"}, "3 states"),
        ("family", {"family": "kim = bob + ann"}, "3 people"),
        ("household", {"how": "any", "size": "5"}, "at most 5"),
        ("household", {"how": "flu", "size": "3"}, "3 people"),
        ("correlation", {"size": "3", "rho": "0.25"}, "0.25"),
    ],
)
def test_models_can_be_drawn(client, kind, fields, words):
    assert "<svg" in client.get(f"/draw/{kind}", params=fields).text
    answer = client.post(f"/draw/{kind}", data=fields)
    assert answer.url.path.endswith("/depends")
    assert words in answer.text


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("chain", {"p0-0": "0", "p0-1": "0"}), ("chain", {"p0-0": "x"}),
        ("chain", {"name0": "a", "name1": "a"}), ("family", {"family": "kim is bob's"}),
        ("family", {"family": "a = b + c\nb = a + c"}), ("family", {"rare": "2"}),
        ("household", {"size": "1e99"}), ("correlation", {"rho": "1"}), ("dragon", {}),
    ],
)  # fmt: skip
def test_models_that_cannot_be_are_refused_in_words(client, kind, fields):
    assert client.post(f"/draw/{kind}", data=fields).status_code == 422


def test_knowing_a_record_moves_the_odds(client):
    work = work_of(asked(client, drawn(client)))
    before = client.get(f"/w/{work}/attacker", params={"answer": "20", "target": "10"}).text
    known = {"answer": "20", "target": "10", "known": "9:0", "toggle": "11"}
    after = client.get(f"/w/{work}/attacker", params=known).text
    assert after.count('aria-pressed="true"') == 2
    assert re.search(r'name="known" value="9:0 11:0"', after)
    pattern = r'class="promise">([^<]+)<'
    assert found(pattern, before) != found(pattern, after)
    for bad in ({"target": "x"}, {"known": "99999:0"}, {"answer": "x"}, {"known": "1:7"}):
        assert "This cannot be done" in client.get(f"/w/{work}/attacker", params=bad).text


def test_a_redacted_series_says_which_records_go_and_why(client):
    fields = {"kind": "redacted", "protect": "8", "length": "20", "limit": "1"}
    work = work_of(asked(client, drawn(client), **fields))
    page = client.get(f"/w/{work}/attacker").text
    assert "Erased records" in page
    assert "protected: always erased" in page
    assert "undertow sanitize" in client.get(f"/w/{work}/release").text


def test_a_piece_of_work_that_is_not_held_is_said_to_be_gone(client):
    answer = client.get("/w/nothing/costs")
    assert answer.status_code == 404
    assert "not held any more" in answer.text
    assert client.get("/nowhere").status_code == 404


def test_cancelling_leads_only_to_pages_of_the_studio(opened):
    client, studio = opened()
    job = studio.jobs.ask("x", max, 1, 2)
    for back in ("//evil.example/w/x", "https://evil.example", "/w/../x", "/w/a/b/c"):
        answer = client.post(f"/jobs/{job.id}/cancel", data={"back": back}, follow_redirects=False)
        assert answer.headers["location"] == "/"
    answer = client.post(
        f"/jobs/{job.id}/cancel", data={"back": "/w/abc/costs"}, follow_redirects=False
    )
    assert answer.headers["location"] == "/w/abc/question"


def test_the_file_of_the_command_line_is_used_where_it_lies(opened, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(table())
    client, studio = opened(file=path)
    assert "mine.csv" in client.get("/").text
    answer = client.post("/new/file")
    assert answer.url.path.endswith("/read")
    assert not list(studio.folder.path.glob("*.csv"))
    assert str(tmp_path) not in answer.text


def test_a_demonstration_begins_with_its_example(opened):
    client, _ = opened(demo=True)
    assert "A week of activity" in client.get("/").text


def test_a_question_says_the_same_as_a_command_and_as_python():
    asked_ = Question("histogram", unit="window", window="1h", every="5m", limit=0.5)
    assert asked_.options() == "--histogram --limit 0.5 --secret 1h --every 5m"
    assert "secret=ut.Window(12)" in asked_.python()
