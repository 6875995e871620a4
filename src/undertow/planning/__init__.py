"""From a wanted leakage to the least noise that keeps it."""
