"""Audits by the dozen: how often they catch what is broken, and how often they cry wolf.

Every audit is determined by its case and seed, so a miss is repeated with `audited(case, seed)`.
"""

import dataclasses
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import undertow as ut
from undertow.auditing.auditor import Audit, audit
from undertow.certificate import Leakage

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("idle", "active"))
LAZY = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], length=40)
GRAIN = 2.0**-53


@dataclass(frozen=True)
class Case:
    """A plan on trial, by the name of what makes it, and how many draws it gets."""

    name: str
    draws: int
    broken: bool


CASES = {
    "count": Case("a count that leaks 1", 5000, False),
    "flips": Case("flips that leak 1", 5000, False),
    "flips 4": Case("flips that leak 4", 20_000, False),
    "xor": Case("XOR noise that leaks 1", 5000, False),
    "redaction": Case("a redaction that leaks 1", 5000, False),
    "count low": Case("a count with 30% too little noise, 1", 5000, True),
    "flips low": Case("flips 30% too low, 1", 5000, True),
    "plain": Case("plain DP sold as Bayesian DP, 1", 5000, True),
    "gaussian": Case("a Gaussian count that leaks 1 at delta 0.01", 20_000, False),
    "gaussian high": Case("30% more noise than that", 20_000, False),
    "gaussian low": Case("30% less noise than that", 20_000, True),
    "releases": Case("four Gaussian counts, 1 at delta 0.01", 5000, False),
    "even noise": Case("a count with even noise, 1", 2000, True),
    "shared coins": Case("flips with a coin for two neighbours, 4", 2000, True),
    "first record": Case("a count in which the first record counts ten times, 1", 5000, True),
    "any record": Case("a count in which some record counts ten times, 1", 5000, True),
    "two records": Case("a count with ten more where two records differ, 1", 5000, True),
    "pairs of calls": Case("a count with the same noise in calls 2k and 2k + 1, 1", 5000, True),
    "late noise": Case("a count whose noise returns after 100 calls, 1", 5000, True),
    "far coins": Case("flips with a coin for two records 15 apart, 4", 5000, True),
    "same flips": Case("flips with the same coins for two series, 4", 5000, True),
    "theorem 1": Case("the Theorem-1 mechanism against any, 4", 5_000_000, True),
}


@cache
def plan(case: str) -> Any:
    """Return the plan of a case."""
    calibrate: Any = ut.calibrate
    counted, series = ut.Count("active"), ut.Series()
    if case in ("count", "count low", "plain"):
        found = calibrate(counted, ACTIVITY, limit=1.0)
        factor = {"count": 1.0, "count low": 0.7, "plain": 1.0 / found.mechanism.scale}[case]
        return _with(found, ut.DiscreteLaplace(counted, factor * found.mechanism.scale))
    if case.startswith(("gaussian", "releases")):
        return _approximate(case)
    if case in ("even noise", *_COUNTS):
        return plan("count")
    if case in ("shared coins", *_FLIPS):
        return plan("flips 4")
    if case == "redaction":
        visits = ut.MarkovChain([[0.99, 0.01], [0.8, 0.2]])
        return calibrate(ut.Redacted(protect=4, length=11), visits, limit=1.0)
    if case == "xor":
        return calibrate(series, LAZY, limit=1.0, method="xor")
    if case == "theorem 1":
        return calibrate(series, LAZY, limit=4.0, method="chakrabarti")
    found = calibrate(series, LAZY, limit=4.0 if case == "flips 4" else 1.0)
    if case != "flips low":
        return found
    rates = (0.7 * found.mechanism.matrix[[0, 1], [1, 0]] / GRAIN).round() * GRAIN
    return _with(found, ut.RandomizedResponse.binary(*rates))


def _approximate(case: str) -> Any:
    """Return Gaussian noise as it is sold; sigma 6.8649 leaks 1 at delta 0.01."""
    factor = {"gaussian high": 1.3, "gaussian low": 0.7, "releases": 2.0}.get(case, 1.0)
    claim = Leakage(1.0, 1.0, "as sold", "any", delta=0.01)
    noise = ut.Gaussian(ut.Count("active"), factor * 6.8649)
    releases = 4 if case == "releases" else 1
    return ut.Plan(noise, ACTIVITY, 1.0, claim, "exact", delta=0.01, releases=releases)


