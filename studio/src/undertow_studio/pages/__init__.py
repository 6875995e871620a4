"""The pages of the studio, one module for each step of the path."""
