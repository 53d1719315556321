"""Tables: views of a record's rows, for a terminal, a paper, a page or a program."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ..stats.quantities import GROUPS, QUANTITIES
from ..stats.shown import printable
from .columns import Column, layouts
from .grouping import group_columns, group_heading, group_rows
from .markup import MARKUP, Block, joined, tabulated
from .record import Record

FORMATS = (*MARKUP, "csv", "tsv", "json")
WIDTH = 100  # columns of a terminal that a plain table fits


def render(record: Record, form: str) -> str:
    """The rows in one of `FORMATS`; only csv, tsv and json carry full precision."""
    if form == "json":
        import json

        return json.dumps(record, indent=2, allow_nan=False)
    if form in ("csv", "tsv"):
        return _delimited(record, "," if form == "csv" else "\t")
    if form != "plain":
        return joined(blocks(record), form)
    return "\n".join(map(printable, _in_lines(record).split("\n")))


def _in_lines(record: Record) -> str:
    """The rows as a terminal shows them."""
    if record["command"] == "claims":
        from .claims.table import claim_table

        return claim_table(record)
    if record["command"] == "audit":
        from .audit.table import audit_table

        return audit_table(record)
    if record["command"] == "train":
        from .training.table import training_table

        return training_table(record)
    if record["command"] == "calibrate":
        from .calibration.table import calibration_table

        return calibration_table(record)
    return _plain(record)


def blocks(record: Record) -> list[Block]:
    """The tables that a paper or a page shows of a record: one, or one for each group."""
    if record.get("group_by"):
        hidden = {column.header for column in group_columns(record)}
        return [
            _without(replace(block, heading=group_heading(record, first)), hidden)
            for first, rows in group_rows(record)
            for block in blocks({**record, "rows": rows, "group_by": ()})
        ]
    if record["command"] == "claims":
        from .claims.table import claim_blocks

        return claim_blocks(record)
    if record["command"] == "audit":
        from .audit.table import audit_blocks

        return audit_blocks(record)
    if record["command"] == "train":
        from .training.table import training_blocks

        return training_blocks(record)
    if record["command"] == "calibrate":
        from .calibration.table import calibration_blocks

        return calibration_blocks(record)
    case, results = layouts(record)[0]
    return [_block(record["rows"], [*case, *results])]


def _without(block: Block, hidden: Collection[str]) -> Block:
    """The block without the columns that stand in its heading."""
    kept = [i for i, header in enumerate(block.headers) if header not in hidden]
    return replace(
        block,
        headers=[block.headers[i] for i in kept],
        texts=[block.texts[i] for i in kept],
        cells=[[row[i] for i in kept] for row in block.cells],
    )


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
        "\n".join([*_heading(moved, cells, block[0]), _table(block, columns)])
        for cells, block in blocks.items()
    )


def _table(rows: Sequence[Record], columns: Sequence[Column]) -> str:
    block = _block(rows, columns)
    short = [column.header for column in _telling(rows, columns)]
    return tabulated(block.cells, short, "plain", block.texts)


def _block(rows: Sequence[Record], columns: Sequence[Column]) -> Block:
    """Rows as a table, without the columns that say nothing of any of them."""
    said = _telling(rows, columns)
    cells = [[column.cell(row) for column in said] for row in rows]
    return Block("", [c.full or c.header for c in said], [c.text for c in said], cells)


def _telling(rows: Sequence[Record], columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if any(column.cell(row) for row in rows)]


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
