"""Series shown record by record: flipped, correlated flips, erased."""
