"""Dependent differential privacy: coefficients, pair by pair and in total."""
