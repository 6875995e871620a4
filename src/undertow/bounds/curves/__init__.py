"""Bound leakages at a delta."""
