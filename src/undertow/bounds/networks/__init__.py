"""Bayesian networks and pedigrees: counts, DP levels, quilts, distances."""