def code(case: str, seed: int) -> Any:
    """Return the code on trial, None where it is that of a release."""
    draw, mechanism = np.random.default_rng(seed), plan(case).mechanism
    if case == "even noise":
        rate = -np.expm1(-2 / mechanism.scale)

        def answer(series: Any) -> Any:
            one, two = draw.geometric(rate, (2, len(series)))
            return series.sum(axis=1) + 2 * (one - two)

        return answer
    if case == "shared coins":
        first = mechanism.matrix[0, 1]

        def flip(series: Any) -> Any:
            coins = draw.random((len(series), series.shape[1] // 2 + 1)) < first
            return series ^ coins.repeat(2, axis=1)[:, : series.shape[1]]

        return flip
    if case in _COUNTS:
        return _COUNTS[case](draw, mechanism.scale)
    if case in _FLIPS:
        return _FLIPS[case](draw, mechanism.matrix[0, 1])
    return None


def noise(draw: Any, size: Any, scale: float) -> Any:
    """Return discrete Laplace noise."""
    one, two = draw.geometric(-np.expm1(-1 / scale), (2, size))
    return one - two


def weighing(record: int | None, weight: int = 10) -> Any:
    """Return counts in which one record counts so many times; None: one of the first 40."""

    def code(draw: Any, scale: float) -> Any:
        place = int(draw.integers(40)) if record is None else record

        def run(series: Any) -> Any:
            extra = (weight - 1) * series[:, place].astype(int)
            return series.sum(axis=1) + extra + noise(draw, len(series), scale)

        return run

    return code


def interacting(draw: Any, scale: float) -> Any:
    """Return counts with ten more where two records differ."""
    one, two = draw.choice(40, 2, replace=False)

    def run(series: Any) -> Any:
        apart = 10 * (series[:, one] != series[:, two])
        return series.sum(axis=1) + apart + noise(draw, len(series), scale)

    return run


def repeating(times: int) -> Any:
    """Return counts in which so many calls in a row have the same noise, across batches too."""

    def code(draw: Any, scale: float) -> Any:
        left: list[int] = []

        def run(series: Any) -> Any:
            while len(left) < len(series):
                left.extend(noise(draw, 5000, scale).repeat(times).tolist())
            found = np.array(left[: len(series)])
            del left[: len(series)]
            return series.sum(axis=1) + found

        return run

    return code


def returning(period: int) -> Any:
    """Return counts whose noise is the same after so many calls."""

    def code(draw: Any, scale: float) -> Any:
        kept, seen = noise(draw, period, scale), [0]

        def run(series: Any) -> Any:
            places = (seen[0] + np.arange(len(series))) % period
            seen[0] += len(series)
            return series.sum(axis=1) + kept[places]

        return run

    return code


def distant(apart: int) -> Any:
    """Return flips with one coin for two records so many steps apart."""

    def code(draw: Any, rate: float) -> Any:
        def run(series: Any) -> Any:
            places = np.arange(series.shape[1])
            first = places - np.where(places // apart % 2, apart, 0)
            return (series ^ (draw.random(series.shape) < rate)[:, first]).astype(np.uint8)

        return run

    return code


def same_flips(draw: Any, rate: float) -> Any:
    """Return flips with the same coins for two series in a row."""

    def run(series: Any) -> Any:
        coins = draw.random((len(series) // 2 + 1, series.shape[1])) < rate
        return (series ^ coins.repeat(2, axis=0)[: len(series)]).astype(np.uint8)

    return run


_COUNTS = {
    "first record": weighing(0), "any record": weighing(None), "two records": interacting,
    "pairs of calls": repeating(2), "late noise": returning(100),
}  # fmt: skip
_FLIPS = {"far coins": distant(15), "same flips": same_flips}


def _with(found: Any, mechanism: Any) -> Any:
    return dataclasses.replace(found, mechanism=mechanism)


def audited(case: str, seed: int, draws: int | None = None) -> Audit:
    """Return one audit of a case."""
    mechanism = code(case, seed)
    return audit(plan(case), draws or CASES[case].draws, seed=seed, mechanism=mechanism)


@dataclass
class Verdicts:
    """What some audits of a case said."""

    case: str
    runs: int = 0
    refuted: int = 0
    seconds: float = 0.0
    largest: float = 0.0

    def row(self) -> str:
        """Return a line of the table."""
        about = CASES[self.case]
        return (
            f"| {about.name} | {about.draws:,} | {self.runs} | {self.refuted} | "
            f"{self.largest:.4f} | {self.seconds / max(self.runs, 1):.2f} s |"
        )


def run_audits(case: str, runs: int, seconds: float = 1e9, draws: int | None = None) -> Verdicts:
    """Return the verdicts of seeded audits, as many as asked for or fit into the time."""
    found, began = Verdicts(case), time.monotonic()
    for seed in range(runs):
        one = audited(case, seed, draws)
        found.runs += 1
        found.refuted += one.refuted
        found.largest = max(found.largest, one.lower)
        found.seconds = time.monotonic() - began
        if found.seconds > seconds:
            break
    return found
