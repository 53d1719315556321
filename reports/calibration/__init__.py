"""Calibrations told: their records and tables."""
