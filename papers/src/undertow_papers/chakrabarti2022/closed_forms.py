"""Theorem 1 and its corollaries: the closed form against an attacker who knows no record."""

import math
from collections.abc import Callable
from itertools import product

import numpy as np
from scipy.optimize import brentq

from undertow import MarkovChain, RandomizedResponse, Series, calibrate, leakage
from undertow_papers.chakrabarti2022.common import (
    FILES,
    KEY,
    binary,
    flips_of,
    how,
    planned,
    rates,
    ratios,
    values,
)
from undertow_papers.chakrabarti2022.formulas import (
    approximate_flips,
    corollary_two,
    largest_ratio,
    theorem_one,
)
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Compared, Improved, Parts, WorstCase
from undertow_papers.registry import Setting, result

__all__ = ["cor1", "cor2", "fig1a", "fig1b", "lemma1", "lemma3", "thm1"]

ROUNDING = 1e-9
"""Of logarithms of likelihood ratios: forward-backward sums and closed forms agree to far less."""


def both_ways(q: float, r: float, rho0: float, rho1: float) -> float:
    """Return the bound of Theorem 1 on either likelihood ratio, whichever is larger."""
    return max(theorem_one(q, r, rho0, rho1), theorem_one(r, q, rho1, rho0))


def drawn(setting: Setting, cases: int) -> list[tuple[float, float, float, float, int]]:
    """Return random q, r, rho0, rho1 in (.01, .49), with lengths from 2 to 60."""
    rng = np.random.default_rng([setting.seed, 1])
    table = rng.uniform(0.01, 0.49, size=(cases, 4)).tolist()
    lengths = rng.integers(2, 61, size=cases).tolist()
    return [(*row, length) for row, length in zip(table, lengths, strict=True)]


@result(KEY, "thm1", "The likelihood ratio without known records is at most a^2 / (c d)")
def thm1(setting: Setting) -> Parts:
    """Recompute Theorem 1 on random chains, flips and lengths, and how tight it is."""
    cases = drawn(setting, 150 if setting.quick else 3000)
    worst, odd = WorstCase(), 0
    for q, r, rho0, rho1, length in cases:
        flips = RandomizedResponse.binary(rho0, rho1)
        bracket = leakage(flips, binary(q, r, length), "ignorant")
        where = f"q {q:.3f}, r {r:.3f}, rho {rho0:.3f} and {rho1:.3f}, {length} records"
        worst.offer(bracket.lower, both_ways(q, r, rho0, rho1), where)
        seen = (
            set() if bracket.witness is None else {output for _, output in bracket.witness.outputs}
        )
        odd += bracket.witness is None or seen != {bracket.witness.value}
    yield worst.claim("closest to the bound of all random cases")
    yield Claim("cases whose worst output is not constant", odd, 0, 0, "==")
    for q, r, rho0, rho1 in ((0.2, 0.35, 0.3, 0.25), (0.1, 0.1, 0.02, 0.02), (0.05, 0.3, 0.4, 0.2)):
        bracket = leakage(RandomizedResponse.binary(rho0, rho1), binary(q, r, 400), "ignorant")
        yield Compared(f"400 records, q {q:g}, r {r:g}, rho {rho0:g} and {rho1:g}", bracket.upper,
                       both_ways(q, r, rho0, rho1), ROUNDING, "derived")  # fmt: skip
    yield f"{len(cases)} random chains of 2 to 60 records, all parameters in (.01, .49)."


@result(KEY, "lemma1", "The all-zero output is the worst for every record")
def lemma1(setting: Setting) -> Parts:
    """Recompute Lemma 1 by weighing all outputs of short series."""
    records = 8 if setting.quick else 11
    outputs = np.array(list(product((0, 1), repeat=records)))
    candidates: list[tuple[float, float, str]] = []
    cases = drawn(setting, 12 if setting.quick else 60)
    for q, r, rho0, rho1, _ in cases:
        each = ratios(outputs, RandomizedResponse.binary(rho0, rho1), binary(q, r, records))
        for record in range(records):
            where = f"record {record + 1}, q {q:.3f}"
            candidates.append((float(each[:, record].max()), float(each[0, record]), where))
    yield WorstCase.of(sorted(candidates, reverse=True)).claim(
        "largest ratio beside that of all zeros"
    )
    yield f"All {len(outputs)} outputs of {records} records, {len(cases)} random chains."


@result(KEY, "lemma3", "The record in the middle is the easiest to attack")
def lemma3(setting: Setting) -> Parts:
    """Recompute Lemma 3: how far from the middle the largest ratio stands, as the series grows."""
    lengths = (11, 21, 41) if setting.quick else (11, 21, 41, 81, 161)
    cases = drawn(setting, 40 if setting.quick else 200)
    far = dict.fromkeys(lengths, 0.0)
    for q, r, rho0, rho1, _ in cases:
        flips = RandomizedResponse.binary(rho0, rho1)
        for length in lengths:
            log_ratios = ratios([0] * length, flips, binary(q, r, length))
            best = np.flatnonzero(log_ratios >= log_ratios.max() - 1e-12) + 1
            far[length] = max(far[length], float(np.abs(best - length / 2).min()))
    for length in lengths[1:]:
        yield Claim(f"largest distance from n / 2, {length} records", far[length], far[lengths[0]])
    yield (f"{len(cases)} random chains, beside the distance at {lengths[0]} records. The constant "
           "that the paper leaves open is at most one half: a stationary chain of two states is "
           "the same backwards.")  # fmt: skip


