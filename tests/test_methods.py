"""The registry of methods: what it says is what everything else reads."""

import re
from pathlib import Path

import pytest

import undertow as ut
from undertow.errors import InvalidInput, MethodRefused
from undertow.methods import METHODS, find_method, method_names
from undertow.planning.calibrate import named

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], length=6)
DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("task", METHODS)
def test_entries_are_whole(task):
    for name, method in METHODS[task].items():
        assert (method.name, method.task) == (name, task)
        assert method.summary
        assert "\n" not in method.summary + method.citation
        kinds = method.solvers.values()
        solvers = [
            each for kind in kinds for each in ([kind] if isinstance(kind, str) else kind.values())
        ]
        for solver in solvers:
            assert callable(named(str(solver)).solve)
            assert callable(named(str(solver)).prove)
        for other in (method.wider, method.subsumed_by):
            assert other is None or METHODS[task][other].certified
        assert method.effort is None or callable(named(method.effort))


def test_names_that_are_none():
    with pytest.raises(InvalidInput, match=r"methods for a redaction are optimal, mq, .*, best"):
        find_method("redact", "quilt")
    assert method_names()[0] == "best"
    with pytest.raises(MethodRefused, match="choose method='optimal' or 'mq'"):
        ut.calibrate(ut.Redacted(3), CHAIN, 1.0, "any", method="3r-constant")
    with pytest.raises(MethodRefused, match=r"'xor' has nothing to say about .*method='exchange'"):
        ut.calibrate(ut.Series(), ut.ModelSet([ut.Groups(2), CHAIN]), 1.0, method="xor")


def test_the_table_of_the_documentation_is_the_registry():
    text = (DOCS / "methods.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if re.match(r"\| `[\w-]+` \|", line)
    ]
    expected = [
        [name, {"answer": "answer", "flip": "series", "redact": "redaction"}[task],
         ", ".join(m.scope.protects), m.basis, m.scope.valid_for]
        for task, known in METHODS.items() for name, m in known.items()
    ]  # fmt: skip
    assert [[*row[:3], *row[-2:]] for row in rows] == expected
