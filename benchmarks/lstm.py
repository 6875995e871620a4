"""How the neural attacker compares with Viterbi and with the best guess: ``-m benchmarks.lstm``.

Fig. 4 of [chakrabarti2022] again: a synthetic chain with the high correlation of record N10
(q = .0893, r = .1092, 26,923 records), and the heart-rate records N5 and N10 where they are at
hand (in ``heartrate`` of UNDERTOW_DATA, or of shared/data beside the checkout). Flips are planned
against an attacker who knows nothing, as in the paper. Each line has the accuracy of Viterbi and of
the likeliest state of each record (both know the model), of the LSTM (which knows none; ten folds,
out of fold), and what the promise allows. Uses a GPU where there is one; minutes there, half an
hour on a processor. Nothing here asserts a number; ``--gate`` exits with 1 where the LSTM is more
than .03 below Viterbi on the synthetic chain.

    python -m benchmarks.lstm --data synthetic --epsilons 2 3 4 5
"""

import argparse
import contextlib
import gzip
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import undertow as ut
from undertow.auditing.attackers import average_bound
from undertow.auditing.inference import posteriors, viterbi
from undertow_papers.lstm import Training, device_name, lstm_probabilities

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("UNDERTOW_DATA") or ROOT.parent / "shared" / "data") / "heartrate"
HIGH = ut.MarkovChain([[1 - 0.0893, 0.0893], [0.1092, 1 - 0.1092]])
LENGTH = 26_923
SLACK = 0.03


def main() -> None:
    asked = _arguments()
    training = Training(
        window=asked.window, folds=asked.folds, batch=asked.batch, epochs=asked.epochs,
        device=asked.device,
    )  # fmt: skip
    print(f"neural attacker on {device_name(asked.device)}: {training}", flush=True)
    behind = False
    for name in asked.data:
        truth = series(name)
        if truth is None:
            print(f"{name}: no record in {FOLDER}")
            continue
        chain = HIGH if name == "synthetic" else ut.MarkovChain.fit(truth, [0, 1], public=True)
        for epsilon in asked.epsilons:
            gap = compare(name, truth, chain, epsilon, training)
            behind |= name == "synthetic" and epsilon >= 2 and gap < -SLACK
    if asked.gate and behind:
        sys.exit(1)


def compare(
    name: str, truth: np.ndarray, chain: ut.MarkovChain, epsilon: float, training: Training
) -> float:
    """Print one line, and return how much better than Viterbi the LSTM is."""
    plan = ut.calibrate(ut.Series(), chain, epsilon, "ignorant", method="chakrabarti")
    flips = plan.mechanism.matrix
    rng = np.random.default_rng([7, int(100 * epsilon)])
    shown = (rng.random(len(truth)) < flips[truth, 1]).astype(np.int64)
    path = np.asarray(viterbi(shown, plan.mechanism, chain))
    best = posteriors(shown, plan.mechanism, chain).argmax(axis=1)
    start = time.perf_counter()
    with bar(f"{name}, epsilon {epsilon:g}") as tick:
        law = lstm_probabilities(shown, truth, (0, 1), training=training, tick=tick)
    seconds = time.perf_counter() - start
    right = [float((guess == truth).mean()) for guess in (path, best, law.argmax(axis=1))]
    print(
        f"{name:<10} epsilon {epsilon:g}  viterbi {right[0]:.4f}  best {right[1]:.4f}  "
        f"lstm {right[2]:.4f}  ({right[2] - right[0]:+.4f})  "
        f"promised {average_bound(chain.initial, epsilon):.4f}  {seconds:6.1f} s",
        flush=True,
    )
    return right[2] - right[0]


def series(name: str) -> np.ndarray | None:
    """Return the states of a record, None where it is not at hand."""
    if name == "synthetic":
        return np.array(HIGH.simulate(LENGTH, seed=10))
    path = FOLDER / f"{name}.txt.gz"
    if not path.is_file():
        return None
    with gzip.open(path, "rt") as file:
        rates = np.loadtxt(file)[:, 1]
    return np.asarray(rates >= rates.mean()).astype(np.int64)


@contextlib.contextmanager
def bar(words: str) -> Iterator[Callable[[int, int], object] | None]:
    """Give what moves a progress bar, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(words)
        yield lambda done, most: progress.update(task, completed=done, total=most)


def _arguments() -> argparse.Namespace:
    told = argparse.ArgumentParser(description="The neural attacker beside Viterbi.")
    told.add_argument("--data", nargs="+", default=["synthetic", "N5", "N10"])
    told.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 2.0, 3.0, 4.0, 5.0])
    told.add_argument("--window", type=int, default=31)
    told.add_argument("--folds", type=int, default=10)
    told.add_argument("--batch", type=int, default=256)
    told.add_argument("--epochs", type=int, default=30)
    told.add_argument("--device", choices=["cpu", "cuda"])
    told.add_argument("--gate", action="store_true")
    return told.parse_args()


if __name__ == "__main__":
    main()
