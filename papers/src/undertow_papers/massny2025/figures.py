"""Figures 2 to 4, Table I and Example 1 of [massny2025]."""

import math

import numpy as np

from undertow import Redaction
from undertow.bounds.channels.redaction import influence, influences, regions
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Compared, Improved, Listing, Parts
from undertow_papers.massny2025 import formulas as theirs
from undertow_papers.massny2025.cases import ROUNDING, chain_of, leak_of, plan_of, shown
from undertow_papers.massny2025.formulas import Setup
from undertow_papers.registry import Setting, printed, result

__all__ = ["ex1", "fig2", "fig3", "fig4", "tab1"]

KEY = "massny2025"

SETTING = "p = 1, n = 10, alpha = .01, beta = .8"
"""Of Figs. 3 and 4."""

UNREADABLE = (
    "The text of the paper carries no readable values of this figure: 'theirs' is the paper's own "
    "formula, evaluated apart from the library, and the ranges of the axes are ours."
)


def _case(item: str, epsilon: float | None = None) -> Setup:
    """Return the parameters that a caption prints."""
    given = printed(KEY)[item]
    budget = given["epsilon"] if epsilon is None else epsilon
    return Setup(given["alpha"], given["beta"], given["n"], given["p"], budget)


@result(KEY, "tab1", "Likelihood ratios of two neighbours")
def tab1(setting: Setting) -> Parts:
    """Recompute Table I: Pr(X_2 = x_2 | X_1 = x) over the same for the other x."""
    given = printed(KEY)["tab1"]
    chain = chain_of(Setup(given["alpha"], given["beta"], 2, 1, 1.0))
    table = np.asarray(chain.between(0, 1))
    for x in (0, 1):
        for value in (0, 1):
            yield Compared(f"x = {x}, x_2 = {value}",
                           ours=float(table[x, value] / table[1 - x, value]),
                           theirs=given["ratios"][x][value], tolerance=ROUNDING)  # fmt: skip
    yield "Fractions in the paper: equal up to rounding of floats."


@result(KEY, "ex1", "Two records: erasing by value shows more")
def ex1(setting: Setting) -> Parts:
    """Recompute Example 1, n = 2 and epsilon .5, and the least probability of erasure it allows."""
    given = printed(KEY)["ex1"]
    case = _case("ex1")
    chain = chain_of(case)
    example = Redaction([[1, 1], [given["probability"], 1]], 0)
    own = plan_of(case, "3r-constant")
    ratio = (given["probability"] * case.beta + 1 - case.beta) / (
        case.alpha + given["probability"] * (1 - case.alpha)
    )
    law = chain.law(1)
    for name, ours, entry in (
        ("the max-influence", influence(chain, 0, 1), "max_influence_exp"),
        ("the influence on X_2 = 0", influence(chain, 0, 1, 0), "influence_zero_exp"),
        ("the influence on X_2 = 1", influence(chain, 0, 1, 1), "influence_one_exp"),
    ):
        yield Compared(f"exp of {name}", math.exp(ours), given[entry], ROUNDING)
    utility = float(law[0] * (1 - given["probability"]) / case.n)
    yield Compared("utility without looking at values", shown(case, "mq"),
                   given["utility_independent"], ROUNDING)  # fmt: skip
    yield Compared("utility at q_2 = 1/8, as a fraction", utility, given["utility"], ROUNDING)
    yield Compared("utility at q_2 = 1/8, as rounded", utility, given["utility_rounded"],
                   given["reading_error"])  # fmt: skip
    yield Claim("leakage at q_2 = 1/8 is at most epsilon", leak_of(case, example), case.epsilon)
    yield Compared("leakage at q_2 = 1/8: our exact one and the ratio of the example",
                   leak_of(case, example), math.log(ratio), ROUNDING, "derived")  # fmt: skip
    yield Claim("the same, if X_2 may be known beforehand", leak_of(case, example, "any"),
                case.epsilon)  # fmt: skip
    yield Improved("probability of erasing X_2 = 0", float(own.mechanism.probabilities[1, 0]),
                   given["probability"])  # fmt: skip
    yield Improved("utility, by the least private probability of erasure", float(own.utility),
                   given["utility"], larger_is_better=True)  # fmt: skip
    yield "The example says that 1/8 is private, not that it is the least: the least is computed."


