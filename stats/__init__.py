"""What should happen and how to decide: cases, closed forms, verdicts (pure)."""
