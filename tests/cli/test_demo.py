"""`undertow demo`: the files, the numbers in them, and what is left out."""

import json
from types import SimpleNamespace

import pytest

import undertow as ut
from tests.cli.calls import call, strict
from undertow.cli import demo as demo_command

FILES = {"leakage.png", "leakage.svg", "plan.json", "release.json", "report.txt"}
STATES = ("inactive", "active")
MATRIX = [[0.882, 0.118], [0.305, 0.695]]
TRUTH = ut.MarkovChain(MATRIX, STATES).simulate(14 * 288, seed=demo_command.SEED).count("active")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Run the demonstration as a user would, in an empty directory."""
    place = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        result = call("demo")
    folder = place / "demo-output"
    read = {path.name: path.read_bytes() for path in folder.iterdir()}
    return SimpleNamespace(result=result, folder=folder, files=read)


def test_it_ends_well_and_names_its_files(demo):
    assert demo.result.exit_code == 0
    assert not demo.result.stderr
    assert demo.files.keys() == FILES
    last = demo.result.stdout.splitlines()[-1]
    assert "demo-output" in last
    assert all(name in last for name in FILES)


def test_report_is_what_was_shown(demo):
    report = demo.files["report.txt"].decode()
    assert demo.result.stdout.startswith(report)


@pytest.mark.parametrize(
    "words",
    [
        "4032 SIMULATED records",
        "can leak 3.4749 about one record",
        "by a factor 32.3, not 2.72",
        "9.05 (Lange 2024), 11.64 (Zhao et al. 2017), 4032 (level times",
        "To leak at most 1, spend a DP level of 0.2503.",
        "scale 3.9948; expected error 3.953; leakage at most 1.",
        "within 12 of the truth with probability 95%",
        f"True count: {TRUTH} (known and shown only because these records are simulated)",
    ],
)
def test_numbers_of_the_report(demo, words):
    assert words in demo.files["report.txt"].decode()


def test_plan_is_the_plan_for_the_fortnight(demo):
    plan = ut.Plan.from_json(demo.files["plan.json"].decode())
    chain = ut.MarkovChain(MATRIX, STATES, length=4032)
    assert plan == ut.calibrate(ut.Count("active"), chain, 1.0)
    assert plan.leakage.proves(1.0)


def test_release_says_the_answer_and_not_the_truth(demo):
    said = strict(demo.files["release.json"])
    assert said["randomness"] == "secure"
    assert said["error_bar"] == {"within": 12.0, "probability": 0.95}
    assert isinstance(said["value"], int)
    assert abs(said["value"] - TRUTH) < 200  # misses with probability e^-50
    assert said["plan_checksum"] == json.loads(demo.files["plan.json"])["checksum"]
    assert not any("true" in key or "truth" in key for key in said)
    assert f"Released: {said['value']}," in demo.files["report.txt"].decode()


def test_figures_are_figures(demo):
    assert demo.files["leakage.png"].startswith(b"\x89PNG")
    assert len(demo.files["leakage.png"]) > 20_000
    drawing = demo.files["leakage.svg"].decode()
    assert "to leak 1, spend 0.2503" in drawing
    assert "a DP level of 1 leaks 3.4749" in drawing


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "taken").write_text("mine")
    result = call("demo", "--output", tmp_path / "taken")
    assert result.exit_code == 1
    assert result.stderr.startswith("undertow: cannot make the directory")
    assert (tmp_path / "taken").read_text() == "mine"
