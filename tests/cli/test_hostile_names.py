"""Names from files command nothing: not the terminal, not markup, not a spreadsheet."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import undertow as ut
from tests.cli.calls import PLAIN, call
from tests.grids import each
from undertow.cli import output
from undertow.cli import output as tables
from undertow.data.scopes import Scope
from undertow.ledger.book import Ledger
from undertow.releasing.request import Release
from undertow.reporting.formats import csv_bytes

EVIL = "\x1b]0;owned\x07\x1b[2J\u202eevil\x9b31m\r"
MARKUP = "[bold red]x[/] [link=http://a.b]y[/link]"
FORMULA = "=HYPERLINK(1)"
STATES = (EVIL, MARKUP)
CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=STATES)
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b-\u200f\ufeff]")
# A terminal that knows no colours: whatever escape is printed does not come from the program.
TERMINAL = {"FORCE_COLOR": "1", "TERM": "dumb", "COLUMNS": "300"}


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("chain.json").write_text(json.dumps(CHAIN.to_dict()))
    plan = ut.calibrate(ut.Histogram(), CHAIN, limit=1.0)
    Path("plan.json").write_text(plan.to_json())
    Path("flips.json").write_text(ut.calibrate(ut.Series(), CHAIN, limit=2.0).to_json())
    rows = io.StringIO()
    table = csv.writer(rows)
    table.writerow(["state", "by"])
    table.writerows([STATES[place % 2], (EVIL, FORMULA)[place % 3 == 0]] for place in range(40))
    Path("data.csv").write_text(rows.getvalue(), newline="")
    account = Ledger("year.db", MARKUP, CHAIN, 1.0)
    account.reserve("week", 0.01, Scope("by", [EVIL, FORMULA]))


COMMANDS = [
    ("leakage", "--model", "chain.json", "--epsilon", "1"),
    ("leakage", "--model", "chain.json", "--count", EVIL, "--scale", "2"),
    ("leakage", "--model", "chain.json", "--count", "none " + EVIL, "--scale", "2"),
    ("leakage", "--model", EVIL + ".json", "--epsilon", "1"),
    ("plan", "--model", "chain.json", "--count", EVIL, "--limit", "1"),
    ("plan", "--model", "chain.json", "--histogram", "--limit", "1", "--secret", EVIL),
    ("plan", "--model", "chain.json", "--series", "--limit", "1"),
    ("compare", "--model", "chain.json", "--count", MARKUP, "--limit", "1", "--method", "group",
     "--method", "zhao"),
    ("validate", "data.csv", "--value", "state", "--plan", "plan.json"),
    ("validate", "data.csv", "--value", EVIL),
    ("release", "data.csv", "--plan", "plan.json", "--value", "state"),
    ("release", "data.csv", "--plan", "plan.json", "--value", "state", "--ledger", "year.db",
     "--dataset", MARKUP),
    ("release", "data.csv", "--plan", "plan.json", "--value", "state", "--by", "by"),
    ("release", "data.csv", "--plan", "plan.json", "--value", EVIL),
    ("release", "data.csv", "--plan", EVIL, "--value", "state", "--output", EVIL),
    ("sanitize", "data.csv", "--plan", "flips.json", "--value", "state"),
    ("ledger", "show", "year.db"),
    ("ledger", "show", "year.db", "--dataset", EVIL),
    ("ledger", "show", EVIL),
    ("fit", "data.csv", "--value", "state"),
    ("fit", "data.csv", "--value", EVIL),
    (EVIL,),
]  # fmt: skip


@each(
    ("arguments", "terminal"),
    [pytest.param(words, id=f"{ascii(words)[:50]}") for words in COMMANDS],
    [pytest.param(PLAIN, id="file"), pytest.param(TERMINAL, id="terminal")],
)
@pytest.mark.usefixtures("study")
def test_no_command_passes_an_escape_on(arguments, terminal):
    result = call(*arguments, env=terminal)
    shown = result.stdout + result.stderr
    assert shown
    assert not RAW.search(shown), ascii(shown)


@pytest.mark.usefixtures("study")
def test_markup_is_printed_as_it_is():
    for environment in (PLAIN, TERMINAL):
        result = call("leakage", "--model", "chain.json", "--epsilon", "1", env=environment)
        assert MARKUP in " ".join(result.stdout.split())


@pytest.mark.usefixtures("study")
def test_json_is_exact_and_escapes_by_itself():
    result = call("release", "data.csv", "--plan", "plan.json", "--value", "state", "--json")
    assert not RAW.search(result.stdout)
    assert [n["state"] for n in json.loads(result.stdout)["numbers"]] == list(STATES)


@pytest.mark.usefixtures("study")
def test_reports_show_names():
    plan = ut.Plan.from_json(Path("plan.json").read_text())
    value = {EVIL: dict.fromkeys(STATES, 3)}
    out = Release(value, plan, "secure", 40, 1, EVIL, EVIL, EVIL, (EVIL,), (40,), EVIL, True,
                  (EVIL, None))  # fmt: skip
    report = out.report()
    for shown in (str(out), report.text(), report.html(), report.to_json()):
        assert not RAW.search(shown), ascii(shown)
    assert MARKUP in report.text()


# --- spreadsheets ---------------------------------------------------------------------------------

CELLS = st.one_of(
    st.text(max_size=12),
    st.sampled_from([EVIL, FORMULA, "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r=1", "\uff1d1", ""]),
    st.integers(),
    st.floats(allow_nan=False),
    st.none(),
)


@given(st.lists(st.fixed_dictionaries({"group": CELLS, "value": CELLS}), max_size=5))
def test_no_text_of_a_spreadsheet_is_a_formula(rows):
    content = csv_bytes(rows, ["group", "value"]).decode("utf-8")
    assert not RAW.search(content)
    head, *read = csv.reader(io.StringIO(content))
    assert head == ["group", "value"]
    assert len(read) == len(rows)
    for row, cells in zip(rows, read, strict=True):
        for value, cell in zip((row["group"], row["value"]), cells, strict=True):
            if isinstance(value, str):
                assert not cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d", "\t", "\r"))
            elif value is not None:
                assert float(cell) == float(value)  # a number stays one


def test_cells_that_are_missing_are_empty():
    assert csv_bytes([{"a": 1}, {"b": "x"}], ["a", "b"]) == b"a,b\n1,\n,x\n"


# --- the two ways to print ------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", [PLAIN, TERMINAL], ids=["file", "terminal"])
def test_rows_and_tables_cannot_fake_a_row(monkeypatch, capsys, terminal):
    for name, value in terminal.items():
        monkeypatch.setenv(name, value)
    output.show("title\x1b", [("label", "a\n  promise  none"), ("\x07", MARKUP)])
    tables.show_table("title", ["\x1bname"], [["a\nb"], [MARKUP]])
    shown = capsys.readouterr().out
    assert not RAW.search(shown)
    assert r"a\n  promise  none" in shown
    assert r"a\nb" in shown
