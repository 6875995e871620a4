"""How often attackers are right: Figure 2, and the bounds of sections 4.1 and 4.3."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from undertow.auditing.attackers import average_bound, pointwise_bound
from undertow.auditing.inference import posteriors
from undertow_papers.chakrabarti2022.common import (
    FILES,
    KEY,
    binary,
    flips_of,
    planned,
    ratios,
    values,
)
from undertow_papers.chakrabarti2022.formulas import plain_flips
from undertow_papers.chakrabarti2022.rates import success_rate
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Compared, Parts, WorstCase
from undertow_papers.registry import Setting, result

__all__ = ["fig2a", "fig2b", "printed_bound", "sec41", "sec43"]

SIGMAS = 4.0
"""Standard errors that a simulated share may be away: a false alarm in 16,000 rows."""


@dataclass(frozen=True, slots=True)
class _Point:
    """One theta of Figure 2: exact probabilities, the authors' shares, and the spread of these."""

    theta: float
    alone: float
    aware: float
    shown_alone: float
    shown_aware: float
    spread_alone: float
    spread_aware: float


def _points(setting: Setting) -> list[_Point]:
    printed_values = values("fig2")
    runs, rounds = printed_values["runs"], printed_values["databases"] * printed_values["outputs"]
    points = []
    for theta, alone, aware in zip(
        runs["theta"], runs["single_bit"], runs["correlation_aware"], strict=True
    ):
        own, best = _right(theta, "single-bit"), _right(theta)
        spreads = math.sqrt(own * (1 - own) / rounds), _spread(setting, theta)
        points.append(_Point(theta, own, best, alone, aware, *spreads))
    return points


def _right(
    theta: float, attacker: Literal["single-bit", "correlation-aware"] = "correlation-aware"
) -> float:
    """Return how often an attacker of Figure 2 is right, exactly."""
    printed_values = values("fig2")
    flips, chain = (
        flips_of(plain_flips(printed_values["epsilon"])),
        binary(theta, theta, printed_values["records"]),
    )
    return success_rate(flips, chain, printed_values["target"] - 1, attacker=attacker)


def _spread(setting: Setting, theta: float) -> float:
    """Return the standard error of the paper's experiment: few databases, many outputs of each.

    Success varies much more between databases than between outputs of one.
    """
    printed_values = values("fig2")
    flips, target = flips_of(plain_flips(printed_values["epsilon"])), printed_values["target"] - 1
    chain = binary(theta, theta, printed_values["records"])
    rng = np.random.default_rng([setting.seed, 2, round(1000 * theta)])
    databases, outputs = (60, 40) if setting.quick else (400, 200)
    truth = np.array(
        [chain.simulate(seed=int(seed)) for seed in rng.integers(2**31, size=databases)]
    )
    copies = np.repeat(truth, outputs, axis=0)  # (databases * outputs, records)
    shown = (rng.random(copies.shape) < flips.matrix[copies, 1]).astype(np.int64)
    guess = posteriors(shown, flips, chain)[:, target].argmax(axis=1)
    share = (guess == copies[:, target]).reshape(databases, outputs).mean(axis=1)  # (databases)
    # of the mean over outputs, for one database
    within = float((share * (1 - share)).mean()) / (outputs - 1)
    between = max(float(share.var(ddof=1)) - within, 0.0)
    mean = float(share.mean())
    # the variance of one database of the paper
    each = between + mean * (1 - mean) / printed_values["outputs"]
    return math.sqrt(each / printed_values["databases"])


def _odds(right: float) -> float:
    return math.log(right / (1 - right))


@result(KEY, "fig2a", "Probability to recover X_15 of 30 records, by theta; flips of DP level .5")
def fig2a(setting: Setting) -> Parts:
    """Recompute Figure 2 (a) exactly, by weighing all outputs, beside the authors' simulation."""
    points = _points(setting)
    for p in points:
        yield Compared(f"correlation-aware, theta {p.theta:g}", p.aware, p.shown_aware,
                       SIGMAS * p.spread_aware, "code",
                       cause="more than four standard errors apart")  # fmt: skip
    far = max(points, key=lambda p: abs(p.alone - p.shown_alone))
    yield Compared(f"single bit, farthest (theta {far.theta:g})", far.alone, far.shown_alone,
                   SIGMAS * far.spread_alone, "code",
                   cause="more than four standard errors apart")  # fmt: skip
    epsilon = values("fig2")["epsilon"]
    bound = average_bound([0.5, 0.5], epsilon)
    yield _chart("fig2a", "success probability", points, lambda right: right, bound)
    yield FILES
    yield ("Tolerances are four standard errors of the experiment as printed (100 databases, 1000 "
           "outputs each), found by repeating it. Shares in the file are multiples of 1/200000, so "
           "it was run with twice as many.")  # fmt: skip


@result(KEY, "fig2b", "Epsilon charged by recovering X_15 of 30 records, by theta")
def fig2b(setting: Setting) -> Parts:
    """Recompute Figure 2 (b): the log odds of the probabilities of Figure 2 (a)."""
    points = _points(setting)
    for p in points:
        yield Compared(f"correlation-aware, theta {p.theta:g}", _odds(p.aware),
                       _odds(p.shown_aware), SIGMAS * p.spread_aware / (p.aware * (1 - p.aware)),
                       "code", cause="more than four standard errors apart")  # fmt: skip
    epsilon = values("fig2")["epsilon"]
    yield _chart("fig2b", "epsilon charged", points, _odds, epsilon)
    yield FILES


