"""Appendix A, the optimum that Section V asks for, other attackers, several private records."""

import math

import numpy as np

from undertow import Redacted, Redaction, calibrate, leakage
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Compared, Improved, Listing, Parts, WorstCase
from undertow_papers.massny2025 import formulas as theirs
from undertow_papers.massny2025.cases import (
    PAPER,
    ROUNDING,
    chain_of,
    draw_cases,
    leak_of,
    plan_of,
    shown,
    shown_share,
)
from undertow_papers.massny2025.formulas import Setup
from undertow_papers.registry import Setting, result

__all__ = ["def1", "eq4", "fn1", "sec5"]

KEY = "massny2025"

UNEVEN = Setup(0.02, 0.2, 3, 1, 1.6)
"""The convex program has no constant optimum here."""

TWO_SIDED = (
    Setup(0.25, 0.5, 12, 6, 1.0),
    Setup(0.01, 0.8, 11, 5, 0.5),
    Setup(0.01, 0.8, 11, 5, 1.0),
    Setup(0.01, 0.8, 11, 5, 2.0),
)


@result(KEY, "eq4", "The relaxed leakage bound and its optimum (Appendix A)")
def eq4(setting: Setting) -> Parts:
    """Try Eq. 4 at random probabilities of erasure, its printed proof, and the constant optimum."""
    count = 80 if setting.quick else 2000
    rng = np.random.default_rng(setting.seed)
    closest = WorstCase()
    for drawn in draw_cases(setting.seed + 80, count, shortest=3):
        case = Setup(drawn.alpha, drawn.beta, drawn.n, 1, drawn.epsilon)
        medium, small = theirs.regions(case, True)
        if not medium:
            continue
        probabilities = rng.uniform(0.05, 1.0, len(medium))
        bound = _relaxed_bound(case, medium, small, probabilities.tolist())
        table = np.ones((case.n, 2))
        table[list(medium), 0] = probabilities
        table[list(small)] = 0.0
        leak = leak_of(case, Redaction(table, 0))
        bound = max(bound, theirs.pointwise(case.alpha, case.beta, medium[0], 0))
        closest.offer(leak, bound, case.words)
    yield closest.claim(f"leakage is at most Eq. 4, closest of {closest.tried} chains")
    case = Setup(0.01, 0.8, 10, 1, 1.0)
    probability = theirs.constant_by_grid(case)
    medium, _ = theirs.regions(case, True)
    last = medium[-1] + 1
    start = theirs.pointwise(case.alpha, case.beta, last, 1)
    left = float(theirs.erased_loss(case, medium, last, 1, np.array([probability]))[0])
    yield Claim("left side of Eq. 5 is at most influence + log(min / max), as printed", left,
                start + len(medium) * math.log(probability),
                witness=f"{case.words}, q = {probability:.4f}: numerator and denominator are "
                "exchanged; with log(max / min) the bound holds")  # fmt: skip
    yield Claim("the same with log(max / min)", left, start - len(medium) * math.log(probability))
    yield Claim(
        "one probability for all of M is as good as the convex program",
        theirs.utility(UNEVEN, (1.0, theirs.relaxed_probability(UNEVEN))),
        shown(UNEVEN, "3r-relaxed"),
        ROUNDING,
        ">=",
        witness=f"{UNEVEN.words}: the program erases a 0 with "
        + ", ".join(f"{q:.4f}" for q in _zero_probabilities(UNEVEN)),
    )
    yield Improved(f"utility of the program itself: {UNEVEN.words}", shown(UNEVEN, "3r-relaxed"),
                   theirs.utility(UNEVEN, (1.0, theirs.relaxed_probability(UNEVEN))),
                   larger_is_better=True)  # fmt: skip
    yield ("Eq. 4 leaves out the outputs that show the first record of M: their loss is at most "
           "epsilon by the choice of M (Appendix A), and is added here.")  # fmt: skip
    yield "In the setting of Figs. 3 and 4 the program's optimum is constant, as the paper says."


def _relaxed_bound(
    case: Setup, medium: tuple[int, ...], small: tuple[int, ...], probabilities: list[float]
) -> float:
    """Return the right side of Eq. 4 for a side with these probabilities of erasure."""
    spent, worst = 0.0, 0.0
    for distance, probability in zip(medium, probabilities, strict=True):
        spent -= math.log(probability)
        beyond = 0.0
        if distance + 1 in medium or distance + 1 in small:
            value = int(distance + 1 in small)
            beyond = theirs.pointwise(case.alpha, case.beta, distance + 1, value)
        worst = max(worst, beyond + spent)
    return worst


