"""Chapter 4 of lange2024: arbitrary correlation, and what no algorithm can do."""

import itertools
import math

import numpy as np

import undertow as ut
from undertow.accuracy import accuracy
from undertow.numerics import Array
from undertow.testing.enumeration import mechanism_leakage, pure_dp_leakage
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.definitions import (
    failure_floor,
    free_lunch_law,
    free_lunch_level,
    group_accuracy,
    half_range_failure,
    impossible_alpha,
)
from undertow_papers.findings import Claim, Compared, Improved, Parts, WorstCase
from undertow_papers.lange2024.common import KEY, grid, shown_values
from undertow_papers.registry import Setting, result

__all__ = ["cor4_4", "cor4_7", "cor4_8", "fig3", "fig5", "thm4_2", "thm4_3", "thm4_5", "thm4_6"]

_EXACT = 1e-9
"""How far two computations of one number may differ: rounding only."""


@result(KEY, "thm4.2", "General bound: m dependent records leak at most m epsilon")
def thm4_2(setting: Setting) -> Parts:
    """Search random laws for the largest leakage of any epsilon-DP algorithm, over m epsilon."""
    generator = np.random.default_rng(setting.seed)
    for records, tries in ((2, 8), (3, 2)) if setting.quick else ((2, 60), (3, 12)):
        worst = WorstCase()
        for attempt, epsilon in itertools.product(range(tries), (0.5, 2.0)):
            law = generator.dirichlet(np.full(2**records, 0.3)).reshape((2,) * records)
            share = pure_dp_leakage(law, epsilon).leakage / (records * epsilon)
            worst.offer(share, 1.0, f"law {attempt}, epsilon {epsilon}")
        yield worst.claim(f"largest leakage / (m epsilon), {records} records", _EXACT)
    for records in (2, 3, 4):
        law = np.zeros((2,) * records)
        law[(0,) * records] = law[(1,) * records] = 0.5
        leaks = pure_dp_leakage(law, 1.0, (0, ())).leakage
        yield Compared(f"equal records, m = {records}, epsilon 1", leaks, float(records), 1e-6,
                       "derived")  # fmt: skip
    yield ("Every case is a linear program over all algorithms of the level; equal records attain "
           "it.")  # fmt: skip


@result(KEY, "thm4.3", "A correlation near zero leaks nearly 2 epsilon")
def thm4_3(setting: Setting) -> Parts:
    """Compare equation (51), 2 eps + ln (r^2 - 1) / (e^eps (r - 1) + r^2 - r), with the truth."""
    odds = (2.0, 10.0, 100.0, 1e4)
    for r in odds:
        formula = 2 + math.log((r * r - 1) / (math.e * (r - 1) + r * r - r))
        law = np.array([[1 / r**2, 0.0], [(r - 1) / r**2, (r - 1) / r]])  # Table 2, X1 by rows
        pair = ut.BayesianNetwork(
            [(1, 2)], {1: law.sum(axis=1), 2: law / law.sum(axis=1, keepdims=True)}
        )
        leak = ut.leakage(ut.PureDP(1.0), pair)
        yield Claim(f"leakage at r = {r:g}, epsilon 1", leak.lower, formula, _EXACT, ">=")
        yield Improved(f"lower bound at r = {r:g}", leak.lower, formula, larger_is_better=True)
        yield Compared(f"Pearson correlation at r = {r:g}", _pearson(law),
                       math.sqrt((r - 1) / (r * r - 1)), 1e-9, "derived")  # fmt: skip
    yield Claim("2 epsilon - leakage at r = 10000", 2 - leak.lower, 1e-3)
    yield Claim("its correlation", _pearson(law), 0.011)
    yield "The formula looks at one direction, X1 = 0 against 1; the other one leaks more."


def _pearson(law: Array) -> float:
    """Return the Pearson correlation of two bits with a joint law, equation (43)."""
    ones = law.sum(axis=1)[1], law.sum(axis=0)[1]
    spread = math.sqrt(ones[0] * (1 - ones[0]) * ones[1] * (1 - ones[1]))
    return float((law[1, 1] - ones[0] * ones[1]) / spread)


