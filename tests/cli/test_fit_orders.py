"""`undertow fit --order`: two records, or as many as the records ask for."""

import json

import pytest

import undertow as ut
from tests.cli.calls import call, strict
from undertow.models import is_attractive
from undertow.models.registry import model_from_dict

TRUTH = ut.MarkovChain.second_order(
    [[[0.9, 0.1], [0.4, 0.6]], [[0.8, 0.2], [0.1, 0.9]]], ("no", "yes")
)


@pytest.fixture(scope="module")
def series():
    return TRUTH.simulate(800, seed=2)


@pytest.fixture(scope="module")
def table(series, tmp_path_factory):
    path = tmp_path_factory.mktemp("orders") / "words.csv"
    path.write_text("\n".join(["word", *series]) + "\n")
    return path


def test_order_two_is_the_library_answer(table, series, tmp_path):
    out = tmp_path / "chain.json"
    result = call("fit", table, "--value", "word", "--order", "2", "--output", out, "--json")
    assert result.exit_code == 0, result.output
    found = strict(result.stdout)
    chain = ut.MarkovChain.fit(series, order=2, public=True)
    assert found["transition"] == chain.transition.tolist()
    assert found["counts"] == chain.counts.tolist()
    assert "warning" in found
    written = json.loads(out.read_text())
    assert model_from_dict(written) == chain
    assert "counts" not in written
    said = call("fit", table, "--value", "word", "--order", "2").stdout
    assert "after no, yes" in said
    assert "runs of four" in said


def test_auto_takes_the_better_of_those_that_can_be_planned(table, tmp_path):
    drawn, out = tmp_path / "orders.png", tmp_path / "chain.json"
    options = ("--value", "word", "--states", "yes,no", "--order", "auto")
    result = call("fit", table, *options, "--figure", drawn, "--output", out, "--json")
    assert result.exit_code == 0, result.output
    found = strict(result.stdout)
    assert found["orders"]["plannable"] == "order 2"
    assert found["order"] == 2
    assert found["states"] == ["yes", "no"]
    assert [case["name"] for case in found["orders"]["cases"]][-1] == "2 hidden, attractive"
    assert drawn.read_bytes()[:4] == b"\x89PNG"
    assert json.loads(out.read_text())["kind"] == "second-order-chain"


def test_order_two_is_typed_row_by_row():
    rows = "0.9,0.1;0.4,0.6;0.8,0.2;0.1,0.9"
    result = call("leakage", "--transition", rows, "--order", "2", "--epsilon", "0.5",
                  "--against", "informed", "--json")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert strict(result.stdout)["upper"] == 0.5
    wrong = call("leakage", "--transition", "0.9,0.1;0.4,0.6", "--order", "2", "--epsilon", "0.5")
    assert wrong.exit_code == 1
    assert "needs 4 rows" in wrong.stderr


@pytest.mark.parametrize(
    "options",
    [("--order", "2", "--point"), ("--order", "auto", "--population"), ("--figure", "o.png"),
     ("--order", "3")],
)  # fmt: skip
def test_options_that_exclude_each_other(table, options):
    assert call("fit", table, "--value", "word", *options).exit_code == 2


def test_hidden_states_are_fitted_so_that_plans_can_be_made(table, series, tmp_path):
    out = tmp_path / "hidden.json"
    options = ("--value", "word", "--states", "no,yes", "--order", "hidden")
    result = call("fit", table, *options, "--output", out, "--json")
    assert result.exit_code == 0, result.output
    found = strict(result.stdout)
    chain = ut.HiddenChain.fit(series, ("no", "yes"), attractive=True, public=True)
    assert found["transition"] == chain.transition.tolist()
    assert found["bic"] == chain.bic
    assert "warning" in found
    written = model_from_dict(json.loads(out.read_text()))
    assert written == chain
    assert is_attractive(written)
    said = call("fit", table, *options).stdout
    assert "from yes 2" in said
    assert call("fit", table, *options, "--prior", "1").exit_code == 2
    assert call("fit", table, *options, "--point").exit_code == 2
