"""Tables: views of a record's rows, for a terminal, a paper, a page or a program."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from ..stats.quantities import GROUPS, QUANTITIES
from .columns import Column, layouts
from .grouping import group_columns, group_rows
from .record import Record

TABULATE_FORMATS = {
    "plain": "simple",
    "pipe": "pipe",
    "rst": "rst",
    "latex": "latex_booktabs",
    "html": "html",
}
_MARKUP = {"pipe": r"\|", "rst": r"[*`|\\]|_(?![^\W_])"}
"""What a format would read as markup, and takes as text behind a backslash."""
FORMATS = (*TABULATE_FORMATS, "csv", "tsv", "json")
WIDTH = 100  # columns of a terminal that a plain table fits


def render(record: Record, form: str) -> str:
    """The rows in one of `FORMATS`; only csv, tsv and json carry full precision."""
    if form == "json":
        import json

        return json.dumps(record, indent=2, allow_nan=False)
    if form in ("csv", "tsv"):
        return _delimited(record, "," if form == "csv" else "\t")
    if record["command"] == "claims":
        from .claims.table import claim_table

        return claim_table(record, form)
    if record["command"] == "audit":
        from .audit.table import audit_table

        return audit_table(record, form)
    if record["command"] == "train":
        from .training.table import training_table

        return training_table(record, form)
    if record["command"] == "calibrate":
        from .calibration.table import calibration_table

        return calibration_table(record, form)
    if form == "plain":
        return _plain(record)
    case, results = layouts(record)[0]
    return _table(record["rows"], [*case, *results], form)


def _plain(record: Record) -> str:
    """Blocks under headings; what does not fit in `WIDTH` columns moves into the headings."""
    groups = group_columns(record)
    if not groups:
        return _fitted(record, ())
    named = {column.header for column in groups}
    case = [column for column in layouts(record)[-1][0] if column.header not in named]
    shared = [c for c in case if c.header != "d_k" and _is_shared(c, record["rows"])]
    first = record["rows"][0]
    parts = ["\n".join(_heading(shared, [column.cell(first) for column in shared], first))]
    hidden = [column.header for column in (*groups, *shared)]
    for row, rows in group_rows(record):
        heading = _heading(groups, [column.cell(row) for column in groups], row)
        parts.append("\n".join([*heading, _fitted(record | {"rows": rows}, hidden)]))
    return "\n\n".join(filter(None, parts))


def _fitted(record: Record, hidden: Sequence[str]) -> str:
    """The fullest layout that fits, without the columns that stand above."""
    rows, text = record["rows"], ""
    options = layouts(record)
    for i, (all_columns, results) in enumerate(options):
        case = [column for column in all_columns if column.header not in hidden]
        fixed = [column for column in case if column.header == "d_k"]
        common = [c for c in case if c not in fixed and _is_common(c, rows)]
        movable = [c for c in case if c not in fixed and c not in common]
        most = 0 if hidden and i + 1 < len(options) else len(movable)
        for moved in range(most + 1):
            columns = [*movable[moved:], *fixed, *results]
            text = _blocks(rows, [*common, *movable[:moved]], columns)
            if max(map(len, text.splitlines())) <= WIDTH:
                return text
    return text


def _is_common(column: Column, rows: Sequence[Record]) -> bool:
    """Whether a column belongs over a block: the quantity, and what is the same in every row."""
    return column.header == "quantity" or _is_shared(column, rows)


def _is_shared(column: Column, rows: Sequence[Record]) -> bool:
    return len({column.cell(row) for row in rows}) == 1


def _blocks(rows: Sequence[Record], moved: Sequence[Column], columns: Sequence[Column]) -> str:
    blocks: dict[tuple[str, ...], list[Record]] = {}
    for row in rows:
        blocks.setdefault(tuple(column.cell(row) for column in moved), []).append(row)
    return "\n\n".join(
        "\n".join([*_heading(moved, cells, block[0]), _table(block, columns, "plain")])
        for cells, block in blocks.items()
    )


def _table(rows: Sequence[Record], columns: Sequence[Column], form: str) -> str:
    """Rows as a table, without the columns that say nothing of any of them."""
    said = [column for column in columns if any(column.cell(row) for row in rows)]
    return tabulated(
        [[column.cell(row) for column in said] for row in rows],
        [column.header for column in said],
        form,
        [column.text for column in said],
    )


def _heading(moved: Sequence[Column], cells: Sequence[str], row: Record) -> list[str]:
    """Lines that say what a block's rows have in common."""
    said = []
    for column, cell in zip(moved, cells, strict=True):
        if column.header in ("quantity", "parameters"):
            said.append(_meaning(row) if column.header == "quantity" else cell)
        elif cell:
            said.append(f"{column.header} {cell}")
    text = "; ".join(filter(None, said))
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _meaning(row: Record) -> str:
    """What a quantity is, and in what its gap is counted."""
    name = row["quantity"]
    absolute = name in ("skewness", "kurtosis", "saturated", "overflow", "broken_rows", "law")
    absolute |= name in GROUPS["tails"]
    of_std = dict.fromkeys(("mean", *GROUPS["extremes"]), "% of the std")
    units = of_std | {"entropy": "% of ln n", "variance": "% of twice theory"}
    unit = units.get(name, "1/100" if absolute else "% of theory")
    gap = "" if row["gap"] is None else f"; gap in {unit}"
    return f"{name}: {QUANTITIES[name].symbol}, {QUANTITIES[name].meaning}{gap}"


def tabulated(
    cells: Iterable[Sequence[str]], headers: Sequence[str], form: str, texts: Sequence[bool]
) -> str:
    """Cells as a table in one of `TABULATE_FORMATS`; columns of numbers are aligned right."""
    from tabulate import tabulate

    markup = _MARKUP.get(form)

    def escape(cell: str) -> str:
        return re.sub(markup, r"\\\g<0>", cell) if markup else cell

    table: str = tabulate(
        [[escape(cell) for cell in row] for row in cells],
        headers=[escape(header) for header in headers],
        tablefmt=TABULATE_FORMATS[form],
        disable_numparse=True,
        colalign=["left" if text else "right" for text in texts],
    )
    return table


def frame(record: Record) -> Any:
    """The rows as a pandas DataFrame, one column per field; counts stay whole beside gaps."""
    import pandas as pd

    table = pd.DataFrame(record["rows"])
    for name in ("d_k", "n_keys", "draws"):
        if table[name].isna().any():
            table[name] = table[name].astype("Int64")
    return table


def _delimited(record: Record, separator: str) -> str:
    import json

    table = frame(record)
    for name in table.columns:
        if any(isinstance(value, (dict, list)) for value in table[name]):
            table[name] = [
                json.dumps(value) if isinstance(value, (dict, list)) else value
                for value in table[name]
            ]
    text: str = table.to_csv(sep=separator, index=False, lineterminator="\n")
    return text.rstrip("\n")
