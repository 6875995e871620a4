"""The results of lange2024, by chapter: a thesis, and experiments of the paper that followed."""

from undertow.papers.lange2024 import (
    chapter4_arbitrary,
    chapter5_genomic,
    chapter6_gaussian,
    chapter7_chains,
    chapter7_estimates,
    chapter8_activity,
    chapter8_genomes,
    chapter8_heights,
)

__all__ = [
    "chapter4_arbitrary",
    "chapter5_genomic",
    "chapter6_gaussian",
    "chapter7_chains",
    "chapter7_estimates",
    "chapter8_activity",
    "chapter8_genomes",
    "chapter8_heights",
]
