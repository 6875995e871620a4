"""The installed program: help, version, speed, streams."""

import gzip
import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import get_args

import pytest

import undertow
from tests.cli.calls import CHAIN, apart, call, start
from tests.processes import full_output, program
from undertow.cli.options import Group

COMMANDS = (
    "leakage", "plan", "compare", "robustness", "fit", "validate", "verify", "release", "sanitize",
    "estimate", "attack", "audit", "ledger", "reproduce", "demo",
)  # fmt: skip
LEDGER = ("create", "show", "limit", "verify", "cancel", "forget", "roles", "serve", "client")
LEAKAGE = ("leakage", *CHAIN, "--epsilon", "1")
PROBE = """
import json, sys
from undertow.cli import main
sys.argv = ["undertow", *json.loads(sys.argv[1])]
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def loaded(*arguments):
    """Return the top-level packages that a command loads."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_version():
    done = start("--version")
    assert done.returncode == 0
    assert done.stdout == f"undertow {undertow.__version__}\n"
    assert call("--version").stdout == done.stdout


def test_version_is_light_and_a_leakage_loads_no_more_than_it_needs():
    heavy = {"numpy", "matplotlib", "scipy", "opendp", "polars", "jinja2", "sqlalchemy", "narwhals"}
    assert not loaded("--version") & heavy
    assert not loaded(*LEAKAGE) & {"matplotlib", "opendp", "polars", "sqlalchemy"}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_shows_an_example(command, option):
    result = call(command, option)
    assert result.exit_code == 0
    assert f"undertow {command}" in result.stdout.split("Example", 1)[1]


def test_no_help_shows_an_escape():
    pages = [[name] for name in COMMANDS]
    while pages:  # and the commands that each has
        page = pages.pop()
        said = call(*page, "--help").stdout
        assert not re.search(r"\\[a-z]\b|\\\\", said), page
        listed = said.partition("\nCommands:\n")[2]
        pages += [[*page, name] for name in re.findall(r"^  (\w\S*)", listed, re.MULTILINE)]


def test_help_names_every_command_and_the_exit_codes():
    said = call("--help").stdout
    for command in COMMANDS:
        assert f"  undertow {command}" in said
        assert f"\n  {command} " in said
    assert "0 done; 1 refused, with the reason; 2 wrong usage" in said


def test_expert_options_stand_on_a_page_of_their_own():
    """The help of a plan fits two screens of fifty lines and a hundred columns."""
    said, all_of_it = (call("plan", page).stdout for page in ("--help", "--help-all"))
    lines = said.splitlines()
    assert len(lines) <= 100
    assert max(map(len, lines)) <= 100
    headings = [line for line in lines if line in {f"{name}:" for name in get_args(Group)}]
    assert headings == ["Model:", "Question:", "Guarantee:", "Output:", "Options:"]
    assert "--effort" not in said
    assert "\nExpert:\n" in all_of_it
    assert "--effort" in all_of_it
    assert call("plan", "--help-all").exit_code == 0
    assert "--help-all" not in call("verify", "--help").stdout  # which has no expert options


def test_no_command_is_wrong_usage():
    assert call().exit_code == 2


