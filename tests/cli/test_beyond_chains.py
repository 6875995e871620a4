"""Gaussian models, pedigrees and VCF files on the command line."""

import json

import numpy as np
import pytest

import undertow as ut
from tests.cli.calls import call, call_json, rows, strict
from tests.data.test_genotypes import HEAD, ROWS

TRIO = "f1 kim bob ann 2 0\nf1 bob 0 0 1 0\nf1 ann 0 0 2 0\n"
HEIGHTS = ["father,mother,child"] + [
    f"{70 + a:.1f},{64 + b:.1f},{66 + 0.5 * a + 0.4 * b + c:.1f}"
    for a, b, c in np.random.default_rng(3).normal(size=(40, 3))
]


@pytest.fixture
def heights(tmp_path):
    path = tmp_path / "heights.csv"
    path.write_text("\n".join([*HEIGHTS, "70.0,NA,66.0"]) + "\n")
    return path


@pytest.fixture
def trio(tmp_path):
    path = tmp_path / "trio.ped"
    path.write_text(TRIO)
    return path


def test_a_gaussian_model_is_fitted_planned_and_released(heights, tmp_path):
    model, plan = tmp_path / "model.json", tmp_path / "plan.json"
    fitted = call("fit", heights, "--columns", "father,mother,child", "--output", model)
    assert fitted.exit_code == 0
    assert "1 with a missing value were left out" in fitted.stdout
    assert "warning" in fitted.stderr
    found = strict(call("fit", heights, "--columns", "father,mother,child", "--json").stdout)
    assert (found["rows"], found["left_out"]) == (40, 1)
    assert "disclosure" in found["warning"]
    assert found["model"] == json.loads(model.read_text())
    table = np.array([[float(x) for x in line.split(",")] for line in HEIGHTS[1:]])
    assert found["correlations"] == pytest.approx(np.corrcoef(table.T), abs=1e-12)

    said = call_json("leakage", "--model", model, "--sum", "50,90", "--scale", 40)
    known = ut.MultivariateGaussian.fit(table, public=True)
    truth = ut.leakage(ut.Laplace(ut.Sum(50, 90), 40.0), known)
    assert said["upper"] == pytest.approx(truth.upper, rel=1e-12)
    assert call_json("leakage", "--model", model, "--mean", "50,90", "--scale", 40)["upper"] > 0

    assert (
        call("plan", "--model", model, "--sum", "50,90", "--limit", 1, "--output", plan).exit_code
        == 0
    )
    data = tmp_path / "family.csv"
    data.write_text("height\n71\n63\n68.5\n")
    out = call("release", data, "--plan", plan, "--value", "height", "--json")
    assert out.exit_code == 0


