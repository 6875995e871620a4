"""Carry out plans on data: answers, whole series, private fits, and estimates."""
