"""Correlation models: who depends on whom."""
