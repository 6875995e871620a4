"""The computations behind the pages of the studio: pure functions, small frozen results."""