def boundary(q: float, r: float, epsilon: float, rho0: float) -> float:
    """Return the least rho1 in (0, 1/2] that Theorem 1 allows beside rho0, NaN where none does."""
    return _least(lambda rho1: theorem_one(q, r, rho0, rho1) - epsilon)


def mirrored(q: float, r: float, epsilon: float, rho0: float) -> float:
    """Return the least rho1 that the other direction of Theorem 1 allows, NaN where none does."""
    return _least(lambda rho1: theorem_one(r, q, rho1, rho0) - epsilon)


def _least(off: Callable[[float], float]) -> float:
    """Return the root in (0, 1/2] of a falling function, 0 where it is negative, else NaN."""
    if off(0.5) > 0:
        return math.nan
    return 0.0 if off(1e-12) < 0 else float(brentq(off, 1e-12, 0.5, xtol=1e-15))


def swept(q: float, r: float, epsilon: float, steps: int) -> tuple[float, float, float]:
    """Return the least expected flips by sweeping rho0, and the flips that attain it."""
    best = (math.inf, 0.5, 0.5)
    for rho0 in np.linspace(1e-6, 0.5, steps).tolist():
        rho1 = max(boundary(q, r, epsilon, rho0), mirrored(q, r, epsilon, rho0))
        if not math.isnan(boundary(q, r, epsilon, rho0) + mirrored(q, r, epsilon, rho0)):
            best = min(best, ((r * rho0 + q * rho1) / (q + r), rho0, rho1))
    return best


@result(KEY, "cor1", "The least expected flips in constant time")
def cor1(setting: Setting) -> Parts:
    """Recompute Corollary 1: the constraints are straight lines, and the optimum is a vertex."""
    steps = 200 if setting.quick else 2000
    bend, flips = 0.0, []
    for q, r, epsilon in ((0.2, 0.35, 0.5), (0.2, 0.35, 2.0), (0.1, 0.1, 4.0), (0.3, 0.05, 3.0)):
        s0 = largest_ratio(q, r, epsilon)
        for rho0 in np.linspace(0.01, 0.49, 25).tolist():
            rho1 = boundary(q, r, epsilon, rho0)
            bend = max(bend, 0.0 if math.isnan(rho1) else abs(rho0 + s0 * rho1 - 1))
        least = swept(q, r, epsilon, steps)[0]
        plan = planned(binary(q, r), epsilon)
        name = f"expected flips, q {q:g}, r {r:g}, epsilon {epsilon:g}"
        flips.append(Compared(name, plan.expected_flips, least, 1 / steps, "derived"))
    yield Claim("largest distance of Theorem 1 from rho0 + S0 rho1 = 1", bend, 0, 1e-9)
    yield from flips
    runs = values("fig4")["flips"]
    high = binary(runs["q"], runs["r"])
    for epsilon, rho0, rho1 in zip(runs["epsilon"], runs["rho0"], runs["rho1"], strict=True):
        flip_rates = rates(planned(high, epsilon))
        for place, ours, theirs in zip((0, 1), flip_rates, (rho0, rho1), strict=True):
            yield Compared(f"rho{place}, N10, epsilon {epsilon:g}", ours, theirs, 1e-9, "code")
    low = values("fig4")["low"]
    chain = binary(low["q"], low["r"])
    yield Improved("expected flips, N5, epsilon 1: always show 0", float(chain.initial[1]),
                   planned(chain, 1.0).expected_flips)  # fmt: skip
    yield (f"Expected flips beside a sweep of {steps} values of rho0 with Theorem 1 solved for "
           "rho1; a sweep is off by at most its step.")  # fmt: skip
    yield ("The last row: with rates of at most one half, the optimum can flip more than always "
           "showing the commoner state would, which says nothing at all.")  # fmt: skip
    yield FILES


