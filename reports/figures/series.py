"""Rows of records as series to draw: one line of points for each case, with its theory."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise

from ...stats.cases import Case, Reference
from ...stats.checks import InputError
from ...stats.predict import predict
from ..columns import parameter, short_value
from ..record import Record

Transform = Callable[[float], float]
Span = tuple[float, float, float]  # x, low, high
MOST_SERIES = 12  # six colours that everybody tells apart, with filled points and with open ones
_ENOUGH = 9  # points through which a smooth curve is drawn
_DENSE = 33


@dataclass
class Series:
    """Rows that differ in their x alone."""

    label: str
    rows: list[Record] = field(default_factory=list)


def x_of(row: Record) -> float | None:
    """Where a row stands: its head dimension, or the given standard deviation of its logits."""
    x = row["parameters"].get("logit_std") if row["d_k"] is None else row["d_k"]
    return float(x) if isinstance(x, int | float) and x > 0 else None


def by_x(rows: Iterable[Record], quantity: str) -> list[Series]:
    """Series of one quantity; rows of given logits only where nothing has a d_k."""
    chosen = [row for row in rows if row["quantity"] == quantity and x_of(row) is not None]
    chosen = [row for row in chosen if row["d_k"] is not None] or chosen
    series: dict[str, Series] = {}
    for row, label in zip(chosen, labels(chosen), strict=True):
        series.setdefault(json.dumps(_said(row)), Series(label)).rows.append(row)
    return list(series.values())


def labels(rows: Sequence[Record], *, of_x: bool = False) -> list[str]:
    """What tells rows of one quantity apart, and nothing else, in words; with `of_x`, x as well."""
    said = [_said(row, of_x) for row in rows]
    names = dict.fromkeys(name for one in said for name in one)
    cells = {
        name: [one.get(name) or parameter(row, name) for row, one in zip(rows, said, strict=True)]
        for name in names
    }
    apart = {name: shown for name, shown in cells.items() if len(set(shown)) > 1}
    return [
        ", ".join(_words(name, shown[i]) for name, shown in apart.items() if shown[i])
        for i in range(len(rows))
    ]


def _said(row: Record, of_x: bool = False) -> dict[str, str]:
    """What a row is about besides quantity and, unless `of_x`, where it stands; as words."""
    names = ("d_k", "scale", "elements", "weights", "ensemble", "n_keys", "transform", "dtype")
    shown = names if of_x else names[1:]
    said = {name: str(row[name]) for name in shown if row[name] is not None}
    own = {name: short_value(value) for name, value in row["parameters"].items()}
    if not (of_x or row["d_k"]):
        own.pop("logit_std", None)
    return said | {"transform": row["transform"] or "none"} | own


def _words(name: str, value: str) -> str:
    if name == "scale":
        return scale_words(value)
    if (name, value) == ("transform", "none"):
        return "no transform"
    if name in ("elements", "weights", "transform", "dtype"):
        return value
    return f"{'dₖ' if name == 'd_k' else name} {value}"


def scale_words(scale: str) -> str:
    """A scale as a legend says it."""
    return {"none": "unscaled", "sqrt-dk": "scaled by 1/√dₖ"}.get(scale, f"scale {scale}")


def case_of(row: Record) -> Case | None:
    """The case that a row of a record is about, or None where a Case cannot say it.

    Examples:
        >>> from ..theory import predicted
        >>> from ...stats.request import CaseOptions
        >>> case = case_of(predicted(CaseOptions(dk=("8",), sigma=("2",))).record["rows"][0])
        >>> case == Case(d_k=8, sigma_q=2.0, sigma_k=2.0)
        True

    """
    types = {f.name: str(f.type) for f in fields(Case)}
    given = dict(row["parameters"])
    if row["transform"] is not None or not given.keys() <= types.keys():
        return None
    if row["elements"] is not None:
        q, _, k = row["elements"].partition(" x ")
        given |= {"elements_q": q, "elements_k": k or q}
    given |= {"d_k": row["d_k"], "n_keys": row["n_keys"], "weights": row["weights"]}
    given |= {name: row[name] for name in ("scale", "dtype") if row[name] is not None}
    if row["weights"] is not None:
        given["ensemble"] = str(row["ensemble"]).removeprefix("fresh ")
    right = all(
        value is None or isinstance(value, str if "str" in types[name] else int | float)
        for name, value in given.items()
    )
    return Case(**given) if right else None


def reference_of(case: Case | None, quantity: str) -> Reference | None:
    """Theory for a case out of a record, or None where there is none."""
    if case is None:
        return None
    try:
        return predict(case, quantity)
    except (InputError, ArithmeticError):
        return None


def theory_along(series: Series) -> list[Span]:
    """Theory along a series as (x, low, high), the ends equal but for a bracket.

    What the record has, and what theory says between: often for a closed form, halfway for a
    quadrature, whose smooth curve is then drawn through.
    """
    found = {x: _ends(row["theory"]) for row in series.rows if (x := x_of(row)) is not None}
    known = {x: ends for x, ends in found.items() if ends is not None}
    if not known:
        return []
    row = next(row for row in series.rows if row["theory"] is not None)
    case = case_of(row)
    between = _between(sorted(known), row["theory_kind"] == "closed form", row["d_k"] is not None)
    for x in dict.fromkeys(between):
        if case is None or x in known:
            continue
        moved = replace(case, d_k=int(x)) if row["d_k"] else replace(case, logit_std=x)
        reference = reference_of(moved, row["quantity"])
        if reference is not None and (ends := _ends(reference.value)) is not None:
            known[x] = ends
    return [(x, *known[x]) for x in sorted(known)]


def _ends(theory: object) -> tuple[float, float] | None:
    if isinstance(theory, list | tuple):
        return float(theory[0]), float(theory[1])
    return None if not isinstance(theory, int | float) else (float(theory), float(theory))


def _between(xs: Sequence[float], dense: bool, whole: bool) -> list[float]:
    low, high = (xs[0], xs[-1]) if len(xs) > 1 else (xs[0] / 2, xs[0] * 2)
    if dense:
        steps = [math.log(low) + i / (_DENSE - 1) * math.log(high / low) for i in range(_DENSE)]
        points = [math.exp(step) for step in steps]
    elif len(xs) >= _ENOUGH:
        points = []
    else:
        ends = [low, *xs, high]
        points = [math.sqrt(a * b) for a, b in pairwise(ends)]
        points += [low, high]
    return [max(round(x), 1) if whole else x for x in points if low <= x <= high * (1 + 1e-9)]


def smooth(span: Sequence[Span], points: int = 61) -> list[Span]:
    """A curve through the points, monotone between them (cubic in the logarithm of x).

    Examples:
        >>> curve = smooth([(1.0, 0.0, 0.0), (10.0, 1.0, 1.0), (100.0, 2.0, 2.0)])
        >>> [round(y, 12) for x, y, _ in curve[::30]]
        [0.0, 1.0, 2.0]

    """
    if not 3 <= len(span) <= 2 * _ENOUGH:  # too few for a curve, or as good as one
        return list(span)
    import numpy as np
    from scipy.interpolate import PchipInterpolator

    table = np.array(span)
    at = np.log(table[:, 0])
    curve = PchipInterpolator(at, table[:, 1:])
    fine = np.linspace(at[0], at[-1], points)
    at_fine = zip(np.exp(fine).tolist(), curve(fine).tolist(), strict=True)
    return [(x, low, high) for x, (low, high) in at_fine]
