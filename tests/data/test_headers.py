"""Headers that mean something to us, to Polars or to SQL are names of columns like any other."""

import csv
import re
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import undertow as ut
from tests.cli.calls import call
from tests.data.test_frames import read_sequences
from undertow.auditing.attacking import attack
from undertow.data.table import Data
from undertow.errors import InvalidInput
from undertow.mechanisms import Redaction
from undertow.releasing.estimate import estimate, estimate_transitions

pytest.importorskip("pandas")

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], states=(0, 1))
PLAN = ut.calibrate(ut.Series(), CHAIN, limit=3.0)
COUNT = ut.calibrate(ut.Count(1), CHAIN, limit=1.0, method="exchange")
SHORT = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], states=(0, 1), length=3)
MECHANISM = Redaction([[0, 0], [1, 1], [1, 0]], protect=1)
LEAK = ut.leakage(MECHANISM, SHORT)
ERASE = ut.Plan(MECHANISM, SHORT, LEAK.upper, LEAK, "optimal", measures=(("utility", 0.5),))

INTERNAL = sorted(
    {
        name.split("\\0")[0].strip()
        for path in Path(ut.__file__).parent.joinpath("data").glob("*.py")
        for name in re.findall(r'"\\0([a-z ]+)', path.read_text())
    }
    | {"made 0", "text", "number", "truth", "key", "kept", "gaps", "twice", "off", "nobody"}
    | {"rows", "persons", "longest", "series", "shortest", "windowed", "record", "state", "index"}
)
ODD = [
    "", " ", '"', "'", "a,b", "a\nb", "a;b", "\t", "\u00e9", "e\u0301", "\u202e", "\U0001f600",
    "x" * 10_000, "*", "^x$", "^.*$", "**", "literal", "count", "len", "select", "case", "=1+1",
    "_duplicated_0", "a\\b", "a\rb", "{x}", "%s", "-1", "None",
]  # fmt: skip
assert {"person", "time", "group", "row", "code", "there", "first"} <= set(INTERNAL)

FRAME = pl.DataFrame(
    {
        "who": ["a", "a", "a", "b", "b", "b"],
        "when": [0, 1, 2, 0, 1, 2],
        "ward": ["N", "N", "N", "S", "S", "S"],
        "value": [0, 1, 1, 0, 0, 1],
    }
)
ROLES = {"person": "who", "time": "when", "by": "ward", "value": "value"}


def quadruples() -> list[tuple[str, ...]]:
    """Names for the four columns, so that every name is once in every role."""
    names = [*INTERNAL, *ODD]
    names += names[: -len(names) % 4]
    listed = []
    for start in range(0, len(names), 4):
        four = tuple(names[start : start + 4])
        listed += [(*four[turn:], *four[:turn]) for turn in range(4)]
    return [four for four in listed if len(set(four)) == 4]


def as_source(frame: pl.DataFrame, backend: str, folder: Path) -> Any:
    if backend == "csv":
        path = folder / "table.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerow(frame.columns)
            writer.writerows(frame.iter_rows())
        return path
    if backend == "parquet":
        frame.write_parquet(folder / "table.parquet")
        return folder / "table.parquet"
    if backend == "pandas":
        return frame.to_pandas()
    if backend == "objects":
        return frame.to_pandas().astype(object)
    if backend == "arrow":
        return frame.to_arrow()
    return frame


def everything(data: Data, value: str) -> list[Any]:
    """All that can be asked of a table, but for names of columns."""
    sanitised = ut.sanitize(PLAN, data, insecure_seed=1)
    redacted = ut.sanitize(ERASE, data, insecure_seed=1)
    again = Data(sanitised, value=value, person=data.grid.person, time=data.grid.time, every=1)
    answers = data.answers(ut.Histogram(), (0, 1))
    sums = data.answers(ut.Sum(0, 1))
    fared = attack(sanitised, PLAN, data, attackers=["single-bit"])
    return [
        data.shape(),
        data.window(1, 3).shape(),
        (answers.groups, answers.numbers, sums.numbers, data.sequences((0, 1)), data.problems()),
        [list(row) for row in sanitised.iter_rows()],
        [list(row) for row in redacted.iter_rows()],
        [str(estimate_transitions(again, PLAN)), str(estimate(sanitised, PLAN))],
        [verdict.accuracy for verdict in fared.verdicts],
        ut.MarkovChain.fit(data, (0, 1), prior=0.5, public=True).counts.tolist(),
    ]


def roles_of(four: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(ROLES, four, strict=True))


OTHERS = ("csv", "parquet", "pandas", "objects", "arrow")


