"""The results of lange2024, by chapter: a thesis, and experiments of the paper that followed."""
