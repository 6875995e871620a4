"""What algorithms with a trade-off curve leak: (epsilon, delta), profiles, Gaussian noise."""
