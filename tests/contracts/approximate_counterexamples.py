"""Statements about approximate leakage that sound true and are not, each with its numbers.

Every function computes one counterexample from the oracle and returns its numbers; tests hold them
against the theory, pages may print them.
"""

import math
from typing import Any, NamedTuple

import mpmath  # type: ignore[import-untyped]
import numpy as np
from scipy.optimize import brentq, linprog
from scipy.special import ndtri

from tests.contracts.approximate_oracle import (
    Adversary,
    Channel,
    Floats,
    discrete_gaussian_pmf,
    gaussian_count_delta,
    joint_delta_any,
    joint_law,
    possible,
    pure_rate,
    worst_delta,
)

ACTIVITY = np.array([[0.882, 0.118], [0.305, 0.695]])
ACTIVITY_START = np.array([305, 118]) / 423

PAIR_LAW = np.array([[3, 0], [5, 1]]) / 9
PAIR_ANSWER = np.array([[0.2, 0.8], [1.0, 0.0], [0.8, 0.2], [0.9, 0.1]])  # 01 is impossible
"""Two records and a mechanism with two answers: `theory` of composition, Pr[1] = .8, .2, .1."""

Side = int | tuple[int, int]
"""One side of a target: so many unknown records up to the end, or (distance, value) of a known."""


# --- counts of long windows -----------------------------------------------------------------------


def side_counts(x: int, side: Side, transition: Floats = ACTIVITY) -> Floats:
    """The law of the number of ones among the unknown records of a side, next to a record x.

    The chain is followed outwards from x: left of it this needs a reversible chain, such as every
    stationary one with two states.
    """
    unknown, known = (side, None) if isinstance(side, int) else (side[0] - 1, side[1])
    law = np.zeros((len(transition), unknown + 1))  # last state x number of ones
    law[x, 0] = 1.0
    for _ in range(unknown):
        law = transition.T @ law
        law[1] = np.roll(law[1], 1)
    counts: Floats = law.sum(axis=0) if known is None else transition[:, known] @ law
    return counts / counts.sum()


def window_counts(left: Side, right: Side, transition: Floats = ACTIVITY) -> tuple[Floats, Floats]:
    """The laws of the count of a window given that its target is 0, and that it is 1."""
    sides = [
        np.convolve(side_counts(x, left, transition), side_counts(x, right, transition))
        for x in (0, 1)
    ]
    return np.array([*sides[0], 0.0]), np.array([0.0, *sides[1]])


def window_delta(left: Side, right: Side, sigma: float, epsilon: float) -> float:
    """The larger H of both pairs for a count plus N(0, sigma^2) on a window of the chain."""
    zero, one = window_counts(left, right)
    return max(
        gaussian_count_delta(law_a, law_b, sigma, epsilon, mpmath.fp)
        for law_a, law_b in ((zero, one), (one, zero))
    )


# --- composition ----------------------------------------------------------------------------------


class Twice(NamedTuple):
    """A number for one release, and for two independent ones."""

    once: float
    twice: float


def leakages_do_not_add(epsilon: float = 1.4733) -> Twice:
    """delta at epsilon of one answer, and at 2 epsilon of two: 4.6e-6 becomes .0746."""
    answer = Channel(PAIR_ANSWER)
    once, _ = joint_delta_any(PAIR_LAW, [answer], epsilon)
    twice, _ = joint_delta_any(PAIR_LAW, [answer, answer], 2 * epsilon)
    return Twice(once, twice)


def renyi_leakages_do_not_add(order: float) -> Twice:
    """The largest Renyi divergence of one answer and of two: more than twice as large."""
    two = (PAIR_ANSWER[:, :, None] * PAIR_ANSWER[:, None, :]).reshape(4, -1)

    def largest(table: Floats) -> float:
        outputs = [(p.ravel() @ table, q.ravel() @ table) for _, (p, q) in possible(PAIR_LAW)]
        return max(math.log((p**order * q ** (1 - order)).sum()) / (order - 1) for p, q in outputs)

    return Twice(largest(PAIR_ANSWER), largest(two))


class Silent(NamedTuple):
    """delta of an exact count of many records, with no noise at all, against the ignorant."""

    delta: float
    together: float  # with the count of all the others: the record itself


