"""Lemmas 4.5 and 4.7 and Algorithms 1-3 of [wang2016], as printed and as they should read."""

import math
from functools import partial
from itertools import product

import numpy as np

import undertow as ut
from undertow.bounds.channels.quilts import (
    NoiseScore,
    approximate_influence,
    chain_influence,
    chain_pairs,
    pruned_search,
    spectral_gap,
)
from undertow.numerics import Array
from undertow.testing.enumeration import chain_joint
from undertow_papers.findings import Claim, Compared, Improved, Parts
from undertow_papers.registry import Setting, result
from undertow_papers.wang2016.figures import printed_sigma, random_reversible, sharper_sigma
from undertow_papers.wang2016.searches import basic_search, fast_search

__all__ = ["alg1", "alg2", "alg3", "cond46", "lemma45", "lemma47", "printed_scores"]


def printed_scores(pi: float, gap: float, length: int, epsilon: float) -> list[float]:
    """Return the score of every record by Algorithm 2 exactly as it is printed.

    Its third test reads i + a = n + 1, and its loop keeps a, b >= ln(1/pi)/g for the imaginary
    nodes X_0 and X_{n+1} too; where no quilt is left the score is infinite.
    """
    least = math.log(1 / pi) / gap

    def term(distance: int) -> float:
        decay = math.exp(-gap * distance)
        return math.log((pi + decay) / (pi - decay)) if decay < pi else math.inf

    scores = []
    for i in range(1, length + 1):
        best = math.inf
        for a, b in product(range(1, i + 1), range(1, length - i + 2)):
            if min(a, b) < least:
                continue
            if i - a == 0 and i + b == length + 1:
                influence = 0.0
            elif i - a == 0:
                influence = term(b)
            elif i + a == length + 1:
                influence = 2 * term(a)
            else:
                influence = term(b) + 2 * term(a)
            if influence < epsilon:
                best = min(best, (a + b - 1) / (epsilon - influence))
        scores.append(best)
    return scores


def _proved_scores(pi: float, gap: float, length: int, epsilon: float) -> list[float]:
    """Return the score of every record with the quilts that Lemma 4.5 allows."""
    table = partial(approximate_influence, pi, gap)
    return [pruned_search(table, length, NoiseScore(epsilon), [i]).value for i in range(length)]


@result("wang2016", "lemma4.5", "Two records around another one cut it off from the rest")
def lemma45(setting: Setting) -> Parts:
    """Check Lemma 4.5: P(x_R | x_Q, x_i) does not depend on x_i, by enumeration."""
    rng, length, worst = np.random.default_rng(setting.seed), 6, 0.0
    for size in (2, 2, 3):
        chain = _random_chain(size, rng, length)
        joint = chain_joint(chain.initial, chain.transition, length)
        for i in range(length):
            lefts, rights = [None, *range(i)], [None, *range(i + 1, length)]
            for left, right in product(lefts, rights):
                worst = max(worst, _dependence(joint, i, left, right))
    yield Claim("largest change of P(x_R | x_Q, x_i) with x_i, over all quilts", worst, 0.0, 1e-12)
    yield f"Three random chains of {length} records, every quilt."


def _dependence(joint: Array, i: int, left: int | None, right: int | None) -> float:
    """Return how much the law of the remote records, given the quilt, changes with record i."""
    quilt = [place for place in (left, right) if place is not None]
    remote = [
        place for place in range(joint.ndim)
        if (left is not None and place < left) or (right is not None and place > right)
    ]  # fmt: skip
    if not remote:
        return 0.0
    near = tuple(p for p in range(joint.ndim) if p not in (i, *quilt, *remote))
    kept = sorted((i, *quilt, *remote))
    law = joint.sum(axis=near).transpose([kept.index(p) for p in (i, *quilt, *remote)])
    size = joint.shape[0]
    table = law.reshape(size, size ** len(quilt), -1)
    given = table / table.sum(axis=2, keepdims=True)
    return float(np.ptp(given, axis=0).max())


def _random_chain(size: int, rng: np.random.Generator, length: int) -> ut.MarkovChain:
    """Return a chain with random rows, sticky half of the time."""
    rows = rng.dirichlet(np.ones(size), size=size) + rng.integers(0, 2) * np.eye(size)
    return ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True), length=length)


