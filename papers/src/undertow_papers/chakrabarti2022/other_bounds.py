"""What others need: plain differential privacy, the bounds of [zhao2017], and Figure 3."""

import math
from itertools import product

import numpy as np

from undertow import PureDP, RandomizedResponse, leakage
from undertow.bounds.published import zhao_budget, zhao_constant
from undertow.errors import Infeasible
from undertow_papers.chakrabarti2022.common import (
    KEY,
    binary,
    flips_of,
    how,
    planned,
    rates,
    values,
)
from undertow_papers.chakrabarti2022.formulas import (
    approximate_flips,
    corollary_two,
    plain_flips,
    zhao_flips,
    zhao_one_step_flips,
)
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Compared, Improved, Listing, Parts, WorstCase
from undertow_papers.registry import Setting, result

__all__ = ["eq5", "eq6", "fig3", "prop1"]

EXACT = 1e-9
"""Rounding of logarithms and of rates of flips."""


@result(KEY, "eq5", "Flips of plain differential privacy, and what they leak on a chain")
def eq5(setting: Setting) -> Parts:
    """Recompute Equation 5, rho = 1 / (e^epsilon + 1), against attackers who know all or some."""
    informed, alone = WorstCase("=="), WorstCase(">=")
    for theta, epsilon in product((0.02, 0.1, 0.35, 0.45), (0.5, 1.0, 4.0)):
        chain, flips = binary(theta, theta, 30), flips_of(plain_flips(epsilon))
        informed.offer(leakage(flips, chain, "informed").upper, epsilon)
        where = f"theta {theta:g}, epsilon {epsilon:g}"
        alone.offer(leakage(flips, chain, "ignorant").lower, epsilon, where)
    yield informed.compared("loss if all other records are known", EXACT)
    yield alone.claim("least loss if no record is known")
    yield "12 symmetric chains and levels, 30 records."


@result(KEY, "eq6", "Flips of the one-step bound")
def eq6(setting: Setting) -> Parts:
    """Recompute Equation 6 from Equation 5 and the level epsilon - 6 ln (1-theta)/theta."""
    why = "a factor 2 too many: Equation 5 gives (1-t)^6 / (t^6 e^epsilon + (1-t)^6)"
    for theta, epsilon in ((0.35, 4.0), (0.35, 8.0), (0.45, 2.0)):
        constant = zhao_constant(binary(theta, theta))
        name = f"theta {theta:g}, epsilon {epsilon:g}"
        derived = plain_flips(epsilon - constant)
        printed = zhao_one_step_flips(theta, epsilon, printed=True)
        yield Compared(f"rho as printed, {name}", derived, printed, EXACT, wrong=why)
        yield Compared(f"rho without the factor, {name}", zhao_one_step_flips(theta, epsilon),
                       derived, EXACT, "derived")  # fmt: skip
    theta = 0.35
    least = 6 * math.log((1 - theta) / theta)
    lowest = zhao_constant(binary(theta, theta))
    yield Compared("level it cannot reach, theta .35", lowest, least, EXACT, "derived")
    chain = binary(0.35, 0.35, 30)
    reverse = planned(chain, 4.0, corrected=True)
    spent = RandomizedResponse.binary(*rates(reverse)).dp_epsilon()
    yield Claim("epsilon-BDP needs epsilon_3-DP: DP level of flips that keep epsilon 4, theta .35",
                spent, 4.0 - least,
                witness=f"flips of {reverse.expected_flips:.6f} keep epsilon 4 against any "
                "attacker")  # fmt: skip
    yield Claim("epsilon_3-DP is enough: leakage of any algorithm, theta .35, epsilon 4",
                leakage(PureDP(4.0 - least), binary(theta, theta)).upper, 4.0)  # fmt: skip
    yield Improved("flips, theta .35, epsilon 4", reverse.expected_flips,
                   zhao_one_step_flips(theta, 4.0))  # fmt: skip
    yield "The equivalence of the paper is one implication: the DP level is enough, not needed."


