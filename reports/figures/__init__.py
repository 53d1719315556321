"""Figures: what each shows as plain panels, and panels drawn."""
