"""Attractive laws: the worst likelihood is known, and sums over series are all there is to do."""
