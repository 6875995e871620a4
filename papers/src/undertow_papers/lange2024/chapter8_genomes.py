"""Section 8.4.1 of lange2024: counts of genotypes, on 1000 Genomes and on HapMap trios."""

import numpy as np

import undertow as ut
from undertow.errors import NotSupported
from undertow.models.pedigrees import GENOTYPES, MENDEL, hardy_weinberg
from undertow.numerics import Array
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Compared, Improved, Listing, Origin, Parts
from undertow_papers.lange2024.chapter5_genomic import nuclear
from undertow_papers.lange2024.common import KEY, shown, shown_values, utility_table
from undertow_papers.lange2024.samples import Genotypes, kin, loci, trios
from undertow_papers.registry import Setting, result

__all__ = ["cousins", "fig17", "hapmap", "thousand_genomes"]

_BB = ut.Count("BB")
_ABSENT = ("lange", "zhao")


def cousins(frequency: float) -> ut.BayesianNetwork:
    """Return two first cousins whose parents and grandparents are not in the data."""
    parents = {
        "one": ("grandfather", "grandmother"),
        "two": ("grandfather", "grandmother"),
        "cousin 1": ("one", "other 1"),
        "cousin 2": ("two", "other 2"),
    }
    founders = ("grandfather", "grandmother", "other 1", "other 2")
    law = hardy_weinberg(frequency)
    edges = [(parent, child) for child, pair in parents.items() for parent in pair]
    cpds = dict.fromkeys(founders, law) | dict.fromkeys(parents, MENDEL)
    return ut.BayesianNetwork(edges, cpds, GENOTYPES, (*founders, "one", "two"))


def _epsilons(setting: Setting) -> tuple[float, ...]:
    """Return the epsilons of the tables."""
    return (1.0,) if setting.quick else (1.0, 5.0)


@result(KEY, "fig17", "Error of counts on genotypes by family size")
def fig17(setting: Setting) -> Parts:
    """Recompute the MSE 2 (m / epsilon)^2 of the general bound, beside the exact noise."""
    epsilons = tuple(float(value) for value in range(1, 21))
    lines: list[Trace] = []
    for m in (3, 5, 10):
        theirs = tuple(2 * (m / epsilon) ** 2 for epsilon in epsilons)
        plans = [ut.calibrate(_BB, nuclear(m), epsilon) for epsilon in epsilons]
        ours = tuple(plan.variance for plan in plans)
        lines += [Trace(f"general bound, m = {m}", epsilons, theirs, "theirs"),
                  Trace(f"exact, m = {m}", epsilons, ours)]  # fmt: skip
        for at in (0, 9):
            yield Improved(f"MSE at epsilon {epsilons[at]:g}, m = {m}", ours[at], theirs[at])
    panel = Panel("", "epsilon", "mean squared error", tuple(lines), ("linear", "log"), (0.0, 20.0))
    yield "The family sizes of the figure are not named in the text; these are ours."
    yield "Exact noise: two parents, m - 2 children, p = 0.5, and whole-numbered noise."
    yield Chart("fig17", "Counts of genotype BB", (panel,), "General bound and exact noise.")


@result(KEY, "data:1000genomes", "Counts of genotypes among 2,504 people")
def thousand_genomes(setting: Setting) -> Parts:
    """Count genotypes at the first 1,000 loci of chromosome 22, and compare the methods."""
    given = shown_values("genomes")
    genotypes = loci(setting, given["loci"])
    if genotypes.real:
        yield from _counted(genotypes, given)
        if not setting.quick:
            yield _vcf(setting, genotypes)
    related = kin(setting, genotypes.people)
    if related is not None:
        yield Compared("people with a parent among the 2,504", float(related[0]), 0.0, 0.0,
                       "derived")  # fmt: skip
        yield (f"By the published pedigree {related[0]} of the people have a parent among them, "
               f"and {related[1]} list kin of third order there, such as first cousins: families "
               "of m people are an assumption, not a property of the data.")  # fmt: skip
    frequency = float(np.median(_frequencies(genotypes)))
    for epsilon in _epsilons(setting):
        trio = ut.calibrate(_BB, nuclear(3), epsilon)
        pair = ut.calibrate(_BB, cousins(0.5), epsilon)
        yield Improved(f"scale, parents and child, epsilon {epsilon:g}", trio.mechanism.scale,
                       3 / epsilon)  # fmt: skip
        yield Improved(f"scale, first cousins against a group of two, epsilon {epsilon:g}",
                       pair.mechanism.scale, 2 / epsilon)  # fmt: skip
    yield f"Median frequency of the reference allele: {frequency:.4f}."
    yield utility_table("1000 Genomes as families of three, p = 0.5: count of BB", _BB, nuclear(3),
                        _epsilons(setting), absent=_ABSENT)  # fmt: skip
    yield utility_table("1000 Genomes as families of five, p = 0.5: count of BB", _BB, nuclear(5),
                        _epsilons(setting), absent=_ABSENT)  # fmt: skip
    yield utility_table("1000 Genomes as pairs of first cousins, p = 0.5: count of BB", _BB,
                        cousins(0.5), _epsilons(setting), absent=_ABSENT)  # fmt: skip
    yield Origin(genotypes.real)