@pytest.mark.parametrize(
    ("backend", "step"),
    [("polars", 9), *product(OTHERS, (23,))],
)
def test_every_name_is_a_name(backend, step, tmp_path):
    plain = Data(as_source(FRAME, backend, tmp_path), **ROLES, every=1)
    wanted = everything(plain, "value")
    for four in quadruples()[::step]:
        renamed = FRAME.rename(dict(zip(FRAME.columns, four, strict=True)))
        if backend == "csv" and any(map(unreadable, four)):
            continue
        data = Data(as_source(renamed, backend, tmp_path), **roles_of(four), every=1)
        assert everything(data, four[3]) == wanted, four
        sanitised = ut.sanitize(PLAN, data, insecure_seed=1)
        assert sanitised.columns == list(four)


def unreadable(name: str) -> bool:
    """Names that a CSV file cannot have as Polars reads it; the file is then refused."""
    return "\r" in name


def test_a_state_in_an_expression_keeps_away_from_other_columns():
    renamed = FRAME.rename({"who": "state", "when": "state_", "value": "x"})
    data = Data(renamed, state="x > 0", person="state", time="state_")
    made = ut.sanitize(PLAN, data, insecure_seed=1)
    assert made.columns == ["state", "state_", "state__"]
    assert made["state"].to_list() == FRAME["who"].to_list()


@pytest.mark.parametrize("role", ["person", "time", "by", "value"])
def test_the_column_of_erasures_is_kept_free_before_anything_is_drawn(role):
    renamed = FRAME.rename({ROLES[role]: "erased"})
    data = Data(renamed, **(ROLES | {role: "erased"}))
    for act in (lambda: ut.sanitize(PLAN, data), lambda: ut.sanitize(ERASE, data)):
        with pytest.raises(InvalidInput, match="'erased'"):
            act()


@pytest.mark.parametrize("backend", ["polars", "lazy", "pandas", "arrow", "parquet"])
def test_names_with_a_null_character_are_refused(backend, tmp_path):
    renamed = FRAME.rename({"ward": "\0person"})
    if backend == "pandas":
        table: Any = FRAME.to_pandas().rename(columns={"ward": "\0person"})
    elif backend == "arrow":
        table = FRAME.to_arrow().rename_columns(["who", "when", "\0person", "value"])
    else:
        table = as_source(renamed, backend, tmp_path)
        table = table.lazy() if backend == "lazy" else table
    with pytest.raises(InvalidInput, match=r"null character|UTF-8|damaged"):
        Data(table, value="value", person="who", time="when")


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("who,when,x,x\na,0,0,1\n")
    with pytest.raises(InvalidInput, match="two columns 'x'"):
        Data(path, value="x")
    assert Data(path, value="when", person="who").shape().rows == 1
    twice = FRAME.to_pandas()
    twice.columns = ["who", "when", "value", "value"]
    with pytest.raises(InvalidInput, match="two columns of one name"):
        Data(twice, value="value")


@pytest.mark.parametrize("name", [*INTERNAL, *ODD])
def test_series_are_read_from_columns_of_any_name(name, tmp_path):
    if unreadable(name):
        return
    path = as_source(FRAME.rename({"value": name, "who": f"{name}2"}), "csv", tmp_path)
    assert read_sequences(path, name, person=f"{name}2") == [[0, 1, 1], [0, 0, 1]]


@pytest.mark.parametrize(
    "four",
    [
        pytest.param(four, marks=[pytest.mark.soak] * (number % 2))
        for number, four in enumerate(quadruples()[:: len(quadruples()) // 8])
    ],
)
def test_commands_take_any_name(four, tmp_path, monkeypatch):
    """Through files, as typed on a command line."""
    if any(map(unreadable, four)) or any(name.strip() != name or not name for name in four):
        return
    monkeypatch.chdir(tmp_path)
    as_source(FRAME.rename(dict(zip(FRAME.columns, four, strict=True))), "csv", tmp_path)
    Path("series.plan").write_text(PLAN.to_json())
    Path("count.plan").write_text(COUNT.to_json())
    person, time, by, value = four
    who = [f"--person={person}", f"--time={time}"]
    columns = [*who, f"--by={by}", f"--value={value}"]
    assert call("validate", "table.csv", *columns).exit_code == 0
    assert call("release", "table.csv", "--plan", "count.plan", *columns).exit_code == 0
    written = ["--plan", "series.plan", *columns, "--output", "out.csv"]
    made = call("sanitize", "table.csv", *written)
    assert made.exit_code == 0, made.output
    assert pl.read_csv("out.csv").columns == list(four)
    read = [*who, f"--value={value}"]
    found = call("estimate", "out.csv", "--plan", "series.plan", *read, "--transitions")
    assert found.exit_code == 0, found.output
    beaten = call("attack", "out.csv", "--plan", "series.plan", "--truth", "table.csv", *read)
    assert beaten.exit_code == 0, beaten.output