@result(KEY, "cor4.4", "Protection by groups multiplies the error by m")
def cor4_4(setting: Setting) -> Parts:
    """Compare m alpha with the error of the noise that `group` calibrates, Corollary 4.4."""
    for m, beta in itertools.product((2, 10, 288), (0.5, 0.05, 1e-6)):
        plain = accuracy(ut.Laplace(ut.Count(1), 1.0), beta)
        noise = ut.calibrate(ut.Count(1), ut.Groups(m), 1.0, method="group").mechanism
        wide = accuracy(ut.Laplace(ut.Count(1), noise.scale), beta)
        printed = group_accuracy(plain, m)
        yield Compared(f"alpha at m = {m}, beta = {beta:g}", wide, printed, 1e-6 * printed,
                       "derived")  # fmt: skip


@result(KEY, "fig3", "How often a count under arbitrary correlation errs by n / 2")
def fig3(setting: Setting) -> Parts:
    """Recompute Pr[error >= n / 2] = e^(-epsilon / 2) of the Laplace count at level epsilon / n."""
    given = shown_values("fig3")
    read = zip(given["epsilon"], given["beta"], given["reading_error"], strict=True)
    for epsilon, beta, error in read:
        yield Compared(f"beta at epsilon {epsilon:g}", half_range_failure(epsilon), beta, error)
        for n in (10, 1000):
            noise = ut.Laplace(ut.Count(1), n / epsilon)
            alpha = accuracy(noise, math.exp(-epsilon / 2))
            yield Compared(f"alpha of the count, n = {n}, epsilon {epsilon:g}", alpha, n / 2,
                           1e-9 * n, "derived")  # fmt: skip
    x = grid(0.01, 5.0, 200)
    lines = (
        Trace("Laplace noise", x, tuple(math.exp(-e / 2) for e in x), "theirs"),
        Trace("least possible (Thm 4.6)", x, tuple(failure_floor(e) for e in x), "bound"),
        Trace("printed", tuple(given["epsilon"]), tuple(given["beta"]), "points"),
    )
    panel = Panel("", "epsilon", "beta", lines, xlim=(0.0, 5.0), ylim=(0.0, 1.0))
    caption = "Error of half the range: Laplace noise, and the floor below which nothing can go."
    yield Chart("fig3", "Errors of half the range", (panel,), caption)


@result(KEY, "thm4.5", "One law turns Bayesian DP into free-lunch privacy")
def thm4_5(setting: Setting) -> Parts:
    """Compare the leakage under the law of Theorem 4.5 with the ratio of the two data sets."""
    generator = np.random.default_rng(setting.seed)
    apart = 0.0
    for records in (1, 2, 3):
        for _ in range(10 if setting.quick else 200):
            ends = generator.integers(0, 2, (2, records))
            law, target = free_lunch_law(*(tuple(int(v) for v in end) for end in ends))
            if target is None:
                continue
            joint = np.zeros((2,) * records)
            for values, weight in law.items():
                joint[values] = weight
            table = generator.dirichlet(np.ones(4), (2,) * records)
            leaks = mechanism_leakage(joint, table).leakage
            one, two = (table[values] for values in law)
            apart = max(apart, abs(leaks - float(np.max(np.abs(np.log(one / two))))))
    yield Claim("leakage less the largest log-ratio of D and D'", apart, 0.0, 1e-9)


@result(KEY, "thm4.6", "Two inputs alike: errors of half the distance cannot be avoided")
def thm4_6(setting: Setting) -> Parts:
    """Search algorithms for the least failure probability at alpha = |f(D) - f(D')| / 2."""
    generator = np.random.default_rng(setting.seed)
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        floor = failure_floor(epsilon)
        least = min(
            _failure(_within(generator.dirichlet(np.full(9, 0.2), 2), epsilon), (0.0, 8.0))
            for _ in range(100 if setting.quick else 1000)
        )
        yield Claim(f"least failure found, epsilon {epsilon:g}", least, floor, _EXACT, ">=")
        best = np.zeros((2, 9))
        best[0, [0, 8]] = best[1, [8, 0]] = 1 - floor, floor
        yield Compared(f"failure of the best algorithm, epsilon {epsilon:g}",
                       _failure(best, (0.0, 8.0)), floor, _EXACT, "derived")  # fmt: skip
        yield Compared(f"its level, epsilon {epsilon:g}", free_lunch_level(best), epsilon, _EXACT,
                       "derived")  # fmt: skip
    yield ("The best algorithm gives one of the two true answers, the right one with the larger "
           "odds.")  # fmt: skip


