"""The mechanisms of [wang2016] on two data sets: sleep stages and household power."""

import csv
import gzip
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

import undertow as ut
from undertow.certificate import Leakage
from undertow.errors import NotSupported
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Compared, Finding, Improved, Listing, Origin, Parts
from undertow_papers.registry import Setting, result

__all__ = ["Utility", "count_table", "histogram_table", "power", "sleep"]

STAGES = ("W", "N1", "N2", "N3", "REM")
WAKE = 60
"""Epochs of wake kept on either side of sleep: half an hour."""

SLEEP = ((3384, 229, 7, 1, 15), (92, 1095, 407, 1, 94), (91, 208, 8072, 411, 135),
         (14, 19, 374, 2658, 2), (53, 130, 59, 1, 3436))  # fmt: skip
"""Counted steps between stages; the stand-in is drawn from their chain."""

POWER = ((0.762, 0.142, 0.086, 0.010), (0.357, 0.307, 0.245, 0.091), (0.121, 0.163, 0.546, 0.170),
         (0.015, 0.062, 0.379, 0.544))  # fmt: skip
LEVELS = ("low", "middle", "high", "peak")
CUTS = (0.5, 1.0, 2.0)
"""Kilowatt-hours in an hour that part the four levels."""

METHODS = ("exchange", "quilt", "quilt-approx", "group", "dependent", "lange", "zhao",
           "zhao-multistep")  # fmt: skip
"""What a histogram can be released by; the Wasserstein distance is that of single numbers."""

COUNTED = ("exact", "exchange", "quilt", "quilt-approx", "wasserstein", "group")


@dataclass(frozen=True, slots=True)
class Utility:
    """A utility table, what follows from it, and the best scale and error by epsilon."""

    findings: tuple[Finding, ...]
    table: Listing
    errors: dict[str, tuple[float, ...]]
    noise: dict[float, tuple[float, float]]


def histogram_table(
    title: str, chain: ut.MarkovChain, records: int, epsilons: Sequence[float]
) -> Utility:
    """Return the noise for a histogram by every method, and the L1 error of the frequencies.

    The published quilts protect from an attacker who knows no other record, the exchange rate from
    any; so its noise would do for the former too. Plain noise and what it leaks stand beside them.
    """
    query, rows = ut.Histogram(), []
    findings: list[Finding] = []
    errors: dict[str, list[float]] = {}
    noise: dict[float, tuple[float, float]] = {}
    for epsilon in epsilons:
        plain = ut.Laplace(query, 2 / epsilon)
        leak = ut.leakage(plain, chain)
        findings.append(
            Claim(f"plain noise at epsilon {epsilon:g} is not enough: it leaks", leak.lower,
                  epsilon, relation=">=")
        )  # fmt: skip
        error = plain.expected_error()
        rows.append(_row(epsilon, "plain", plain.scale, error, leak, chain, records,
                         "nobody"))  # fmt: skip
        scales = {}
        for who in ("any", "ignorant"):
            names = METHODS if who == "any" else ("quilt",)
            for row in ut.compare(query, chain, epsilon, who, methods=names):
                if row.scale is None or row.expected_error is None:
                    rows.append((f"{epsilon:g}", row.method, str(row.protects),
                                 *("-" for _ in range(3)), "no answer"))  # fmt: skip
                    continue
                scales[row.method, row.protects] = row.scale
                rows.append(_row(epsilon, row.method, row.scale, row.expected_error, row.leakage,
                                 chain, records, str(row.protects)))  # fmt: skip
                if row.method == "exchange":
                    noise[epsilon] = row.scale, row.expected_error
                if row.protects == "ignorant" or row.method == "exchange":
                    error = len(chain.states) * row.expected_error / records
                    errors.setdefault(row.method, []).append(error)
        best = scales["exchange", "any"]
        findings += [
            Improved(f"noise at epsilon {epsilon:g}: exchange, any attacker, against {name}",
                     best, scales[name, "ignorant"])
            for name in ("quilt", "quilt-approx")
        ]  # fmt: skip
        findings.append(
            Improved(f"noise at epsilon {epsilon:g}, any attacker: exchange against group",
                     scales["exchange", "any"], scales["group", "any"])
        )  # fmt: skip
    head = ("epsilon", "method", "protects", "scale", "error of a bin", "L1 error", "leaks")
    return Utility(
        tuple(findings), Listing(title, head, tuple(rows)),
        {name: tuple(values) for name, values in errors.items()}, noise,
    )  # fmt: skip


def _row(
    epsilon: float, method: str, scale: float, error: float, leak: Leakage | None,
    chain: ut.MarkovChain, records: int, protects: str,
) -> tuple[str, ...]:  # fmt: skip
    """Return one line of a utility table as text."""
    leak_words = "?" if leak is None else f"{leak.upper:.4f}"
    joined = len(chain.states) * error / records
    return (
        f"{epsilon:g}",
        method,
        protects,
        f"{scale:.3f}",
        f"{error:.3f}",
        f"{joined:.5f}",
        leak_words,
    )


def count_table(
    title: str, chain: ut.MarkovChain, state: str, epsilon: float, who: Literal["any", "ignorant"]
) -> Utility:
    """Return the noise for a count of one state by every method that hides it from ``who``."""
    rows, scales = [], dict[str, float]()
    for name in COUNTED:
        try:
            plan = ut.calibrate(ut.Count(state), chain, epsilon, who, method=name)
        except NotSupported:
            rows.append((f"{epsilon:g}", name, who, "-", "-", "no answer"))
            continue
        scales[name] = plan.noise.amount
        rows.append((f"{epsilon:g}", name, who, f"{plan.noise.amount:.3f}",
                     f"{plan.expected_error:.3f}", f"{plan.leakage.upper:.4f}"))  # fmt: skip
    findings = tuple(
        Improved(f"count of {state}, epsilon {epsilon:g}, {who}: exact against {name}",
                 scales["exact"], scale)
        for name, scale in scales.items() if name not in ("exact", "exchange")
    )  # fmt: skip
    head = ("epsilon", "method", "protects", "scale", "error", "proved leakage")
    return Utility(findings, Listing(title, head, tuple(rows)), {}, {})


