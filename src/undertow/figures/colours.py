"""Colours that everyone can tell apart."""

__all__ = ["COLOURS"]

# After Okabe and Ito: apart in every kind of colour vision, and dark enough to read as text.
BLUE, ORANGE, GREEN, GREY, INK = "#0072B2", "#B84F00", "#007A59", "#666666", "#222222"
PURPLE, PINK, OLIVE, RED = "#6F3A8C", "#B84A8A", "#7D6B00", "#A01F1F"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, PINK, OLIVE, RED, GREY)
"""In the order in which lines take them."""