@result("wang2016", "lemma4.7", "Max-influence from the least probability and the gap")
def lemma47(setting: Setting) -> Parts:
    """Check Lemma 4.7 (and A.1-A.3): exact influences never exceed the closed form."""
    rng = np.random.default_rng(setting.seed)
    tries, steps = (40, 40) if setting.quick else (400, 80)
    right, left, settled, ratio = -math.inf, -math.inf, -math.inf, 0.0
    for case in range(tries):
        size = 2 + case % 4
        chain = random_reversible(size, 0.02, 0.05, rng)
        gap, pi = spectral_gap(chain)[0], float(chain.initial.min())
        bound = approximate_influence(pi, gap, steps)
        far = np.flatnonzero(np.isfinite(bound.right[:, 0]))
        far = far[far > 0]
        if not far.size:
            continue
        pairs = chain_pairs(chain, None)
        exact = chain_influence(chain, "ignorant", pairs, steps)
        apart = exact.right[far].max(axis=1) - bound.right[far, 0]
        right = max(right, float(apart.max()))
        settled = max(settled, float((exact.left[far].max(axis=1) - bound.right[far, 0]).max()))
        start = rng.dirichlet(np.full(size, 0.3))
        moved = ut.MarkovChain(chain.transition, start=start, length=2 * steps + 2)
        for record in {int(far[0]), int(far[-1]), steps}:
            own = chain_influence(moved, "ignorant", pairs, steps, record=record)
            here = far[far <= record]
            if here.size:
                shares = own.left[here].max(axis=1)
                left = max(left, float((shares - bound.left[here, 0]).max()))
                clear = bound.right[here, 0] > 1e-6  # beyond, only rounding is compared
                ratio = max(ratio, float((shares / bound.right[here, 0])[clear].max(initial=0.0)))
    base = printed_sigma(0.05, 0.1, 5000, math.e)
    yield Claim("right influence above its bound, at most", right, 0.0)
    yield Claim("left influence above its bound, any start, at most", left, 0.0)
    yield Claim("left influence above half its bound, stationary start, at most", settled, 0.0)
    yield Improved("sigma at epsilon e, pi .05, gap .1: (1 - g)^t, any start",
                   sharper_sigma(0.05, 0.1, 5000, math.e), base)  # fmt: skip
    yield Improved("sigma at epsilon e, pi .05, gap .1: (1 - g)^t, stationary start",
                   sharper_sigma(0.05, 0.1, 5000, math.e, stationary=True), base)  # fmt: skip
    yield (f"{tries} random reversible chains of 2 to 5 states. With random starts the left side "
           f"came to {ratio:.3f} of the bound without its factor 2; with a stationary start that "
           "factor is not needed.")  # fmt: skip
    yield "At min(a, b) = ln(1/pi)/g, which the lemma admits, the bound is infinite: read >."


@result("wang2016", "cond4.6", "The closed form needs a reversible chain")
def cond46(setting: Setting) -> Parts:
    """Check Condition 4.6: a chain that is not reversible exceeds the bound of Lemma A.1.

    Sixteen states are the last four bits of a fair coin, which starts anew one time in twenty.
    All eigenvalues but one are 0, so that g = 1; but three steps do not forget the first bit.
    """
    shift = np.full((16, 16), 0.05 / 16)
    for state, bit in product(range(16), (0, 1)):
        shift[state, (2 * state + bit) % 16] += 0.95 / 2
    chain = ut.MarkovChain(shift)
    third = np.abs(chain.powers(3)[3] / chain.initial - 1).max()
    gap, reversible = spectral_gap(chain)
    yield Compared("|P^4 - pi| / pi: all other eigenvalues are 0",
                   float(np.abs(chain.powers(4)[4] / chain.initial - 1).max()), 0.0, 1e-12,
                   "derived")  # fmt: skip
    yield Claim("|P^3 / pi - 1| without reversibility, bound of Lemma A.1 with g = 1", float(third),
                16 * math.exp(-3.0), relation=">=")  # fmt: skip
    yield Claim("the same with the gap used here for such chains", float(third),
                16 * math.exp(-3.0 * gap))  # fmt: skip
    yield ("The condition is the paper's own. For other chains the gap used here is (1 - "
           f"lambda_2(P P*)) / 2, {gap:.3g} in this example (reversible: "
           f"{reversible}).")  # fmt: skip


@result("wang2016", "alg1", "The Markov Quilt mechanism for a chain, as printed")
def alg1(setting: Setting) -> Parts:
    """Recompute Algorithm 1: the largest score of all records, with the loop of Algorithm 2."""
    pi, gap, length, epsilon = 0.5, 0.5, 30, 4.0
    stuck = sum(math.isinf(score) for score in printed_scores(pi, gap, length, epsilon))
    influence = approximate_influence(pi, gap, length - 1)
    yield Claim("records without a finite score, pi .5, gap .5, 30 records, epsilon 4", stuck, 0.0,
                witness="X_1 has only a = 1 on its left, below ln(1/pi)/g = 1.386: the loop of "
                "Algorithm 2 shuts out the imaginary ends, so the noise is infinite")  # fmt: skip
    yield Compared("with the ends exempt: largest score against the closed form of the middle",
                   basic_search(influence, length, NoiseScore(epsilon)).value,
                   printed_sigma(pi, gap, length, epsilon), 1e-9, "derived")  # fmt: skip
    for q, p in ((0.1, 0.9), (0.1, 0.5), (0.3, 0.8)):
        chain = ut.MarkovChain([[1 - q, q], [1 - p, p]], length=100)
        ours, theirs = (
            ut.calibrate(ut.Count(1), chain, 1.0, "ignorant", method=method).noise.amount
            for method in ("exact", "quilt-approx")
        )
        yield Improved(f"scale for a count, T 100, epsilon 1, P(0,1) {q:g}, P(1,1) {p:g}: exact",
                       ours, theirs)  # fmt: skip
    yield "sigma is the scale of Laplace noise; the paper also calls it a standard deviation."


