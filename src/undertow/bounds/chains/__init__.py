"""Markov chains: what noisy answers and all algorithms of a DP level leak."""
