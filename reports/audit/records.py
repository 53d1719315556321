"""The record of an audit: a row for each finding, and facts about the target."""

from __future__ import annotations

from collections.abc import Mapping

from ...stats.audit.findings import Audit, Finding
from ...stats.audit.options import AuditOptions
from ...stats.shown import printable
from ..record import ROW_KEYS, Record, make_record, plain_data, row_record


def audit_record(
    found: Audit,
    options: AuditOptions | None = None,
    provenance: Mapping[str, object] | None = None,
) -> Record:
    """The record of an audit; its rows have the fields check, where, cause and said besides.

    Examples:
        >>> finding = Finding("factor", "d_k = 64", "mismatch", expected=0.125, measured=1.0)
        >>> record = audit_record(Audit("attend", "callable", (finding,)))
        >>> record["verdict"], record["rows"][0]["gap"]
        ('mismatch', 7.0)

    """
    asked = {} if options is None else {k: _plain_list(v) for k, v in vars(options).items()}
    target = printable(found.target)
    record = make_record("audit", {"target": target} | asked, [], None, provenance)
    record["verdict"] = found.verdict
    record |= {"target": target, "kind": found.kind, "expected": found.expected}
    record["facts"] = dict(found.facts)
    record["rows"] = [_row(finding) for finding in found.findings]
    return record


def _row(finding: Finding) -> Record:
    row: Record = {
        "check": finding.check,
        "where": printable(finding.where),
        "cause": finding.cause,
        "said": printable(finding.said) or None,
    }
    row |= _numbers(finding) if finding.row is None else row_record(finding.row)
    row["parameters"] = {
        **(row["parameters"] or {}),
        **{k: v for k, v in finding.place.items() if k != "d_k"},
    }
    row["verdict"] = finding.verdict
    return {name: plain_data(value) for name, value in row.items()}


def _numbers(finding: Finding) -> Record:
    """The fields of a finding about something exact: nothing is drawn, so there is no z."""
    row: Record = dict.fromkeys(ROW_KEYS)
    expected, measured = finding.expected, finding.measured
    row |= {"theory": expected, "estimate": measured, "tolerance": finding.allowed}
    row["d_k"] = finding.place.get("d_k")
    if expected and measured is not None:
        row["gap"] = measured / expected - 1
    return row


def _plain_list(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
