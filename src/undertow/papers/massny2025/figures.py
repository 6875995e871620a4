"""Figures 2 to 4, Table I and Example 1 of [massny2025]."""

import math

import numpy as np

from undertow.bounds.series.redaction import influence, regions
from undertow.bounds.series.regions import influences
from undertow.channels import Redaction
from undertow.papers.charts import Chart, Line, Panel
from undertow.papers.findings import Claim, Compared, Finding, Improved, Outcome
from undertow.papers.massny2025 import formulas as theirs
from undertow.papers.massny2025.cases import ROUNDING, chain_of, leak_of, plan_of, shown
from undertow.papers.massny2025.formulas import Case
from undertow.papers.registry import Setting, printed, result

__all__ = ["ex1", "fig2", "fig3", "fig4", "tab1"]

KEY = "massny2025"

UNREADABLE = (
    "The text of the paper carries no readable values of this figure: 'theirs' is the paper's own "
    "formula, evaluated apart from the library, and the ranges of the axes are ours."
)


def _case(item: str, epsilon: float | None = None) -> Case:
    """Return the parameters that a caption prints."""
    given = printed(KEY)[item]
    budget = given["epsilon"] if epsilon is None else epsilon
    return Case(given["alpha"], given["beta"], given["n"], given["p"], budget)


@result(KEY, "tab1", "Likelihood ratios of two neighbours")
def tab1(setting: Setting) -> Outcome:
    """Recompute Table I: Pr(X_2 = x_2 | X_1 = x) over the same for the other x."""
    given = printed(KEY)["tab1"]
    chain = chain_of(Case(given["alpha"], given["beta"], 2, 1, 1.0))
    table = np.asarray(chain.between(0, 1))
    findings = tuple(
        Compared(
            f"x = {x}, x_2 = {value}",
            ours=float(table[x, value] / table[1 - x, value]),
            theirs=given["ratios"][x][value],
            tolerance=ROUNDING,
        )
        for x in (0, 1)
        for value in (0, 1)
    )
    return Outcome(findings, notes=("Fractions in the paper: equal up to rounding of floats.",))


@result(KEY, "ex1", "Two records: erasing by value shows more")
def ex1(setting: Setting) -> Outcome:
    """Recompute Example 1, n = 2 and epsilon .5, and the least chance of erasure it allows."""
    given = printed(KEY)["ex1"]
    case = _case("ex1")
    chain = chain_of(case)
    example = Redaction([[1, 1], [given["chance"], 1]], 0)
    own = plan_of(case, "3r-constant")
    ratio = (given["chance"] * case.beta + 1 - case.beta) / (
        case.alpha + given["chance"] * (1 - case.alpha)
    )
    law = chain.law(1)
    findings: list[Finding] = [
        Compared(f"exp of {name}", math.exp(found), given[entry], ROUNDING)
        for name, found, entry in (
            ("the max-influence", influence(chain, 0, 1), "max_influence_exp"),
            ("the influence on X_2 = 0", influence(chain, 0, 1, 0), "influence_zero_exp"),
            ("the influence on X_2 = 1", influence(chain, 0, 1, 1), "influence_one_exp"),
        )
    ]
    utility = float(law[0] * (1 - given["chance"]) / case.n)
    findings += [
        Compared(
            "utility without looking at values",
            shown(case, "mq"), given["utility_independent"], ROUNDING,
        ),
        Compared("utility at q_2 = 1/8, as a fraction", utility, given["utility"], ROUNDING),
        Compared(
            "utility at q_2 = 1/8, as rounded",
            utility, given["utility_rounded"], given["reading_error"],
        ),
        Claim("leakage at q_2 = 1/8 is at most epsilon", leak_of(case, example), case.epsilon),
        Compared(
            "leakage at q_2 = 1/8: our exact one and the ratio of the example",
            leak_of(case, example), math.log(ratio), ROUNDING, "derived",
        ),
        Claim(
            "the same, if X_2 may be known beforehand",
            leak_of(case, example, "any"), case.epsilon,
        ),
        Improved(
            "chance of erasing X_2 = 0",
            float(own.mechanism.probabilities[1, 0]), given["chance"],
        ),
        Improved(
            "utility, by the least private chance of erasure",
            float(own.utility), given["utility"], larger_is_better=True,
        ),
    ]  # fmt: skip
    note = "The example says that 1/8 is private, not that it is the least: the least is computed."
    return Outcome(tuple(findings), notes=(note,))


