"""The data sets of chapter 8, or stand-ins of the same shape where a file is absent."""

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from undertow import MarkovChain
from undertow.models.pedigrees import MENDEL, hardy_weinberg
from undertow.numerics import Array
from undertow_papers.lange2024.common import ACTIVITY
from undertow_papers.registry import Setting

__all__ = [
    "Activity",
    "Genotypes",
    "Heights",
    "activity",
    "heights",
    "kin",
    "loci",
    "scores",
    "trios",
]


def _text(path: Path) -> TextIO:
    """Return a text file, compressed or not, opened to be read."""
    return gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="")


def _table(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    """Return the rows of a table as dictionaries."""
    with _text(path) as file:
        return list(csv.DictReader(file, delimiter=delimiter))


@dataclass(frozen=True, slots=True)
class Activity:
    """States per interval, 1 for active, None where nothing was measured, and its days."""

    states: tuple[int | None, ...]
    per_day: int
    real: bool

    @property
    def observed(self) -> tuple[int, ...]:
        """The measured states in order, days without measurements left out."""
        return tuple(state for state in self.states if state is not None)

    @property
    def days(self) -> list[tuple[int, ...]]:
        """The days on which everything was measured."""
        cut = [self.states[start : start + self.per_day]
               for start in range(0, len(self.states), self.per_day)]  # fmt: skip
        return [tuple(s for s in day if s is not None) for day in cut if None not in day]


def activity(setting: Setting) -> Activity:
    """Return the activity series: active means more than no steps in an interval."""
    path = setting.file("activity", "activity.csv.gz")
    if path is None:
        chain = MarkovChain(ACTIVITY)
        drawn: Any = chain.simulate(61 * 288, seed=setting.seed)
        states: list[int | None] = [int(state) for state in drawn]
        for day in (0, 7, 31, 34, 39, 40, 44, 60):
            states[288 * day : 288 * (day + 1)] = [None] * 288
        return Activity(tuple(states), 288, real=False)
    steps = [row["steps"] for row in _table(path)]
    coded = tuple(None if step in ("NA", "") else int(float(step) > 0) for step in steps)
    return Activity(coded, 288, real=True)


@dataclass(frozen=True, slots=True, eq=False)
class Heights:
    """Child, father and mother of each row, in inches, and the family's name."""

    rows: Array
    families: tuple[str, ...]
    real: bool


def heights(setting: Setting) -> Heights:
    """Return the heights of Galton's families, one row for each child."""
    path = setting.file("galton", "galton.csv")
    if path is None:
        generator = np.random.default_rng(setting.seed)
        sds = np.array([3.58, 2.47, 2.31])
        shares = np.array([[1, 0.275, 0.202], [0.275, 1, 0.074], [0.202, 0.074, 1]])
        rows = generator.multivariate_normal([66.8, 69.2, 64.1], shares * np.outer(sds, sds), 898)
        names = tuple(str(number % 197) for number in range(898))
        return Heights(rows, names, real=False)
    listed = _table(path)
    rows = np.array([[float(row[name]) for name in ("height", "father", "mother")]
                     for row in listed])  # fmt: skip
    return Heights(rows, tuple(row["family"] for row in listed), real=True)


def scores(setting: Setting) -> tuple[Array, bool]:
    """Return test scores of children and their mothers, and whether they are real."""
    path = setting.file("kidiq", "kidiq.csv")
    if path is None:
        generator = np.random.default_rng(setting.seed)
        both = 0.448 * 20.4 * 15.0
        return generator.multivariate_normal(
            [86.8, 100.0], [[20.4**2, both], [both, 15.0**2]], 434
        ), False
    listed = [[float(row["kid_score"]), float(row["mom_iq"])] for row in _table(path)]
    return np.array(listed), True


@dataclass(frozen=True, slots=True, eq=False)
class Genotypes:
    """How many people have each genotype at each locus: both reference, mixed, both other.

    ``single`` marks loci with one other allele of one letter; ``same`` counts the people with any
    two equal alleles.
    """

    counts: Array
    single: Array
    people: tuple[str, ...]
    real: bool


def loci(setting: Setting, number: int) -> Genotypes:
    """Return genotype counts of the first records of chromosome 22, read as plain text."""
    path = setting.file("genomes", "1000g_phase3_chr22_16.05-16.64Mb.vcf.gz")
    if path is None:
        generator = np.random.default_rng(setting.seed)
        rare = generator.beta(0.08, 1.5, number)
        law = np.stack([(1 - rare) ** 2, 2 * rare * (1 - rare), rare**2], axis=1)
        drawn = np.array([generator.multinomial(2504, row) for row in law])
        people = tuple(f"person {place}" for place in range(2504))
        return Genotypes(drawn.astype(float), np.ones(number, bool), people, real=False)
    genotypes, single = [], []
    names: tuple[str, ...] = ()
    with _text(path) as file:
        for line in file:
            if line.startswith("#"):
                names = tuple(line.rstrip("\n").split("\t")[9:])
                continue
            cells = line.rstrip("\n").split("\t")
            calls = cells[9:]
            first, both = calls.count("0|0"), calls.count("1|1")
            genotypes.append((first, len(calls) - first - both, both))
            single.append(len(cells[3]) == 1 and len(cells[4]) == 1)
            if len(genotypes) == number:
                break
    return Genotypes(np.array(genotypes, float), np.array(single), names, real=True)


def kin(setting: Setting, people: tuple[str, ...]) -> tuple[int, int] | None:
    """Return how many of the people have a parent among them, and how many third-order kin."""
    path = setting.file("genomes", "20130606_g1k.ped.gz")
    if path is None:
        return None
    present, children, third = set(people), 0, 0
    for row in _table(path, "\t"):
        if row["Individual ID"] in present:
            children += bool({row["Paternal ID"], row["Maternal ID"]} & present)
            third += bool({name.strip() for name in row["Third Order"].split(",")} & present)
    return children, third


def trios(setting: Setting) -> tuple[Array, float, bool]:
    """Return counts of both first alleles by locus, the child-father correlation, and if real.

    Counts are over all people; the correlation is of standardised genotypes within populations
    that have trios, averaged over autosomal loci.
    """
    people = setting.file("genomes", "hapmap_samples.csv")
    table = setting.file("genomes", "hapmap_genotypes.csv.gz")
    if people is None or table is None:
        return _drawn_trios(setting)
    listed = _table(people)
    place = {row["sample"]: number for number, row in enumerate(listed)}
    pairs = [
        (number, place[row["father"]], row["population"])
        for number, row in enumerate(listed)
        if row["father"] in place and row["mother"] in place
    ]
    strings = [row["genotypes"] for row in _table(table) if row["chrom"] != "23"]
    codes = np.frombuffer("".join(strings).encode(), np.uint8).reshape(len(strings), -1)
    genotypes = np.where(codes == ord("."), np.nan, codes - float(ord("0")))
    counts = np.nansum(genotypes == 2, axis=1).astype(float)
    shares = []
    for population in sorted({name for _, _, name in pairs}):
        inside = [number for number, row in enumerate(listed) if row["population"] == population]
        some = genotypes[:, inside]
        spread = np.nanstd(some, axis=1)
        keep = spread > 0.3
        scaled = (genotypes[keep] - np.nanmean(some, axis=1)[keep, None]) / spread[keep, None]
        child = scaled[:, [c for c, _, name in pairs if name == population]]
        father = scaled[:, [f for _, f, name in pairs if name == population]]
        shares.append(float(np.nanmean(child * father)))
    return counts, float(np.mean(shares)), True


def _drawn_trios(setting: Setting) -> tuple[Array, float, bool]:
    """Return the same of simulated trios: 59 families, 500 loci, frequencies uniform."""
    generator = np.random.default_rng(setting.seed)
    passed = MENDEL.reshape(9, 3).cumsum(axis=1)
    counts, shares = [], []
    for frequency in generator.uniform(0.1, 0.9, 500):
        law = hardy_weinberg(float(frequency))
        father, mother = generator.choice(3, (2, 59), p=law)
        cut = passed[3 * father + mother]
        child = (generator.random(59)[:, None] > cut).sum(axis=1).clip(max=2)
        counts.append(float(sum((person == 0).sum() for person in (father, mother, child))))
        spread = 2 * frequency * (1 - frequency)
        middle = 2 * (1 - frequency)
        shares.append(float(((child - middle) * (father - middle)).mean() / spread))
    return np.array(counts), float(np.mean(shares)), False
