"""Attacks on what was released, and audits of the code that releases it."""
