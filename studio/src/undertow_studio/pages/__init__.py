"""The pages, one module for each of the six steps, with what only that page computes."""