@result(KEY, "cor2", "Symmetric chains: the bound, its place, and a simple rate that suffices")
def cor2(setting: Setting) -> Parts:
    """Recompute Corollary 2: the special case, the worst record, and the approximate rate."""
    off = max(
        abs(corollary_two(theta, rho) - theorem_one(theta, theta, rho, rho))
        for theta in np.linspace(0.01, 0.49, 25).tolist()
        for rho in np.linspace(0.01, 0.49, 25).tolist()
    )
    yield Claim("largest distance from Theorem 1", off, 0, ROUNDING)
    flips = RandomizedResponse.binary(0.4, 0.4)  # far from the limit, where the middle is flat
    for records in (3, 4, 5, 30):
        log_ratios = ratios([0] * records, flips, binary(0.05, 0.05, records))
        first = int(np.flatnonzero(log_ratios >= log_ratios.max() - 1e-12)[0]) + 1
        yield Compared(f"worst of {records} records", first, records // 2, 0,
                       wrong="the middle of an odd number of records is number "
                       "ceil(n / 2)")  # fmt: skip
    thetas = (0.02, 0.1, 0.2, 0.35, 0.45) if setting.quick else np.linspace(0.01, 0.49, 49).tolist()
    alone, known = WorstCase(), WorstCase()
    for theta, epsilon in product(thetas, (0.5, 1.0, 2.0, 4.0, 8.0)):
        rho = approximate_flips(theta, epsilon)
        where = f"theta {theta:.3g}, epsilon {epsilon:g}, rho {rho:.4f}"
        alone.offer(corollary_two(theta, rho), epsilon, where)
        leak = leakage(flips_of(rho), binary(theta, theta))
        known.offer(leak.lower, epsilon, f"{where}; {how(leak)}")
    yield alone.claim("simple rate, nothing known: worst leakage")
    yield known.claim("simple rate, any known records: worst leakage")
    yield Improved("flips, theta .35, epsilon 4: closed form beside the simple rate",
                   planned(binary(0.35, 0.35), 4.0).expected_flips,
                   approximate_flips(0.35, 4.0))  # fmt: skip
    yield "The exact inverse is as simple: rho = 1 / (1 + S0), no approximation is needed."


def _straight(a: float, b: float) -> tuple[Trace, Trace]:
    """Return where flips meet the ratios e^a and e^b, inside the square of at most one half."""
    s, t = math.exp(a), math.exp(b)
    x = np.linspace(0.0, 0.5, 401).tolist()
    first = [(rho0, (1 - rho0) / s) for rho0 in x]
    second = [(rho0, 1 - t * rho0) for rho0 in x]
    return Trace("any: 0 against 1", *_columns(first)), Trace("any: 1 against 0", *_columns(second))


def _ratios_of(chain: MarkovChain, epsilon: float) -> tuple[float, float]:
    """Return the largest ln S and ln T that keep a guarantee against everyone.

    Flipping only one state costs least at the end of a half-plane, where one ratio is tight.
    """
    log_ratios = []
    for place, costs in ((0, [0.0, 1.0]), (1, [1.0, 0.0])):
        pair = rates(calibrate(Series(), chain, epsilon, "any", method="exact", objective=costs))
        log_ratios.append(math.log((1 - pair[place]) / pair[1 - place]))
    return log_ratios[0], log_ratios[1]


def _fig1(panel: str) -> Parts:
    printed_values = values("fig1")
    q, r, epsilon = printed_values["q"], printed_values["r"], printed_values["epsilon"][panel]
    chain = binary(q, r)
    plan = planned(chain, epsilon)
    rho0, rho1 = rates(plan)
    x = np.linspace(0.005, 0.5, 397).tolist()
    one = [(place, boundary(q, r, epsilon, place)) for place in x]
    two = [(place, mirrored(q, r, epsilon, place)) for place in x]
    least = swept(q, r, epsilon, 2001)
    leak = leakage(plan.mechanism, chain)
    fixed = rates(planned(chain, epsilon, corrected=True))
    yield Compared("rho0 of the optimum", rho0, least[1], 5e-4, "derived")
    yield Compared("rho1 of the optimum", rho1, least[2], 5e-4, "derived")
    yield Claim("leakage of the optimum, nothing known",
                leakage(plan.mechanism, chain, "ignorant").upper, epsilon)  # fmt: skip
    yield Claim("leakage of the optimum, any known records", leak.lower, epsilon,
                witness=how(leak))  # fmt: skip
    lines = (
        *_straight(*_ratios_of(chain, epsilon)),
        Trace("Thm 1: 0 against 1", *_columns(one), "theirs"),
        Trace("Thm 1: 1 against 0", *_columns(two), "theirs"),
        Trace("optimum, Thm 1", (least[1],), (least[2],), "points"),
        Trace("optimum, any", (fixed[0],), (fixed[1],), "points"),
    )
    square = Panel(f"q = {q:g}, r = {r:g}", "rho0", "rho1", lines, xlim=(0, 0.5), ylim=(0, 0.5))
    yield Chart(f"fig1{panel}", f"Flips that keep epsilon = {epsilon:g}", (square,),
                "Allowed flips lie above both lines of a kind.")  # fmt: skip
    yield "Theirs is Theorem 1 solved for rho1 point by point, on a grid of step .00025."


def _columns(pairs: list[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the places and values of those points that lie inside the square."""
    inside = [pair for pair in pairs if 0 < pair[1] <= 0.5]
    return tuple(pair[0] for pair in inside), tuple(pair[1] for pair in inside)


@result(KEY, "fig1a", "Flips that keep epsilon .5, q = .2, r = .35")
def fig1a(setting: Setting) -> Parts:
    """Recompute Figure 1 (a): both constraints of Theorem 1 and the best flips within them."""
    return _fig1("a")


@result(KEY, "fig1b", "Flips that keep epsilon 2, q = .2, r = .35")
def fig1b(setting: Setting) -> Parts:
    """Recompute Figure 1 (b): both constraints of Theorem 1 and the best flips within them."""
    return _fig1("b")
