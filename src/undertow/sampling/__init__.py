"""Where random numbers are drawn for releases, and nowhere else."""