@result("wang2016", "alg2", "The search for the best quilt of a record, as printed")
def alg2(setting: Setting) -> Parts:
    """Check Algorithm 2: no record may get a score below what Lemma 4.7 proves for it."""
    worst, where = 0.0, ""
    lengths = (12, 20, 30) if setting.quick else (12, 16, 20, 24, 30, 40)
    ours = theirs = 1.0
    whole = (0.5, 0.9, 4, 8.0)
    even = ut.MarkovChain([[0.55, 0.45], [0.45, 0.55]], length=4)  # pi .5 and gap .9
    leak = ut.leakage(ut.Laplace(ut.Count(1), max(printed_scores(*whole))), even, "ignorant")
    for pi, gap, length, epsilon in product((0.5, 0.3), (0.5, 0.8), lengths, (2.0, 4.0, 8.0)):
        scores = printed_scores(pi, gap, length, epsilon)
        proved = _proved_scores(pi, gap, length, epsilon)
        for i, (low, high) in enumerate(zip(scores, proved, strict=True), start=1):
            if math.isfinite(low) and high / low - 1 > worst + 1e-12:
                worst, ours, theirs = high / low - 1, low, high
                where = f"X_{i} of {length}, pi {pi:g}, gap {gap:g}, epsilon {epsilon:g}"
    yield Claim(f"score by the printed third test ({where or 'nowhere too small'})", ours, theirs,
                relation=">=", witness=f"{where}: where i + a = n + 1 the printed test forgets the "
                "right end of the quilt; it must read i + b = n + 1")  # fmt: skip
    yield Claim("noise of the whole mechanism as printed, 4 records, pi .5, gap .9, epsilon 8",
                max(printed_scores(*whole)), max(_proved_scores(*whole)), relation=">=",
                witness="all four records have a finite score, and the largest is less than Lemma "
                "4.7 proves to be enough")  # fmt: skip
    yield Claim("the same noise on a count of the chain with that pi and gap: it leaks", leak.upper,
                8.0)  # fmt: skip
    yield "The printed test e > epsilon lets e = epsilon pass, and divides by 0: read >=."
    yield ("With i + b = n + 1, and the imaginary ends exempt from the least distance, all three "
           "searches of the package agree (Algorithm 3).")  # fmt: skip


@result("wang2016", "alg3", "The faster search finds the same noise")
def alg3(setting: Setting) -> Parts:
    """Check Algorithm 3 and Claims B.1 and B.2: from the middle outwards, never less noise."""
    rng, tries = np.random.default_rng(setting.seed), 60 if setting.quick else 600
    above, below, pruned_off = 0.0, 0.0, 0.0
    for case in range(tries):
        length, epsilon = int(rng.integers(2, 25)), float(np.exp(rng.uniform(-2.0, 3.0)))
        if case % 2:
            table = partial(
                approximate_influence, float(rng.uniform(0.02, 0.5)), float(rng.uniform(0.05, 1.0))
            )
        else:
            chain = _random_chain(int(rng.integers(2, 5)), rng, length)
            table = partial(chain_influence, chain, "ignorant", chain_pairs(chain, None))
        influence = table(length - 1)
        basic = basic_search(influence, length, NoiseScore(epsilon)).value
        fast = fast_search(influence, length, NoiseScore(epsilon)).value
        pruned = pruned_search(table, length, NoiseScore(epsilon)).value
        above, below = max(above, fast / basic - 1), max(below, 1 - fast / basic)
        pruned_off = max(pruned_off, abs(pruned / basic - 1))
    yield Claim("B.1: noise of the fast search above that of the basic one, relative", above, 0.0,
                1e-12)  # fmt: skip
    yield Claim("B.2: noise of the fast search below that of the basic one, relative", below, 0.0,
                1e-12)  # fmt: skip
    yield Claim("the pruned search of the package, relative difference", pruned_off, 0.0, 1e-12)
    yield (f"{tries} random chains and classes of chains, to 24 records. Equal noise protects all "
           "records, because the basic search takes the largest score of all of them.")  # fmt: skip
