"""Commands on files that are read in pieces: the same answers, nothing half-written or spent."""

import errno
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

import undertow as ut
from tests.cli.calls import apart, call
from tests.cli.local_scenario import (
    ACCOUNT,
    WIDE,
    names,
    refused,
    run,
    scenario,
    studio,
)
from tests.cli.scenario import ACTIVE, WHO, ledger
from tests.grids import each
from tests.processes import in_pieces
from undertow.data.codes import write_frames
from undertow.data.readers.sources import Source
from undertow.sampling.keyed import Key

__all__ = ["scenario", "studio"]

pytestmark = pytest.mark.usefixtures("studio")
FIXED = bytes(range(32))
OUT = ("--output", "out.csv")


@pytest.fixture
def pieces():
    """What makes every file one that is read in pieces of some rows.

    By a patch of its own: leakages are those of other tests.
    """
    with pytest.MonkeyPatch.context() as patch:
        yield lambda rows: patch.setattr(
            Source, "pieces", lambda source, _: rows if source.file else None
        )


def parquet(path="steps.parquet", source="steps.csv"):
    frame = pl.read_csv(source, try_parse_dates=True)
    frame.write_parquet(path)
    return frame


# --- the same answers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "size"),
    [pytest.param("steps.csv", 37), pytest.param("steps.parquet", 61)],
)  # fmt: skip
def test_commands_say_the_same_in_pieces(data, size, pieces):
    parquet()
    import gzip

    Path("steps.csv.gz").write_bytes(gzip.compress(Path("steps.csv").read_bytes()))
    asked = [
        ("fit", data, *ACTIVE),
        ("fit", data, *ACTIVE, "--by", "cohort", "--prior", "0.5"),
        ("estimate", data, "--plan", "flips.plan", *WHO, "--value", "state"),
        ("release", data, "--plan", "count.plan", *ACTIVE, "--by", "cohort", "--dry-run"),
        ("sanitize", data, "--plan", "flips.plan", *ACTIVE, "--dry-run"),
        ("sanitize", data, "--plan", "erasures.plan", *ACTIVE, "--dry-run"),
    ]
    whole = [said(*one) for one in asked]
    checked = call("validate", data, *ACTIVE, "--plan", "count.plan", "--json")
    pieces(size)
    assert [said(*one) for one in asked] == whole
    again = call("validate", data, *ACTIVE, "--plan", "count.plan", "--json")
    assert (again.exit_code, again.stdout) == (checked.exit_code, checked.stdout)


def said(*arguments):
    """What a command prints as JSON, or how it refuses."""
    result = call(*arguments, "--json")
    return result.exit_code, result.stdout


def without_files(told):
    """A fit as it was said, without where its files are."""
    code, text = told
    body = json.loads(text)
    del body["model"]["records"]["source"]["files"]
    return code, body


VERBS = [("sanitize", "flips"), ("sanitize", "runs"), ("sanitize", "erasures")]
OUTPUTS = ["out.csv", "out.csv.gz", "out.parquet"]


@pytest.mark.parametrize(
    ("verb", "plan", "output", "sizes"),
    [(*verb, out, (1, 29)) for verb, out in zip(VERBS, OUTPUTS, strict=True)],
)
def test_outputs_are_the_same_in_pieces(verb, plan, output, sizes, pieces, monkeypatch):
    monkeypatch.setattr(Key, "fresh", classmethod(lambda cls: cls(FIXED)))
    figure = ("--figure", "first.svg") if plan == "erasures" else ()
    found = []
    for size in (None, *sizes):
        if size is not None:
            pieces(size)
        result = run(verb, "--output", output, "--force", *figure, plan=f"{plan}.plan")
        assert result.exit_code == 0, result.output
        if output.endswith(".parquet"):
            found.append(pl.read_parquet(output))
        else:
            found.append(pl.read_csv(output))
        if figure:
            found[-1] = found[-1].with_columns(drawn=pl.lit(Path("first.svg").stat().st_size > 0))
    assert all(found[0].equals(one) for one in found[1:])