def _chart(
    name: str, ylabel: str, points: list[_Point], scale: Callable[[float], float], bound: float
) -> Chart:
    """Return the figure: exact lines, the authors' shares as points, and the bound of DP."""
    x = tuple(p.theta for p in points)
    grid = tuple(np.linspace(0.005, 0.5, 34).tolist())
    lines = (
        Trace("correlation-aware", grid, tuple(scale(_right(theta)) for theta in grid)),
        Trace("single bit", x, tuple(scale(p.alone) for p in points)),
        Trace("paper: correlation-aware", x, tuple(scale(p.shown_aware) for p in points), "points"),
        Trace("paper: single bit", x, tuple(scale(p.shown_alone) for p in points), "points"),
        Trace("DP bound", (0.0, 0.5), (bound, bound), "bound"),
    )
    panel = Panel("epsilon = .5, X_15 of 30 records", "theta", ylabel, lines, xlim=(0, 0.5))
    return Chart(name, "Attacks on flips of DP level .5", (panel,), "Lower theta: more correlated.")


@result(KEY, "sec4.1", "Differential privacy does not bound attackers who use the correlation")
def sec41(setting: Setting) -> Parts:
    """Recompute section 4.1: the bound e^epsilon / (1 + e^epsilon), and who stays below it."""
    printed_values = values("fig2")
    epsilon, thetas = printed_values["epsilon"], printed_values["runs"]["theta"]
    bound = average_bound([0.5, 0.5], epsilon)
    alone = max(_right(theta, "single-bit") for theta in thetas)
    aware = max(_right(theta) for theta in thetas)
    doubled = values("claims")["charged_at_least"] * epsilon
    grid = np.linspace(0.02, 0.48, 24).tolist()
    needed = [planned(binary(theta, theta), epsilon).expected_flips for theta in grid]
    rise = max(later - sooner for sooner, later in itertools.pairwise(needed))
    yield Compared("bound on the success", bound, printed_values["bound"], 5e-4)
    yield Claim("largest success of the single-bit attacker", alone, bound)
    yield Claim("largest success of the correlation-aware attacker", aware, bound, relation=">=")
    yield Claim("largest epsilon charged, beside twice the level", _odds(aware), doubled, 0, ">=")
    yield Claim("flips for epsilon .5 fall with theta: largest rise", rise, 0.0, 0)
    yield "Exact probabilities over all outputs of 30 records."


def printed_bound(q: float, r: float, epsilon: float) -> float:
    """Return the bound on the success printed in section 4.3, e^eps / (max(q/r, r/q) + e^eps).

    >>> round(printed_bound(.2384, .3831, 1.0), 4)
    0.6285
    """
    return 1 / (1 + max(q / r, r / q) * math.exp(-epsilon))


@result(KEY, "sec4.3", "The bound on the success of attackers (refuted)")
def sec43(setting: Setting) -> Parts:
    """Recompute the bound of section 4.3 on two attackers, and the two that replace it."""
    low = values("fig4")["low"]
    q, r = low["q"], low["r"]
    prior = float(binary(q, r).initial.max())
    yield Claim("always guess the commoner state, N5, epsilon .5", prior, printed_bound(q, r, 0.5),
                witness="no output is looked at, so any epsilon is kept")  # fmt: skip
    chain = binary(q, r, 9)
    plan = planned(chain, 1.0, corrected=True)
    best = max(success_rate(plan.mechanism, chain, record) for record in range(9))
    yield Claim("nine records of N5's chain, epsilon 1: best guess of one of them", best,
                printed_bound(q, r, 1.0), witness=f"flips of {plan.expected_flips:.6f} that keep "
                "epsilon 1 against any attacker")  # fmt: skip
    yield Claim("the same beside max(pi, e^eps / (1 + e^eps))", best,
                average_bound(chain.initial, 1.0))  # fmt: skip
    long = binary(q, r, 201)
    flips = planned(long, 3.0).mechanism
    state = int(np.argmax(long.initial))
    sure = float(posteriors([state] * 201, flips, long)[100, state])
    shift = abs(float(ratios([state] * 201, flips, long)[100]))
    yield Claim("how sure one can be, N5, epsilon 3", sure, printed_bound(q, r, 3.0),
                witness=f"201 outputs {state}: the odds of X_101 move by "
                f"e^{shift:.4f}")  # fmt: skip
    yield Compared("the same beside e^eps / (min(q/r, r/q) + e^eps)", sure,
                   pointwise_bound(long.initial, 3.0), 1e-9, "derived")  # fmt: skip
    worst = WorstCase()
    rng = np.random.default_rng([setting.seed, 3])
    for _ in range(20 if setting.quick else 300):
        one, two = rng.uniform(0.02, 0.49, size=2).tolist()
        level = float(rng.uniform(0.2, 5.0))
        chain = binary(one, two, 9)
        mechanism = planned(chain, level, corrected=True).mechanism
        worst.offer(success_rate(mechanism, chain, 4), average_bound(chain.initial, level),
                    f"q {one:.3f}, r {two:.3f}, epsilon {level:.3f}")  # fmt: skip
    yield worst.claim("random chains beside the corrected bound: closest")
    yield ("The printed bound has max(q/r, r/q) where the smaller belongs (how sure one can be), "
           "and is no bound on averages either: below epsilon = 2 ln max(q/r, r/q) it is lower "
           "than the share of the commoner state.")  # fmt: skip
