"""Figures of the rows as they were judged: gaps within tolerances, and z-scores."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from ...stats.quantities import GROUPS, QUANTITIES
from ..record import Record
from .panels import INK, Axis, Band, FigureData, Line, Panel, Points
from .series import labels

MOST_ROWS = 40
_FAR = 30.0  # tolerances beyond which the axis becomes logarithmic
_BAND = 0.95
_VERDICTS = {"match": 0, "undecided": 3, "mismatch": 1}


def gap(rows: Sequence[Record]) -> FigureData:
    """Gaps from theory with their intervals, in units of the tolerance; the worst `MOST_ROWS`."""
    judged = [row for row in rows if row["gap"] is not None and row["tolerance"]]
    spans = [(row, _span(row)) for row in judged]
    spans.sort(key=lambda item: -abs(item[1][0]))
    worst = {id(row) for row, _ in spans[:MOST_ROWS]}
    shown = [row for row in judged if id(row) in worst]
    caption = (
        "Gap between estimate and theory, divided by the tolerance; bars: the interval that a "
        "match must have inside the band."
    )
    title = "Gap from theory"
    if len(judged) > MOST_ROWS:
        part = f"The {MOST_ROWS} largest gaps of {len(judged)} rows."
        caption, title = f"{caption} {part}", f"{title}\n{part}"
    if not shown:
        return FigureData("gap", caption, ())
    of_row = {id(row): span for row, span in spans}
    heights = {id(row): float(len(shown) - 1 - i) for i, row in enumerate(shown)}
    points = []
    for verdict, colour in _VERDICTS.items():
        those = [row for row in shown if row["verdict"] == verdict]
        if those:
            middle, low, high = zip(*(of_row[id(row)] for row in those), strict=True)
            ys = tuple(heights[id(row)] for row in those)
            points.append(Points(middle, ys, low, high, verdict, colour, sideways=True))
    reach = max(abs(end) for row in shown for end in of_row[id(row)])
    top = len(shown) - 0.5
    named = zip(shown, _names(shown), strict=True)
    ticks = tuple((heights[id(row)], name) for row, name in named)
    panel = Panel(
        title,
        Axis("gap / tolerance", "symlog" if reach > _FAR else "linear"),
        Axis("", ticks=ticks, limits=(-0.5, top)),
        lines=(Line((0.0, 0.0), (-0.5, top)),),
        points=tuple(points),
        bands=(Band((-1.0, 1.0), (-0.5, -0.5), (top, top), "tolerance", 2),),
    )
    return FigureData("gap", caption, (panel,))


def _span(row: Record) -> tuple[float, float, float]:
    """Gap and the ends of its interval, over the tolerance."""
    gap, estimate, tolerance = row["gap"], row["estimate"], row["tolerance"]
    unit = _unit(row)
    low, high = row["ci_low"], row["ci_high"]
    if not unit or None in (low, high, estimate):
        return (gap / tolerance,) * 3
    below, above = (estimate - low) / unit, (high - estimate) / unit
    return gap / tolerance, (gap - below) / tolerance, (gap + above) / tolerance


def _unit(row: Record) -> float | None:
    """What a gap is counted in, out of the row: the reference's unit."""
    theory = row["theory"]
    if isinstance(theory, list):
        return math.sqrt(max(theory[0] * theory[1], 0.0)) or None
    return (
        float(row["estimate"] - theory) / row["gap"] if row["gap"] and theory is not None else None
    )


def _names(rows: Sequence[Record]) -> list[str]:
    """Each row's quantity and what tells it from the others of this quantity."""
    said: dict[int, str] = {}
    for quantity in dict.fromkeys(row["quantity"] for row in rows):
        those = [i for i, row in enumerate(rows) if row["quantity"] == quantity]
        apart = labels([rows[i] for i in those], of_x=True)
        of_quantity = (f"{quantity}, {text}" if text else quantity for text in apart)
        said |= dict(zip(those, of_quantity, strict=True))
    names = [said[i] for i in range(len(rows))]
    if len(set(names)) == len(names):
        return names
    of_record = (f", record {row['record']}" if "record" in row else "" for row in rows)
    return [f"{name}{record}" for name, record in zip(names, of_record, strict=True)]


def z_scores(rows: Sequence[Record]) -> FigureData:
    """Normal quantile plot of the z-scores of distinct tests, with the pointwise 95 % band."""
    from scipy.special import betaincinv, ndtri

    exact = [row for row in rows if row["z"] is not None and not isinstance(row["theory"], list)]
    found = {_test(row): float(row["z"]) for row in exact}
    z = sorted(found.values())
    n = len(z)
    caption = (
        f"z-scores of the {n} distinct tests against normal quantiles. Shaded: the pointwise 95 % "
        "band of independent tests; tests of one cell share its draws, so it is a guide."
    )
    if not z:
        return FigureData("z", caption, ())
    rank = range(1, n + 1)
    at = tuple(float(ndtri((i - 0.5) / n)) for i in rank)
    low, high = (
        tuple(float(ndtri(betaincinv(i, n + 1 - i, tail))) for i in rank)
        for tail in ((1 - _BAND) / 2, (1 + _BAND) / 2)
    )
    far = max(map(abs, z)) > 10
    panel = Panel(
        "z-scores",
        Axis("normal quantile"),
        Axis("z (standard errors)", "symlog" if far else "linear"),
        lines=(Line(at, at, "normal law"),) if n > 1 else (),
        points=(Points(at, tuple(z), label="measured", colour=0),),
        bands=(Band(at, low, high, "95 % band", INK),),
    )
    return FigureData("z", caption, (panel,))


def _test(row: Record) -> str:
    """Identity of a row's test: the same draws and the same standardised deviation."""
    known = QUANTITIES.get(row["quantity"])
    names = ["d_k", "n_keys", "elements", "weights", "ensemble", "transform", "dtype", "parameters"]
    if row["quantity"] not in GROUPS["logits"]:
        names.append("scale")  # a logit moment's deviation is the same at any scale
    case = {name: row[name] for name in names}
    record = row.get("record")
    return json.dumps([record, known.deviation if known else row["quantity"], case], sort_keys=True)