@result(KEY, "fig2", "Pointwise influence by distance, and the three regions")
def fig2(setting: Setting) -> Outcome:
    """Recompute Fig. 2: Eqs. 13 and 14 beside influences from the chain, and the regions."""
    given = printed(KEY)["fig2"]
    reach, budget = 4, 0.15
    case = Case(given["alpha"], given["beta"], 2 * reach + 1, reach + 1, 2 * budget)
    chain = chain_of(case)
    found = influences(chain, case.p - 1, case.n)
    findings: list[Finding] = [
        Compared(
            f"i(X_p -> X_t = {value}) at distance {distance}, {side}",
            ours=float(found[case.p - 1 + sign * distance, value]),
            theirs=theirs.pointwise(case.alpha, case.beta, distance, value),
            tolerance=ROUNDING, source="derived",
        )
        for distance in range(1, reach + 1)
        for value in (0, 1)
        for side, sign in (("left", -1), ("right", 1))
    ]  # fmt: skip
    split = regions(chain, case.p - 1, budget, case.n)
    for right, side in ((False, "left"), (True, "right")):
        medium, small = theirs.regions(case, right)
        sign = 1 if right else -1
        for name, ours, paper in (("M", split.medium, medium), ("S", split.small, small)):
            inside = [r for r in ours if (r - case.p + 1) * sign > 0]
            findings.append(
                Compared(
                    f"records in {name}, {side}, at epsilon' = {budget:g}",
                    len(inside), len(paper), 0.0, "derived",
                )
            )  # fmt: skip
    literal = influence(chain, case.p - 1, case.p - 1)  # Definition 3 sets it to 0
    findings.append(
        Claim(
            "chance that the private record itself is shown",
            ours=float(literal <= budget), theirs=0.0,
            witness="Definition 3 gives the private record an influence of 0 on itself, so Section "
            "II read literally puts it into S, which Eq. 1 always shows; it belongs to L",
        )
    )  # fmt: skip
    spots = [d for d in range(-reach, reach + 1) if d]
    lines = [
        line
        for value in (0, 1)
        for line in (
            Line(
                f"X_t = {value}, ours", tuple(map(float, spots)),
                tuple(float(found[case.p - 1 + d, value]) for d in spots),
            ),
            Line(
                f"Eq. {13 + value}", tuple(map(float, spots)),
                tuple(theirs.pointwise(case.alpha, case.beta, abs(d), value) for d in spots),
                "theirs",
            ),
        )
    ]  # fmt: skip
    lines.append(Line("epsilon'", (-reach - 0.5, reach + 0.5), (budget, budget), "bound"))
    chart = Chart(
        "fig2", "Pointwise influence of the private record",
        (Panel("alpha = .25, beta = .5", "t - p", "pointwise influence", tuple(lines),
               xlim=(-reach - 0.5, reach + 0.5), ylim=(0.0, 0.8)),),
        "Values with an influence of at most epsilon' may be shown, at times (M) or always (S). "
        "The private record itself, at 0, is left out.",
    )  # fmt: skip
    note = f"epsilon' = {budget:g} is our choice, such that L, M and S are all there."
    return Outcome(tuple(findings), (chart,), (UNREADABLE, note))


BUDGETS = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)


@result(KEY, "fig3", "Utility by epsilon: the bound, two 3R mechanisms, the optimum")
def fig3(setting: Setting) -> Outcome:
    """Recompute Fig. 3: Theorem 2, Section IV-B, the grid search of Section V, and the optimum."""
    findings: list[Finding] = []
    for epsilon in BUDGETS:
        case = _case("fig3", epsilon)
        at = f"at epsilon {epsilon:g}"
        medium, _ = theirs.regions(case, True)
        constant = theirs.utility(case, (1.0, theirs.constant_by_grid(case)))
        findings += [
            Compared(
                f"DIM-UB {at}, attained", shown(case, "mq"), theirs.theorem_two(case),
                ROUNDING, "derived",
            ),
            Compared(
                f"relaxed 3R {at}", shown(case, "3r-relaxed"),
                theirs.utility(case, (1.0, theirs.relaxed_chance(case))), ROUNDING, "derived",
            ),
            Compared(
                f"optimised 3R {at}", shown(case, "3r-constant"), constant,
                theirs.GRID * len(medium) / case.n + ROUNDING, "derived",
            ),
            Improved(
                f"most that any local redaction shows {at}", shown(case),
                shown(case, "3r-constant"), larger_is_better=True,
                cause="here the best redaction is a 3R mechanism with one chance",
            ),
        ]  # fmt: skip
    steps = np.linspace(0.05, 4.0, 60 if setting.quick else 400).round(4).tolist()
    curves = {
        method: tuple(shown(_case("fig3", e), method) for e in steps)
        for method in ("mq", "3r-relaxed", "3r-constant", "optimal")
    }
    strict = tuple(shown(_case("fig3", e), "optimal", "any") for e in steps)
    bound = tuple(theirs.theorem_two(_case("fig3", e)) for e in steps)
    relaxed = tuple(
        theirs.utility(_case("fig3", e), (1.0, theirs.relaxed_chance(_case("fig3", e))))
        for e in steps
    )
    for name, upper, lower in (
        ("relaxed 3R shows at least the bound", curves["3r-relaxed"], bound),
        ("optimised 3R shows at least relaxed 3R", curves["3r-constant"], relaxed),
        ("the optimum shows at least optimised 3R", curves["optimal"], curves["3r-constant"]),
    ):
        worst = int(np.argmin(np.subtract(upper, lower)))
        findings.append(Claim(name, upper[worst], lower[worst], ROUNDING, ">="))
    gains = np.subtract(curves["3r-relaxed"], bound)
    low, high = np.less(steps, 1.0), np.less(steps, 3.0) & np.greater_equal(steps, 1.0)
    findings.append(
        Claim(
            "mean gain of relaxed 3R below epsilon 1 is less than from 1 to 3",
            float(gains[low].mean()), float(gains[high].mean()),
        )
    )  # fmt: skip
    x = tuple(steps)
    chart = Chart(
        "fig3", "Share of records shown",
        (Panel("p = 1, n = 10, alpha = .01, beta = .8", "epsilon", "utility", (
            Line("DIM-UB (Theorem 2)", x, bound, "theirs"),
            Line("3R, relaxed", x, relaxed, "theirs"),
            Line("3R, optimised", x, curves["3r-constant"], "theirs"),
            Line("optimum", x, curves["optimal"], "ours"),
            Line("optimum against any", x, strict, "ours"),
        ), xlim=(0.0, 4.0), ylim=(0.4, 1.0)),),
        "The last line also holds against an attacker who knows any other records.",
    )  # fmt: skip
    grid = (
        f"The paper's grid is not given; a step of {theirs.GRID:g} moves the utility by at most "
        "that times the share of records in M, which is the tolerance."
    )
    return Outcome(tuple(findings), (chart,), (UNREADABLE, grid))


