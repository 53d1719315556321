"""Queries and keys as somebody has them: what their logits vary by, and why."""
