"""What the corrected mechanism costs: flips, leakage and errors of every method, side by side."""

import math

from undertow import Count, MarkovChain, Plan, Series, calibrate, estimate, leakage, sanitize
from undertow.auditing.inference import viterbi
from undertow.mechanisms import Flips
from undertow.numerics import GRAIN
from undertow_papers.chakrabarti2022.common import KEY, binary, flips_of, how, planned
from undertow_papers.chakrabarti2022.formulas import plain_flips, zhao_flips
from undertow_papers.chakrabarti2022.hearts import HeartRecord, record_of
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Improved, Listing, Origin, Parts
from undertow_papers.registry import Setting, result

__all__ = ["cost", "theta"]

METHODS = ("plain DP", "Theorem 1", "exact", "exchange", "Zhao", "group", "XOR")


def _even(chain: MarkovChain, epsilon: float, rho: float) -> Plan[Flips]:
    """Return the plan that flips both states at a published rate, with what it leaks in truth."""
    flips = flips_of(math.ceil(rho / GRAIN) * GRAIN)
    measures = (("expected flips", rho),)
    return Plan(flips, chain, epsilon, leakage(flips, chain), "chakrabarti", measures=measures)


def plans(chain: MarkovChain, epsilon: float, *, chained: bool = True) -> dict[str, Plan[Flips]]:
    """Return the plan of every method for one guarantee; XOR noise takes longest to plan."""
    records = chain.length or 1
    plans_by_name = {
        "plain DP": _even(chain, epsilon, plain_flips(epsilon)),
        "Theorem 1": calibrate(Series(), chain, epsilon, "any", method="chakrabarti"),
        "exact": planned(chain, epsilon, corrected=True),
        "exchange": calibrate(Series(), chain, epsilon, "any", method="exchange"),
        "Zhao": _even(chain, epsilon, zhao_flips(chain, epsilon)),
        "group": _even(chain, epsilon, plain_flips(epsilon / records)),
    }
    if chained:
        plans_by_name["XOR"] = calibrate(Series(), chain, epsilon, "any", method="xor")
    return plans_by_name


@result(KEY, "cost", "What the corrected mechanism costs on the heart records")
def cost(setting: Setting) -> Parts:
    """Recompute the flips of every method on N5 and N10, what they leak, and their errors."""
    rows: list[tuple[str, ...]] = []
    records = [record_of(setting, kind) for kind in ("low", "high")]
    for record in records:
        for epsilon in (1.0, 4.0) if setting.quick else (1.0, 2.0, 3.0, 4.0, 5.0):
            chained = record.name == "N5" or not setting.quick
            plans_by_name = plans(record.chain, epsilon, chained=chained)
            name = f"{record.name}, epsilon {epsilon:g}"
            printed, exact = plans_by_name["Theorem 1"], plans_by_name["exact"]
            leak = printed.leakage
            yield Claim(f"flips of Theorem 1 are enough: least against any attacker, {name}",
                        exact.expected_flips, printed.expected_flips,
                        witness=f"Theorem 1 leaks {leak.lower:.6f}: {how(leak)}")  # fmt: skip
            yield Improved(f"flips beside [zhao2017], {name}", exact.expected_flips,
                           plans_by_name["Zhao"].expected_flips)  # fmt: skip
            if chained:
                yield Improved(f"XOR noise beside independent flips, {name}",
                               plans_by_name["XOR"].expected_flips, exact.expected_flips,
                               cause="noise that is a chain flips both states alike, which costs "
                               "more")  # fmt: skip
            rows += [
                _row(setting, record, epsilon, method, plans_by_name[method])
                for method in METHODS
                if method in plans_by_name
            ]
    header = ("record", "epsilon", "method", "flips", "leaks to any", "share of 1, 95% +-",
              "Viterbi right")  # fmt: skip
    yield Listing("Flipped heart records: cost and error", header, tuple(rows))
    yield ("Leakages are certified, against attackers who know any other records. Plain DP and "
           "Theorem 1 do not keep the guarantee. The error is half the interval of the estimated "
           "share of records in state 1.")  # fmt: skip
    yield Origin(records[0].real)


def _row(
    setting: Setting, record: HeartRecord, epsilon: float, method: str, plan: Plan[Flips]
) -> tuple[str, ...]:
    """Return a line of the table: one run of one method."""
    shown = sanitize(plan, record.truth, insecure_seed=setting.seed)
    estimated = estimate(shown, plan, Count(1))
    half = (estimated.high - estimated.low) / 2 / len(record.truth)
    right = float((viterbi(shown, plan.mechanism, record.chain) == record.truth).mean())
    numbers = (plan.expected_flips, leakage(plan.mechanism, record.chain).upper, half, right)
    return (record.name, f"{epsilon:g}", method, *(f"{number:.4f}" for number in numbers))


@result(KEY, "cost-theta", "What the corrected mechanism costs on symmetric chains, by theta")
def theta(setting: Setting) -> Parts:
    """Recompute the flips of Theorem 1 and of the exact plan at epsilon 4, by theta."""
    grid = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.45)
    epsilon = 4.0
    printed, exact, leaks = [], [], []
    for step in grid:
        chain = binary(step, step)
        plan = planned(chain, epsilon)
        leak = leakage(plan.mechanism, chain)
        printed.append(plan.expected_flips)
        exact.append(planned(chain, epsilon, corrected=True).expected_flips)
        leaks.append(leak.lower)
        yield Claim(f"flips of Theorem 1 are enough, theta {step:g}", exact[-1], printed[-1],
                    witness=f"leaks {leak.lower:.4f}: {how(leak)}")  # fmt: skip
    lines = (
        Trace("Theorem 1", grid, tuple(printed), "theirs"),
        Trace("exact, any attacker", grid, tuple(exact)),
    )
    right = (
        Trace("Theorem 1", grid, tuple(leaks), "theirs"),
        Trace("promised", grid, (epsilon,) * len(grid), "bound"),
    )
    panels = (
        Panel("epsilon = 4", "theta", "rho", lines, xlim=(0, 0.5), ylim=(0, 0.5)),
        Panel("what Theorem 1 leaks", "theta", "leakage to any", right, xlim=(0, 0.5)),
    )
    yield Chart("cost-theta", "What it costs to be right against everyone", panels,
                "Series of any length.")  # fmt: skip
    rows = tuple(
        (f"{step:g}", f"{a:.6f}", f"{b:.6f}", f"{leak:.4f}")
        for step, a, b, leak in zip(grid, printed, exact, leaks, strict=True)
    )
    header = ("theta", "Theorem 1", "exact, any", "Theorem 1 leaks")
    yield Listing("Share of flipped records, symmetric chains, epsilon 4", header, rows)