def _zero_probabilities(case: Setup) -> list[float]:
    """Return the probabilities of erasing a 0 besides the private record, by the convex program."""
    erasures: list[float] = plan_of(case, "3r-relaxed").mechanism.probabilities[1:, 0].tolist()
    return erasures


@result(KEY, "sec5", "The optimum over all local redactions, left open in Section V")
def sec5(setting: Setting) -> Parts:
    """Compute the best local redaction, two-sided, beside the 3R mechanisms with halves."""
    rows = []
    for case in TWO_SIDED:
        probabilities = (theirs.constant_by_grid(case, False), theirs.constant_by_grid(case))
        paper = theirs.utility(case, probabilities)
        medium = sum(len(theirs.regions(case, right)[0]) for right in (False, True))
        yield Compared(f"optimised 3R: {case.words}", shown(case, "3r-constant"), paper,
                       theirs.GRID * medium / case.n + ROUNDING, "derived")  # fmt: skip
        yield Improved(f"utility of the optimum: {case.words}", shown(case),
                       shown(case, "3r-constant"), larger_is_better=True)  # fmt: skip
        methods = ("mq-printed", "mq", *PAPER, "optimal")
        own = tuple(f"{shown(case, method):.6f}" for method in methods)
        rows.append((case.words, *own, f"{shown(case, 'optimal', 'any'):.6f}"))
    count = 25 if setting.quick else 1000
    short = WorstCase()
    for case in draw_cases(setting.seed + 90, count):
        for method in ("mq", *PAPER):
            short.offer(shown(case, method), shown(case), f"{case.words}: {method}")
    yield short.claim(f"no mechanism of the paper shows more, closest of {count} chains")
    header = ("setting", "Algorithm 1", "best window", "3R relaxed", "3R one probability",
              "3R each", "optimum", "optimum, any")  # fmt: skip
    yield Listing("Share of records shown, private record in the middle", header, tuple(rows))
    steps = np.linspace(0.1, 4.0, 20 if setting.quick else 118).round(4).tolist()
    base = TWO_SIDED[1]
    moved = [Setup(base.alpha, base.beta, base.n, base.p, e) for e in steps]
    x = tuple(steps)
    panel = Panel(
        "p = 5, n = 11, alpha = .01, beta = .8", "epsilon", "utility",
        (
            Trace("best window", x, tuple(shown(c, "mq") for c in moved)),
            Trace("3R, relaxed", x, tuple(shown(c, "3r-relaxed") for c in moved), "theirs"),
            Trace("3R, optimised", x, tuple(shown(c, "3r-constant") for c in moved), "theirs"),
            Trace("optimum", x, tuple(shown(c) for c in moved)),
        ),
        xlim=(0.0, 4.0), ylim=(0.0, 1.0),
    )  # fmt: skip
    yield "The split of the budget is free, and left and right each have an upper and a lower one."
    yield ("That the recursion is the optimum is checked against general solvers on small chains, "
           "not proved by this computation; that its plans are private is certified.")  # fmt: skip
    yield Chart("sec5", "The optimum beside 3R", (panel,))


