"""[wang2016]: the Wasserstein and the Markov Quilt mechanism, recomputed and judged."""

from undertow.papers.wang2016 import algorithms, examples, figures, records, theorems

__all__ = ["algorithms", "examples", "figures", "records", "theorems"]