def _within(table: Array, epsilon: float) -> Array:
    """Return a mixture of an algorithm with its mean that is free-lunch private at a level."""
    mean = table.mean(axis=0, keepdims=True)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        mixed = middle * table + (1 - middle) * mean
        low, high = (middle, high) if free_lunch_level(mixed) <= epsilon else (low, middle)
    return np.asarray(low * table + (1 - low) * mean)


def _failure(table: Array, truths: tuple[float, ...]) -> float:
    """Return the largest Pr[|answer - truth| >= half the range], answers 0, 1, ... ."""
    answers = np.arange(table.shape[1])
    wrong = np.abs(np.subtract.outer(np.array(truths), answers)) >= (max(truths) - min(truths)) / 2
    return float((table * wrong).sum(axis=1).max())


@result(KEY, "cor4.7", "Free-lunch private algorithms err by half the range")
def cor4_7(setting: Setting) -> Parts:
    """Search free-lunch private counts, and check "greater than" in the text after it."""
    generator = np.random.default_rng(setting.seed)
    for n, epsilon in itertools.product((2, 6), (1.0, 2.0)):
        truths = tuple(float(count) for count in range(n + 1))
        least = min(
            _failure(_within(generator.dirichlet(np.full(n + 1, 0.2), n + 1), epsilon), truths)
            for _ in range(50 if setting.quick else 500)
        )
        yield Claim(f"least failure of a count, n = {n}, epsilon {epsilon:g}", least,
                    failure_floor(epsilon), _EXACT, ">=")  # fmt: skip
    constant = np.zeros((7, 7))
    constant[:, 3] = 1.0
    beyond = np.abs(np.subtract.outer(np.arange(7.0), np.arange(7.0))) > 3
    yield Claim("Pr[error > n / 2] as the text after the corollary puts it, n = 6, epsilon 1",
                float((constant * beyond).sum(axis=1).max()), failure_floor(1.0), relation=">=",
                witness="the constant answer n / 2 tells nothing and never errs by more than n / "
                "2; what is proved is an error of n / 2 or more")  # fmt: skip


@result(KEY, "fig5", "Least probability of an error of half the range")
def fig5(setting: Setting) -> Parts:
    """Recompute 1 / (e^epsilon + 1), the floor of Theorem 4.6, over epsilon."""
    given = shown_values("fig5")
    for epsilon, least in zip(given["epsilon"], given["beta_at_least"], strict=True):
        yield Claim(f"beta up to epsilon {epsilon:g}", failure_floor(epsilon), least, relation=">=")
    x = grid(0.01, 5.0, 200)
    lines = (
        Trace("1 / (e^eps + 1)", x, tuple(1 / (math.exp(e) + 1) for e in x), "theirs"),
        Trace("attained", x, tuple(failure_floor(e) for e in x), "bound"),
    )
    panel = Panel("", "epsilon", "beta", lines, ("linear", "log"), (0.0, 5.0), (1e-3, 1.0))
    yield Chart("fig5", "No algorithm fails more rarely", (panel,), "Theorem 4.6, attained.")


@result(KEY, "cor4.8", "Bayesian DP under arbitrary correlation errs by half the range")
def cor4_8(setting: Setting) -> Parts:
    """Evaluate the bound at the law of Theorem 4.5, and the algorithm that attains it."""
    for n, epsilon in itertools.product((2, 5), (1.0, 4.0)):
        law, _ = free_lunch_law((0,) * n, (1,) * n)
        joint = np.zeros((2,) * n)
        for values, weight in law.items():
            joint[values] = weight
        floor = failure_floor(epsilon)
        table = np.full((*(2,) * n, 2), 0.5)
        table[(0,) * n], table[(1,) * n] = (1 - floor, floor), (floor, 1 - floor)
        leaks = mechanism_leakage(joint, table).leakage
        yield Compared(f"leakage of the best algorithm, n = {n}, epsilon {epsilon:g}", leaks,
                       epsilon, _EXACT, "derived")  # fmt: skip
        yield Compared(f"half the range, n = {n}, epsilon {epsilon:g}",
                       impossible_alpha(n, epsilon, floor / 2), n / 2, _EXACT,
                       "derived")  # fmt: skip
        yield Improved(f"Pr[error >= n / 2] against Laplace noise, n = {n}, epsilon {epsilon:g}",
                       floor, half_range_failure(epsilon))  # fmt: skip
