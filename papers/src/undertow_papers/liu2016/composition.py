"""Definitions 3-4 and Theorems 3-6 of [liu2016], on small tables, every attacker enumerated.

The probabilistic reading compares the laws of an output under two values of a record, the others
drawn from the dependence R; the pointwise one compares two data sets. Definition 4 is the first:
its Eq. 12 sums over the dependent values.
"""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import permutations

import numpy as np

import undertow as ut
from undertow.bounds.dependent import pair_table
from undertow.numerics import Array
from undertow.testing.enumeration import (
    additive_noise_likelihood,
    chain_joint,
    independent_releases,
    mechanism_leakage,
    pure_dp_leakage,
)
from undertow_papers.definitions import dp_level, free_lunch_level
from undertow_papers.findings import Claim, Compared, Parts, WorstCase
from undertow_papers.registry import Setting, result

__all__ = ["COPIES", "PAIR", "XOR", "def3", "def4", "thm3", "thm4", "thm5", "thm6"]

PAIR = np.array([[0.4, 0.1], [0.1, 0.4]])
COPIES = np.array([[0.5, 0.0], [0.0, 0.5]])
XOR = np.zeros((2, 2, 2))
for _first in (0, 1):
    for _second in (0, 1):
        XOR[_first, _second, _first ^ _second] = 0.25
ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=8)


def _answer(no: Array) -> Array:
    """Return a mechanism that answers no with the given probabilities, and else yes."""
    return np.stack([no, 1 - no], axis=-1)


def _random_cases(setting: Setting, tries: int) -> Iterator[tuple[Array, Array, Array]]:
    """Yield random joint laws with two random mechanisms of the same records."""
    rng = np.random.default_rng(setting.seed)
    for case in range(tries):
        size, records = 2 + case % 2, 2 + case % 3 // 2
        shape = (size,) * records
        joint = rng.dirichlet(np.full(size**records, 0.4)).reshape(shape)
        one, two = rng.dirichlet(np.ones(3), size=(2, *shape))
        yield joint, one, two


