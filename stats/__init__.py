"""What should happen and how to decide: cases, closed forms, moments, verdicts (NumPy and SciPy, pure)."""
