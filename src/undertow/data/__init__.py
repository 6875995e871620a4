"""Records from files: what the data looks like outside, and what it becomes inside."""
