"""The two examples of [wang2016]: flu among people who meet, and the activity of one person."""

import numpy as np

import undertow as ut
from undertow import Data
from undertow.models import Contagion
from undertow.models.networks import household
from undertow_papers.charts import Chart, Panel, Trace, merge_equal
from undertow_papers.findings import Claim, Compared, Improved, Listing, Origin, Parts
from undertow_papers.registry import Setting, printed, result
from undertow_papers.wang2016.records import histogram_table
from undertow_papers.wang2016.theorems import ACTIVITY

__all__ = ["activity", "flu", "sec1"]

OUTSIDE = 0.1
"""How likely each person is to catch flu outside; the paper does not say."""


@result("wang2016", "sec1", "What differential privacy would add to a count and to a histogram")
def sec1(setting: Setting) -> Parts:
    """Recompute the standard deviations of the introduction: sqrt 2 and 2 sqrt 2 at epsilon 1."""
    values = printed("wang2016")["sec1"]
    coins = ut.MarkovChain([[0.5, 0.5], [0.5, 0.5]], length=100)
    rows = [
        np.sqrt(2) * ut.calibrate(query, coins, 1.0).noise.amount
        for query in (ut.Count(1), ut.Histogram())
    ]
    yield Compared("deviation of the noise on a count", float(rows[0]), values["flu_deviation"],
                   1e-6)  # fmt: skip
    yield Compared("deviation of the noise on a histogram", float(rows[1]),
                   values["histogram_deviation"], 1e-6)  # fmt: skip


@result("wang2016", "ex:flu", "Flu among people who live together")
def flu(setting: Setting) -> Parts:
    """Recompute the flu example of section 2: households, flu passed on with at most .5."""
    passed = printed("wang2016")["flu"]["passed"]
    count = ut.Count("ill")
    sizes = (2, 3, 4) if setting.quick else (2, 3, 4, 5, 6)
    rows = []
    lines: dict[str, list[float]] = {
        name: [] for name in ("plain", "Wasserstein", "quilt", "exact")
    }
    for size in sizes:
        home = household(size, OUTSIDE, passed)
        plain = ut.leakage(ut.Laplace(count, 1.0), home, "ignorant")
        yield Claim(f"plain noise at epsilon 1 is not enough for {size} people: it leaks",
                    plain.lower, 1.0, relation=">=")  # fmt: skip
        table = ut.compare(
            count, home, 1.0, "ignorant", methods=["exact", "quilt", "wasserstein", "group"]
        )
        best = ut.calibrate(count, home, 1.0, method="exact")
        scales = {row.method: row.scale for row in table if row.scale is not None}
        for name, scale in scales.items():
            leak = ut.leakage(ut.Laplace(count, scale), home, "ignorant").upper
            rows.append((str(size), name, f"{scale:.4f}", f"{leak:.4f}", "nobody else"))
        rows.append((str(size), "exact", f"{best.noise.amount:.4f}", f"{best.leakage.upper:.4f}",
                     "anybody else"))  # fmt: skip
        yield Improved(f"scale for {size} people: exact against Wasserstein, same attacker",
                       scales["exact"], scales["wasserstein"],
                       cause="the whole household can fall ill or stay well together")  # fmt: skip
        for name, value in zip(
            lines, (1.0, scales["wasserstein"], scales["quilt"], scales["exact"]), strict=True
        ):
            lines[name].append(value)
    largest = Contagion(sizes[-1] if not setting.quick else 3, OUTSIDE, (0.0, passed))
    wide = ut.leakage(ut.Laplace(count, 1.0), largest)
    worst = ut.leakage(ut.Laplace(count, 1.0), largest.network(passed))
    yield Compared(f"any rate from 0 to {passed:g} against {passed:g} itself, {largest.size} "
                   "people", wide.upper, worst.upper, 5e-4, "derived",
                   cause="a smaller rate is worse")  # fmt: skip
    places = tuple(float(size) for size in sizes)
    panel = Panel(
        "epsilon 1", "people", "noise scale",
        merge_equal(
            Trace(name, places, tuple(values), "ours" if name == "exact" else "theirs")
            for name, values in lines.items()
        ),
    )  # fmt: skip
    yield Chart("wang2016-flu", "Noise for a count of the ill, by household", (panel,))
    yield (f"The paper gives the rate {passed:g} and no other number; all catch flu outside "
           f"with {OUTSIDE:g}, and from each ill person exposed before with at most "
           f"{passed:g}.")  # fmt: skip
    head = ("people", "method", "scale", "leaks", "hides from one who knows")
    title = "Flu in a household, epsilon 1"
    yield Listing(title, head, tuple(rows))


@result("wang2016", "ex:activity", "The activity of one person, five minutes apart")
def activity(setting: Setting) -> Parts:
    """Recompute the activity example of section 2 on a chain fitted to one person's steps."""
    chain, real = activity_chain(setting)
    count = ut.Count("active")
    plain = ut.leakage(ut.Laplace(count, 1.0), chain, "ignorant")
    yield Claim("plain noise at epsilon 1 is not enough: it leaks", plain.lower, 1.0, relation=">=")
    for epsilon in (0.5, 1.0, 4.0):
        table = ut.compare(count, chain, epsilon, "ignorant",
                           methods=["exact", "quilt", "quilt-approx", "wasserstein"])  # fmt: skip
        scales = {row.method: row.scale for row in table if row.scale is not None}
        for name in ("quilt", "quilt-approx", "wasserstein"):
            yield Improved(f"scale for a count, epsilon {epsilon:g}: exact against {name}",
                           scales["exact"], scales[name])  # fmt: skip
    epsilons = (1.0,) if setting.quick else (0.5, 1.0, 2.0, 4.0)
    utility = histogram_table("Histogram of activity", chain, 15264, epsilons)
    yield from utility.findings
    yield utility.table
    yield Origin(real)


def activity_chain(setting: Setting) -> tuple[ut.MarkovChain, bool]:
    """Return the chain of the observed days, joined, or the same chain with rounded numbers."""
    path = setting.file("activity", "activity.csv.gz")
    if path is None:
        return ut.MarkovChain(ACTIVITY, ("inactive", "active"), length=15264), False
    days = Data(path, value="steps", state="steps > 0").sequences()
    whole = [[record for record in day if record is not None] for day in days]
    joined = [["active" if on else "inactive" for day in whole for on in day]]
    fitted = ut.MarkovChain.fit(joined, ("inactive", "active"), length=len(joined[0]), public=True)
    return ut.MarkovChain(
        fitted.transition, ("inactive", "active"), length=len(joined[0])
    ), True  # fmt: skip