@result(KEY, "prop1", "The bound over several steps")
def prop1(setting: Setting) -> Parts:
    """Recompute Proposition 1: its closed ratio, that it suffices, and that it is not needed."""
    off = -math.inf
    for theta, steps in product((0.02, 0.1, 0.35, 0.45), (1, 2, 5, 15)):
        power = (1 - 2 * theta) ** steps
        closed = 6 * math.log((1 + power) / (1 - power))
        off = max(off, abs(zhao_constant(binary(theta, theta), steps) - closed))
    yield Claim("largest error of the closed ratio", off, 0.0, EXACT)
    thetas = (0.2, 0.35, 0.45) if setting.quick else np.linspace(0.05, 0.49, 23).tolist()
    enough, needed = WorstCase(), WorstCase()
    for theta, epsilon in product(thetas, (0.5, 1.0, 2.0, 4.0, 8.0)):
        chain = binary(theta, theta, 30)
        try:
            level = zhao_budget(chain, epsilon)
        except Infeasible:
            continue
        where = f"theta {theta:.3g}, epsilon {epsilon:g}"
        enough.offer(leakage(PureDP(level), chain).upper, epsilon, where)
        plan = planned(chain, epsilon, corrected=True)
        if isinstance(plan.mechanism, RandomizedResponse):
            cause = f"{where}: flips of {plan.expected_flips:.6f} keep the guarantee"
            needed.offer(plan.mechanism.dp_epsilon(), level, cause)
    yield enough.claim("epsilon_6-DP is enough: worst leakage")
    yield needed.claim("epsilon-BDP needs epsilon_6-DP: worst level")
    yield ("30 records. Theirs is the level of the proposition; ours the leakage of all algorithms "
           "of that level, and the DP level of the least flips that keep the guarantee. The proof "
           "of [zhao2017] is not at hand: that it suffices was checked, not proved.")  # fmt: skip


@result(KEY, "fig3", "Flips by epsilon, theta = .35, 30 records")
def fig3(setting: Setting) -> Parts:
    """Recompute Figure 3: the bound of [zhao2017], the simple rate, Corollary 2, and any."""
    printed_values = values("fig3")
    theta, records = printed_values["theta"], printed_values["records"]
    chain = binary(theta, theta, records)
    x = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    if not setting.quick:
        x = tuple(np.linspace(0.25, 8.0, 32).tolist())
    zhao = tuple(zhao_flips(chain, epsilon) for epsilon in x)
    simple = tuple(approximate_flips(theta, epsilon) for epsilon in x)
    exact = tuple(planned(chain, epsilon).expected_flips for epsilon in x)
    anyone = tuple(planned(chain, epsilon, corrected=True).expected_flips for epsilon in x)
    plain = tuple(plain_flips(epsilon) for epsilon in x)
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        bound = corollary_two(theta, planned(chain, epsilon).expected_flips)
        yield Compared(f"Corollary 2 of our rate, epsilon {epsilon:g}", bound, epsilon, EXACT,
                       "derived")  # fmt: skip
        short = leakage(planned(chain, epsilon).mechanism, chain, "ignorant")
        yield Claim(f"its loss if nothing is known, epsilon {epsilon:g}", short.upper, epsilon)
    order = min(min(a - b, b - c) for a, b, c in zip(zhao, simple, exact, strict=True))
    worst = max(
        (leakage(planned(chain, epsilon).mechanism, chain).lower / epsilon, epsilon)
        for epsilon in x
    )
    leak = leakage(planned(chain, worst[1]).mechanism, chain)
    yield Claim("least distance between the three curves, in their order", order, 0.0, 0, ">=")
    yield Claim(f"the lowest curve is private, epsilon {worst[1]:g}: leakage to any attacker",
                leak.lower, worst[1], witness=how(leak))  # fmt: skip
    for epsilon in (1.0, 4.0):
        ours = planned(chain, epsilon, corrected=True).expected_flips
        yield Improved(f"flips beside [zhao2017], epsilon {epsilon:g}", ours,
                       zhao_flips(chain, epsilon))  # fmt: skip
        yield Improved(f"flips beside the simple rate, epsilon {epsilon:g}", ours,
                       approximate_flips(theta, epsilon))  # fmt: skip
    lines = (
        Trace("Prop. 1 (Zhao)", x, zhao, "theirs"),
        Trace("simple rate", x, simple, "theirs"),
        Trace("Corollary 2", x, exact, "theirs"),
        Trace("any attacker", x, anyone, "bound"),
        Trace("plain DP", x, plain),
    )
    panel = Panel(f"theta = {theta:g}, {records} records", "epsilon", "rho", lines, xlim=(0, 8),
                  ylim=(0, 0.5))  # fmt: skip
    caption = "Lower is better. Corollary 2 is private against attackers who know no record only."
    rows = tuple(
        (f"{e:g}", *(f"{value:.6f}" for value in row))
        for e, *row in zip(x, plain, zhao, simple, exact, anyone, strict=True)
    )
    header = ("epsilon", "plain DP", "Zhao", "simple rate", "Corollary 2", "any")
    yield Chart("fig3", "Flips by epsilon", (panel,), caption)
    yield Listing("Share of flipped records, theta = .35, 30 records", header, rows)
    yield "Theirs are the paper's formulas, evaluated; the figure itself is not in the text."