def _release(
    scale: float, error: float, counts: Sequence[int], epsilon: float, setting: Setting
) -> Compared:
    """Return the mean L1 error of drawn releases beside its expectation, within 4 deviations."""
    rng, repeats = np.random.default_rng(setting.seed), 400
    decay = np.exp(-1 / scale)  # the noise of the plan: a difference of two geometrics
    shape = (repeats, len(counts))
    noise = rng.geometric(1 - decay, shape) - rng.geometric(1 - decay, shape)
    total = sum(counts)
    errors = np.abs(noise).sum(axis=1) / total
    expected = len(counts) * error / total
    deviation = float(np.std(errors)) / repeats**0.5
    name = f"mean L1 error of {repeats} drawn releases, epsilon {epsilon:g}"
    return Compared(name, float(errors.mean()), expected, 4 * deviation, "derived")


def _chart(name: str, title: str, epsilons: Sequence[float], utility: Utility) -> Chart:
    """Return the errors by epsilon, on the axes of Figure 2 but for a logarithmic scale."""
    logs = tuple(float(np.log(epsilon)) for epsilon in epsilons)
    lines = tuple(
        Trace(method, logs, values, "ours" if method == "exchange" else "theirs")
        for method, values in utility.errors.items()
    )
    panel = Panel(title, "log(epsilon)", "L1 error", lines,
                  scale=("linear", "log"))  # fmt: skip
    return Chart(name, title, (panel,))


@result("wang2016", "data:sleep", "Histogram of five sleep stages")
def sleep(setting: Setting) -> Parts:
    """Release the histogram of sleep stages: a chain of five states, one record every 30 s."""
    path = setting.file("sleep", "sleep_edf_hypnograms.csv.gz")
    if path is None:
        rows = np.array(SLEEP) / np.sum(SLEEP, axis=1, keepdims=True)
        truth = ut.MarkovChain(rows, STAGES, length=1273)
        nights = [truth.simulate(1052, seed=setting.seed + night) for night in range(20)]
    else:
        nights = read_nights(path)
    counts = () if setting.quick else ("REM",)  # a minute of computing
    return _histograms("sleep", nights, STAGES, setting, path is not None, counts)


@result("wang2016", "data:power", "Histogram of four levels of household power")
def power(setting: Setting) -> Parts:
    """Release the histogram of hourly power in four levels, missing hours left out."""
    path = setting.file("power", "uci_household_hourly.csv.gz")
    if path is None:
        truth = ut.MarkovChain(
            np.array(POWER) / np.sum(POWER, axis=1, keepdims=True), LEVELS, length=34168
        )
        hours = [truth.simulate(34168, seed=setting.seed)]
    else:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            texts = [row["kwh"] for row in csv.DictReader(file)]
        values = [float(text) for text in texts if text not in ("", "NA")]
        hours = [[
            None if value == 0 else LEVELS[int(np.searchsorted(CUTS, value, side="right"))]
            for value in values
        ]]  # fmt: skip
    return _histograms("power", hours, LEVELS, setting, path is not None, ("peak",))


def _histograms(
    name: str, series: Sequence[Sequence[Hashable]], states: tuple[str, ...], setting: Setting,
    real: bool, counted: tuple[str, ...],
) -> Parts:  # fmt: skip
    """Return the table, the chart and the findings of one data set."""
    longest = max(len(one) for one in series)
    fitted = ut.MarkovChain.fit(series, states, length=longest, prior=0.0, public=True)
    chain = ut.MarkovChain(fitted.transition, states, length=longest)
    counts = [sum(record == state for one in series for record in one) for state in states]
    epsilons = (1.0,) if setting.quick else (0.5, 1.0, 2.0, 4.0)
    utility = histogram_table(f"Histogram, {name}", chain, sum(counts), epsilons)
    if not setting.quick:
        yield _chart(f"wang2016-{name}", f"Error of a histogram: {name}", epsilons, utility)
    yield (f"{len(series)} series, the longest of {longest} records, {sum(counts)} in all; the "
           "chain is fitted to the same data, which a private release may not do.")  # fmt: skip
    yield "The paper has no such experiment: the noise is that of its Algorithms 1-3."
    if len(series) > 1:
        yield "Nights count as independent, two nights of one sleeper too."
    yield from utility.findings
    yield _release(*utility.noise[1.0], counts, 1.0, setting)
    yield utility.table
    for state in counted:
        number = count_table(f"Count of {state}, {name}", chain, state, 1.0, "ignorant")
        yield from number.findings
        yield number.table
    yield Origin(real)


def read_nights(path: Path) -> list[list[Hashable]]:
    """Return the stages of each night: 3 and 4 as N3, unscored epochs missing, wake trimmed.

    Half an hour of wake is kept on either side of sleep.
    """
    names = {"W": "W", "1": "N1", "2": "N2", "3": "N3", "4": "N3", "R": "REM"}
    nights: dict[str, list[Hashable]] = {}
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            nights.setdefault(row["record"], []).append(names.get(row["stage"]))
    kept = []
    for stages in nights.values():
        asleep = [place for place, stage in enumerate(stages) if stage not in (None, "W")]
        kept.append(stages[max(0, asleep[0] - WAKE) : asleep[-1] + WAKE + 1])
    return kept
