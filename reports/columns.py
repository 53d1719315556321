"""The columns of a table: what each says of a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial

from ..stats.cases import Case
from .numbers import deviate, interval, percent, plain, whole, with_error
from .record import Record, rates_of


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its header, what it says of a row, whether that is text; its name in full."""

    header: str
    cell: Callable[[Record], str]
    text: bool = False
    full: str = ""  # where the header is not unlike the others without what stands beside it


Layout = tuple[list[Column], list[Column]]


def layouts(record: Record) -> list[Layout]:
    """Columns of the case and of the result: the fullest layout first, then narrower ones."""
    case = _told_apart(_case_columns(record["rows"]), record["rows"])
    if record["command"] == "plan":
        return [(case, _PLANNED)]
    if record["command"] == "predict":
        derived = any(_derived(row) for row in record["rows"])
        return [(case, [*_PREDICTED, *([_DERIVED] if derived else [])])]
    gap = _gap(record)
    results = [_DRAWS, _LOOK, *_GENERAL, Column("gap %", gap), *_JUDGED]
    general = [(case, results), (case, [c for c in results if c.header != "kind"])]
    if any(row["quantity"] != "variance" for row in record["rows"]):
        return general
    unnamed = [column for column in case if column.header != "quantity"]
    return [(unnamed, [_DRAWS, *_SPREAD, Column("error %", _std_error), *_JUDGED]), *general]


def page_columns(record: Record, rows: Sequence[Record]) -> list[Column]:
    """The columns of a page: those that tell the rows of all its records apart, then results."""
    case = _case_columns(rows)
    if record["command"] == "predict":
        return [*case, *_PREDICTED]
    tolerance = Column("tolerance %", lambda row: _hundred(row["tolerance"]))
    note = Column("note", _field("note"), text=True)
    return [*case, _DRAWS, *_GENERAL, Column("gap %", _gap(record)), tolerance, *_JUDGED, note]


def _gap(record: Record) -> Callable[[Record], str]:
    """What says a gap, to the digits that the record's draws leave of it."""
    rates = rates_of(record)
    thresholds = rates.z_holm(record["design"]["tests"]) + rates.z_power
    return lambda row: percent(row["gap"], row["detectable"] and row["detectable"] / thresholds)


def _case_columns(rows: Sequence[Record]) -> list[Column]:
    """Quantity and d_k, and besides what tells rows apart or is not at its default."""
    return [
        column
        for column in _CASE
        if len(cells := {column.cell(row) for row in rows}) > 1
        or not cells <= {"", _DEFAULTS.get(column.header, "")}
    ]


def _told_apart(columns: Sequence[Column], rows: Sequence[Record]) -> list[Column]:
    """The columns, with one of its own for each parameter that tells rows apart."""
    names = dict.fromkeys(name for row in rows for name in row["parameters"])
    shown = {name: {parameter(row, name) for row in rows} for name in names}
    apart = [name for name in names if len(shown[name]) > 1]

    def shared(row: Record) -> str:
        return _parameters({"parameters": {n: v for n, v in row["parameters"].items()
                                           if n not in apart}})  # fmt: skip

    split: list[Column] = []
    for column in columns:
        if column.header != "parameters":
            split.append(column)
            continue
        split += [Column(name, partial(parameter, name=name)) for name in apart]
        if len(apart) < len(names):
            split.append(Column("parameters", shared, text=True))
    return split


def parameter(row: Record, name: str) -> str:
    """A parameter of a row in few digits: its default where the row is at it, "" without one."""
    value = row["parameters"].get(name, _USUAL.get(name))
    return "" if value is None else short_value(value)


def _field(name: str) -> Callable[[Record], str]:
    return lambda row: "" if row[name] is None else str(row[name])


def _count(name: str) -> Callable[[Record], str]:
    return lambda row: whole(row[name])


def _parameters(row: Record) -> str:
    return ", ".join(f"{name}={short_value(value)}" for name, value in row["parameters"].items())


def short_value(value: object) -> str:
    """A parameter in few digits."""
    return plain(value) if isinstance(value, float) else str(value)


def _root(row: Record, name: str) -> float | None:
    value = row[name]
    return None if value is None else math.sqrt(max(value, 0.0))


def _std_error(row: Record) -> str:
    """Error of the standard deviation in per cent: the gap itself where that is small."""
    theory, std = _root(row, "theory"), _root(row, "estimate")
    if not theory or std is None:
        return ""
    error = row["mcse"] / (2 * std * theory) if std and row["mcse"] else None
    return percent(std / theory - 1, error)


def _std_with_error(row: Record) -> str:
    std = _root(row, "estimate")
    return with_error(std, row["mcse"] / (2 * std) if std and row["mcse"] else None)


def _derived(row: Record) -> str:
    """What people know a quantity by: exp(E H), a root mean square."""
    value = row["theory"]
    if not isinstance(value, float) or value < 0:
        return ""
    if row["quantity"] == "entropy":
        return f"{plain(math.exp(value))} effective keys"
    if row["quantity"] == "jacobian_frobenius_sq":
        return f"{plain(math.sqrt(value))} root mean square"
    return ""


def _hundred(share: float | None) -> str:
    return "" if share is None else plain(100 * share, 3)


_CASE = [
    Column("quantity", _field("quantity"), text=True),
    Column("elements", _field("elements"), text=True),
    Column("weights", _field("weights"), text=True),
    Column("ensemble", lambda row: row["ensemble"] if row["weights"] else "", text=True),
    Column("transform", lambda row: row["transform"] or "none", text=True),
    Column("dtype", _field("dtype"), text=True),
    Column("parameters", _parameters, text=True),
    Column("keys", _field("n_keys")),
    Column("scale", _field("scale"), text=True),
    Column("d_k", _field("d_k")),
]
_USUAL = {
    f.name: f.default for f in fields(Case) if isinstance(f.default, float) or f.name == "softmax"
}
_DEFAULTS = {"elements": "normal", "transform": "none", "dtype": "float32", "scale": "none"}
_DRAWS = Column("draws", _count("draws"))
_LOOK = Column("look", lambda row: whole(row.get("look")))
_JUDGED = [Column("z", lambda row: deviate(row["z"])), Column("verdict", _field("verdict"), True)]
_SPREAD = [
    Column("Var theory", lambda row: interval(row["theory"])),
    Column("measured", lambda row: with_error(row["estimate"], row["mcse"]), full="Var measured"),
    Column("std theory", lambda row: plain(_root(row, "theory"))),
    Column("measured", _std_with_error, full="std measured"),
]
_GENERAL = [
    Column("theory", lambda row: interval(row["theory"])),
    Column("kind", _field("theory_kind"), text=True),
    Column("measured", lambda row: with_error(row["estimate"], row["mcse"])),
]
_PLANNED = [
    _DRAWS,
    Column("tolerance %", lambda row: _hundred(row["tolerance"])),
    Column("detectable %", lambda row: _hundred(row["detectable"])),
    Column("elements drawn", lambda row: plain(float(row["elements_drawn"]), 3)),
]
_DERIVED = Column("that is", _derived, text=True)
_PREDICTED = [
    Column("theory", lambda row: interval(row["theory"], 9)),
    Column("kind", _field("theory_kind"), text=True),
    Column("replicate sd", lambda row: plain(row["replicate_sd"])),
]
