"""Attractive laws: the worst likelihood is known, so sums over all series are all there is to do."""
