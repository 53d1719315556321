"""A training experiment in the page."""

from __future__ import annotations

from typing import Any

from ..record import Record
from .table import arms_blocks, part_said


def training_section(record: Record) -> dict[str, Any]:
    """Statements and tables of arms as plain text."""
    statements = [s | {"parts": list(map(part_said, s["parts"]))} for s in record["statements"]]
    return {"statements": statements, "blocks": arms_blocks(record)}
