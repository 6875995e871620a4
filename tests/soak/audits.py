"""Audits by the dozen: how often they catch what is broken, and how often they cry wolf.

Every audit is determined by its case and seed, so a miss is repeated with `audited(case, seed)`.
"""

import dataclasses
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import undertow as ut
from undertow.auditing.auditor import Audit, audit

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


def _with(found: Any, mechanism: Any) -> Any:
    return dataclasses.replace(found, mechanism=mechanism)


def audited(case: str, seed: int, draws: int | None = None) -> Audit:
    """Return one audit of a case."""
    return audit(plan(case), draws or CASES[case].draws, seed=seed)


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
