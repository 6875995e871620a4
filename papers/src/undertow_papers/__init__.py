"""Every figure, table and theorem of the five papers, recomputed and judged."""
