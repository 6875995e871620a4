"""Plans of the library for the cases of [massny2025], and random cases to try its claims on."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np

from undertow import MarkovChain, Plan, Redacted, Redaction, calibrate, leakage
from undertow.adversaries import Against
from undertow.bounds.channels.redaction import redaction_radius
from undertow.numerics import Array
from undertow_papers.massny2025.formulas import Setup

__all__ = [
    "PAPER",
    "ROUNDING",
    "Sign",
    "best_window",
    "chain_of",
    "draw_cases",
    "leak_of",
    "plan_of",
    "shown",
    "shown_share",
    "window_of",
]

PAPER = ("3r-relaxed", "3r-constant", "3r-individual")
"""The 3R mechanisms: the convex program, one probability by search, one for each record."""

ROUNDING = 1e-9
"""By how much an inequality may be missed before it counts as broken: floats, no more."""

Sign = Literal["positive", "negative", "either"]


def chain_of(case: Setup) -> MarkovChain:
    """Return the stationary chain of a case."""
    return MarkovChain(case.transition, length=case.n)


@lru_cache(maxsize=4096)
def plan_of(
    case: Setup, method: str = "optimal", against: Literal["any", "ignorant"] = "ignorant"
) -> Plan[Redaction]:
    """Return the library's plan for a case, by default against who knows no other record."""
    query = Redacted(protect=case.p - 1, length=case.n)
    return calibrate(query, chain_of(case), case.epsilon, against, method=method)


def shown(
    case: Setup, method: str = "optimal", against: Literal["any", "ignorant"] = "ignorant"
) -> float:
    """Return the utility of a plan, Definition 2.

    >>> round(shown(Setup(.01, .8, 10, 1, 1.0)), 6)
    0.79573
    """
    return float(plan_of(case, method, against).utility)


@lru_cache(maxsize=4096)
def best_window(case: Setup) -> tuple[int, int]:
    """Return the radii left and right of the private window that erases fewest records.

    >>> best_window(Setup(.2, .3, 12, 6, .911517454))
    (1, 2)
    """
    return redaction_radius(plan_of(case, "mq").mechanism)


def leak_of(case: Setup, mechanism: Redaction, against: Against = "ignorant") -> float:
    """Return the certified leakage of a redaction, its upper end."""
    return float(leakage(mechanism, chain_of(case), against).upper)


def shown_share(case: Setup, probabilities: Array) -> float:
    """Return the expected share of the records that are shown, Definition 2.

    ``probabilities`` are those of erasure, (records, states).
    """
    laws = chain_of(case).marginals(case.n)  # (records, states)
    return float((laws * (1 - probabilities)).sum() / case.n)


def window_of(case: Setup, left: int, right: int) -> Redaction:
    """Return the redaction that erases so many records on either side, and shows the rest."""
    table = np.zeros((case.n, 2))
    table[max(case.p - 1 - left, 0) : case.p + right] = 1.0
    return Redaction(table, case.p - 1)


def draw_cases(seed: int, count: int, sign: Sign = "either", shortest: int = 2) -> Iterator[Setup]:
    """Yield random cases: rates of .01 to .97, 2 to 15 records, epsilon .1 to 4.

    Every other pair of rates is drawn evenly, the others evenly on a log scale.

    >>> [case.n for case in draw_cases(1, 3)] == [case.n for case in draw_cases(1, 3)]
    True
    """
    rng = np.random.default_rng(seed)
    count_so_far = 0
    while count_so_far < count:
        rates = rng.uniform(0.01, 0.97, 2)
        if count_so_far % 2 and sign != "negative":
            rates = np.exp(rng.uniform(np.log(0.01), np.log(0.97), 2))
        alpha, beta = sorted(rates.tolist())
        n = int(rng.integers(shortest, 16))
        p = int(rng.integers(1, n // 2 + 1))
        epsilon = float(np.exp(rng.uniform(np.log(0.1), np.log(4.0))))
        if sign == "either" or (sign == "positive") == (alpha + beta <= 1):
            count_so_far += 1
            yield Setup(alpha, beta, n, p, epsilon)
