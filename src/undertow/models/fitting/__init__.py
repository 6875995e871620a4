"""Fit models to series, test the fits, and describe what they stand for."""