def exact_count_looks_private(n: int, epsilon: float) -> Silent:
    """An exact count hides a middle record behind all others; two such counts show it."""
    zero, one = window_counts(n // 2, n - 1 - n // 2)
    factor = math.exp(epsilon)
    delta = max(np.maximum(p - factor * q, 0).sum() for p, q in ((zero, one), (one, zero)))
    law = joint_law(ACTIVITY, ACTIVITY_START, 5)
    series = np.indices(law.shape).reshape(5, -1)
    counts = [series.sum(axis=0), series[[0, 1, 3, 4]].sum(axis=0)]
    answers = [Channel(np.eye(6)[count]) for count in counts]
    return Silent(float(delta), joint_delta_any(law, answers, epsilon, "ignorant")[0])


# --- exchange -------------------------------------------------------------------------------------


class Grown(NamedTuple):
    """What becomes of (e0, d0): the pure leakage, and delta at it in units of d0."""

    leakage: float
    factor: float


def delta_grows(e0: float = 1.0, d0: float = 1e-6) -> Grown:
    """Two records of the activity chain: (1, d0) leaks (1.6012036, 2.304044 d0), not d0."""
    law_a, law_b = _laws(joint_law(ACTIVITY, ACTIVITY_START, 2), 0, 1, 0)
    leakage = pure_rate(law_a, law_b, (2, 2), e0)
    return Grown(leakage, worst_delta(law_a, law_b, (2, 2), [(e0, d0)], leakage) / d0)


def delta_grows_faster_than_records(e0: float = 1.0, d0: float = 1e-6) -> Grown:
    """Two equal records: (2 e0, (1 + e^e0) d0), which is more than (2 e0, 2 d0)."""
    law_a, law_b = _laws(np.eye(2) / 2, 0, 1, 0)
    leakage = pure_rate(law_a, law_b, (2, 2), e0)
    return Grown(leakage, worst_delta(law_a, law_b, (2, 2), [(e0, d0)], leakage) / d0)


class Relaxed(NamedTuple):
    """epsilon of all e0-DP algorithms at delta 0, and at a positive delta."""

    pure: float
    relaxed: float


def delta_does_not_rescue(e0: float, delta: float = 1e-6, n: int = 5) -> Relaxed:
    """Middle record, nothing known: a delta of 1e-6 lowers epsilon by less than 0.05%."""
    law_a, law_b = _laws(joint_law(ACTIVITY, ACTIVITY_START, n), n // 2, 1, 0)
    pure = pure_rate(law_a, law_b, law_a.shape, e0)
    relaxed = brentq(
        lambda epsilon: worst_delta(law_a, law_b, law_a.shape, [(e0, 0.0)], epsilon) - delta,
        0.9 * pure,
        pure,
        xtol=1e-9,
    )
    return Relaxed(pure, float(relaxed))


def add_or_remove(e: float, d: float) -> tuple[float, float]:
    """delta at 2 e of a test that is (e, d) for one record added or removed; and 2 d.

    The test says 0 of a data set, d without one record, d + e^e d with another in its place.
    """
    test = [0.0, d, d + math.exp(e) * d]
    return test[2] - math.exp(2 * e) * test[0], 2 * d


# --- windows, sides and orders --------------------------------------------------------------------


def windows_are_not_monotone() -> dict[str, dict[str, float]]:
    """delta of a noisy count at the noise of section 7, for what is known on both sides.

    At (1, 1e-6) a known 1 at distance 10 is worse than nothing known of any length; at (2, 1e-6)
    nothing known in 15 records is worst; at (4, 1e-6) a 0 at distance 5 is worse than further off.
    """
    sides: dict[str, Side] = {"open 7": 7, "open 20": 20}
    sides |= {f"{v} at {c}": (c, v) for v, c in ((0, 5), (0, 10), (1, 5), (1, 10), (1, 15))}
    noise = {"1": (16.50010579, 1.0), "2": (8.20789633, 2.0), "4": (3.43004879, 4.0)}
    return {
        label: {name: window_delta(side, side, *at) for name, side in sides.items()}
        for label, at in noise.items()
    }


class Bound(NamedTuple):
    """The exact worst case and an upper bound that is not attained."""

    exact: float
    bound: float


def sides_do_not_compose(flip: float = 0.1, e0: float = 0.5, d0: float = 0.1) -> Bound:
    """Three records, the middle one the target: composing the sides' curves loses 31%.

    The bound keeps, of the smoothness along the left record, only that of the right side's mean.
    """
    epsilon, stay = 2.4727, 1 - flip
    law = joint_law([[stay, flip], [flip, stay]], [0.5, 0.5], 3)
    law_a, law_b = _laws(law, 1, 1, 0)
    exact = worst_delta(law_a, law_b, law.shape, [(e0, d0)], epsilon)
    unit = np.eye(8).reshape(2, 2, 2, 8)  # left, target, right -> the test's entry
    inside = [
        (unit[x], unit[y], e0)
        for x in np.ndindex(2, 2, 2)
        for y in np.ndindex(2, 2, 2)
        if x[0] == y[0] and sum(u != v for u, v in zip(x, y, strict=True)) == 1
    ]
    mean = unit[:, 0, 0] * stay + unit[:, 0, 1] * flip  # given that the target is b = 0
    rows = [*inside, (mean[0], mean[1], e0), (mean[1], mean[0], e0)]
    return Bound(exact, _program_value(law_a, law_b, rows, d0, epsilon))


def records_do_not_commute(near: float, far: float, flip: float, epsilon: float) -> Bound:
    """Two records with pure levels of their own, the first the target: the sweep is above.

    The sweep asks that the test be smooth along the second record for one value of the first only.
    """
    law = joint_law([[1 - flip, flip], [flip, 1 - flip]], [0.5, 0.5], 2)
    law_a, law_b = _laws(law, 0, 1, 0)
    exact = worst_delta(law_a, law_b, (2, 2), {0: [(near, 0.0)], 1: [(far, 0.0)]}, epsilon)
    unit = np.eye(4).reshape(2, 2, 4)
    target = [(unit[x, z], unit[1 - x, z]) for x in (0, 1) for z in (0, 1)]
    other = [(unit[0, 0], unit[0, 1]), (unit[0, 1], unit[0, 0])]
    rows = [(u, v, near) for u, v in target] + [(u, v, far) for u, v in other]
    return Bound(exact, _program_value(law_a, law_b, rows, 0.0, epsilon))


def _program_value(law_a: Floats, law_b: Floats, rows: Any, d0: float, epsilon: float) -> float:
    """max E_a f - e^epsilon E_b f with u.f <= G_e(v.f) for some pairs of means u, v of f."""
    sides, right = [], []
    for u, v, e in rows:
        sides += [u - math.exp(e) * v, math.exp(e) * u - v]
        right += [d0, math.expm1(e) + d0]
    gain = law_a.ravel() - math.exp(epsilon) * law_b.ravel()
    found: Any = linprog(-gain, np.array(sides), np.array(right), bounds=(0, 1))
    return -float(found.fun)


# --- curves ---------------------------------------------------------------------------------------


def discrete_gaussian_shift(sigma: float) -> float:
    """sigma times the largest shift of a threshold test by a discrete Gaussian: more than 1."""
    reach = math.ceil(10 * sigma)
    above = np.cumsum(discrete_gaussian_pmf(sigma, reach)[::-1])  # Pr[Z >= reach], .. Pr[Z >= 0]
    return float(sigma * np.diff(ndtri(above[reach // 2 : reach + 2])).max())


def zcdp_curve(rho: float, u: float) -> float:
    """The largest p with D_a(Ber p || Ber u), D_a(Ber u || Ber p) <= a rho at every order a > 1."""
    orders = 1 + np.geomspace(1e-4, 1e5, 2000)

    def excess(p: float) -> float:
        logs = np.log([p, 1 - p]), np.log([u, 1 - u])
        pairs = (logs, logs[::-1])
        return max(
            float(
                np.max(
                    np.logaddexp(
                        *(orders * s + (1 - orders) * t for s, t in zip(x, y, strict=True))
                    )
                    / (orders - 1)
                    - orders * rho
                )
            )
            for x, y in pairs
        )

    low, high = u, 1 - 1e-15
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return low


def group_rule_loses(rho: float, u: float) -> tuple[float, float]:
    """What two changed records may do to a test that says u: by composition, and by 4 rho."""
    return zcdp_curve(rho, zcdp_curve(rho, u)), zcdp_curve(4 * rho, u)


def _laws(law: Floats, target: int, a: int, b: int) -> tuple[Floats, Floats]:
    laws = Adversary(target, (), a, b).laws(law)
    if laws is None:
        raise ValueError(f"the values {a} and {b} of record {target} are not both possible")
    return laws