def _near(
    setting: Setting, tries: int, joint: Array, *answers: Array
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield laws of two bits near a given one, with two yes-or-no answers near given ones."""
    rng = np.random.default_rng(setting.seed)
    for _ in range(tries):
        law = joint * np.exp(rng.normal(0.0, 0.1, joint.shape))
        one, two = (each * np.exp(rng.normal(0.0, 0.1, each.shape)) for each in answers)
        yield law / law.sum(), _answer(np.minimum(one, 0.99)), _answer(np.minimum(two, 0.99))


@result("liu2016", "def3", "The dependence size of a set of records")
def def3(setting: Setting) -> Parts:
    """Count how many records change their law with another one (Definition 3)."""
    joint = chain_joint(ACTIVITY.initial, ACTIVITY.transition, 8)
    alone = additive_noise_likelihood([0, 1], scale=1.0, n=3)
    size = _changed(XOR) + 1
    leak = mechanism_leakage(XOR, alone, "ignorant").leakage
    yield Compared("eight records of a chain: L by counting the laws that change",
                   _changed(joint) + 1, float(ACTIVITY.dependent_records() or 0), 0.0,
                   "derived")  # fmt: skip
    yield Claim(f"two coins and their exclusive or: L = {size} record by record, so noise of scale "
                "L / epsilon leaks at most epsilon (epsilon 1)", leak, 1.0,
                witness="any two of the three records are independent, all three are not: L must "
                "count the group, 3")  # fmt: skip
    yield "Noise is that of the sum of the records; the attacker knows no other record."


def _changed(joint: Array) -> int:
    """Return the most records whose own law changes with the value of one other record."""
    changed: Counter[int] = Counter()
    for i, j in permutations(range(joint.ndim), 2):
        both = pair_table(joint, i, j)
        changed[i] += int(np.ptp(both / both.sum(axis=1, keepdims=True), axis=0).max() > 1e-9)
    return max(changed.values())


@result("liu2016", "def4", "Dependent differential privacy, and what it is without dependence")
def def4(setting: Setting) -> Parts:
    """Check Definition 4: for independent records it is the DP level, otherwise it is more."""
    rng, apart = np.random.default_rng(setting.seed), 0.0
    for case in range(20 if setting.quick else 200):
        laws = rng.dirichlet(np.ones(2), size=3)
        joint = np.einsum("i,j,k->ijk", *laws)
        table = rng.dirichlet(np.ones(3), size=(2, 2, 2))
        scale = float(rng.uniform(0.3, 3.0))
        noisy = table if case % 2 else additive_noise_likelihood([0, 1], scale, 3)
        apart = max(apart, mechanism_leakage(joint, noisy).leakage - dp_level(noisy))
    count = additive_noise_likelihood([0, 1], 1.0, 2)
    yield Claim("independent records: leakage above the DP level, at most", apart, 0.0, 1e-12)
    yield Compared("independent records: a count at level 1 leaks",
                   mechanism_leakage(np.full((2, 2), 0.25), count).leakage, 1.0, 1e-12,
                   "derived")  # fmt: skip
    yield Claim("dependent records: a count at level 1 leaks more, joint (.4, .1, .1, .4)",
                mechanism_leakage(PAIR, count, "ignorant").leakage, 1.0, relation=">=")  # fmt: skip


@result("liu2016", "thm3", "Several releases of the same records")
def thm3(setting: Setting) -> Parts:
    """Check Theorem 3: the leakages of two releases would add up at most."""
    joint = np.array([[0.582, 0.333], [0.084, 0.001]])
    noes = np.array([[0.08, 0.88], [0.03, 0.07]]), np.array([[0.19, 0.72], [0.09, 0.27]])
    one, two = (_answer(no) for no in noes)
    together = mechanism_leakage(joint, independent_releases(one, two)).leakage
    parts = sum(mechanism_leakage(joint, each).leakage for each in (one, two))
    few = np.array([[3.0, 0.0], [5.0, 1.0]]) / 9
    same = _answer(np.array([[0.2, 0.5], [0.8, 0.9]]))
    once = mechanism_leakage(few, same, "ignorant").leakage
    twice = mechanism_leakage(few, independent_releases(same, same), "ignorant").leakage
    points, worst = -math.inf, WorstCase()
    for law, first, second in _near(setting, 200 if setting.quick else 4000, joint, *noes):
        both = independent_releases(first, second)
        levels = [free_lunch_level(each) for each in (first, second)]
        points = max(points, free_lunch_level(both) - sum(levels))
        leaks = [mechanism_leakage(law, each).leakage for each in (first, second)]
        worst.offer(mechanism_leakage(law, both).leakage - sum(leaks), 0.0)
    level = dp_level(one) + dp_level(two)
    yield Claim("two answers together, joint (.582, .333, .084, .001)", together, parts,
                witness="probabilities of no: .08, .88, .03, .07 and .19, .72, .09, .27 on 00, "
                "01, 10, 11")  # fmt: skip
    yield Claim("one answer twice, joint (3, 0, 5, 1) / 9, nothing known", twice, 2 * once,
                witness="yes with .8, .5, .2, .1 on 00, 01, 10, 11: once ln 48/11, twice "
                "ln 53/2")  # fmt: skip
    yield Claim("laws and answers near the first: largest excess over the sum", worst.ours, 0.0,
                witness=f"{worst.broken} of {worst.tried} random neighbours exceed the "
                "sum: no accident")  # fmt: skip
    yield Claim("pointwise reading, two data sets: largest excess over the sum", points, 0.0)
    yield Claim("what holds: both together leak no more than any algorithm of the added DP levels",
                together, pure_dp_leakage(joint, level).leakage, 1e-6)  # fmt: skip


@result("liu2016", "thm4", "Releases of disjoint parts of the records")
def thm4(setting: Setting) -> Parts:
    """Check Theorem 4: releases of disjoint parts would cost only the largest of them."""
    weights = ([[0, 1], [0, 0]], [[0, 0], [0, 1]])  # what each record adds to either answer
    about = [additive_noise_likelihood(each, scale=1.0, n=2) for each in weights]
    both = independent_releases(*about)
    rng, apart = np.random.default_rng(setting.seed), -math.inf
    for _ in range(20 if setting.quick else 300):
        left, right = (rng.dirichlet(np.full(4, 0.5)).reshape(2, 2) for _ in range(2))
        joint = np.einsum("ij,kl->ijkl", left, right)
        halves = [additive_noise_likelihood(w, float(rng.uniform(0.5, 2.0)), 4) for w in HALVES]
        leaks = [mechanism_leakage(joint, each).leakage for each in halves]
        whole = mechanism_leakage(joint, independent_releases(*halves)).leakage
        apart = max(apart, whole - max(leaks))
    chain = chain_joint(ACTIVITY.initial, ACTIVITY.transition, 4)
    halves = [additive_noise_likelihood(w, 1.0, 4) for w in HALVES]
    windows = mechanism_leakage(chain, independent_releases(*halves)).leakage
    yield Claim("two records that are copies, one answer about each, probabilistic reading",
                mechanism_leakage(COPIES, both).leakage,
                max(mechanism_leakage(COPIES, each).leakage for each in about),
                witness="X1 = X2: either answer leaks 1, both together 2")  # fmt: skip
    yield Claim("the same, pointwise reading: data sets 00 and 11",
                float(np.log(both[0, 0] / both[1, 1]).max()),
                max(float(np.log(each[0, 0] / each[1, 1]).max()) for each in about), 1e-12,
                witness="both records change together, and both answers with them")  # fmt: skip
    yield Claim("independent parts: leakage above the largest, at most", apart, 0.0, 1e-9)
    yield Claim("what holds: two half-window counts leak no more than any algorithm of their level",
                windows, pure_dp_leakage(chain, 1.0).leakage, 1e-6)  # fmt: skip


HALVES = (
    [[0, 1], [0, 1], [0, 0], [0, 0]],
    [[0, 0], [0, 0], [0, 1], [0, 1]],
)
"""What four records add to the counts of the first and of the last two."""


@result("liu2016", "thm5", "Post-processing")
def thm5(setting: Setting) -> Parts:
    """Check Theorem 5: what is done to an output afterwards leaks nothing more."""
    rng, apart = np.random.default_rng(setting.seed + 1), -math.inf
    tries = 60 if setting.quick else 2000
    for joint, table, _ in _random_cases(setting, tries):
        later = rng.dirichlet(np.full(4, 0.05), size=table.shape[-1])  # nearly a function
        leak = mechanism_leakage(joint, table).leakage
        apart = max(apart, mechanism_leakage(joint, table @ later).leakage - leak)
    yield Claim("leakage after post-processing minus before, at most", apart, 0.0, 1e-12)
    yield f"{tries} random laws and mechanisms, every attacker."


@result("liu2016", "thm6", "Choosing one of two mechanisms by chance")
def thm6(setting: Setting) -> Parts:
    """Check Theorem 6: a random choice leaks no more than the worse mechanism, told or not."""
    rng, hidden, disclosed = np.random.default_rng(setting.seed + 2), -math.inf, -math.inf
    tries = 60 if setting.quick else 2000
    for joint, one, two in _random_cases(setting, tries):
        share = float(rng.uniform(0.05, 0.95))
        most = max(mechanism_leakage(joint, each).leakage for each in (one, two))
        mixed = share * one + (1 - share) * two
        named = np.concatenate([share * one, (1 - share) * two], axis=-1)
        hidden = max(hidden, mechanism_leakage(joint, mixed).leakage - most)
        disclosed = max(disclosed, mechanism_leakage(joint, named).leakage - most)
    yield Claim("leakage of the mixture above the worse of the two, choice hidden", hidden, 0.0,
                1e-12)  # fmt: skip
    yield Claim("the same, choice told", disclosed, 0.0, 1e-12)
    yield f"{tries} random laws and pairs of mechanisms."
