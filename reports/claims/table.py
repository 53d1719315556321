"""Claims as a table, and their counts in words."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from ..grouping import group_heading, group_rows
from ..markup import Block, tabulated
from ..record import Record

WIDTH = 100
_HEADERS = ("id", "said", "computed", "verdict")
_WIDEST = (14, 20, 24, 60)


def claim_table(record: Record) -> str:
    """The claims line by line, under each what was claimed, and why it is so."""
    if not record["rows"]:
        return "no claim has this verdict"
    if not record.get("group_by"):
        return _listed(record["rows"])
    return "\n\n".join(
        "\n".join([*textwrap.wrap(group_heading(record, first), WIDTH), _listed(rows)])
        for first, rows in group_rows(record)
    )


def claim_blocks(record: Record) -> list[Block]:
    """The claims as a table."""
    cells = [[*_cells(row), row["claim"], row["why"] or ""] for row in record["rows"]]
    return [Block("", (*_HEADERS, "claim", "why"), [True] * 6, cells)]


def _listed(rows: Sequence[Record]) -> str:
    """Claims line by line, each with what was claimed and why under it."""
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
