"""[wang2016]: the Wasserstein and the Markov Quilt mechanism, recomputed and checked."""
