"""What to do now, and what rows have to note: a line for each failure and each reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from ..stats.causes import likely_cause
from .numbers import interval, plain
from .record import Record, rates_of

_Block = tuple[tuple[object, ...], ...]  # values of each axis: the rows that are their product
_AXES = ("quantity", "d_k", "n_keys", "transform", "scale", "elements", "weights", "dtype")


def advice(record: Record) -> list[str]:
    """What to do now, for every mismatch and undecided row; then what their notes say."""
    rows, axes = record["rows"], _told_apart_by(record["rows"])
    if record["command"] in ("claims", "calibrate", "train"):
        return []  # each row says why
    if record["command"] == "audit":
        from .audit.table import audit_advice

        return audit_advice(record)
    return [
        *(
            _mismatch(row, axes)
            for row in rows
            if row["verdict"] == "mismatch" and row["p_value"] is not None
        ),
        *_grouped(
            (row for row in rows if row["verdict"] == "undecided"),
            axes,
            lambda row: row["quantity"],
            lambda group: f"undecided; {_way_out(record, group)}",
        ),
        *_grouped(
            (row for row in rows if row["note"]),
            axes,
            lambda row: row["note"],
            lambda group: f"{group[0]['note']}",
        ),
    ]


def _told_apart_by(rows: Sequence[Record]) -> tuple[str, ...]:
    """What names a row: quantity, d_k and n_keys, and what else tells rows apart."""
    apart = [name for name in _AXES[3:] if len({row[name] for row in rows}) > 1]
    return (*_AXES[:3], *apart)


def _grouped(
    rows: Iterable[Record],
    axes: tuple[str, ...],
    key: Callable[[Record], object],
    say: Callable[[list[Record]], str],
) -> list[str]:
    groups: dict[object, list[Record]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return [f"{_where(group, axes)}: {say(group)}" for group in groups.values()]


def _where(rows: Iterable[Record], axes: tuple[str, ...]) -> str:
    """The rows by name, those that are alike but for one value together."""
    blocks: list[_Block] = list(dict.fromkeys(tuple((row[name],) for name in axes) for row in rows))
    for i in range(1, len(axes) + 1):
        i %= len(axes)  # the quantities last
        merged: dict[_Block, tuple[object, ...]] = {}
        for block in blocks:
            rest = block[:i] + block[i + 1 :]
            merged[rest] = merged.get(rest, ()) + block[i]
        blocks = [(*rest[:i], values, *rest[i:]) for rest, values in merged.items()]
    return ", and ".join(_named(block, axes) for block in blocks)


def _named(block: _Block, axes: tuple[str, ...]) -> str:
    quantities, *where = (", ".join(str(v or "none") for v in values) for values in block)
    given = [
        f"{name} = {values}"
        for name, values in zip(axes[1:], where, strict=True)
        if name not in ("d_k", "n_keys") or values != "none"
    ]
    return " at ".join(filter(None, [quantities, "; ".join(given)]))


def _mismatch(row: Record, axes: tuple[str, ...]) -> str:
    theory, estimate = row["theory"], row["estimate"]
    said = f"measured {plain(estimate)} where theory says {interval(theory)}"
    where = f"{_where([row], axes)}: {said}"
    power = {"variance": 0.5, "std": 1.0, "mean_abs": 1.0}.get(row["quantity"])
    if power is None or not theory or isinstance(theory, list) or estimate <= 0:
        return f"{where}; is the case (laws, sigmas, means, scale) the one that was measured?"
    ratio = (estimate / theory) ** power
    cause = likely_cause(ratio, row["d_k"], row["scale"])
    said = f"{where}; the standard deviation is {ratio:.4g} times its theory"
    return said + (f" ({cause})" if cause else "; are the laws, sigmas and means as assumed?")


def _way_out(record: Record, rows: list[Record]) -> str:
    """The draws that would tell, or what else to change."""
    wanted = rates_of(record).tolerance_of(rows[0]["quantity"])
    known = [row for row in rows if row["detectable"] is not None]
    if not known:
        return "give more draws"
    needed = max(row["draws"] * (row["detectable"] / wanted) ** 2 for row in known)
    if all(row["tolerance"] < wanted for row in known):
        return f"these draws see gaps below {wanted:g}: --tolerance {wanted:g} would do"
    if all(row["detectable"] <= wanted * (1 + 1e-9) for row in known):
        needed = 4 * max(row["draws"] for row in known)
        return f"{_draws(record, needed)} halve the error, or allow more than {wanted:g}"
    return f"{_draws(record, needed)} would see a gap of {wanted:g}"


def _draws(record: Record, needed: float) -> str:
    step = 10.0 ** (math.floor(math.log10(needed)) - 1)
    up = math.ceil(needed / step) * step
    shown = f"{up:.0f}" if up < 1e9 else f"{up:.2g}"
    in_file = record["command"] == "check"
    return f"{shown} replicates in the file" if in_file else f"--samples {shown}"
