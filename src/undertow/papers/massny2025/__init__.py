"""Every result of [massny2025], local redaction around a private record, recomputed.

Records are counted from 1 here, as in the paper; the library counts from 0.
"""

from undertow.papers.massny2025 import figures, guarantees, influence, optimum

__all__ = ["figures", "guarantees", "influence", "optimum"]
