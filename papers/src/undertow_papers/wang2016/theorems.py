"""Theorems 3.2 and 4.4 of [wang2016]: what both mechanisms leak, by enumeration."""

from collections.abc import Iterator
from typing import Literal

import numpy as np

import undertow as ut
from undertow.models.networks import household
from undertow.numerics import Array
from undertow.testing.enumeration import (
    additive_noise_likelihood,
    chain_joint,
    mechanism_leakage,
)
from undertow_papers.findings import Compared, Improved, Listing, Parts, WorstCase
from undertow_papers.registry import Setting, result

__all__ = ["ACTIVITY", "sec32", "thm32", "thm44"]

ACTIVITY = ((0.882, 0.118), (0.305, 0.695))
"""Transitions between inactive and active, five minutes apart, of the activity data."""

Model = ut.MarkovChain | ut.BayesianNetwork


def _small_models(setting: Setting) -> Iterator[tuple[Model, Array, int]]:
    """Yield small random chains and networks, their joint tables, and the counted state."""
    rng = np.random.default_rng(setting.seed)
    for case in range(24 if setting.quick else 200):
        size, length = 2 + case % 2, 3 + case % 4
        rows = rng.dirichlet(np.ones(size), size=size) + (case % 3) * np.eye(size)
        chain = ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True), length=length)
        yield chain, chain_joint(chain.initial, chain.transition, length), int(case % size)
    for case in range(6 if setting.quick else 40):
        home = household(3 + case % 2, float(rng.uniform(0.05, 0.4)), float(rng.uniform(0.1, 0.9)))
        yield home, home.joint(), 1
    for _ in range(4 if setting.quick else 30):  # two causes of one record, and its two effects
        sick = ut.BayesianNetwork(
            edges=[(0, 2), (1, 2), (2, 3), (2, 4)],
            cpds={
                0: rng.dirichlet([1, 1]), 1: rng.dirichlet([1, 1]),
                2: rng.dirichlet([1, 1], size=(2, 2)),
                3: rng.dirichlet([1, 1], size=2), 4: rng.dirichlet([1, 1], size=2),
            },
        )  # fmt: skip
        yield sick, sick.joint(), 1


def _worst(setting: Setting, method: str, epsilons: tuple[float, ...]) -> WorstCase:
    """Return the largest leakage / guarantee of a method's plans."""
    worst = WorstCase()
    for model, joint, marked in _small_models(setting):
        state = model.states[marked]
        weights = [int(other == state) for other in model.states]
        for epsilon in epsilons:
            plan = ut.calibrate(ut.Count(state), model, epsilon, "ignorant", method=method)
            noisy = additive_noise_likelihood(weights, plan.noise.amount, joint.ndim)
            leaks = mechanism_leakage(joint, noisy, "ignorant").leakage / epsilon
            worst.offer(leaks, 1.0, f"{model.describe()}, epsilon {epsilon:g}")
    return worst


@result("wang2016", "thm3.2", "The Wasserstein mechanism keeps its guarantee")
def thm32(setting: Setting) -> Parts:
    """Check Theorem 3.2: Laplace noise of scale W / epsilon leaks at most epsilon."""
    note = (
        "{plans} plans, checked by enumeration against an attacker who knows no other record, "
        "which is what the theorem is about. The printed proof writes W for W / epsilon."
    )
    return _kept(setting, "wasserstein", (0.5, 2.0), note)


def _kept(
    setting: Setting,
    method: Literal["quilt", "wasserstein"],
    epsilons: tuple[float, ...],
    note: str,
) -> Parts:
    """Check the plans of a method by enumeration, and set its noise beside the least."""
    worst = _worst(setting, method, epsilons)
    chain = ut.MarkovChain(ACTIVITY, ("inactive", "active"), length=15264)
    yield worst.claim("leakage / guarantee, small chains and networks")
    for epsilon in (1.0, 4.0):
        ours, theirs = (
            ut.calibrate(ut.Count("active"), chain, epsilon, "ignorant", method=name).noise.amount
            for name in ("exact", method)
        )
        yield Improved(f"scale for the activity count, epsilon {epsilon:g}: exact, same attacker",
                       ours, theirs)  # fmt: skip
    yield note.format(plans=worst.tried)
    yield _known_table(chain, method)


@result("wang2016", "sec3.2", "Independent people: the Wasserstein mechanism is plain noise")
def sec32(setting: Setting) -> Parts:
    """Recompute the reduction to global sensitivity in section 3.2: W = 1 for a count."""
    rng, gaps = np.random.default_rng(setting.seed), []
    for _ in range(5):
        law = rng.dirichlet(np.ones(2))
        chain = ut.MarkovChain([law, law], length=50)
        gaps.append(
            ut.calibrate(ut.Count(1), chain, 1.0, "ignorant", method="wasserstein").noise.amount
        )
    for name, value in (("least", min(gaps)), ("largest", max(gaps))):
        yield Compared(f"W of a count of independent people, {name}", value, 1.0, 1e-12, "derived")


@result("wang2016", "thm4.4", "The Markov Quilt mechanism keeps its guarantee")
def thm44(setting: Setting) -> Parts:
    """Check Theorem 4.4: noise of the best quilt's score leaks at most epsilon."""
    note = (
        "{plans} plans, checked by enumeration against an attacker who knows no other record. "
        "Against one who knows some, which the theorem does not claim, the same noise can leak "
        "more: see the table."
    )
    return _kept(setting, "quilt", (1.0, 6.0), note)


def _known_table(chain: ut.MarkovChain, method: Literal["quilt", "wasserstein"]) -> Listing:
    """Return what a published plan leaks to attackers who know nothing, and who know anything."""
    rows = []
    for epsilon in (1.0, 4.0, 8.0, 12.0):
        plan = ut.calibrate(ut.Count("active"), chain, epsilon, "ignorant", method=method)
        alone = ut.leakage(plan.mechanism, chain, "ignorant").upper
        knowing = ut.leakage(plan.mechanism, chain, "any").lower
        rows.append((f"{epsilon:g}", f"{plan.noise.amount:.4f}", f"{alone:.4f}", f"{knowing:.4f}"))
    title = f"Activity count, method {method}: what it leaks, by what the attacker knows"
    return Listing(title, ("epsilon", "scale", "nothing known", "any records known"), tuple(rows))