def test_a_pedigree_file_is_a_model(trio):
    asked = ("leakage", "--model", trio, "--count", "BB", "--scale", 1)
    assert call_json(*asked, "--frequency", 0.5)["upper"] == pytest.approx(2.240229014)
    assert call_json(*asked, "--frequency", "0.5,0.9")["upper"] == pytest.approx(2.869403, abs=1e-5)
    said = rows(call("plan", "--model", trio, "--frequency", 0.5, "--count", "BB", "--limit", 1))
    assert said["method"].strip() == "exchange"
    assert "one family" in said["model"]
    methods = {row["method"] for row in call_json(
        "compare", "--model", trio, "--frequency", 0.5, "--count", "BB", "--limit", 1
    )["rows"]}  # fmt: skip
    assert "lange" not in methods
    assert {"exact", "quilt", "dependent"} <= methods


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "a pedigree needs --frequency"),
        (("--frequency", "0.1,0.2,0.3"), "one number or two"),
        (("--frequency", "half"), "--frequency needs numbers"),
        (("--frequency", 0.5, "--length", 3), "a pedigree has its own"),
    ],
)
def test_wrong_usage_of_pedigrees(trio, more, message):
    result = call("leakage", "--model", trio, "--epsilon", 1, *more)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_frequency_needs_a_pedigree():
    result = call("leakage", "--transition", "0.9,0.1;0.2,0.8", "--epsilon", 1, "--frequency", 0.5)
    assert result.exit_code == 2
    assert "--frequency goes with a pedigree" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f1 kim kim ann 2 0\n", "kim"),
        ("f1 kim bob ann 2 0\nf1 bob 0 0 2 0\nf1 ann 0 0 1 0\n", "bob"),
        ("f1 kim\n", "line 1"),
    ],
)
def test_impossible_pedigrees_are_refused(tmp_path, text, message):
    path = tmp_path / "odd.ped"
    path.write_text(text)
    result = call("leakage", "--model", path, "--frequency", 0.5, "--epsilon", 1)
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_counts_from_a_vcf_file(trio, tmp_path):
    pytest.importorskip("pysam", reason="needs the extra genomics")
    cohort, plan = tmp_path / "cohort.vcf", tmp_path / "plan.json"
    cohort.write_text(HEAD + "\n".join(ROWS) + "\n")
    asked = ("--frequency", 0.5, "--count", "BB", "--limit", 20, "--output", plan)
    assert call("plan", "--model", trio, *asked).exit_code == 0
    found = strict(call("release", cohort, "--plan", plan, "--locus", "rs1", "--json").stdout)
    assert isinstance(found["numbers"][0]["value"], int)
    assert found["records"] == 3
    for more, code, message in (
        (("--locus", "22:100", "--value", "x"), 2, "--locus goes with a VCF file"),
        (("--allele", "A", "--value", "x"), 2, "--allele goes with --locus"),
        (("--locus", "rs99"), 1, "no locus rs99"),
        (("--locus", "rs1", "--allele", "T"), 1, "has no allele"),
    ):
        result = call("release", cohort, "--plan", plan, *more)
        assert result.exit_code == code
        assert message in " ".join(result.stderr.split())
    result = call("release", cohort, "--plan", plan, "--locus", "rs2")
    assert "say which is B, --allele" in " ".join(result.stderr.split())
    wrong = tmp_path / "cohort.csv"
    wrong.write_text("a,b\n1,2\n")
    result = call("release", wrong, "--plan", plan, "--locus", "rs1")
    assert result.exit_code == 1
    assert "not a VCF file" in result.stderr


def test_a_frequency_that_does_not_fit_is_told_to_the_curator_only(tmp_path):
    """Thirty founders with two copies of ALT each, declared rare: said by validate alone."""
    pytest.importorskip("pysam", reason="needs the extra genomics")
    people = [f"p{i}" for i in range(30)]
    head, _, columns = HEAD.strip().rpartition("\n")
    columns = "\t".join([*columns.split("\t")[:9], *people])
    row = "\t".join(["22", "100", "rs1", "A", "G", ".", ".", ".", "GT", *["1/1"] * 30])
    cohort, plan, family = (tmp_path / name for name in ("c.vcf", "plan.json", "c.ped"))
    cohort.write_text(f"{head}\n{columns}\n{row}\n")
    family.write_text("".join(f"f{i} {person} 0 0 0 0\n" for i, person in enumerate(people)))
    asked = ("--count", "BB", "--limit", 20, "--output", plan)
    assert call("plan", "--model", family, "--frequency", "0.05,0.5", *asked).exit_code == 0
    read = (cohort, "--plan", plan, "--locus", "rs1")
    told = strict(call("validate", *read, "--json").stdout)["problems"]
    assert "allele B is more frequent among the founders" in " ".join(p["what"] for p in told)
    out = call("release", *read, "--json", "--report", tmp_path / "report.txt")
    assert out.exit_code == 0
    said = out.stdout + out.stderr + (tmp_path / "report.txt").read_text()
    assert "frequent" not in said.replace("frequency", "")
    other = call("validate", *read, "--allele", "A", "--json")
    assert other.exit_code == 0  # no copy in sixty is no wonder at 0.05
    assert strict(other.stdout)["problems"] == []
