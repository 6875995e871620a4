"""Theorems 1 and 2, Algorithm 1 and Corollary 1 of [massny2025]."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from undertow import Redaction
from undertow.bounds.channels.redaction import window_bound
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Compared, Improved, Parts, WorstCase
from undertow_papers.massny2025 import formulas as theirs
from undertow_papers.massny2025.cases import (
    ROUNDING,
    Sign,
    best_window,
    chain_of,
    draw_cases,
    leak_of,
    plan_of,
    shown,
    shown_share,
    window_of,
)
from undertow_papers.massny2025.formulas import Setup
from undertow_papers.registry import Setting, printed, result

__all__ = ["alg1", "cor1", "thm1", "thm2"]

KEY = "massny2025"

OFF_BY_ONE = Setup(0.2, 0.3, 12, 6, 0.911517454)
"""A window of one record to the left and two to the right is private here."""

NOT_CONVEX = Setup(0.85, 0.95, 10, 5, 2.4652)
"""Neighbours differ: a window of one and three records is private here."""

HALVED = Setup(0.1, 0.3, 4, 2, 2.0)
"""Half the budget for each side is worse here than all of it for one side."""

SIGNS: dict[Sign, str] = {"positive": "alpha + beta <= 1", "negative": "alpha + beta > 1"}


@result(KEY, "thm1", "3R mechanisms are private and show what Eq. 3 says")
def thm1(setting: Setting) -> Parts:
    """Try Theorem 1 on random chains: exact leakage and utility of the mechanisms as printed."""
    count = 60 if setting.quick else 1500
    designs: dict[str, Callable[[Setup, bool], float]] = {
        "relaxed 3R (Section IV-B)": theirs.relaxed_probability,
        "optimised 3R (Section V)": theirs.constant_by_grid,
    }
    leaks = {name: WorstCase() for name in designs}
    apart = 0.0
    for case in draw_cases(setting.seed, count):
        for name, design in designs.items():
            probabilities = design(case, False), design(case, True)
            mechanism = _three_regions(case, probabilities)
            leaks[name].offer(leak_of(case, mechanism), case.epsilon, case.words)
            share = shown_share(case, mechanism.probabilities)
            apart = max(apart, abs(theirs.utility(case, probabilities) - share))
    for name, worst in leaks.items():
        yield worst.claim(f"leakage of {name}, worst of {count} chains")
    case = Setup(0.01, 0.8, 10, 1, 1.0)
    counted = theirs.utility(case, (1.0, theirs.constant_by_grid(case)))
    yield Claim(f"expected share shown and Eq. 3, largest difference over {count} chains", apart,
                0.0, ROUNDING, "==")  # fmt: skip
    yield Claim("utility is at least Theorem 1, with p in S as Section II has it",
                shown(case, "3r-constant"), counted + 1 / case.n, theirs.GRID, ">=",
                witness=f"{case.words}: |S| counts the private record itself, which is never "
                "shown; without it Eq. 3 is exact")  # fmt: skip
    yield ("Erasure is as probable as in the paper, evaluated apart from the library; its leakage "
           "is the library's exact one, against an attacker who knows no other record, as in "
           "Definition 1. For one who knows others see def1.")  # fmt: skip
    yield ("Random chains: rates .01 to .97, of either sign of correlation; 2 to 15 records; "
           "epsilon .1 to 4, half of it for each side.")  # fmt: skip


def _three_regions(case: Setup, probabilities: tuple[float, float]) -> Redaction:
    """Return the mechanism of Eq. 1 with one probability of erasure left and one right."""
    table = np.ones((case.n, 2))
    for right, probability in zip((False, True), probabilities, strict=True):
        medium, small = theirs.regions(case, right)
        sign = 1 if right else -1
        table[[case.p - 1 + sign * d for d in medium], 0] = probability
        table[[case.p - 1 + sign * d for d in small]] = 0.0
    return Redaction(table, case.p - 1)


def _threshold_cases(seed: int, count: int, sign: Sign) -> Iterator[Setup]:
    """Yield cases whose budget is just what some pair of windows leaks: bounds are tight there."""
    rng = np.random.default_rng(seed)
    for case in draw_cases(seed + 1, count, sign, shortest=4):
        left, right = int(rng.integers(0, case.p)), int(rng.integers(0, case.n - case.p))
        leak = leak_of(case, window_of(case, left, right))
        yield Setup(case.alpha, case.beta, case.n, case.p, max(leak, 0.01) * (1 + 1e-9))


def _most(case: Setup) -> float:
    """Return the utility of the best private window."""
    return 1 - (sum(best_window(case)) + 1) / case.n


def _window_words(case: Setup) -> str:
    """Say which window shows most."""
    left, right = best_window(case)
    return f"erasing {left} to the left and {right} to the right is private"


@result(KEY, "thm2", "The bound on data-independent redaction, off by one")
def thm2(setting: Setting) -> Parts:
    """Try Theorem 2 against the best windows, found exactly, at budgets where bounds are tight."""
    count = 200 if setting.quick else 5000
    case = OFF_BY_ONE
    yield Claim(f"leakage of the window that shows most: {case.words}",
                leak_of(case, window_of(case, *best_window(case))), case.epsilon)  # fmt: skip
    yield Claim("its utility is at most Theorem 2", _most(case), theirs.theorem_two(case),
                witness=f"{case.words}: {_window_words(case)}")  # fmt: skip
    yield Claim("its utility is at most Theorem 2 with 2 Delta* - 2", _most(case),
                theirs.theorem_two(case, 2))  # fmt: skip
    yield Compared("the printed bound, by the library",
                   window_bound(chain_of(case), case.p - 1, case.n, case.epsilon, printed=True),
                   theirs.theorem_two(case), ROUNDING, "derived")  # fmt: skip
    for sign, where in SIGNS.items():
        tried = {1: WorstCase(), 2: WorstCase()}
        for drawn in _threshold_cases(setting.seed, count, sign):
            for shift, worst in tried.items():
                bound = theirs.theorem_two(drawn, shift)
                worst.offer(_most(drawn), bound, f"{drawn.words}: {_window_words(drawn)}")
        for shift, name in ((1, "as printed"), (2, "with 2 Delta* - 2")):
            if sign == "positive" or shift == 1:
                worst = tried[shift]
                tries = f"worst of {count} chains (broken by {worst.broken})"
                yield worst.claim(f"Theorem 2 {name}, {where}, {tries}")
    other = NOT_CONVEX
    yield Claim("Theorem 2, also with 2 Delta* - 2, where influences are not convex", _most(other),
                theirs.theorem_two(other, 2),
                witness=f"{other.words}: {_window_words(other)}; Proposition 1 fails here (prop1), "
                "so 2 Delta*(epsilon/2) - 2 is a bound only where alpha + beta <= 1")  # fmt: skip
    yield ("Data-independent redactions show most when they are a window: the best one is found "
           "exactly, in O(n), with its certified leakage.")  # fmt: skip
    yield ("Where alpha + beta <= 1 the least change that makes Theorem 2 true is 2 Delta* "
           "- 2 instead of 2 Delta* - 1 (and at least one record). Beyond, search "
           "the windows.")  # fmt: skip
    yield _bound_chart(case)


def _bound_chart(case: Setup) -> Chart:
    """Draw the bounds and the best windows by epsilon."""
    steps = np.linspace(0.1, 3.0, 117).round(6).tolist()
    moved = [Setup(case.alpha, case.beta, case.n, case.p, e) for e in steps]
    x = tuple(steps)
    first = tuple(1 - (sum(theirs.algorithm_one(c)) + 1) / c.n for c in moved)
    lines = (
        Trace("Theorem 2, printed", x, tuple(theirs.theorem_two(c) for c in moved), "theirs"),
        Trace("Theorem 2, corrected", x, tuple(theirs.theorem_two(c, 2) for c in moved), "bound"),
        Trace("best window", x, tuple(_most(c) for c in moved)),
        Trace("Algorithm 1", x, first, "theirs"),
    )
    title = f"alpha = {case.alpha:g}, beta = {case.beta:g}, n = {case.n}, p = {case.p}"
    panel = Panel(title, "epsilon", "utility", lines, xlim=(0.0, 3.0), ylim=(0.0, 1.0))
    return Chart("thm2", "Redaction that does not look at the values", (panel,))


@result(KEY, "alg1", "Markov quilt redaction erases more records than it must")
def alg1(setting: Setting) -> Parts:
    """Try Algorithm 1: its exact leakage, its stated utility, and the best windows beside it."""
    count = 150 if setting.quick else 3000
    extra = printed(KEY)["alg1"]
    allowed = extra["two_sided_excess"]
    leaks, stated, gap = WorstCase(), WorstCase(), WorstCase()
    wide = replace(NOT_CONVEX, n=30, p=12)
    for case in [*_threshold_cases(setting.seed + 10, count, "either"), OFF_BY_ONE, wide]:
        radii = theirs.algorithm_one(case)
        leaks.offer(leak_of(case, window_of(case, *radii)), case.epsilon, case.words)
        appendix = theirs.theorem_two(case, 1, (extra["one_sided_excess"], allowed))
        stated.offer(appendix, 1 - (sum(radii) + 1) / case.n, case.words)
        more = sum(radii) - sum(best_window(case))
        gap.offer(more, allowed, f"{case.words}: {_window_words(case)}")
    alone, same, growth = 0.0, 0.0, 0.0
    for drawn in draw_cases(setting.seed, 40 if setting.quick else 400):
        case = Setup(drawn.alpha, drawn.beta, drawn.n, 1, drawn.epsilon)
        needed = min(theirs.least_radius(case.alpha, case.beta, case.epsilon), case.n) - 1
        alone = max(alone, abs(sum(best_window(case)) - needed))
        left, right = theirs.algorithm_one(drawn)
        table = plan_of(drawn, "mq-printed").mechanism.probabilities
        same = max(same, abs(float(table[:, 0].sum()) - left - right - 1))
        far = [Setup(drawn.alpha, drawn.beta, n, drawn.p, drawn.epsilon) for n in (400, 800)]
        over = [sum(theirs.algorithm_one(c)) - sum(best_window(c)) for c in far]
        growth = max(growth, abs(over[1] - over[0]))
    yield leaks.claim(f"leakage, worst of {leaks.tried} chains")
    yield stated.claim("utility that Appendix C states, at most the one reached")
    yield gap.claim("records erased beyond the best window, at most 2 by Theorem 2 and Appendix C")
    yield Claim("asymptotically optimal: that number at n = 800 less that at n = 400, largest",
                growth, 0.0, ROUNDING, "==")  # fmt: skip
    yield Claim("records erased by the library's mq-printed and by Algorithm 1, largest difference",
                same, 0.0, ROUNDING, "==")  # fmt: skip
    yield Claim("p = 1: the best window and Delta* - 1 records, largest difference", alone, 0.0,
                ROUNDING, "==")  # fmt: skip
    for name, case in (("one-sided", Setup(0.01, 0.8, 10, 1, 1.0)), ("two-sided", OFF_BY_ONE)):
        ours, paper = (sum(radii) + 1 for radii in (best_window(case), theirs.algorithm_one(case)))
        yield Improved(f"records erased, {name}: {case.words}", ours, paper)
    yield ("Delta* is the distance of the first record that may be shown, and Algorithm 1 erases "
           "up to and with it: one record too many on each side. It also knows only two splits of "
           "the budget.")  # fmt: skip
    yield "Corrected: compare all pairs of windows, left against right, by their exact leakage."


@result(KEY, "cor1", "3R beside Algorithm 1: only with a free split of the budget")
def cor1(setting: Setting) -> Parts:
    """Try Corollary 1 with the halves of Theorem 1 and with the splits of Appendix B."""
    count = 60 if setting.quick else 1000
    half, free, best = WorstCase(), WorstCase(), WorstCase()
    for case in draw_cases(setting.seed + 20, count):
        paper = 1 - (sum(theirs.algorithm_one(case)) + 1) / case.n
        halves = shown(case, "3r-individual")
        half.offer(paper, halves, case.words)
        free.offer(paper, max(halves, _one_sided(case)), case.words)
        best.offer(_most(case), shown(case), case.words)
    long = Setup(HALVED.alpha, HALVED.beta, 400, HALVED.p, HALVED.epsilon)
    yield Claim(f"Algorithm 1 shows at most 3R with halves (Theorem 1): {HALVED.words}",
                shown(HALVED, "mq-printed"), shown(HALVED, "3r-individual"),
                witness="one record to the left takes half of the budget "
                "and shows little")  # fmt: skip
    yield half.claim(f"the same, worst of {count} chains (broken by {half.broken})")
    yield Claim("the same asymptotically: records shown of 400", shown(long, "mq-printed") * long.n,
                shown(long, "3r-individual") * long.n,
                witness=f"{long.words}: what is lost does not shrink with n")  # fmt: skip
    yield free.claim(
        "Algorithm 1 shows at most 3R with the split that it chose itself (Appendix B)"
    )
    yield best.claim("the best window shows at most the optimum")
    yield Improved(f"utility of the optimum beside 3R with halves: {HALVED.words}", shown(HALVED),
                   shown(HALVED, "3r-individual"), larger_is_better=True)  # fmt: skip
    yield ("Appendix B lets 3R spend the budget as Algorithm 1 does, all on one side if need be; "
           "Theorem 1 and the figures spend half on each side. 3R has a probability for each "
           "record here, which is at least as good as one for all.")  # fmt: skip


def _one_sided(case: Setup) -> float:
    """Return the utility of 3R that erases the left side and spends everything on the right."""
    right = Setup(case.alpha, case.beta, case.n - case.p + 1, 1, case.epsilon)
    return shown(right, "3r-individual") * right.n / case.n