@result(KEY, "fig2", "Pointwise influence by distance, and the three regions")
def fig2(setting: Setting) -> Parts:
    """Recompute Fig. 2: Eqs. 13 and 14 beside influences from the chain, and the regions."""
    given = printed(KEY)["fig2"]
    reach, budget = 4, 0.15
    case = Setup(given["alpha"], given["beta"], 2 * reach + 1, reach + 1, 2 * budget)
    chain = chain_of(case)
    influence_table = influences(chain, case.p - 1, case.n)
    for distance in range(1, reach + 1):
        for value in (0, 1):
            for side, sign in (("left", -1), ("right", 1)):
                yield Compared(f"i(X_p -> X_t = {value}) at distance {distance}, {side}",
                               ours=float(influence_table[case.p - 1 + sign * distance, value]),
                               theirs=theirs.pointwise(case.alpha, case.beta, distance, value),
                               tolerance=ROUNDING, source="derived")  # fmt: skip
    split = regions(chain, case.p - 1, budget, case.n)
    for right, side in ((False, "left"), (True, "right")):
        medium, small = theirs.regions(case, right)
        sign = 1 if right else -1
        for name, ours, paper in (("M", split.medium, medium), ("S", split.small, small)):
            inside = [r for r in ours if (r - case.p + 1) * sign > 0]
            yield Compared(f"records in {name}, {side}, at epsilon' = {budget:g}", len(inside),
                           len(paper), 0.0, "derived")  # fmt: skip
    literal = influence(chain, case.p - 1, case.p - 1)  # Definition 3 sets it to 0
    yield Claim("probability that the private record itself is shown", float(literal <= budget),
                0.0, witness="Definition 3 gives the private record an influence of 0 on "
                "itself, so Section II read literally puts it into S, which Eq. 1 always shows; "
                "it belongs to L")  # fmt: skip
    spots = [d for d in range(-reach, reach + 1) if d]
    x, ends, lines = tuple(map(float, spots)), (-reach - 0.5, reach + 0.5), []
    for value in (0, 1):
        own = tuple(float(influence_table[case.p - 1 + d, value]) for d in spots)
        closed = tuple(theirs.pointwise(case.alpha, case.beta, abs(d), value) for d in spots)
        lines.append(Trace(f"X_t = {value}, ours", x, own))
        lines.append(Trace(f"Eq. {13 + value}", x, closed, "theirs"))
    lines.append(Trace("epsilon'", ends, (budget, budget), "bound"))
    panel = Panel("alpha = .25, beta = .5", "t - p", "pointwise influence", tuple(lines), xlim=ends,
                  ylim=(0.0, 0.8))  # fmt: skip
    yield Chart("fig2", "Pointwise influence of the private record", (panel,),
                "Values with an influence of at most epsilon' may be shown, at times (M) or always "
                "(S). The private record itself, at 0, is left out.")  # fmt: skip
    yield UNREADABLE
    yield f"epsilon' = {budget:g} is our choice, such that L, M and S are all there."


BUDGETS = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)


@result(KEY, "fig3", "Utility by epsilon: the bound, two 3R mechanisms, the optimum")
def fig3(setting: Setting) -> Parts:
    """Recompute Fig. 3: Theorem 2, Section IV-B, the grid search of Section V, and the optimum."""
    for epsilon in BUDGETS:
        case = _case("fig3", epsilon)
        at = f"at epsilon {epsilon:g}"
        medium, _ = theirs.regions(case, True)
        constant = theirs.utility(case, (1.0, theirs.constant_by_grid(case)))
        yield Compared(f"DIM-UB {at}, attained", shown(case, "mq"), theirs.theorem_two(case),
                       ROUNDING, "derived")  # fmt: skip
        yield Compared(f"relaxed 3R {at}", shown(case, "3r-relaxed"),
                       theirs.utility(case, (1.0, theirs.relaxed_probability(case))), ROUNDING,
                       "derived")  # fmt: skip
        yield Compared(f"optimised 3R {at}", shown(case, "3r-constant"), constant,
                       theirs.GRID * len(medium) / case.n + ROUNDING, "derived")  # fmt: skip
        yield Improved(f"most that any local redaction shows {at}", shown(case),
                       shown(case, "3r-constant"), larger_is_better=True,
                       cause="here the best redaction is a 3R mechanism "
                       "with one probability")  # fmt: skip
    steps = np.linspace(0.05, 4.0, 60 if setting.quick else 400).round(4).tolist()
    curves = {
        method: tuple(shown(_case("fig3", e), method) for e in steps)
        for method in ("mq", "3r-relaxed", "3r-constant", "optimal")
    }
    strict = tuple(shown(_case("fig3", e), "optimal", "any") for e in steps)
    bound = tuple(theirs.theorem_two(_case("fig3", e)) for e in steps)
    relaxed = tuple(
        theirs.utility(_case("fig3", e), (1.0, theirs.relaxed_probability(_case("fig3", e))))
        for e in steps
    )
    for name, upper, lower in (
        ("relaxed 3R shows at least the bound", curves["3r-relaxed"], bound),
        ("optimised 3R shows at least relaxed 3R", curves["3r-constant"], relaxed),
        ("the optimum shows at least optimised 3R", curves["optimal"], curves["3r-constant"]),
    ):
        worst = int(np.argmin(np.subtract(upper, lower)))
        yield Claim(name, upper[worst], lower[worst], ROUNDING, ">=")
    gains = np.subtract(curves["3r-relaxed"], bound)
    low, high = np.less(steps, 1.0), np.less(steps, 3.0) & np.greater_equal(steps, 1.0)
    yield Claim("mean gain of relaxed 3R below epsilon 1 is less than from 1 to 3",
                float(gains[low].mean()), float(gains[high].mean()))  # fmt: skip
    x = tuple(steps)
    lines = (
        Trace("DIM-UB (Theorem 2)", x, bound, "theirs"),
        Trace("3R, relaxed", x, relaxed, "theirs"),
        Trace("3R, optimised", x, curves["3r-constant"], "theirs"),
        Trace("optimum", x, curves["optimal"], "ours"),
        Trace("optimum against any", x, strict, "ours"),
    )
    panel = Panel(SETTING, "epsilon", "utility", lines, xlim=(0.0, 4.0), ylim=(0.4, 1.0))
    yield Chart("fig3", "Share of records shown", (panel,),
                "The last line also holds against an attacker who knows any other "
                "records.")  # fmt: skip
    yield UNREADABLE
    yield (f"The paper's grid is not given; a step of {theirs.GRID:g} moves the utility by at most "
           "that times the share of records in M, which is the tolerance.")  # fmt: skip


