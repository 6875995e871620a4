"""The neural attacker: it learns what there is to learn, and nothing that it must not see."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

import undertow as ut
from tests.cli.calls import call, strict
from undertow.auditing.attacking import attack
from undertow.errors import InvalidInput, NotSupported, UnknownState
from undertow_papers.lstm import (
    Training,
    _folds,
    lstm_attacker,
    lstm_probabilities,
)

pytestmark = pytest.mark.skipif(  # without loading it: that takes longer than most tests
    importlib.util.find_spec("torch") is None, reason="torch is not installed (extra 'neural')"
)

TINY = Training(window=5, hidden=4, folds=2, epochs=3, batch=64, device="cpu")
HIGH = ut.MarkovChain([[1 - 0.0893, 0.0893], [0.1092, 1 - 0.1092]])  # section 4.3 of the paper


# --- how well it learns ---------------------------------------------------------------------------


def test_noise_teaches_nothing():
    """Null: outputs say nothing of 1,500 fair records; 4 standard errors: false alarms 6e-5."""
    rng = np.random.default_rng(3)
    truth, shown = rng.integers(0, 2, size=(2, 1500))
    law = lstm_probabilities(shown, truth, (0, 1), training=Training(
        window=9, hidden=24, folds=3, epochs=15, patience=15, batch=64, device="cpu"))  # fmt: skip
    right = (law.argmax(axis=1) == truth).mean()
    assert abs(right - 0.5) < 4 * 0.5 / np.sqrt(1500)
    fast = Training(window=3, hidden=8, folds=2, epochs=8, batch=32, device="cpu")
    told = lstm_probabilities(truth, truth, (0, 1), training=fast)  # the twin that is told
    assert (told.argmax(axis=1) == truth).mean() > 0.9


def test_it_stands_beside_the_other_attackers():
    plan = ut.calibrate(ut.Series(), HIGH, 5.0, "ignorant", method="chakrabarti")
    truth = [HIGH.simulate(700, seed=seed) for seed in (1, 2)]
    shown = ut.sanitize(plan, truth, insecure_seed=4)
    found = attack(shown, plan, truth, attackers=["viterbi", lstm_attacker(TINY)])
    verdict = found.verdict("lstm")
    assert verdict.targets == 1400
    assert verdict.worst is None
    assert 0.5 < verdict.accuracy < 1
    assert not verdict.exceeds()


# --- what it may see ------------------------------------------------------------------------------


@pytest.mark.parametrize("folds", [2, 3, 10])
def test_no_record_is_learned_or_held_out_by_its_own_network(folds):
    seen = []
    for inside, held, rest in _folds(101, folds):
        seen.extend(inside.tolist())
        assert sorted([*inside, *held, *rest]) == list(range(101))
        assert (np.diff(inside) == 1).all()  # neighbours stay together
        assert (np.diff(held) == 1).all()
        assert len(held)
        assert len(rest) > len(inside) / 2
    assert seen == list(range(101))


def test_same_seed_same_guess_and_the_caller_keeps_his_random_numbers():
    truth = np.array(HIGH.simulate(300, seed=1))
    import torch

    threads = torch.get_num_threads()
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    first = lstm_probabilities(truth, truth, (0, 1), training=TINY)
    assert torch.rand(1) == wanted
    assert torch.get_num_threads() == threads
    assert np.array_equal(first, lstm_probabilities(truth, truth, (0, 1), training=TINY))
    other = Training(**{name: getattr(TINY, name) for name in TINY.__slots__} | {"seed": 1})
    assert not np.array_equal(first, lstm_probabilities(truth, truth, (0, 1), training=other))


# --- bad input ------------------------------------------------------------------------------------


def test_bad_series_are_refused():
    truth = [0, 1] * 20
    with pytest.raises(InvalidInput, match="39 outputs and 40 true records"):
        lstm_probabilities(truth[:-1], truth, (0, 1), training=TINY)
    with pytest.raises(InvalidInput, match="lengths sum to 39"):
        lstm_probabilities(truth, truth, (0, 1), lengths=[30, 9], training=TINY)
    with pytest.raises(UnknownState, match="record 3 of the truth") as caught:
        lstm_probabilities(truth, [*truth[:3], "secret", *truth[4:]], (0, 1), training=TINY)
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidInput, match="2 folds need at least 8 records, found 4"):
        lstm_probabilities(truth[:4], truth[:4], (0, 1), training=TINY)
    with pytest.raises(InvalidInput, match="at least two states"):
        lstm_probabilities([0] * 9, [0] * 9, (0,), training=TINY)
    with pytest.raises(NotSupported, match="254"):
        lstm_probabilities(range(400), [0, 1] * 200, (0, 1), training=TINY)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"window": 4}, "odd"),
        ({"folds": 1}, "folds"),
        ({"rate": 0.0}, "rate"),
        ({"device": "tpu"}, "device"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_settings_are_refused(setting, words):
    with pytest.raises(InvalidInput, match=words):
        Training(**setting)


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    truth = [0, 1] * 20
    with pytest.raises(NotSupported, match=r"undertow-papers\[neural\]"):
        lstm_probabilities(truth, truth, (0, 1), training=TINY)


def test_importing_the_module_does_not_load_torch():
    probe = "import sys, undertow_papers.lstm; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", probe], check=True)


def test_the_command_finds_the_neural_attacker_by_its_entry_point(tmp_path):
    """`undertow attack --attackers lstm`: the core knows its name, this distribution its code."""
    chain = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], states=("idle", "active"), length=40)
    plan = ut.calibrate(ut.Series(), chain, limit=3.0, against="ignorant")
    files = {name: tmp_path / name for name in ("plan.json", "true.csv", "shown.csv")}
    files["plan.json"].write_text(plan.to_json())
    files["true.csv"].write_text("\n".join(map(str, ["state", *chain.simulate(40, seed=1)])) + "\n")
    data = ut.Data(files["true.csv"], value="state")
    ut.sanitize(plan, data).write_csv(files["shown.csv"])
    result = call(
        "attack", files["shown.csv"], "--plan", files["plan.json"], "--truth", files["true.csv"],
        "--value", "state", "--attackers", "lstm,single-bit", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    verdicts = strict(result.stdout)["verdicts"]
    assert [verdict["attacker"] for verdict in verdicts] == ["lstm", "single-bit"]
