"""Query and key projections in files of weights: where they stand, and what they promise."""
