"""Gaussian records: regression coefficients, and the worst set of known records."""
