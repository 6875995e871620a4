"""Chapter 5 of lange2024: genotypes of families, where protection by groups is nearly needed."""

import itertools
import math

import numpy as np

import undertow as ut
from undertow.models.pedigrees import MENDEL, hardy_weinberg
from undertow.testing.enumeration import mechanism_leakage
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.definitions import failure_floor, impossible_alpha
from undertow_papers.findings import Claim, Compared, Improved, Listing, Parts
from undertow_papers.lange2024.common import KEY, grid, shown, shown_values
from undertow_papers.registry import Setting, result

__all__ = ["cor5_2", "cor5_3", "fig7", "line_of_families", "nuclear", "sec5_3", "thm5_1"]

_BB = ut.Count("BB")


def nuclear(people: int, frequency: float | tuple[float, float] = 0.5) -> ut.Pedigree:
    """Return the family of Theorem 5.1: two parents and people - 2 children."""
    children = {f"child {number}": ("father", "mother") for number in range(people - 2)}
    return ut.Pedigree(children, frequency)


def line_of_families(generations: int, frequency: float = 0.5) -> ut.Pedigree:
    """Return core families of three in a line: each child has one child with a newcomer."""
    parents = {"child 0": ("father", "mother")}
    for number in range(1, generations + 1):
        pair = (f"child {number - 1}", f"newcomer {number}")
        parents[f"child {number}"] = pair if number % 2 else pair[::-1]
    return ut.Pedigree(parents, frequency)


@result(KEY, "thm5.1", "One parent's genotype decides those of all children")
def thm5_1(setting: Setting) -> Parts:
    """Check leakage >= ln Pr[A(D) in S] / Pr[A(D') in S] for random algorithms on a trio."""
    generator = np.random.default_rng(setting.seed)
    least = math.inf
    for frequency in (0.1, 0.5, 0.9):
        founder = hardy_weinberg(frequency)
        law = founder[:, None, None] * founder[None, :, None] * MENDEL
        for _ in range(20 if setting.quick else 500):
            table = generator.dirichlet(np.ones(3), (3, 3, 3))
            wanted = float(np.max(np.log(table[0, 2, 1] / table[0, 0, 0])))
            bracket = mechanism_leakage(law, table, (1, (0,))).leakage
            least = min(least, bracket - wanted)
    yield Claim("leakage less the log-ratio of D and D', at its least", least, 0.0, relation=">=")
    yield "D = (BB, bb, Bb), D' = (BB, BB, BB); other people as in D."


@result(KEY, "cor5.2", "A count on genotypes leaks at least (m - 1) epsilon")
def cor5_2(setting: Setting) -> Parts:
    """Compute the exact leakage of the BB count of nuclear families, between m - 1 and m."""
    rows = []
    frequencies = (0.5, 0.9, 0.999)
    for m in (3, 4, 5, 6, 10) if setting.quick else (3, 4, 5, 6, 8, 10, 12, 20, 40):
        leaks = [ut.leakage(ut.Laplace(_BB, 1.0), nuclear(m, p)) for p in frequencies]
        yield Claim(f"leakage / epsilon, m = {m}, least over p", min(leak.upper for leak in leaks),
                    m - 1.0, relation=">=")  # fmt: skip
        yield Claim(f"leakage / epsilon, m = {m}, largest over p",
                    max(leak.lower for leak in leaks), float(m))  # fmt: skip
        rows.append((str(m), *(shown(leak.upper) for leak in leaks), str(m - 1), str(m)))
    head = ("m", *(f"p = {p:g}" for p in frequencies), "Cor 5.2", "Thm 4.2")
    yield "The leakage depends on the frequency p of B among founders, which the thesis leaves out."
    yield ("With one child, m epsilon is reached in the limit of frequent B; from four people on, "
           "(m - 1) epsilon is exact at p = 0.5.")  # fmt: skip
    yield Listing("Exact leakage of the BB count at epsilon 1", head, tuple(rows))


