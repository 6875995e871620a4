"""Section 8.4.3 of lange2024: counts of active intervals, by day and in all."""

import math
from itertools import pairwise

import numpy as np

import undertow as ut
from undertow.bounds.published import lange_constant, zhao_constant
from undertow.numerics import Array
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Compared, Improved, Origin, Parts
from undertow_papers.lange2024.common import (
    ACTIVITY,
    KEY,
    plain_noise,
    shown_values,
    utility_table,
)
from undertow_papers.lange2024.samples import activity
from undertow_papers.registry import Setting, result

__all__ = ["activity_data", "fig19a", "fig19b"]

_ACTIVE = ut.Count(1)
_OBSERVED = 15_264
"""Intervals with a measurement: 53 days of 288."""


@result(KEY, "fig19a", "Error of counts of active intervals, single days")
def fig19a(setting: Setting) -> Parts:
    """Recompute the MSE of the three bounds at n = 288, beside exact noise."""
    return _figure("fig19a", "One day of 288 intervals", 288)


@result(KEY, "fig19b", "Error of counts of active intervals, all days")
def fig19b(setting: Setting) -> Parts:
    """Recompute the MSE of the three bounds for the whole series, beside exact noise."""
    return _figure("fig19b", f"All {_OBSERVED:,} observed intervals", _OBSERVED)


def _figure(name: str, title: str, length: int) -> Parts:
    """Return MSE by epsilon: general, published and exact, on the printed chain."""
    given = shown_values("activity")
    chain = ut.MarkovChain(ACTIVITY, length=length)
    lange, zhao = lange_constant(chain), zhao_constant(chain)
    epsilons = tuple(float(value) for value in range(1, 21))
    exact = tuple(ut.calibrate(_ACTIVE, chain, e).variance for e in epsilons)
    plain = tuple(plain_noise(_ACTIVE, e, length).variance() for e in epsilons)
    general = tuple(2 * (length / e) ** 2 for e in epsilons)
    lines = [
        Trace("general bound", epsilons, general, "theirs"),
        _shifted("Markov chain bound", epsilons, lange),
        _shifted("Zhao", epsilons, zhao),
        Trace("exact", epsilons, exact),
        Trace("plain DP (too little)", epsilons, plain, "bound"),
    ]
    error = given["reading_error_constant"]
    first = [math.floor(constant) + 1.0 for constant in (lange, zhao)]
    yield Compared("constant of the Markov chain bound", lange, given["lange"], error)
    yield Compared("constant of Zhao", zhao, given["zhao"], error)
    yield Compared("first whole epsilon with a chain bound", first[0], given["first_epsilon_lange"],
                   0.0)  # fmt: skip
    yield Compared("first whole epsilon with Zhao", first[1], given["first_epsilon_zhao"], 0.0)
    yield Claim("MSE of the chain bound at epsilon 9 against the general one", 2 / (9 - lange) ** 2,
                general[8])  # fmt: skip
    yield Improved("MSE against the general bound, epsilon 1", exact[0], general[0])
    yield Improved("MSE against the chain bound, epsilon 9", exact[8], 2 / (9 - lange) ** 2)
    yield Improved("MSE against Zhao, epsilon 11", exact[10], 2 / (11 - zhao) ** 2)
    panel = Panel("", "epsilon", "mean squared error", tuple(lines), ("linear", "log"), (0.0, 20.0))
    yield "The MSE follows from the noise: 2 b^2 for Laplace noise of scale b."
    if length != given["per_day"]:
        yield (f"Drawn for the {length:,} observed intervals: the printed length "
               f"{given['records']:,} counts the days without measurements too, see "
               "data:activity.")  # fmt: skip
    caption = "Published bounds begin where their constant ends; exact noise is there for all."
    yield Chart(name, title, (panel,), caption)


def _shifted(name: str, epsilons: tuple[float, ...], constant: float) -> Trace:
    """Return the MSE of the level epsilon - constant, where it is positive."""
    inside = tuple(e for e in epsilons if e > constant)
    return Trace(name, inside, tuple(2 / (e - constant) ** 2 for e in inside), "theirs")


@result(KEY, "data:activity", "53 observed days of five-minute intervals")
def activity_data(setting: Setting) -> Parts:
    """Fit the chain, check the printed lengths, and compare all methods by day and in all."""
    given = shown_values("activity")
    sample = activity(setting)
    seen = sample.observed
    matrix = _shares(seen)
    chain = ut.MarkovChain(matrix, length=len(seen))
    day = ut.MarkovChain(matrix, length=sample.per_day)
    if sample.real:
        error = given["reading_error_probability"]
        missing = "eight days have no measurement; the printed probabilities, the 4,250 active "
        missing += "intervals and the 80 a day are those of the 53 others"
        filled = _shares([state or 0 for state in sample.states])
        yield Compared("P(inactive -> active), observed rows", float(matrix[0, 1]),
                       given["inactive_to_active"], error)  # fmt: skip
        yield Compared("P(active -> inactive), observed rows", float(matrix[1, 0]),
                       given["active_to_inactive"], error)  # fmt: skip
        yield Compared("active intervals", float(sum(seen)), given["active"], 0.0)
        yield Compared("active intervals per observed day",
                       float(np.mean([sum(states) for states in sample.days])),
                       given["mean_per_day"], given["reading_error_mean"])  # fmt: skip
        yield Compared("rows of the file", float(len(sample.states)), given["records"], 0.0)
        yield Compared("length of the chain with these probabilities", float(len(seen)),
                       given["records"], 0.0, wrong=missing)  # fmt: skip
        yield Compared("P(inactive -> active) if all 17,568 rows count, missing ones as inactive",
                       float(filled[0, 1]), given["inactive_to_active"], error,
                       wrong="with all rows the probability is another one: the printed length "
                       "does not belong to the printed probabilities")  # fmt: skip
        yield Compared("days with data", float(len(sample.days)), given["days"], 0.0, wrong=missing)
    for name, model in (("all days", chain), ("one day", day)):
        for epsilon in (1.0, 9.0):
            ours = ut.calibrate(_ACTIVE, model, epsilon)
            length = float(model.length or 0)
            theirs = length / epsilon
            if epsilon > lange_constant(model):
                theirs = min(theirs, 1 / (epsilon - lange_constant(model)))
            yield Improved(f"scale against the better published bound, {name}, epsilon {epsilon:g}",
                           ours.mechanism.scale, theirs)  # fmt: skip
            yield Claim(f"leakage of our noise, {name}, epsilon {epsilon:g}", ours.leakage.upper,
                        epsilon)  # fmt: skip
    plain = ut.leakage(plain_noise(_ACTIVE, 1.0, chain.length), chain)
    yield (f"Plain DP at epsilon 1 leaks {plain.upper:.4f}; {sum(seen):,} of {len(seen):,} "
           "intervals are active.")  # fmt: skip
    yield ("MQM is shown against any adversary; Wasserstein and the approximate MQM protect only "
           "against one who knows nothing.")  # fmt: skip
    yield utility_table(f"Activity, {len(seen):,} intervals: count of active ones", _ACTIVE, chain,
                        (1.0, 9.0, 12.0))  # fmt: skip
    yield utility_table("Activity, a day of 288 intervals: count of active ones", _ACTIVE, day,
                        (1.0, 9.0, 12.0))  # fmt: skip
    yield Origin(sample.real)


def _shares(states: "tuple[int, ...] | list[int]") -> Array:
    """Return the observed shares of each step."""
    counts = np.zeros((2, 2))
    for before, after in pairwise(states):
        counts[before, after] += 1
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))
