"""How many people of a study have two copies of an allele, without giving a family away?

Parents and children share their genes, so noise for one person is too little for a family. The
pedigree says who is whose child, Mendel's laws say the rest, and of the frequency of the allele no
more is known than an interval.

    python examples/family_counts.py

Reads the HapMap trios from the folder `genomes` of UNDERTOW_DATA, or of shared/data beside the
checkout, and otherwise makes up thirty trios. Prints plans and noisy counts, never a genotype.
"""

import csv
import gzip
import os
import random
import tempfile
from pathlib import Path

import undertow as ut

FOLDER = Path(os.environ.get("UNDERTOW_DATA") or Path(__file__).parents[2] / "shared" / "data")
FREQUENCY = (0.05, 0.95)
SNP = 100  # which of the single-nucleotide variants


def main() -> None:
    """Plan a count of BB for the families of a study, and release it."""
    study, genotypes = hapmap() or made_up()
    print(study.describe())
    count = ut.Count("BB")
    sold = ut.leakage(ut.Laplace(count, scale=1.0), study)
    print(f"noise for one person (epsilon 1) leaks {sold.upper:.4f} about a member of a family")
    print(ut.compare(count, study, limit=1.0))
    plan = ut.calibrate(count, study, limit=1.0)
    out = ut.release(plan, genotypes)
    print(plan.guarantee())
    print(f"released: {out.value} people, give or take {plan.accuracy(0.05):g} (95%)")


def hapmap() -> tuple[ut.Pedigree, list[str | None]] | None:
    """Return the HapMap trios and their genotypes at one variant, None where they are not there."""
    samples, variants = (
        FOLDER / "genomes" / name for name in ("hapmap_samples.csv", "hapmap_genotypes.csv.gz")
    )
    if not samples.is_file() or not variants.is_file():
        return None
    study = ut.Pedigree.read(samples, allele_frequency=FREQUENCY)
    with samples.open(newline="") as file:
        people = [row["sample"] for row in csv.DictReader(file)]
    with gzip.open(variants, "rt", newline="") as file:
        row = [row for row in csv.DictReader(file) if row["chrom"] != "23"][SNP]
    copies = dict(zip(people, row["genotypes"], strict=True))
    names = {"2": "BB", "1": "Bb", "0": "bb"}
    return study, [names.get(copies[str(person)]) for person in study.people]


def made_up() -> tuple[ut.Pedigree, list[str | None]]:
    """Return thirty trios read from a PED file, and genotypes that follow Mendel's laws."""
    lines = []
    for family in range(30):
        lines += [f"{family} c{family} f{family} m{family} 0 0"]
        lines += [f"{family} f{family} 0 0 1 0", f"{family} m{family} 0 0 2 0"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "study.ped")
        path.write_text("\n".join(lines) + "\n")
        study = ut.Pedigree.read(path, allele_frequency=FREQUENCY)
    draw = random.Random(1)
    alleles: dict[str, tuple[bool, bool]] = {}
    for family in range(30):
        for parent in "fm":
            alleles[f"{parent}{family}"] = draw.random() < 0.3, draw.random() < 0.3
        alleles[f"c{family}"] = (
            draw.choice(alleles[f"f{family}"]),
            draw.choice(alleles[f"m{family}"]),
        )
    names = ("bb", "Bb", "BB")
    return study, [names[sum(alleles[str(person)])] for person in study.people]


if __name__ == "__main__":
    main()
