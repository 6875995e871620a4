"""Oracles for tests: leakages of small laws straight from the definitions.

No module of the core imports this package. Tests and the recomputed papers compare certified
bounds with it.
"""
