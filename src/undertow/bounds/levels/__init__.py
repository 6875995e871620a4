"""Bound the leakage of every algorithm of a DP level on Markov chains."""
