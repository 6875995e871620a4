"""Chains of order two: certified bounds, and attacks that are played out."""