@result(KEY, "fig4", "Probabilities of erasing a 0, record by record, at epsilon 1")
def fig4(setting: Setting) -> Parts:
    """Recompute Fig. 4: Pr(erased | X_t = 0) of the mechanisms of Section V and of the optimum."""
    case = _case("fig4")
    tables = {
        method: plan_of(case, method).mechanism.probabilities[:, 0]
        for method in ("mq-printed", "mq", "3r-relaxed", "3r-constant", "3r-individual", "optimal")
    }
    strict = plan_of(case, "optimal", "any").mechanism.probabilities[:, 0]
    medium, small = theirs.regions(case, True)
    relaxed, constant = theirs.relaxed_probability(case), theirs.constant_by_grid(case)
    for distance in medium:
        yield Compared(f"relaxed 3R at t = {distance + 1}", float(tables["3r-relaxed"][distance]),
                       relaxed, ROUNDING, "derived")  # fmt: skip
        yield Compared(f"optimised 3R at t = {distance + 1}",
                       float(tables["3r-constant"][distance]), constant, theirs.GRID,
                       "derived")  # fmt: skip
    everywhere = [float(tables[name][list(small)].max()) for name in ("3r-relaxed", "3r-constant")]
    yield Claim("probability of erasure in S", max(everywhere), 0.0, ROUNDING, "==")
    left, right = theirs.algorithm_one(case)
    yield Compared("records that Algorithm 1 erases", float(tables["mq-printed"].sum()),
                   left + right + 1, ROUNDING, "derived")  # fmt: skip
    yield Improved("records erased whatever their values", float(tables["mq"].sum()),
                   float(tables["mq-printed"].sum()))  # fmt: skip
    yield Improved("utility of the optimum beside optimised 3R", shown(case),
                   shown(case, "3r-constant"), larger_is_better=True)  # fmt: skip
    x = tuple(float(t) for t in range(1, case.n + 1))
    flat = [1.0] + [relaxed if d in medium else 0.0 for d in range(1, case.n)]
    optimised = [1.0] + [constant if d in medium else 0.0 for d in range(1, case.n)]
    lines = (
        Trace("MQ (Algorithm 1)", x, tuple(tables["mq-printed"].tolist()), "theirs"),
        Trace("3R, relaxed", x, tuple(flat), "theirs"),
        Trace("3R, optimised", x, tuple(optimised), "theirs"),
        Trace("MQ, corrected", x, tuple(tables["mq"].tolist())),
        Trace("optimum", x, tuple(tables["optimal"].tolist())),
        Trace("optimum against any", x, tuple(strict.tolist())),
    )
    panel = Panel(SETTING, "t", "Pr(erased | X_t = 0)", lines, xlim=(0.5, 10.5), ylim=(0.0, 1.05))
    yield Chart("fig4", "How often a 0 is erased, epsilon = 1", (panel,),
                "The optimum reaches one record farther than M: it also erases a 1 "
                "there.")  # fmt: skip
    rows = [(name, probabilities, shown(case, name)) for name, probabilities in tables.items()]
    rows.append(("optimal, against any", strict, shown(case, "optimal", "any")))
    yield Listing("Probability of erasing a 0 at epsilon 1, and the share of records shown",
                ("method", "t = 2", "t = 3", "t = 4", "t = 5", "utility"),
                tuple((name, *(f"{erased:.4f}" for erased in column[1:5]), f"{share:.6f}")
                      for name, column, share in rows))  # fmt: skip
    yield UNREADABLE
