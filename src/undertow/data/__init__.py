"""Read private records, check their shape, and evaluate queries on them."""
