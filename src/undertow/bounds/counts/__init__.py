"""Bound the leakage of one noisy count, histogram or sum."""
