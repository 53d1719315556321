"""What continuous integration reads: JUnit XML, a step summary in Markdown, annotations."""

from __future__ import annotations

import os
import re
from html import escape
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from .advice import advice
from .columns import layouts
from .files import append_text, write_text
from .numbers import deviate, interval, percent, plain, with_error
from .record import Record
from .table import render
from .wording import exit_code, summary

SUMMARY_BYTES = 1024 * 1024 - 4096  # GitHub drops a step summary above 1 MiB
MOST_ANNOTATIONS = 10  # of each kind that GitHub shows for a step
_LONGEST = 400
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def ci_exit_code(record: Record, undecided: str) -> int:
    """The exit code, where an undecided run may be let pass."""
    code = exit_code(record)
    return 0 if code == 3 and undecided == "pass" else code


def junit(record: Record, undecided: str = "fail") -> str:
    """JUnit XML: one test case a row; a measured row is skipped, for nothing was compared.

    Examples:
        >>> from .theory import predicted
        >>> from ..stats.request import CaseOptions
        >>> junit(predicted(CaseOptions(dk=("8",))).record).splitlines()[1]
        '<testsuites tests="1" failures="0" errors="0" skipped="1" time="0">'

    """
    rows = record["rows"]
    outcomes = [_outcome(row, undecided) for row in rows]
    totals = {
        "tests": len(rows),
        "failures": outcomes.count("failure"),
        "errors": 0,
        "skipped": outcomes.count("skipped"),
        "time": f"{record['provenance']['wall_seconds'] or 0:g}",
    }
    counted = {name: str(value) for name, value in totals.items()}
    root = Element("testsuites", counted)
    suite = SubElement(
        root, "testsuite", {"name": _xml(f"verify-variance {record['command']}"), **counted}
    )
    for row, outcome, name in zip(rows, outcomes, _names(record), strict=True):
        home = f"verify_variance.{record['command']}.{row.get('check') or row['quantity']}"
        case = SubElement(suite, "testcase", {"classname": _xml(home), "name": name, "time": "0"})
        if outcome is not None:
            verdict = str(row["verdict"])
            SubElement(case, outcome, {"type": _xml(verdict), "message": _xml(described(row))})
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}'


def _outcome(row: Record, undecided: str) -> str | None:
    if row["verdict"] == "mismatch":
        return "failure"
    if row["verdict"] == "undecided":
        return "failure" if undecided == "fail" else "skipped"
    return None if row["verdict"] == "match" else "skipped"


def _names(record: Record) -> list[str]:
    """A name for each row, unlike the others'."""
    if record["command"] in ("audit", "calibrate"):
        return [_xml(f"{row['check']} {row['where']}".strip()) for row in record["rows"]]
    columns = layouts(record)[-1][0]
    names: list[str] = []
    for row in record["rows"]:
        said = ((column.header, column.cell(row)) for column in columns)
        parts = [f"{header}={cell}" for header, cell in said if cell and header != "quantity"]
        name = _xml(" ".join(parts)) or row["quantity"]
        names.append(name if name not in names else f"{name} #{len(names) + 1}")
    return names


def described(row: Record) -> str:
    """A row's figures in a line: expected, measured, gap, z and verdict.

    Examples:
        >>> row = {"theory": 64.0, "estimate": 65.0, "mcse": 0.1, "gap": 0.0078, "z": 9.9,
        ...        "tolerance": 0.01, "verdict": "mismatch", "note": None}
        >>> described(row)
        'expected 64, measured 65.00(10), gap +0.78 % (tolerance 1 %), z +9.90: mismatch'

    """
    theory, estimate = row["theory"], row["estimate"]
    said = [] if theory is None else [f"expected {interval(theory)}"]
    said += [] if estimate is None else [f"measured {with_error(estimate, row['mcse'])}"]
    if row["gap"] is not None:
        allowed = f" (tolerance {plain(100 * row['tolerance'], 3)} %)" if row["tolerance"] else ""
        said.append(f"gap {percent(row['gap'])} %{allowed}")
    said += [] if row["z"] is None else [f"z {deviate(row['z'])}"]
    verdict = row["verdict"] or "not measured"
    notes = "".join(f"; {note}" for note in (row.get("said"), row["note"]) if note)
    return f"{', '.join(said)}: {verdict}{notes}"


def _xml(text: str) -> str:
    """Text without the characters that XML 1.0 cannot hold."""
    return _NOT_XML.sub("�", text)


def step_summary(record: Record, room: int = SUMMARY_BYTES) -> str:
    """The verdict, what to do and the table in Markdown, in at most `room` bytes.

    Rows that do not fit are counted, the failures come first.
    """
    order = ("mismatch", "undecided", "match", "measured")
    rank = {name: place for place, name in enumerate(order)}
    rows = sorted(record["rows"], key=lambda row: rank.get(row["verdict"], len(rank)))
    head = f"### verify-variance: {_inert(record['verdict'] or 'theory')}"
    said = [_inert(line) for line in [*advice(record)[:MOST_ANNOTATIONS], summary(record)] if line]
    text = "\n\n".join([head, *said])[: room // 4]
    lines = _inert(render({**record, "rows": rows}, "pipe")).splitlines()
    left = room - len(text.encode()) - 200
    kept = 0
    for line in lines:
        left -= len(line.encode()) + 1
        if left < 0:
            break
        kept += 1
    rest = len(lines) - kept
    more = f"\n\n{rest} more rows did not fit." if rest else ""
    return f"{text}\n\n" + "\n".join(lines[:kept]) + f"{more}\n"


def _inert(text: str) -> str:
    """Markdown in which a name is never markup, a link, a mention or an image."""
    safe = escape(text, quote=False)
    return re.sub(r"([`\[\]@])", lambda found: f"&#{ord(found[0])};", safe)


def workflow_commands(record: Record, undecided: str = "fail") -> list[str]:
    """GitHub's annotations: an error for a mismatch, else a warning; ten of each at most."""
    lines: list[str] = []
    for verdict, level in (("mismatch", "error"), ("undecided", "warning")):
        level = "error" if verdict == "undecided" and undecided == "fail" else level
        rows = [row for row in record["rows"] if row["verdict"] == verdict]
        room = MOST_ANNOTATIONS - sum(line.startswith(f"::{level} ") for line in lines)
        shown = rows if len(rows) <= room else rows[: max(room - 1, 0)]
        said = [(_title(row), described(row)) for row in shown]
        if len(rows) > len(shown) and room > 0:
            said.append((verdict, f"{len(rows) - len(shown)} more rows: {verdict}"))
        lines += [f"::{level} title={_property(title)}::{_data(text)}" for title, text in said]
    return lines


def _title(row: Record) -> str:
    if "check" in row:
        return f"{row['check']} {row['where']}"
    case = f"d_k={row['d_k']} scale={row['scale']}" if row["d_k"] is not None else ""
    return f"{row['quantity']} {case}"


def _data(text: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def publish(record: Record, path: str | None, undecided: str) -> list[str]:
    """Write the JUnit file and, where GitHub runs us, the step summary; lines for its log."""
    if path is not None:
        write_text(path, f"{junit(record, undecided)}\n")
    if target := os.environ.get("GITHUB_STEP_SUMMARY"):
        append_text(target, step_summary(record))
    here = os.environ.get("GITHUB_ACTIONS") == "true"
    return workflow_commands(record, undecided) if here else []
