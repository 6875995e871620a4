"""The example on friends: what it prints is what enumeration finds, and the attack stays below."""

import itertools
import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from undertow_papers.liu2016.checkins import BAND, BANDS

EXAMPLE = Path(__file__).parents[2] / "examples" / "friends_attack.py"


@pytest.fixture
def example(tmp_path, monkeypatch):
    monkeypatch.setenv("UNDERTOW_DATA", str(tmp_path))
    return runpy.run_path(str(EXAMPLE))


@pytest.fixture
def scene(example):
    targets, pairs = example["invent_people"](120)
    return example, targets, example["pair_law"](pairs)


def test_it_runs_without_data(example, capsys):
    example["main"](repeats=5)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "people: invented (300 targets)"
    rows = [line.split() for line in lines if line.startswith(("independent", "dependent"))]
    assert len(rows) == 6
    for epsilon, (plain, fitted) in zip(
        (0.5, 1.0, 2.0), zip(rows[::2], rows[1::2], strict=True), strict=True
    ):
        assert float(plain[3]) > 2 * epsilon
        assert float(fitted[3]) == pytest.approx(epsilon, abs=1e-3)


def test_the_law_of_the_sum_is_that_of_all_circles(scene):
    """Every place of a target and three friends, one by one."""
    example, _, joint = scene
    laws, answers = example["sum_laws"](joint)
    rows = joint / joint.sum(axis=1, keepdims=True)
    bands = BANDS
    expected = np.zeros_like(laws)
    for circle in itertools.product(range(bands), repeat=4):
        expected[circle[0], sum(circle)] += math.prod(
            rows[circle[0], friend] for friend in circle[1:]
        )
    assert laws == pytest.approx(expected, abs=1e-13)
    assert np.diff(answers) == pytest.approx(BAND)
    assert laws.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_noise_for_strangers_leaks_more_than_it_guarantees(scene, epsilon):
    example, targets, joint = scene
    scales = example["noises"](joint, epsilon)
    laws, answers = example["sum_laws"](joint)
    leaks = {}
    for name, scale in scales.items():
        seen = laws @ np.exp(-np.abs(answers[:, None] - answers) / scale)
        leaks[name] = float(np.log(seen.max(axis=0) / seen.min(axis=0)).max())
        most, alone, friendly = example["attack"](targets, joint, scale, 40)
        assert most <= leaks[name] + 1e-12
        assert most == pytest.approx(leaks[name], abs=0.02)  # some answer lies beyond all sums
        assert friendly <= alone + 0.05
    assert leaks["independent"] > 2 * epsilon
    assert leaks["dependent"] == pytest.approx(epsilon, abs=1e-9)
    assert leaks["identical"] < epsilon
    strangers, places = example["sum_laws"](np.outer(joint.sum(0), joint.sum(0)))
    seen = strangers @ np.exp(-np.abs(places[:, None] - places) / scales["independent"])
    assert np.log(seen.max(axis=0) / seen.min(axis=0)).max() <= epsilon + 1e-12


def test_real_people_if_they_are_there(monkeypatch):
    monkeypatch.delenv("UNDERTOW_DATA", raising=False)
    example = runpy.run_path(str(EXAMPLE))
    found = example["read_people"](example["FOLDER"] / "gowalla")
    if found is None:
        pytest.skip("no check-ins: set UNDERTOW_DATA to the folder that holds gowalla/")
    targets, pairs = found
    assert targets.shape == (208, 4)
    assert len(pairs) == 1240
    joint = example["pair_law"](pairs)
    assert example["correlation"](joint) == pytest.approx(0.42, abs=0.01)
    scale = example["noises"](joint, 1.0)["independent"]
    laws, answers = example["sum_laws"](joint)
    assert example["separation_upper"](laws, answers, scale) == pytest.approx(2.522, abs=1e-3)
