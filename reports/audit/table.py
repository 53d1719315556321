"""An audit as a table, the sentences of its findings, and what they come to."""

from __future__ import annotations

from ..grouping import group_heading, group_rows
from ..markup import Block, tabulated
from ..numbers import interval, with_error
from ..record import Record, verdict_counts
from .attentions import attention_tables, is_attention

_HEADERS = ("check", "where", "expected", "measured", "verdict")
_TEXTS = (True, True, False, False, True)
_AS_FOUND = ("many keys", "key heads", "lengths")
"""Checks that hold the factor against the one found for plain rows, right or wrong."""
_RANK = {"mismatch": 0, "undecided": 1, "match": 2, "measured": 3}


def audit_table(record: Record) -> str:
    """The findings as tables under a heading, in groups where they are asked for."""
    groups = group_rows(record) if record.get("group_by") else [({}, record["rows"])]
    parts = []
    for first, rows in groups:
        attentions = [row for row in rows if is_attention(row)]
        cells = [_cells(row, record) for row in rows if not is_attention(row)]
        heading = group_heading(record, first) if first else ""
        tables = [tabulated(cells, _HEADERS, "plain", _TEXTS)] if cells else []
        text = "\n\n".join([*tables, *attention_tables(attentions)])
        parts.append(f"{heading}\n{text}".lstrip("\n"))
    lines = (line.rstrip() for line in "\n\n".join(parts).splitlines())
    return "\n".join([*_heading(record), *([""] if len(groups) > 1 else []), *lines])


def audit_blocks(record: Record) -> list[Block]:
    """The findings as a table, each with its sentence."""
    cells = [[*_cells(row, record), row["said"] or ""] for row in record["rows"]]
    return [Block("", (*_HEADERS, "said"), (*_TEXTS, True), cells)]


def _heading(record: Record) -> list[str]:
    from ..wording import wrapped

    facts = [f"{name} {value}" for name, value in record["facts"].items()]
    return wrapped("; ".join([f"{record['target']}: {record['kind']}", *facts])).splitlines()


def _cells(row: Record, record: Record) -> list[str]:
    expected, measured = interval(row["theory"]), with_error(row["estimate"], row["mcse"])
    if expected and row["check"] in _AS_FOUND and _wrong_factor(record):
        expected = f"as found, {expected}"
    return [row["check"], row["where"], expected, measured, row["verdict"]]


def _wrong_factor(record: Record) -> bool:
    """Whether the factor is another than the expected one, so that two are in the table."""
    return any(r["check"] == "factor" and r["verdict"] == "mismatch" for r in record["rows"])


def audit_advice(record: Record) -> list[str]:
    """What the findings say, each sentence once, the defects first."""
    rows = sorted(record["rows"], key=lambda row: _RANK[row["verdict"]])
    return list(dict.fromkeys(row["said"] for row in rows if row["said"]))


def audit_summary(record: Record) -> str:
    """How many checks agree, in a sentence that begins with the verdict."""
    counts = verdict_counts(record["rows"])
    compared = len(record["rows"]) - counts["measured"]
    checks = f"{compared} {'check' if compared == 1 else 'checks'}"
    against = f" against {record['expected']}" if record["expected"] else ""
    return {
        "mismatch": f"Defect: {counts['mismatch']} of {checks}{against} failed.",
        "undecided": f"Cannot tell: {counts['undecided']} of {checks}{against} undecided.",
        "match": f"Sound: {checks}{against} passed.",
        "measured": "Nothing was compared: the figures are measured.",
    }[record["verdict"]]
