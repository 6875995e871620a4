"""Counts with noise of any shape: what a table of probabilities leaks."""
