"""Bounds as printed in the literature: to compare with, never certified."""
