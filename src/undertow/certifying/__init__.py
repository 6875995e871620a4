"""Certificates that others can check: a claim about a leakage, with the data for its proof.

A certificate is checked by code that shares nothing with the code that found the numbers: here in
Python (`undertow.certifying.checking`), and in one C file without dependencies in ``verifier/``.
"""
