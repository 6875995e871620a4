"""Heart rates are no Markov chain: does a better model, or a neural network, beat the promise?

Beats are faster or slower than the mean of the record. A chain of order one is fitted and flips are
planned for it, as in section 4 of Chakrabarti, Gao, Saraf, Schoenebeck and Yu (2022). The record
remembers more than one beat. So what does the plan leak under other chains, and what do attackers
attain who know more than the plan assumed: the chain of order two, or an LSTM that learned from the
record itself? A plan on a fit that failed its checks is refused; here every failure is accepted by
name, and the estimate taken for the truth, because their cost is the question.

    python examples/heart_robustness.py            # seconds; the LSTM on part of the record
    python examples/heart_robustness.py --full     # minutes; the LSTM on all of it, ten folds

Reads the records N5 and N10 from the folder `heartrate` of UNDERTOW_DATA, or of shared/data beside
the checkout, and otherwise simulates a chain of order two like N10. Only averages are printed.
Writes heart-robustness.png where matplotlib is installed. Without torch there is no LSTM.
"""

import gzip
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import undertow as ut
from undertow.auditing.attackers import Guess, Scenario
from undertow.auditing.attacking import attack
from undertow.auditing.inference import posteriors
from undertow.diagnostics import robustness
from undertow.errors import NotSupported
from undertow.figures.canvas import figure_bytes
from undertow.figures.costs import draw_robustness
from undertow.models.second_order import SecondOrderChain
from undertow_papers.lstm import Training, lstm_attacker

FOLDER = Path(os.environ.get("UNDERTOW_DATA") or Path(__file__).parents[2] / "shared" / "data")
NAMES = ("slow", "fast")
LIKE_N10 = [[[0.918, 0.082], [0.288, 0.712]], [[0.835, 0.165], [0.087, 0.913]]]
QUICK = Training(window=21, hidden=16, folds=3, epochs=20, batch=128)


def main(
    full: bool = False, epsilons: tuple[float, ...] = (2.0, 4.0), beats: int | None = None
) -> None:
    """Plan for order one, then let the truth have order two, and attack."""
    for name, whole in records().items():
        series = whole[:beats]
        fit = ut.MarkovChain.fit(series, NAMES, length=len(series), public=True)
        second = SecondOrderChain.from_fit(fit)
        print(f"\n{name}: {len(series)} beats, {fit.order_test().words()}")
        for epsilon in epsilons:
            broken = [check.name for check in fit.checks if check.outcome == "failed"]
            print(f"accepted, to see what it costs: the failed checks {', '.join(broken)}")
            plan = ut.calibrate(
                ut.Series(), fit.point(), limit=epsilon, method="exact", accept=broken
            )
            table = robustness(plan, factors=(0.8, 1.0, 1.25), fitted=fit)
            print(f"\n{name}, epsilon {epsilon:g}\n{table}")
            report(plan, series, second, full)
            draw(table, f"{name}: flips planned for ε = {epsilon:g}")


def report(plan: Any, series: list[str], second: SecondOrderChain, full: bool) -> None:
    """Print how often each attacker is right, and how often the promise lets one be."""
    shown = ut.sanitize(plan, series, insecure_seed=11)

    def order_two(scenario: Scenario) -> Guess:
        return Guess(second_order_guess(shown, plan.mechanism, second), scenario.prior)

    for verdict in attack(
        shown, plan, series, ["correlation-aware", "viterbi", order_two]
    ).verdicts:
        print(f"  {verdict}")
    cut = len(series) if full else min(len(series), 8000)
    part = ut.Plan(plan.mechanism, plain(plan.model), plan.limit, plan.leakage, plan.method)
    network = lstm_attacker(Training() if full else QUICK)
    try:
        found = attack(shown[:cut], part, series[:cut], ["viterbi", network])
    except NotSupported as refusal:
        print(f"  {refusal}")
        return
    print(f"  on the first {cut} beats")
    for verdict in found.verdicts:
        print(f"  {verdict}")


def plain(chain: ut.MarkovChain) -> ut.MarkovChain:
    """Return the chain for a series of any length."""
    return ut.MarkovChain(chain.transition, chain.states)


def second_order_guess(
    shown: list[str], flips: ut.RandomizedResponse, chain: SecondOrderChain
) -> np.ndarray:
    """Return the likeliest state of each record given all outputs, on the chain of pairs.

    The hidden state at record t >= 1 is (X_{t-1}, X_t), and its output is that of X_t; the first
    record is read off the first pair.
    """
    size = chain.size
    rows = np.tile(flips.matrix, (size, 1))  # the row of (x, y) is that of y
    channel = ut.RandomizedResponse(rows, outputs=chain.states)
    law = posteriors(shown[1:], channel, chain.pairs()).reshape(-1, size, size)
    first = law[0].sum(axis=1) * flips.matrix[:, chain.states.index(shown[0])]
    return np.concatenate([[first.argmax()], law.sum(axis=1).argmax(axis=1)])


def records() -> dict[str, list[str]]:
    """Return the states of each record, or of a simulated one."""
    found = {}
    for name in ("N5", "N10"):
        path = FOLDER / "heartrate" / f"{name}.txt.gz"
        if path.is_file():
            with gzip.open(path, "rt") as file:
                rates = np.loadtxt(file)[:, 1]
            found[name] = [NAMES[fast] for fast in (rates >= rates.mean()).astype(int)]
    if found:
        return found
    simulated = SecondOrderChain(LIKE_N10, NAMES).simulate(20_000, seed=3)
    return {"simulated": [str(state) for state in simulated]}


def draw(table: Any, title: str) -> None:
    """Write the figure, where figures can be drawn."""
    try:
        figure = draw_robustness(table, title)
    except NotSupported as refusal:
        print(f"  {refusal}")
        return
    Path("heart-robustness.png").write_bytes(figure_bytes(figure, "png"))


if __name__ == "__main__":
    main(full="--full" in sys.argv[1:])
