"""The figures; the only package that draws, by `canvas` alone."""
