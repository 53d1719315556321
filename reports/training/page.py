"""A training experiment in the page, and the check of one that was saved."""

from __future__ import annotations

from typing import Any

from ...stats.checks import InputError
from ..record import Record
from .table import arms_table, blocks, part_said


def training_section(record: Record) -> dict[str, Any]:
    """Statements and tables of arms as plain text."""
    tables = []
    for heading, rows in blocks(record):
        headers, cells = arms_table(rows)
        tables.append({"heading": heading, "headers": headers, "rows": cells})
    statements = [s | {"parts": list(map(part_said, s["parts"]))} for s in record["statements"]]
    return {"statements": statements, "blocks": tables}


def check_training(data: Record, name: str) -> None:
    """InputError where a saved record of train cannot be shown."""
    from ..figures.catalogue import TRAINING

    try:
        training_section(data)
        for make in TRAINING.values():
            make(data)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, StopIteration):
        raise InputError(
            f"{name} must be a whole record of train, got one that lacks some of it; "
            "save the record again"
        ) from None
