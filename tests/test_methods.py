"""The registry of methods: what it says is what everything else reads."""

import importlib.util
import re
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import undertow as ut
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, MethodRefused
from undertow.methods import METHODS, Method, find_method, method_names, methods_for
from undertow.planning.calibrate import named
from undertow.planning.compare import error_curves
from undertow.planning.coverage import check_proof
from undertow.planning.groups import group_noise, prove_group
from undertow.planning.questions import noise_way

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], length=6)
SOURCES = Path(__file__).parent.parent / "src" / "undertow"
DOCS = Path(__file__).parent.parent / "docs"


def twice(question):
    """Noise for twice as many records as there are."""
    return group_noise(2 * 6, question)


@pytest.fixture
def toy(monkeypatch):
    """A method that is known from its entry alone."""
    method = Method(
        "toy", "answer", "twice the noise that is needed", "no paper",
        noise_way(twice, prove_group), valid_for="any", quick=True,
    )  # fmt: skip
    monkeypatch.setitem(METHODS["answer"], "toy", method)
    return method


def test_a_method_is_registered_in_one_place(toy, tmp_path):
    plan = ut.calibrate(ut.Count(1), CHAIN, 1.0, method="toy")
    assert (plan.method, plan.mechanism.scale) == ("toy", 12.0)
    assert "toy, certified" in str(plan)
    again = ut.Plan.from_json(plan.to_json())
    assert check_proof(again) == plan.leakage
    assert methods_for(CHAIN)[-1] == "toy"
    table = ut.compare(ut.Count(1), CHAIN, 1.0)
    assert table["toy"].scale == 12.0
    assert table["toy"].meets
    assert table.best is not None
    assert table.best.method != "toy"
    assert ut.calibrate(ut.Count(1), CHAIN, 1.0).method != "toy"
    assert error_curves(ut.Count(1), CHAIN, [1.0]).errors["toy"] == pytest.approx(12.0, rel=0.01)
    (tmp_path / "data.csv").write_text("value\n" + "0\n1\n" * 3, encoding="utf-8")
    out = ut.release(plan, ut.Data(str(tmp_path / "data.csv"), value="value"))
    assert {row["method"] for row in out.report().facts.to_dict()["comparison"]} >= {"toy", "group"}


def test_a_registered_method_has_a_choice_on_the_command_line(toy):
    spec = importlib.util.find_spec("undertow.cli.plan")
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)  # as a process that starts now would have it
    spec.loader.exec_module(fresh)
    app = typer.Typer()
    app.command()(fresh.plan)
    asked = ["--transition", "0.9,0.1;0.2,0.8", "--length", "6", "--count", "1", "--limit", "1"]
    runner = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})
    assert "toy" in runner.invoke(app, ["--help"]).output
    assert "toy" in runner.invoke(app, [*asked, "--method", "toy"]).output
    refused = runner.invoke(app, [*asked, "--method", "toys"])
    assert refused.exit_code == 2
    assert "toy" in refused.output


WEIGHTED = ut.Linear([1.0] * 6, 1.0, 0.0)


def test_the_best_may_be_new(toy, monkeypatch):
    """A certified method with less error is chosen as soon as it is registered."""
    sharp = replace(toy, solver=noise_way(lambda q: q.noise(5.0), lambda q, _: leak(q)))
    monkeypatch.setitem(METHODS["answer"], "toy", sharp)
    assert ut.calibrate(WEIGHTED, CHAIN, 1.0).method != "toy"
    loud = replace(sharp, solver=noise_way(lambda q: q.noise(1e-3), lambda q, _: leak(q)))
    monkeypatch.setitem(METHODS["answer"], "toy", loud)
    assert ut.calibrate(WEIGHTED, CHAIN, 1.0).method == "toy"
    for more in ({"certified": False}, {"whole": True}, {"subsumed_by": "exchange"}):
        monkeypatch.setitem(METHODS["answer"], "toy", replace(loud, **more))
        assert ut.calibrate(WEIGHTED, CHAIN, 1.0).method != "toy"


def leak(question):
    return Leakage(0.0, question.limit, "toy", question.against, valid_for="any")


@pytest.mark.parametrize("task", METHODS)
def test_entries_are_whole(task):
    for name, method in METHODS[task].items():
        assert (method.name, method.task) == (name, task)
        assert method.summary
        assert "\n" not in method.summary + method.citation
        solvers = [method.solver] if isinstance(method.solver, str) else method.solver.values()
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
        METHODS["redact"]["3r-constant"].admit("any")
    with pytest.raises(MethodRefused, match=r"'xor' has nothing to say about .*method='exchange'"):
        ut.calibrate(ut.Series(), ut.ModelSet([ut.Groups(2), CHAIN]), 1.0, method="xor")


TESTED = re.compile(r"(?:[=!]=|\bin\b|\bcase\b)\s*\(?\s*[\"']({})[\"']|^\s*[\"']({})[\"']:".format(
    *["|".join(map(re.escape, method_names()))] * 2), re.MULTILINE)  # fmt: skip


def test_no_method_is_known_by_its_name_elsewhere():
    """Papers name the methods they reproduce, bounds what they prove."""
    exempt = {"papers", "bounds"}
    others = {  # words that are no methods: a kind of channel, a role of a column, an entry of JSON
        "plan_format.py": {"xor"}, "data/sources.py": {"group"}, "data/table.py": {"group"},
        "data/columns.py": {"group"}, "reporting/facts.py": {"group"},
        "reporting/sections.py": {"group"},
        "planning/comparison.py": {"best"}, "planning/orders.py": {"best"},
        "certifying/document.py": {"sweep"},
    }  # fmt: skip
    for path in SOURCES.rglob("*.py"):
        where = path.relative_to(SOURCES)
        if where.parts[0] in exempt or str(where) == "methods.py":
            continue
        found = {a or b for a, b in TESTED.findall(path.read_text(encoding="utf-8"))}
        assert found <= others.get(where.as_posix(), set()), where


def test_the_table_of_the_documentation_is_the_registry():
    text = (DOCS / "methods.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if re.match(r"\| `[\w-]+` \|", line)
    ]
    expected = [
        [name, {"answer": "answer", "flip": "series", "redact": "redaction"}[task],
         ", ".join(m.protects), m.basis, m.valid_for]
        for task, known in METHODS.items() for name, m in known.items()
    ]  # fmt: skip
    assert [[*row[:3], *row[-2:]] for row in rows] == expected
