"""Audits told: their records and tables, and the files of checkpoints they read."""
