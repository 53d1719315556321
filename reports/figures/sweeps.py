"""Figures against d_k, of logits, rows and Jacobians: lines are theory, points measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..record import Record
from .panels import Axis, Band, FigureData, Line, Panel, Points
from .series import MOST_SERIES, Series, Span, Transform, by_x, smooth, theory_along, x_of

_MOST_TICKS = 8
_BARS = "Lines: theory. Points: measured, with their intervals at the power of the run."
_SHADES = " Shaded: the interval that holds the expectation where no closed form exists."


@dataclass(frozen=True)
class _Shown:
    """A quantity as a panel shows it: through a monotone function of what the row has."""

    quantity: str
    title: str
    label: str
    scale: Literal["linear", "log"] = "linear"
    through: Transform = float


def _root(x: float) -> float:
    return math.sqrt(max(x, 0.0))


_SPREAD = (
    _Shown("variance", "Variance of the logit", "Var(q·k)", "log"),
    _Shown("std", "Standard deviation of the logit", "sd(q·k)", "log"),
)
_SOFTMAX = (
    _Shown("max_prob", "Largest probability", "E p₍₁₎"),
    _Shown("entropy", "Entropy", "E H (nats)"),
    _Shown("entropy", "Effective keys", "exp(E H) (keys)", "log", math.exp),
)
_JACOBIAN = (
    _Shown(
        "jacobian_frobenius_sq", "Root mean square Jacobian", "√(E‖J‖²) (Frobenius)", "log", _root
    ),
    _Shown("jacobian_frobenius", "Mean Jacobian", "E‖J‖ (Frobenius)", "log"),
    _Shown("jacobian_frobenius_median", "Median Jacobian", "median ‖J‖ (Frobenius)", "log"),
    _Shown("jacobian_spectral", "Spectral norm", "E‖J‖₂", "log"),
    _Shown("jacobian_trace", "Trace", "E tr J", "log"),
)


def variance(rows: Sequence[Record]) -> FigureData:
    """Logit variance (or, without it, standard deviation) against d_k, both axes logarithmic."""
    found = [panel for shown in _SPREAD if (panel := _panel(shown, rows))]
    return FigureData("variance", f"Logit variance against dₖ. {_BARS}", tuple(found[:1]))


def softmax(rows: Sequence[Record]) -> FigureData:
    """Largest probability, entropy and effective keys exp(E H) against d_k."""
    found = tuple(panel for shown in _SOFTMAX if (panel := _panel(shown, rows)))
    return FigureData("softmax", f"Softmax rows against dₖ. {_BARS}", found)


def jacobian(rows: Sequence[Record]) -> FigureData:
    """Norms of the softmax Jacobian J = diag(p) - p pᵀ against d_k."""
    found = tuple(panel for shown in _JACOBIAN if (panel := _panel(shown, rows)))
    caption = "Norms of the softmax Jacobian J = diag(p) − p pᵀ against dₖ."
    return FigureData("jacobian", f"{caption} {_BARS}{_SHADES}", found)


def _panel(shown: _Shown, rows: Sequence[Record]) -> Panel | None:
    series = by_x(rows, shown.quantity)
    if not series:
        return None
    lines, points, bands = [], [], []
    for colour, one in enumerate(series[:MOST_SERIES]):
        span = [(x, shown.through(a), shown.through(b)) for x, a, b in theory_along(one)]
        curve = _curve(span, shown.scale)
        xs, low, high = tuple(zip(*curve, strict=True)) if curve else ((), (), ())
        if low == high and xs:
            lines.append(Line(xs, low, colour=colour))
        elif xs:
            bands.append(Band(xs, low, high, colour=colour))
        points.append(_points(one, colour, shown.through))
    more = len(series) - MOST_SERIES
    title = shown.title + (f" (first {MOST_SERIES} of {len(series)} cases)" if more > 0 else "")
    y_axis = Axis(shown.label, shown.scale)
    return Panel(title, _x_axis(rows, series), y_axis, tuple(lines), tuple(points), tuple(bands))


def _curve(span: list[Span], scale: str) -> list[Span]:
    """The curve through the points, smooth on the axis that it is drawn on."""
    if scale == "linear" or any(min(a, b) <= 0 for _, a, b in span):
        return smooth(span)
    logs = smooth([(x, math.log(a), math.log(b)) for x, a, b in span])
    return [(x, math.exp(a), math.exp(b)) for x, a, b in logs]


def _points(series: Series, colour: int, through: Transform) -> Points:
    rows = [row for row in series.rows if row["estimate"] is not None]
    xs = [x_of(row) or math.nan for row in rows]
    ends = []
    for row in rows:
        estimate = row["estimate"]
        low = estimate if row["ci_low"] is None else row["ci_low"]
        high = estimate if row["ci_high"] is None else row["ci_high"]
        ends.append((through(estimate), through(low), through(high)))
    ys, lows, highs = tuple(zip(*ends, strict=True)) if ends else ((), (), ())
    return Points(tuple(xs), ys, lows, highs, series.label, colour)


def _x_axis(rows: Sequence[Record], series: Sequence[Series]) -> Axis:
    drawn = [row for one in series for row in one.rows]
    values = sorted({x for row in drawn if (x := x_of(row)) is not None})
    ticks = tuple((x, f"{x:g}") for x in values) if len(values) <= _MOST_TICKS else ()
    by_d_k = drawn[0]["d_k"] is not None
    return Axis("head dimension dₖ" if by_d_k else "logit standard deviation s", "log", ticks)
