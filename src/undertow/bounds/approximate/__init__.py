"""Approximate guarantees, (epsilon, delta) and curves of them, exchanged for leakages."""