def _frequencies(genotypes: Genotypes) -> Array:
    """Return the frequency of the reference allele at each locus."""
    people = genotypes.counts.sum(axis=1)
    return np.asarray((2 * genotypes.counts[:, 0] + genotypes.counts[:, 1]) / (2 * people))


def _counted(genotypes: Genotypes, given: dict[str, float]) -> Parts:
    """Return the printed numbers beside those of the file."""
    both = genotypes.counts[:, [0, 2]]
    single = genotypes.counts[genotypes.single]
    yield Compared("people", float(len(genotypes.people)), given["people"], 0.0)
    yield Compared("loci", float(len(genotypes.counts)), given["loci"], 0.0)
    yield Compared("mean count of the homozygous-major genotype", float(both.max(axis=1).mean()),
                   given["mean_count"], given["reading_error"],
                   wrong="nearly everybody is homozygous for the major allele at nearly "
                   "all of these loci; the printed 40.29 is about the mean count of "
                   "the other homozygote")  # fmt: skip
    yield Compared("mean count of two alternate alleles", float(genotypes.counts[:, 2].mean()),
                   given["mean_count"], given["reading_error"], cause="which records are the first "
                   "1,000 allele pairs is not said; among the loci with a single other letter "
                   f"among them it is {single[:, 2].mean():.2f}")  # fmt: skip


def _vcf(setting: Setting, genotypes: Genotypes) -> str:
    """Return whether the reader for VCF files counts the first locus alike."""
    from undertow.data.genotypes import count_genotypes

    path = setting.file("genomes", "1000g_phase3_chr22_16.05-16.64Mb.vcf.gz")
    try:
        counted = count_genotypes(path, "22:16050075") if path is not None else {}
    except NotSupported:
        return "The counts were read as plain text; pysam, which would check them, is not there."
    same = [counted.get(genotype, -1) for genotype in GENOTYPES] == genotypes.counts[0].tolist()
    return f"The reader for VCF files counts the first locus {'alike' if same else 'otherwise'}."


@result(KEY, "data:hapmap", "Counts of genotypes among HapMap trios")
def hapmap(setting: Setting) -> Parts:
    """Calibrate counts on the 59 real trios, exactly and as groups of three."""
    counts, correlation, real = trios(setting)
    path = setting.file("genomes", "hapmap_samples.csv")
    model = ut.Pedigree.read(path, 0.5) if real and path is not None else nuclear(3)
    wide = nuclear(3, (0.05, 0.95))
    yield Compared("correlation of child and father", correlation, 0.5, 0.05, "derived",
                   cause="sampling error of few families")  # fmt: skip
    rows = []
    for epsilon in _epsilons(setting):
        exact = ut.calibrate(_BB, model, epsilon)
        # every genotype of the table is there, as in the paper
        sure = ut.calibrate(_BB, wide, epsilon, missing="none")
        yield Improved(f"scale, p = 0.5, epsilon {epsilon:g}", exact.mechanism.scale, 3 / epsilon)
        yield Improved(f"scale for every p in [0.05, 0.95], epsilon {epsilon:g}",
                       sure.mechanism.scale, 3 / epsilon)  # fmt: skip
        rows.append((shown(epsilon), shown(exact.mechanism.scale), shown(sure.mechanism.scale),
                     shown(3 / epsilon), shown(float(counts.mean())),
                     shown(100 * exact.expected_error / float(counts.mean()))))  # fmt: skip
    head = ("epsilon", "exact, p = 0.5", "exact, any p", "group", "mean count", "error, percent")
    yield utility_table("HapMap trios, p = 0.5: count of BB", _BB, model, _epsilons(setting),
                        absent=_ABSENT)  # fmt: skip
    yield Listing("HapMap trios: scale, and error relative to the mean count", head, tuple(rows))
    yield "One locus at a time; autosomal loci of the file, counts over all people with a call."
    yield Origin(real)
