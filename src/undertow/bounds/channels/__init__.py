"""Bound the leakage of series randomised record by record, quilts, and Wasserstein distances."""
