"""What the shipped training experiment says of published claims.

The record beside `stats.training` was written by the command that it names; `verify-variance
train` makes it again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ...stats.claims.claim import Claim, Trained
from ..files import read_text
from ..numbers import plain
from ..record import Record
from .table import part_said, span

SHIPPED = Path(__file__).resolve().parents[2] / "stats" / "training" / "documents.json"


def shipped_training() -> Record:
    """The record of the training experiment for the documents' claims."""
    record: Record = json.loads(read_text(str(SHIPPED), "record"))
    return record


def trained_verdicts(claims: Sequence[Claim]) -> dict[str, Trained]:
    """Verdicts by statement, for claims that name one."""
    if not any(claim.experiment for claim in claims):
        return {}
    record = shipped_training()
    return {statement["id"]: _trained(statement, record) for statement in record["statements"]}


def _trained(statement: Record, record: Record) -> Trained:
    """The verdict with the parts that decided it."""
    verdict = statement["verdict"]
    deciding = {"refuted": False, "undecided": None, "confirmed": True}[verdict]
    parts = [part for part in statement["parts"] if part["holds"] is deciding]
    more = len(parts) - 1
    said = part_said(parts[0]) + (f" (and {more} more)" if more else "")
    beyond = f"not tested: {statement['beyond']}" if statement["beyond"] else ""
    word = "qualitative: holds" if statement["direction"] and verdict == "confirmed" else verdict
    computed = f"{plain(parts[0]['mean'], 3)} ({span(parts[0]['low'], parts[0]['high'])})"
    size = (
        f"small models, {parts[0]['replicates']} replicates, intervals at "
        f"{1 - record['design']['false_alarm']:g}"
    )
    return Trained(f"{word},", computed, "; ".join(filter(None, [said, size, beyond])))