@result(KEY, "cor5.3", "No algorithm counts genotypes with an error of (m - 1) / 2 or less")
def cor5_3(setting: Setting) -> Parts:
    """Evaluate Corollary 5.3, and that Laplace noise at the exact scale respects it."""
    for m, epsilon in itertools.product((3, 5, 10), (1.0, 2.0)):
        beta = failure_floor(epsilon) * (1 - 1e-9)
        least = impossible_alpha(m - 1, epsilon, beta)
        scale = ut.calibrate(_BB, nuclear(m), epsilon, missing="none").mechanism.scale
        yield Compared(f"impossible alpha, m = {m}, epsilon {epsilon:g}", least, (m - 1) / 2, 1e-12,
                       "derived")  # fmt: skip
        yield Claim(f"alpha of the exact noise at that beta, m = {m}, epsilon {epsilon:g}",
                    scale * math.log(1 / beta), least, relation=">=")  # fmt: skip


@result(KEY, "fig7", "Accuracy of counts on genotypes, and what is impossible")
def fig7(setting: Setting) -> Parts:
    """Recompute alpha = m ln(1 / beta) / epsilon and its floor (m - 1) / 2, beside exact noise."""
    given = shown_values("fig7")
    share = math.log(1 / given["beta"]) / given["epsilon"]
    yield Claim("alpha / n of Laplace noise at epsilon 2, beta 10%", share, 1.0, relation=">=")
    yield Claim("floor / n, m = n = 1000", impossible_alpha(999, 2.0, 0.1) / 1000,
                given["lower_bound_share"])  # fmt: skip
    panels = []
    betas = grid(0.001, 0.5, 250)
    for epsilon in (1.0, 2.0):
        lines: list[Trace] = []
        for m in (3, 10):
            scale = ut.calibrate(_BB, nuclear(m), epsilon, missing="none").mechanism.scale
            yield Improved(f"scale, m = {m}, epsilon {epsilon:g}", scale, m / epsilon)
            below = tuple(beta for beta in betas if beta < failure_floor(epsilon))
            lines += [
                Trace(f"general bound, m = {m}", betas,
                      tuple(m * math.log(1 / beta) / epsilon for beta in betas), "theirs"),
                Trace(f"exact, p = 0.5, m = {m}", betas,
                      tuple(scale * math.log(1 / beta) for beta in betas)),
                Trace(f"impossible, m = {m}", below, ((m - 1) / 2,) * len(below), "bound"),
            ]  # fmt: skip
        panels.append(Panel(f"epsilon = {epsilon:g}", "beta", "alpha", tuple(lines),
                            ("linear", "log"), (0.0, 0.5)))  # fmt: skip
    yield "The text does not say which epsilon and m the figure shows: these are ours."
    yield "Exact noise assumes two parents, m - 2 children, and p = 0.5."
    yield Chart("fig7", "Counting genotypes", tuple(panels), "No algorithm goes below the floor.")


@result(KEY, "sec5.3", "Small core families in a long line of generations")
def sec5_3(setting: Setting) -> Parts:
    """Test the hypothesis of section 5.3: core families of l people leak about l epsilon."""
    rows: list[tuple[str, ...]] = []
    shares = [0.0]
    for generations in (1, 2) if setting.quick else (1, 2, 3):
        family = line_of_families(generations)
        m = family.length
        leaks = ut.leakage(ut.Laplace(_BB, 1.0), family)
        shares.append(leaks.upper)
        yield Improved(f"leakage of a line of {m} people, l = 3", leaks.upper, float(m))
        rows.append((str(m), shown(leaks.upper), "3", str(m)))
    yield Claim("growth by one generation, two people more", shares[-1] - shares[-2], 2.0)
    yield Listing("Lines of core families of three at epsilon 1", ("m", "exact", "l", "m epsilon"),
                tuple(rows))  # fmt: skip
    yield ("The thesis hopes for a bound closer to l epsilon than to m epsilon. Lines of families "
           f"of three leak more than 3 epsilon already at m = 5, {leaks.upper:.4f} at m = {m}, and "
           "every generation adds to it, less than its number of people.")  # fmt: skip