@result(KEY, "fig4", "Chances of erasing a 0, record by record, at epsilon 1")
def fig4(setting: Setting) -> Outcome:
    """Recompute Fig. 4: Pr(erased | X_t = 0) of the mechanisms of Section V and of the optimum."""
    case = _case("fig4")
    tables = {
        method: plan_of(case, method).mechanism.probabilities[:, 0]
        for method in ("mq", "mq-printed", "3r-relaxed", "3r-constant", "3r-individual", "optimal")
    }
    strict = plan_of(case, "optimal", "any").mechanism.probabilities[:, 0]
    medium, small = theirs.regions(case, True)
    relaxed, constant = theirs.relaxed_chance(case), theirs.constant_by_grid(case)
    findings: list[Finding] = []
    for distance in medium:
        findings += [
            Compared(
                f"relaxed 3R at t = {distance + 1}", float(tables["3r-relaxed"][distance]), relaxed,
                ROUNDING, "derived",
            ),
            Compared(
                f"optimised 3R at t = {distance + 1}", float(tables["3r-constant"][distance]),
                constant, theirs.GRID, "derived",
            ),
        ]  # fmt: skip
    everywhere = [float(tables[name][list(small)].max()) for name in ("3r-relaxed", "3r-constant")]
    findings.append(Claim("chance of erasure in S", max(everywhere), 0.0, ROUNDING, "=="))
    left, right = theirs.algorithm_one(case)
    findings += [
        Compared(
            "records that Algorithm 1 erases", float(tables["mq-printed"].sum()),
            left + right + 1, ROUNDING, "derived",
        ),
        Improved(
            "records erased whatever their values",
            float(tables["mq"].sum()), float(tables["mq-printed"].sum()),
        ),
        Improved(
            "utility of the optimum beside optimised 3R",
            shown(case), shown(case, "3r-constant"), larger_is_better=True,
        ),
    ]  # fmt: skip
    x = tuple(float(t) for t in range(1, case.n + 1))
    flat = [1.0] + [relaxed if d in medium else 0.0 for d in range(1, case.n)]
    optimised = [1.0] + [constant if d in medium else 0.0 for d in range(1, case.n)]
    chart = Chart(
        "fig4", "How often a 0 is erased, epsilon = 1",
        (Panel("p = 1, n = 10, alpha = .01, beta = .8", "t", "Pr(erased | X_t = 0)", (
            Line("MQ (Algorithm 1)", x, tuple(tables["mq-printed"].tolist()), "theirs"),
            Line("3R, relaxed", x, tuple(flat), "theirs"),
            Line("3R, optimised", x, tuple(optimised), "theirs"),
            Line("MQ, corrected", x, tuple(tables["mq"].tolist())),
            Line("optimum", x, tuple(tables["optimal"].tolist())),
            Line("optimum against any", x, tuple(strict.tolist())),
        ), xlim=(0.5, 10.5), ylim=(0.0, 1.05)),),
        "The optimum reaches one record farther than M: it also erases a 1 there.",
    )  # fmt: skip
    names = ("mq-printed", "mq", "3r-relaxed", "3r-constant", "3r-individual", "optimal")
    rows = tuple(
        (name, *(f"{tables[name][t]:.4f}" for t in range(1, 5)), f"{shown(case, name):.6f}")
        for name in names
    )
    strictly = (*(f"{strict[t]:.4f}" for t in range(1, 5)), f"{shown(case, 'optimal', 'any'):.6f}")
    table = (
        "Chance of erasing a 0 at epsilon 1, and the share of records shown",
        ("method", "t = 2", "t = 3", "t = 4", "t = 5", "utility"),
        (*rows, ("optimal, against any", *strictly)),
    )
    return Outcome(tuple(findings), (chart,), (UNREADABLE,), tables=(table,))
