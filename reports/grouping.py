"""Rows put together by what they have in common, each group under its own heading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from ..stats.cases import Case
from ..stats.checks import choice, no_duplicates
from ..stats.claims.claim import VERDICTS
from .columns import Column, short_value
from .record import Record

_OWN = ("quantity", "d_k", "n_keys", "elements", "weights", "ensemble", "scale", "transform")
_JUDGED = ("verdict", "source", "check")  # a claim has a source, a finding a check
NAMES = tuple(dict.fromkeys((*_OWN, *(field.name for field in fields(Case)), *_JUDGED)))
_ALIASES = {"dk": "d_k", "keys": "n_keys", "document": "source"}


def group_names(given: Sequence[str]) -> tuple[str, ...]:
    """Names to group by, as a record spells them.

    Examples:
        >>> group_names(["dk", "sigma-q"])
        ('d_k', 'sigma_q')

    """
    plain = [name.replace("-", "_") for name in given]
    names = tuple(_ALIASES.get(name, name) for name in plain)
    no_duplicates("group-by", names)
    return tuple(choice("group", name, NAMES) for name in names)


def grouped(record: Record, names: Sequence[str]) -> Record:
    """The record with its rows group by group, values in the order of their first appearance."""
    marked = record | {"group_by": names}
    return marked | {"rows": [row for _, rows in group_rows(marked) for row in rows]}


def group_rows(record: Record) -> list[tuple[Record, list[Record]]]:
    """The first row of each group, and all of them; groups nest, in the order of their names."""
    groups: dict[tuple[int, ...], list[Record]] = {}
    ranks: list[dict[str, int]] = [{} for _ in record["group_by"]]
    for row in record["rows"]:
        values = [_value(row, name) for name in record["group_by"]]
        key = tuple(rank.setdefault(v, len(rank)) for rank, v in zip(ranks, values, strict=True))
        groups.setdefault(key, []).append(row)
    return [(groups[key][0], groups[key]) for key in sorted(groups)]


def group_columns(record: Record) -> list[Column]:
    """A column for each name that the record is grouped by."""
    return [_column(name) for name in record.get("group_by", ())]


def group_heading(record: Record, row: Record) -> str:
    """What the rows of a group share, by one of them; a claim's source with its title."""
    said = []
    for column in group_columns(record):
        if cell := column.cell(row):
            title = record.get("documents", {}).get(cell) if column.header == "source" else None
            said.append(f"{column.header} {cell}" + (f": {title}" if title else ""))
    return "; ".join(said)


def _column(name: str) -> Column:
    header = {"n_keys": "keys"}.get(name, name)
    return Column(header, lambda row: _value(row, name), text=True)


def _value(row: Record, name: str) -> str:
    value = row[name] if name in row else (row.get("parameters") or {}).get(name)
    if name == "verdict":  # a claim's says more than its first words
        value = next((word for word in VERDICTS if str(value).startswith(word)), value)
    if name == "transform" and name in row:
        value = value or "none"
    return "" if value is None else short_value(value)
