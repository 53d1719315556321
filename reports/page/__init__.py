"""The page of a record, one HTML file that needs nothing else."""