@result(KEY, "def1", "What the mechanisms leak to whoever knows other records")
def def1(setting: Setting) -> Parts:
    """Compute the leakage of the mechanisms against any attacker, and the best plan for that."""
    cause = (
        "Definition 1 lets the attacker know nothing; a known record of the rare value speaks "
        "against what is shown, and the two together say more"
    )
    small = Setup(0.01, 0.8, 8, 1, 0.25)
    for method, name in (("3r-constant", "optimised 3R"), ("optimal", "the ignorant optimum")):
        bracket = leakage(plan_of(small, method).mechanism, chain_of(small), "any")
        known = [f"X_{r + 1} = {v}" for r, v in bracket.witness.known] if bracket.witness else []
        yield Compared(f"leakage of {name} to any, promised {small.epsilon:g}, n = {small.n}",
                       float(bracket.upper), small.epsilon, ROUNDING, "derived",
                       cause=f"{cause}: {', '.join(known)} known")  # fmt: skip
    rows = []
    for epsilon in (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        case = Setup(0.01, 0.8, 10, 1, epsilon)
        leaks = {m: _to_any(case, m) for m in ("mq", "3r-relaxed", "3r-constant", "optimal")}
        own = plan_of(case, "optimal", "any")
        yield Compared(f"leakage of optimised 3R to any, Fig. 3 at epsilon {epsilon:g}",
                       leaks["3r-constant"], epsilon, ROUNDING, "derived", cause=cause)  # fmt: skip
        yield Claim(f"leakage of our plan against any, epsilon {epsilon:g}",
                    float(own.leakage.upper), epsilon)  # fmt: skip
        rows.append((
            f"{epsilon:g}", f"{shown(case, '3r-constant'):.6f}", f"{leaks['3r-constant']:.4f}",
            f"{shown(case):.6f}", f"{leaks['optimal']:.4f}",
            f"{shown(case, 'mq', 'any'):.6f}", f"{own.utility:.6f}",
        ))  # fmt: skip
    header = ("epsilon", "optimised 3R", "leaks to any", "optimum, ignorant", "leaks to any",
              "best window, any", "our plan, any")  # fmt: skip
    yield Listing("Share of records shown in the setting of Fig. 3, and what it leaks", header,
                tuple(rows))  # fmt: skip
    steps = np.linspace(0.1, 4.0, 30 if setting.quick else 157).round(4).tolist()
    cases = [Setup(0.01, 0.8, 10, 1, e) for e in steps]
    x = tuple(steps)
    panel = Panel(
        "p = 1, n = 10, alpha = .01, beta = .8", "epsilon promised", "leakage to any",
        (
            Trace("promised", x, x, "bound"),
            Trace("3R, relaxed", x, tuple(_to_any(c, "3r-relaxed") for c in cases), "theirs"),
            Trace("3R, optimised", x, tuple(_to_any(c, "3r-constant") for c in cases), "theirs"),
            Trace("best window", x, tuple(_to_any(c, "mq") for c in cases), "theirs"),
            Trace("our plan", x, tuple(float(plan_of(c, "optimal", "any").leakage.upper)
                                      for c in cases)),
        ),
        xlim=(0.0, 4.0),
    )  # fmt: skip
    yield ("The paper guarantees Definition 1 only, and keeps it (thm1): this is what that "
           "guarantee leaves out, not a mistake in a proof.")  # fmt: skip
    yield Chart("def1", "What is promised and what leaks", (panel,))


def _to_any(case: Setup, method: str) -> float:
    """Return what a plan made against an ignorant attacker leaks to any."""
    return leak_of(case, plan_of(case, method).mechanism, "any")


@result(KEY, "fn1", "Several private records: the most conservative choice, record by record")
def fn1(setting: Setting) -> Parts:
    """Try footnote 1: 3R for two records at once, each erased with the larger probability."""
    count = 25 if setting.quick else 1000
    rng = np.random.default_rng(setting.seed)
    worst = WorstCase()
    for case in draw_cases(setting.seed + 95, count, shortest=4):
        first, second = sorted(rng.choice(case.n, 2, replace=False).tolist())
        joint = _joined(case, (first, second))
        about = f"records {first + 1} and {second + 1}"
        worst.offer(leak_of(case, joint), case.epsilon, f"{case.words}: {about}")
    yield worst.claim(f"leakage about either record, worst of {count} chains")
    case = Setup(0.01, 0.8, 12, 4, 1.0)
    for pair in ((3, 8), (3, 4)):
        joint = _joined(case, pair)
        query = Redacted(protect=pair, length=case.n)
        own = calibrate(query, chain_of(case), case.epsilon, "ignorant", method="optimal")
        share = shown_share(case, joint.probabilities)
        yield Improved(f"utility with records {pair[0] + 1} and {pair[1] + 1} of 12 private, "
                       "epsilon 1", float(own.utility), share, larger_is_better=True)  # fmt: skip
    yield ("A larger probability of erasure is post-processing: what is shown is erased again at "
           "times. So the joined mechanism leaks no more about a record than its own; it shows "
           "less than it could.")  # fmt: skip


def _joined(case: Setup, private: tuple[int, int]) -> Redaction:
    """Return the larger probability of erasure of two mechanisms, each for one private record."""
    tables = []
    for record in private:
        query = Redacted(protect=record, length=case.n)
        plan = calibrate(query, chain_of(case), case.epsilon, "ignorant", method="3r-constant")
        tables.append(plan.mechanism.probabilities)
    return Redaction(np.maximum(*tables), private)
