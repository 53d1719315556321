"""The page: one self-contained HTML file about one record or several, read offline.

Everything from a record is escaped, the browser is told to run no script but the page's own, and
nothing is fetched from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from ..advice import advice
from ..columns import Column, page_columns
from ..command import command_line
from ..figures.catalogue import figures_of
from ..figures.drawing import inline
from ..record import OWN_ROWS, Record
from ..table import render
from ..wording import summary
from . import parts

_ORDER = ("mismatch", "undecided", "match", "measured")
_HEADLINES = {
    "match": "Match: simulation agrees with theory",
    "mismatch": "Mismatch: simulation and theory differ",
    "undecided": "Undecided: too few draws to say",
    "measured": "Measured: there was no theory to compare with",
}


def page(records: Sequence[Record]) -> str:
    """The page as text; the same records give the same bytes.

    Examples:
        >>> from ..theory import predicted
        >>> from ...stats.request import CaseOptions
        >>> page([predicted(CaseOptions(dk=("8",))).record])[:15]
        '<!doctype html>'

    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters["classified"] = _classified
    style, script = (
        environment.get_template(f"page.{kind}.jinja").render() for kind in ("css", "js")
    )
    return environment.get_template("page.html.jinja").render(
        _content(records), **_trusted(style=style, script=script), script_hash=_hash(script)
    )


def _trusted(**texts: str) -> dict[str, Any]:
    """Our own text, which must not be escaped."""
    from markupsafe import Markup

    return {name: Markup(text) for name, text in texts.items()}


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _content(records: Sequence[Record]) -> dict[str, Any]:
    own = [record for record in records if record["command"] in OWN_ROWS]
    of_cases = [record for record in records if record not in own]
    rows = [row for record in of_cases for row in record["rows"]]
    verdict = _overall(records)
    sections = list(map(parts.own_section, own))
    to_do = verdict in ("mismatch", "undecided")  # otherwise they are notes
    said = [line for record in (records if to_do else of_cases) for line in advice(record)]
    return {
        "verdict": verdict,
        "verdict_class": _classified(verdict or ""),
        "headline": _headline(verdict) if of_cases else sections[0]["title"],
        "counts": _counts([row for record in records for row in record["rows"]]),
        "records": [_about(record) for record in records],
        "advice": said if to_do else [],
        "replicates": parts.replicates(rows),
        "claims": parts.claims(rows),
        "table": _table(of_cases, rows),
        "sections": sections,
        "figures": [
            {
                "name": data.name,
                "caption": data.caption,
                "images": [
                    _trusted(image=inline([panel], f"{data.name}{number}"))["image"]
                    for number, panel in enumerate(data.panels, 1)
                ],
            }
            for data in figures_of(records)
        ],
        "contrast": parts.contrast(rows),
        "limits": (parts.limits(rows) if of_cases else []) + ([] if to_do else said),
        "decisions": [found for record in of_cases if (found := parts.decision(record))],
        **_trusted(data=_embedded(records)),
    }


def _headline(verdict: str | None) -> str:
    return _HEADLINES.get(verdict or "", verdict or "Theory, without simulation")


def _overall(records: Sequence[Record]) -> str | None:
    """The worst verdict of the records."""
    verdicts = [record["verdict"] for record in records if record["verdict"] is not None]
    return min(verdicts, key=_rank, default=None)


def _rank(verdict: str) -> int:
    return _ORDER.index(verdict) if verdict in _ORDER else len(_ORDER)


def _counts(rows: Sequence[Record]) -> list[tuple[str, int]]:
    verdicts = [word for row in rows if (word := row.get("verdict")) in _ORDER]
    return [(name, verdicts.count(name)) for name in sorted(set(verdicts), key=_rank)]


def _classified(verdict: str) -> str:
    return verdict if verdict in _ORDER else "other"


def _about(record: Record) -> dict[str, object]:
    provenance = [
        (name, ", ".join(map(str, value)) if isinstance(value, list) else value)
        for name, value in record["provenance"].items()
        if value is not None
    ]
    said = {"summary": summary(record), "command": command_line(record)}
    return said | {"provenance": provenance}


def _table(records: Sequence[Record], rows: Sequence[Record]) -> dict[str, object]:
    """Headers and rows of the main table, failures first; columns that say nothing left out."""
    listed = [(row, _cells(page_columns(r, rows), row, i)) for i, r in enumerate(records, 1)
              for row in r["rows"]]  # fmt: skip
    listed.sort(key=lambda item: _rank(item[0]["verdict"] or ""))
    headers = list(dict.fromkeys(["verdict", *(name for _, cells in listed for name in cells)]))
    kept = [
        name
        for name in headers
        if any(cells.get(name, _EMPTY)["text"] for _, cells in listed)
        and not (name == "record" and len(records) == 1)
    ]
    textual = {
        name: any(c[name]["style"] != "number" for _, c in listed if name in c) for name in kept
    }
    return {
        "headers": [{"name": name, "text": textual[name]} for name in kept],
        "rows": [
            {"verdict": row["verdict"] or "", "cells": [cells.get(name, _EMPTY) for name in kept]}
            for row, cells in listed
        ],
    }


_EMPTY: dict[str, Any] = {"text": "", "style": "text", "key": None, "chip": False}
_KEYS = {"theory": "theory", "measured": "estimate", "gap %": "gap", "z": "z", "draws": "draws",
         "tolerance %": "tolerance", "d_k": "d_k", "keys": "n_keys"}  # fmt: skip


def _cells(columns: Sequence[Column], row: Record, number: int) -> dict[str, dict[str, Any]]:
    cells = {"record": _EMPTY | {"text": str(number), "key": number, "style": "number"}}
    for column in columns:
        raw = row[_KEYS[column.header]] if column.header in _KEYS else None
        cells[column.header] = {
            "text": column.cell(row),
            "style": ("note" if column.header == "note" else "text") if column.text else "number",
            "key": raw[0] if isinstance(raw, list) else raw,
            "chip": column.header == "verdict",
        }
    return cells


def _embedded(records: Sequence[Record]) -> str:
    """Records and CSV as JSON that no HTML parser mistakes for anything else."""
    tagged = [
        {"record": number, **row} if len(records) > 1 else row
        for number, record in enumerate(records, 1)
        for row in record["rows"]
    ]
    csv = render({**records[0], "rows": tagged}, "csv")
    text = json.dumps(
        {"records": list(records), "csv": csv}, separators=(",", ":"), allow_nan=False
    )
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
