"""Claims as a table, and their counts in words."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from ..columns import Column
from ..grouping import group_columns, group_rows
from ..record import Record

WIDTH = 100
_HEADERS = ("id", "said", "computed", "verdict")
_WIDEST = (14, 20, 24, 60)


def claim_table(record: Record, form: str) -> str:
    """The claims as a table; `plain` says under each line what was claimed, and why it is so."""
    from ..table import tabulated

    rows = record["rows"]
    if form != "plain":
        cells = [[*_cells(row), row["claim"], row["why"] or ""] for row in rows]
        return tabulated(cells, (*_HEADERS, "claim", "why"), form, [True] * 6)
    if not rows:
        return "no claim has this verdict"
    if not record.get("group_by"):
        return _listed(rows)
    columns = group_columns(record)
    return "\n\n".join(
        "\n".join([*_heading(columns, first, record["documents"]), _listed(group)])
        for first, group in group_rows(record)
    )


def _heading(columns: Sequence[Column], row: Record, documents: Mapping[str, str]) -> list[str]:
    """What a group's claims share; a source with its title."""
    said = []
    for column in columns:
        if cell := column.cell(row):
            title = documents.get(cell, "") if column.header == "source" else ""
            said.append(f"{column.header} {cell}{title and f': {title}'}")
    return textwrap.wrap("; ".join(said), WIDTH)


def _listed(rows: Sequence[Record]) -> str:
    """Claims line by line, each with what was claimed and why under it."""
    from ..table import tabulated

    cells = [[_cut(c, w) for c, w in zip(_cells(row), _WIDEST, strict=True)] for row in rows]
    head, rule, *lines = tabulated(cells, _HEADERS, "plain", [True] * 4).splitlines()
    listed = [head, rule]
    for line, row in zip(lines, rows, strict=True):
        listed += [line.rstrip(), *_indented(row["claim"]), *_indented(row["why"] or "")]
    return "\n".join(listed)


def _cells(row: Record) -> list[str]:
    return [row["id"], row["claimed"] or "", row["computed"] or "", row["verdict"]]


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: width - 3]}..."


def _indented(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent="     ",
        subsequent_indent="       ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def claim_summary(record: Record) -> str:
    """Counts of all verdicts and of each document's; what was not as expected."""
    counts = record["counts"]
    total: Counter[str] = sum((Counter(of_source) for of_source in counts.values()), Counter())
    lines = [_counts(total)]
    if len(counts) > 1:
        lines += [f"{source}: {_counts(Counter(counts[source]))}" for source in counts]
    rate = record["design"]["false_alarm"]
    lines.append(
        f"A simulated figure is right where a gap as large has a chance of {rate:g} or more in its "
        "own number of draws."
    )
    if record["unexpected"]:
        lines.append(f"Wrong, or not as expected: {', '.join(record['unexpected'])}.")
    return " ".join(lines)


def _counts(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    said = ", ".join(f"{n} {word}" for word, n in sorted(counts.items()))
    return f"{total} {'claim' if total == 1 else 'claims'}: {said}."
