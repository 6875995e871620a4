"""Refusals and warnings speak of options and commands, never of Python's arguments."""

import ast
import functools
import json
import re
from pathlib import Path

import pytest

import undertow
from tests.cli.calls import CHAIN, NAMED, call
from tests.cli.scenario import ACTIVE, LEDGER, STEPS, scenario  # noqa: F401  (a fixture)
from tests.cli.scenario import CHAIN as ACTIVITY
from undertow.cli.output import in_cli_words

PYTHON = re.compile(
    r"\b(method|against|unit|gaps|time|by|groups|every|model|limit|release_id|missing|state|states|"
    r"value|person|length|start|protect|known|prior|dataset|valid_for|secret|lower|upper)=(?!=)"
    r"|\b(calibrate|Data|Redacted|Series|set_limit|to_dict|verify|release|sanitize|redact)\("
    r"|\brelease_id\b|\bset_limit\b"
)
ROOT = Path(undertow.__file__).parent
ONLY_PYTHON = ("auditing/lstm.py", "auditing/empirical.py", "auditing/counting.py", "mechanisms.py")


def messages():
    """Every text of the library that a refusal may print, X for what is filled in."""
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(("papers/", "cli/", "figures/", *ONLY_PYTHON)):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
        constants = [node for node in tree.body if isinstance(node, ast.Assign)]
        for node in (*raised, *constants):
            for text in texts(node):
                if " " in text and PYTHON.search(text):
                    yield name, text


def texts(node):
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in node.values)
    elif isinstance(node, ast.Constant):
        yield node.value if isinstance(node.value, str) else ""
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def test_every_refusal_of_the_library_has_words_here():
    """Null: a message names an argument the command line does not know. About 90 are looked at."""
    found = list(messages())
    assert len(found) > 60
    unreachable = ("spread=", "Linear(", "the first argument", "the second argument")
    left = [
        (name, text, in_cli_words(text))
        for name, text in found
        if PYTHON.search(in_cli_words(text)) and not any(word in text for word in unreachable)
    ]
    assert left == []


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("use method='mq' or 'optimal', or say against='ignorant'",
         "use --method mq or optimal, or say --against ignorant"),
        ("say every='5m', or every=1", "say --every 5m, or --every 1"),
        ("pass start=[...], the law", "pass --start, the law"),
        ("e.g. states=(0, 1, 2)", "e.g. --states 0,1,2"),
        ("another release_id", "another --id"),
        ("see verify(), and", "see 'undertow ledger verify', and"),
        ("Redacted(protect=17, length=100), or", "--redacted --protect 17 --length 100, or"),
        ("say state='cast(... as double)'", "say --state 'cast(... as double)'"),
        ("found lower=5.0, upper=-1.0", "found 5.0, -1.0"),
        # what people typed or what stands in files is theirs
        ("no column 'time=now'; there are 'by=x'", "no column 'time=now'; there are 'by=x'"),
        ('a state "method=\'x\'"', 'a state "method=\'x\'"'),
        ("row 3 of transition sums to 0.97", "row 3 of transition sums to 0.97"),
    ],
)  # fmt: skip
def test_arguments_become_options(said, meant):
    assert in_cli_words(said) == meant


MISTAKES = [
    ("plan", *NAMED, "--count", "active", "--limit", "1", "--method", "wasserstein"),
    ("plan", *NAMED, "--mean", "0,1", "--limit", "1"),
    ("plan", *NAMED, "--sum", "5,1", "--limit", "1"),
    ("plan", *NAMED, "--count", "active", "--limit", "1", "--method", "lange"),
    ("plan", *NAMED, "--histogram", "--limit", "1", "--method", "exact"),
    ("plan", *NAMED, "--redacted", "--protect", "3", "--limit", "1"),
    ("plan", *NAMED, "--series", "--limit", "1", "--method", "group"),
    ("plan", "--transition", "1,0;0,1", "--count", "1", "--limit", "1"),
    ("plan", "--model", "steps.csv", "--count", "1", "--limit", "1"),
    ("plan", "--model", "count.plan", "--count", "1", "--limit", "1"),
    ("compare", *NAMED, "--mean", "0,1", "--limit", "1"),
    ("leakage", *CHAIN, "--mean", "0,1", "--scale", "3"),
    ("release", "steps.csv", "--plan", "person.plan", *ACTIVE, *LEDGER),
    ("release", "steps.csv", "--plan", "large.plan", *ACTIVE, *LEDGER),
    ("release", "steps.csv", "--plan", "flips.plan", *ACTIVE),
    ("release", "steps.csv", "--plan", "sum.plan", *STEPS, "--state", "0.5,1"),
    ("release", "steps.csv", "--plan", "chain.json", *ACTIVE),
    ("sanitize", "steps.csv", "--plan", "count.plan", *ACTIVE),
    ("sanitize", "missing.csv", "--plan", "flips.plan", *ACTIVE, "--strict", "--output", "o.csv"),
    ("attack", "steps.csv", "--plan", "flips.plan", "--truth", "missing.csv", *ACTIVE),
    ("estimate", "steps.csv", "--plan", "count.plan", "--value", "steps"),
    ("estimate", "steps.csv", "--plan", "flips.plan", "--value", "cohort", "--transitions"),
    ("ledger", "create", "new.db", "--dataset", "a", "--model", "steps.csv", "--limit", "1"),
    ("ledger", "create", "year.db", "--dataset", "w25", "--model", "chain.json", "--limit", "2"),
    ("ledger", "show", "steps.csv"),
    ("audit", "chain.json"),
    ("fit", "steps.csv", "--value", "cohort", "--states", "a,b"),
]  # fmt: skip


@functools.cache
def flips():
    return undertow.calibrate(undertow.Series(), ACTIVITY, limit=2.0)


@pytest.mark.parametrize("arguments", MISTAKES, ids=lambda a: " ".join(a)[:60])
def test_mistakes_are_told_in_options(scenario, arguments):  # noqa: F811
    Path("flips.plan").write_text(flips().to_json())
    result = call(*arguments)
    assert result.exit_code == 1, result.output
    assert not PYTHON.search(result.stderr), result.stderr
    asked = call(*arguments, "--json")
    assert not PYTHON.search(json.loads(asked.stdout)["message"])


def test_reasons_of_a_comparison_are_told_in_options():
    result = call("compare", *NAMED, "--length", 30, "--count", "active", "--limit", "1")
    assert "does not" in result.stdout or "Methods that do not apply" in result.stdout
    assert not PYTHON.search(result.stdout), result.stdout