def test_a_ledger_records_the_same_in_pieces(pieces):
    pieces(11)
    result = run("sanitize", *OUT, account=ACCOUNT)
    assert result.exit_code == 0, result.output
    (entry,) = ledger().entries()
    from undertow.plan import Plan
    from undertow.releasing.series import fingerprint

    data = ut.Data("out.csv", value="steps", person="id", time="ts")
    plan = Plan.from_json(Path("flips.plan").read_text())
    assert entry.result["sha256"] == fingerprint(data, plan)
    assert fingerprint(data.changed(piece=None), plan) == entry.result["sha256"]
    assert (entry.result["records"], entry.result["series"]) == (192, 4)


def test_a_redaction_is_accounted_for_in_pieces(pieces):
    pieces(11)
    result = run("sanitize", *OUT, plan="erasures.plan", account=WIDE)
    assert result.exit_code == 0, result.output
    assert len(ledger("wide.db").entries()) == 1


# --- what is refused ------------------------------------------------------------------------------


def shuffle(order):
    lines = Path("steps.csv").read_text().splitlines()
    Path("steps.csv").write_text("\n".join([lines[0], *(lines[1 + n] for n in order)]) + "\n")


def test_rows_out_of_order_are_refused_and_nothing_is_spent(pieces):
    shuffle([0, 2, 1, *range(3, 192)])
    assert call("validate", "steps.csv", *ACTIVE).exit_code == 0
    pieces(5)
    told = refused(run("sanitize", *OUT, account=ACCOUNT))
    assert "row 2 of column 'ts'" in told
    assert "--memory" in told
    assert not ledger().entries()
    assert names() == []


def test_a_person_in_two_places_is_refused_by_the_row(pieces):
    shuffle([*range(40), *range(48, 96), *range(40, 48), *range(96, 192)])
    pieces(5)
    assert "row 88 of column 'id'" in refused(run("sanitize", *OUT))


def test_a_file_that_changes_while_it_is_read_is_refused(pieces, monkeypatch):
    from undertow.data import folds as module

    real, calls = module.rows_of, []

    def changing(*arguments):
        calls.append(1)
        if len(calls) == 30:  # in the second pass, while outputs are written
            with Path("steps.csv").open("a") as file:
                file.write("p9,2025-01-06T00:00:00,north,0\n")
        return real(*arguments)

    pieces(10)
    monkeypatch.setattr(module, "rows_of", changing)
    told = refused(run("sanitize", *OUT, account=ACCOUNT))
    assert "changed" in told
    assert not ledger().entries() or ledger().entries()[0].result is None
    assert names() == []


def test_a_file_that_disappears_is_refused(pieces, monkeypatch):
    from undertow.data import folds as module

    real, calls = module.rows_of, []

    def vanishing(*arguments):
        calls.append(1)
        if len(calls) == 3:
            Path("steps.parquet").unlink()
        return real(*arguments)

    parquet()
    pieces(10)
    monkeypatch.setattr(module, "rows_of", vanishing)
    told = refused(run("sanitize", *OUT, data="steps.parquet"))
    assert "steps.parquet changed" in told


def test_a_full_disk_in_the_middle_is_named_and_the_next_run_writes_the_same(pieces, monkeypatch):
    from undertow.cli import sanitization as local_release

    real, drawn = write_frames, []

    def full(frames, file, name):
        def failing():
            for number, frame in enumerate(frames):
                if number == 3:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                drawn.append(frame)
                yield frame

        real(failing(), file, name)

    pieces(20)
    monkeypatch.setattr(local_release, "write_frames", full)
    told = refused(run("sanitize", *OUT, account=ACCOUNT))
    assert "no space left on device; nothing was released" in told
    assert names() == []
    (entry,) = ledger().entries()
    assert entry.status == "reserved"
    monkeypatch.setattr(local_release, "write_frames", real)
    assert run("sanitize", *OUT, account=ACCOUNT).exit_code == 0
    (after,) = ledger().entries()
    assert after.hash == entry.hash
    begun = pl.concat(drawn)
    assert pl.read_csv("out.csv", schema=begun.schema)[: begun.height].equals(begun)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are those of POSIX")
@pytest.mark.parametrize("output", ["out.csv.gz"])
def test_a_limit_of_the_system_leaves_nothing(output):
    lines = Path("steps.csv").read_text().splitlines()
    more = [line.replace("p", f"q{n}", 1) for n in range(60) for line in lines[1:]]
    Path("steps.csv").write_text("\n".join([*lines, *more]) + "\n")
    asked = ("sanitize", "steps.csv", "--plan", "flips.plan", *ACTIVE, "--output", output)
    done = apart(*asked, prepare=(in_pieces, 1000, 1500))
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(f"undertow: cannot write {output}: ")
    assert names() == []
    again = apart(*asked, prepare=(in_pieces, 1000))
    assert again.returncode == 0, again.stderr


