"""Tables: views of a record's rows, for a terminal, a paper, a page or a program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..stats.quantities import QUANTITIES
from .numbers import deviate, interval, percent, plain, with_error
from .record import Record

TABULATE_FORMATS = {"plain": "simple", "pipe": "pipe", "latex": "latex_booktabs", "html": "html"}
FORMATS = (*TABULATE_FORMATS, "csv", "tsv", "json")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its header and what it says of a row."""

    header: str
    cell: Callable[[Record], str]
    text: bool = False


def _field(name: str) -> Callable[[Record], str]:
    return lambda row: "" if row[name] is None else str(row[name])


def _parameters(row: Record) -> str:
    return " ".join(f"{name}={value}" for name, value in row["parameters"].items())


def _root(row: Record, name: str) -> float | None:
    value = row[name]
    return None if value is None else math.sqrt(max(value, 0.0))


def _std_with_error(row: Record) -> str:
    std = _root(row, "estimate")
    return with_error(std, row["mcse"] / (2 * std) if std and row["mcse"] else None)


def _hundred(share: float | None) -> str:
    return "" if share is None else plain(100 * share, 3)


def _theory(row: Record, digits: int = 6) -> str:
    if row["theory"] is None and row.get("approximation") is not None:
        return f"~{plain(row['approximation'])}"
    return interval(row["theory"], digits)


_CASE = [
    Column("quantity", _field("quantity"), text=True),
    Column("elements", _field("elements"), text=True),
    Column("dtype", _field("dtype"), text=True),
    Column("parameters", _parameters, text=True),
    Column("keys", _field("n_keys")),
    Column("scale", _field("scale"), text=True),
    Column("d_k", _field("d_k")),
]
_DRAWS = Column("draws", _field("draws"))
_JUDGED = [Column("z", lambda row: deviate(row["z"])), Column("verdict", _field("verdict"), True)]
_SPREAD = [
    Column("Var theory", lambda row: interval(row["theory"])),
    Column("measured", lambda row: with_error(row["estimate"], row["mcse"])),
    Column("std theory", lambda row: plain(_root(row, "theory"))),
    Column("measured", _std_with_error),
    Column("error %", lambda row: percent(row["gap"])),
]
_GENERAL = [
    Column("theory", _theory),
    Column("kind", _field("theory_kind"), text=True),
    Column("measured", lambda row: with_error(row["estimate"], row["mcse"])),
    Column("gap %", lambda row: percent(row["gap"])),
]
_PLANNED = [
    Column("draws", _field("draws")),
    Column("tolerance %", lambda row: plain(100 * row["tolerance"])),
    Column("detectable %", lambda row: _hundred(row["detectable"])),
    Column("elements", lambda row: f"{row['elements_drawn']:.3g}"),
]
_PREDICTED = [
    Column("theory", lambda row: _theory(row, 9)),
    Column("kind", _field("theory_kind"), text=True),
    Column("replicate sd", lambda row: plain(row["replicate_sd"])),
]


def columns_of(record: Record) -> list[Column]:
    """The columns that a record's rows need: what is the same in every row is left out."""
    rows = record["rows"]
    varying = [c for c in _CASE if len({c.cell(row) for row in rows}) > 1]
    always = [c for c in _CASE if c.header == "d_k" and c not in varying and c.cell(rows[0])]
    case = varying + always
    if record["command"] in ("predict", "plan"):
        return case + (_PREDICTED if record["command"] == "predict" else _PLANNED)
    spread = all(row["quantity"] == "variance" for row in rows)
    return [*case, _DRAWS, *(_SPREAD if spread else _GENERAL), *_JUDGED]


def render(record: Record, form: str) -> str:
    """The rows in one of `FORMATS`; only csv, tsv and json carry full precision."""
    if form == "json":
        import json

        return json.dumps(record, indent=2, allow_nan=False)
    if form in ("csv", "tsv"):
        return _delimited(record, "," if form == "csv" else "\t")
    rows = record["rows"]
    columns = columns_of(record)
    if form != "plain" or columns[0].header != "quantity":
        return _tabulated(rows, columns, form)
    names = dict.fromkeys(row["quantity"] for row in rows)
    blocks = {name: [row for row in rows if row["quantity"] == name] for name in names}
    return "\n\n".join(
        f"{heading(name, block)}\n{_tabulated(block, columns[1:], form)}"
        for name, block in blocks.items()
    )


def heading(quantity: str, rows: Sequence[Record]) -> str:
    """What a block of rows measures, in what its gap is counted, and where theory has it from."""
    entry = QUANTITIES[quantity]
    unit = {"mean": "of the std", "entropy": "of ln n", "skewness": "absolute"}.get(
        quantity, "absolute" if quantity in ("kurtosis", "saturated") else "of theory"
    )
    gap = "" if rows[0]["verdict"] is None else f"; gap in % {unit}"
    return f"{quantity}: {entry.symbol}, {entry.meaning}{gap.replace('% absolute', '1/100')}"


def _tabulated(rows: Iterable[Record], columns: Sequence[Column], form: str) -> str:
    from tabulate import tabulate

    escape = _no_pipe if form == "pipe" else str
    return tabulate(
        [[escape(column.cell(row)) for column in columns] for row in rows],
        headers=[column.header for column in columns],
        tablefmt=TABULATE_FORMATS[form],
        disable_numparse=True,
        colalign=["left" if column.text else "right" for column in columns],
    )


def _no_pipe(cell: str) -> str:
    return cell.replace("|", "\\|")


def frame(record: Record) -> Any:
    """The rows as a pandas DataFrame, one column per field of the record's rows."""
    import pandas as pd

    return pd.DataFrame(record["rows"])


def _delimited(record: Record, separator: str) -> str:
    import json

    table = frame(record)
    for name in table.columns:
        nested = [isinstance(value, (dict, list)) for value in table[name]]
        if any(nested):
            table[name] = [
                json.dumps(value) if isinstance(value, (dict, list)) else value
                for value in table[name]
            ]
    text: str = table.to_csv(sep=separator, index=False, lineterminator="\n")
    return text.rstrip("\n")
