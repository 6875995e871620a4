"""Certified bounds on what mechanisms leak."""
