"""Training as a controlled experiment: what is compared, and how pairs of runs are judged."""
