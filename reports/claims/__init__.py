"""Claims told: their records, tables and options."""