# --- several files --------------------------------------------------------------------------------


def parts(folder="parts", cuts=(0, 60, 100, 192)):
    frame = parquet()
    Path(folder).mkdir()
    for number, (start, stop) in enumerate(pairwise(cuts)):
        frame[start:stop].write_parquet(f"{folder}/part-{number}.parquet")
    Path(folder, "_SUCCESS").touch()
    Path(folder, ".hidden.parquet").touch()
    return frame


@each(("size", "data"), [None, 50, 1], ["parts", "parts/part-*.parquet"], few=2)
def test_a_folder_of_parts_is_one_table(data, size, pieces):
    parts()
    whole = without_files(said("fit", "steps.parquet", *ACTIVE))
    if size is not None:
        pieces(size)
    assert without_files(said("fit", data, *ACTIVE)) == whole


def test_a_person_split_over_files_is_refused_in_pieces(pieces):
    frame = parts(cuts=(0, 48))
    frame[96:192].write_parquet("parts/part-1.parquet")
    frame[48:96].with_columns(id=pl.lit("p0")).write_parquet("parts/part-2.parquet")
    pieces(20)
    told = refused(call("fit", "parts", *ACTIVE))
    assert "row 144 of column 'id'" in told


def test_outputs_do_not_go_into_the_folder_that_is_read():
    parts()
    result = run("sanitize", "--output", "parts/out.parquet", data="parts")
    assert result.exit_code == 2
    assert "would be a file of the table itself" in result.stderr


# --- how it is chosen, and what is said of it -----------------------------------------------------


def test_a_file_beyond_the_memory_is_read_in_pieces():
    frame = pl.select(id=pl.int_range(400_000) // 1000, x=1)
    frame.write_parquet("large.parquet")
    small = ut.Data("large.parquet", value="x", person="id", memory="50MB")
    assert small.piece is not None
    assert f"in pieces of {small.piece} rows" in repr(small)
    assert ut.Data("large.parquet", value="x", person="id").piece is None
    assert small.shape() == ut.Data("large.parquet", value="x", person="id").shape()


MEASURED = """
import json, sys
import numpy, polars, scipy.special
import undertow as ut
from undertow.queries import Transitions
from undertow.releasing.series import Outputs, prepare
from undertow.data.codes import write_frames
def peak():  # what getrusage tells is also that of the parent
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["VmHWM"].split()[0]) * 1024
small = polars.DataFrame({"id": ["a"], "t": [0], "x": [1]})
ut.Data(small, value="x", person="id", time="t").tally((0, 1))
plan = ut.calibrate(ut.Series(), ut.MarkovChain([[.9, .1], [.3, .7]]), limit=3.0)
before = peak()
data = ut.Data(sys.argv[1], value="x", person="id", time="t", every=1, memory=sys.argv[2])
data.answers(Transitions(), (0, 1))
data.tally((0, 1))
with open(sys.argv[3], "wb") as file:
    write_frames(Outputs(prepare(plan, data)).frames(), file, file.name)
print(json.dumps([data.piece, peak() - before]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="sizes are those of Linux")
@pytest.mark.parametrize("kind", ["parquet"])
def test_memory_is_bounded(kind):
    """What a file of half a million rows takes is below twice the limit, and far below its size."""
    size = 500_000
    frame = pl.select(
        id=pl.int_range(size) // 1000, t=pl.int_range(size) % 1000, x=pl.int_range(size) % 7 % 2
    ).with_columns(pl.col("id").cast(pl.String))
    path = f"large.{kind}"
    if kind == "parquet":
        frame.write_parquet(path, row_group_size=size)
    else:
        with Path(path).open("wb") as file:
            write_frames([frame], file, path)
    found = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", MEASURED, path, memory, f"out.{kind}"],
                capture_output=True, text=True, check=True,
            ).stdout
        )
        for memory in ("50MB", "4GB")
    ]  # fmt: skip
    (some, taken), (none, whole) = found
    assert some is not None
    assert none is None
    assert taken < 100e6, (taken, whole)
    assert taken < whole / 2, (taken, whole)
