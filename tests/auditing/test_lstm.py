"""The neural attacker: it learns what there is to learn, and nothing that it must not see."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

import undertow as ut
from tests.grids import thinned
from undertow.auditing.attacking import attack
from undertow.auditing.inference import viterbi
from undertow.errors import InvalidInput, NotSupported, UnknownState
from undertow_papers.lstm import (
    Training,
    _folds,
    _windows,
    device_name,
    lstm_attacker,
    lstm_probabilities,
)

pytestmark = pytest.mark.skipif(  # without loading it: that takes longer than most tests
    importlib.util.find_spec("torch") is None, reason="torch is not installed (extra 'neural')"
)

QUICK = Training(window=21, hidden=16, folds=3, epochs=20, batch=128, device="cpu")
TINY = Training(window=5, hidden=4, folds=2, epochs=3, batch=64, device="cpu")
HIGH = ut.MarkovChain([[1 - 0.0893, 0.0893], [0.1092, 1 - 0.1092]])  # section 4.3 of the paper


def flipped(truth, matrix, seed):
    rng = np.random.default_rng(seed)
    return (rng.random(len(truth)) < matrix[truth, 1]).astype(np.int64)


# --- how well it learns ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", thinned([2.0, 3.0, 4.0, 5.0], keep=[5.0]))
def test_it_is_at_most_three_percent_worse_than_viterbi(epsilon):
    """Null: accuracies are equal; 8,000 records, so their difference has a deviation below .007.

    A false alarm needs more than four of these. The twin that sees nothing must fail from epsilon 4
    on, where Viterbi is far above the prior (.55).
    """
    truth = np.array(HIGH.simulate(8000, seed=5))
    plan = ut.calibrate(ut.Series(), HIGH, epsilon, "ignorant", method="chakrabarti")
    shown = flipped(truth, plan.mechanism.matrix, 7)
    path = np.asarray(viterbi(shown, plan.mechanism, HIGH))
    wanted = (path == truth).mean() - 0.03
    law = lstm_probabilities(shown, truth, (0, 1), training=QUICK)
    assert (law.argmax(axis=1) == truth).mean() >= wanted
    assert law.sum(axis=1) == pytest.approx(1)
    if epsilon == 5:
        blind = lstm_probabilities(np.zeros(8000), truth, (0, 1), training=TINY)
        assert (blind.argmax(axis=1) == truth).mean() < wanted


@pytest.mark.statistical
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


def test_three_states_and_erasures():
    chain = ut.MarkovChain([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], ("a", "b", "c"))
    truth = chain.simulate(1500, seed=2)
    hidden = np.random.default_rng(1).random(1500) < 0.3
    shown = [None if gone else state for gone, state in zip(hidden, truth, strict=True)]
    quick = Training(window=5, hidden=12, folds=2, epochs=12, batch=32, device="cpu")
    law = lstm_probabilities(shown, truth, ("a", "b", "c"), training=quick)
    assert law.shape == (1500, 3)
    assert law.sum(axis=1) == pytest.approx(1)
    guessed = np.array(["a", "b", "c"])[law.argmax(axis=1)]
    assert (guessed == np.array(truth))[~hidden].mean() > 0.93
    assert (guessed == np.array(truth))[hidden].mean() > 0.6  # a third by chance


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


def test_windows_end_with_their_series():
    codes = np.array([1, 2, 1, 2, 2], dtype=np.uint8)
    assert _windows(codes, [3, 0, 2], 3).tolist() == [
        [0, 1, 2], [1, 2, 1], [2, 1, 0], [0, 2, 2], [2, 2, 0],
    ]  # fmt: skip


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


def test_training_stops_when_it_no_longer_helps():
    truth = np.random.default_rng(1).integers(0, 2, 400)
    ticks: list[tuple[int, int]] = []
    training = Training(
        window=3, hidden=8, folds=2, epochs=40, patience=2, batch=32, rate=0.05, device="cpu"
    )
    lstm_probabilities(
        np.random.default_rng(2).integers(0, 2, 400), truth, (0, 1), training=training,
        tick=lambda done, most: ticks.append((done, most)),
    )  # fmt: skip
    done = [done for done, _ in ticks]
    assert {most for _, most in ticks} == {80}
    assert done == sorted(done)
    assert len(done) < 60


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


def test_no_gpu():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    truth = [0, 1] * 20
    with pytest.raises(NotSupported, match="no GPU"):
        lstm_probabilities(truth, truth, (0, 1), training=Training(folds=2, device="cuda"))
    assert device_name() == "cpu"


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    truth = [0, 1] * 20
    with pytest.raises(NotSupported, match=r"undertow\[neural\]"):
        lstm_probabilities(truth, truth, (0, 1), training=TINY)


def test_importing_the_module_does_not_load_torch():
    probe = "import sys, undertow_papers.lstm; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", probe], check=True)