@pytest.mark.parametrize("whole", [False])
def test_examples_in_the_help_run(whole, tmp_path, monkeypatch):
    """As they stand in the soak; in the gate those that take long are told to do less."""
    monkeypatch.chdir(tmp_path)
    chain = undertow.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    Path("chain.json").write_text(json.dumps(chain.to_dict()))
    plan = undertow.calibrate(undertow.Count(1), chain, 0.5, method="exchange")
    call("ledger", "create", "year.db", "--dataset", "w25", "--model", "chain.json", "--limit", 1)
    records = chain.simulate(300, seed=1)
    rows = (f"{state},{state},{n // 100},{n // 200}" for n, state in enumerate(records))
    table = "\n".join(["steps,stage,night,site", *rows])
    for name in ("older.csv.gz", "activity.csv.gz"):
        Path(name).write_bytes(gzip.compress(table.encode()))
    families = undertow.Pedigree({"kim": ("bob", "ann")})
    counts = undertow.calibrate(undertow.Count("BB"), families, 1.0)
    Path("families.json").write_text(counts.to_json())
    Path("family.ped").write_text("f kim bob ann 2 0\nf bob 0 0 1 0\nf ann 0 0 2 0\n")
    people = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tkim\tbob\tann\n"
    kinds = '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">\n##contig=<ID=22>\n'
    variant = "22\t16050075\t.\tA\tG\t.\t.\t.\tGT\t0/1\t0/0\t1/1\n"
    cohort = "##fileformat=VCFv4.2\n" + kinds + people + variant
    Path("cohort.vcf.gz").write_bytes(gzip.compress(cohort.encode()))
    heights = [f"{70 + i % 3},{64 + i % 2},{66 + i % 5}" for i in range(20)]
    Path("heights.csv").write_text("\n".join(["father,mother,child", *heights]))
    import polars

    polars.read_csv(table.encode()).write_parquet("nights.parquet")
    ward = [
        (who, 300 * t, 9 * s) for who in "abc" for t, s in enumerate(chain.simulate(400, seed=7))
    ]
    frame = polars.DataFrame(ward, schema=["id", "at", "steps"], orient="row")
    frame.with_columns(polars.from_epoch("at")).write_parquet("ward.parquet")
    many = "\n".join(map(str, ["steps", *chain.simulate(9000, seed=2)]))
    Path("steps.csv").write_text(many)
    wide = undertow.MarkovChain.box([[0.8, 0.05], [0.2, 0.5]], [[0.95, 0.2], [0.5, 0.8]])
    undertow.Ledger("wide.db", "w25", model=wide, limit=1.0, memory=False)
    proved = undertow.certify(undertow.PureDP(1.0), chain)
    Path("certificate.json").write_text(proved.to_json())
    import shlex

    ran = 0
    for page in ("", *COMMANDS[:-1]):
        Path("plan.json").write_text(plan.to_json())  # an example may have written another
        Path("chain.json").write_text(json.dumps(chain.to_dict()))
        text = call(*filter(None, [page]), "--help").stdout.replace("\\\n", " ")
        for line in text.splitlines():
            words = shlex.split(line, comments=False) if line.startswith("    undertow ") else []
            if words[1:3] == ["ledger", "create"]:
                Path("year.db").unlink()
            serves = words[1:2] == ["studio"] or words[1:3] == ["ledger", "serve"]
            if words and words[1] != "demo" and not serves:  # which end when they are interrupted
                written = {"--output", "--report", "--figure", "--certificate"} & set(words)
                more = ["--force"] if written and words[1] != "reproduce" else []
                more += ["--seed", "1"] if words[1] == "audit" else []  # one in twenty errs
                if not whole and "--method" not in words:
                    more += ["--method", "group"] if words[1] == "compare" else []
                    more += ["--method", "exchange"] if "--valid-for" in words else []
                    more += ["--draws", "2000"] if words[1:] == ["audit", "plan.json"] else []
                    more += ["--list"] if "wang2016:fig2a" in words else []  # see tests/papers
                done = call(*words[1:], *more)
                assert done.exit_code == 0, line
                ran += 1
    assert ran == 73


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("undertow re", {"release", "reproduce"}),
        ("undertow ledger ", {*LEDGER}),
        ("undertow plan --against ", {"any", "ignorant", "informed"}),
        ("undertow release --dry", {"--dry-run"}),
    ],
)
def test_shells_complete_what_was_typed(typed, found):
    environment = os.environ | {
        "_UNDERTOW_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split(" ")) - 1),
    }
    done = program(env=environment)
    assert set(done.stdout.split()) == found
    assert not done.stderr


def test_completion_scripts_are_offered():
    # told which shell it is: there may be none around a test
    named = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    entry = Path(sysconfig.get_path("scripts"), "undertow")
    done = subprocess.run(
        [entry, "--show-completion", "bash"], env=named, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert "complete" in done.stdout


def test_streams_are_apart():
    done = apart("leakage", *CHAIN, "--epsilon", "0", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == "InvalidInput"
    assert done.stderr == "undertow: epsilon must be positive and finite, found 0.0\n"


def test_wrong_usage_in_a_process():
    done = apart("leakage", *CHAIN, "--epsilon", "one")
    assert done.returncode == 2
    assert "--epsilon" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [LEAKAGE, (*LEAKAGE, "--json"), ("--version",)])
def test_an_answer_that_cannot_be_printed_is_an_error(arguments):
    done = apart(*arguments, prepare=(full_output,))
    assert done.returncode == 1
    assert done.stderr.startswith("undertow: cannot print the answer")
    assert "Traceback" not in done.stderr


def test_names_outside_the_encoding_do_not_break_the_output():
    done = subprocess.run(
        [sys.executable, "-c", "from undertow.cli import main; main()", *LEAKAGE,
         "--states", b"\xff,caf\xc3\xa9"],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"},
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"target record" in done.stdout
