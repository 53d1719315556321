"""Figures against d_k, of logits, rows and Jacobians: lines are theory, points measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..record import Record
from .panels import Axis, Band, FigureData, Line, Panel, Points
from .series import (
    MOST_SERIES,
    Series,
    Span,
    Transform,
    by_x,
    scale_words,
    smooth,
    theory_along,
    x_of,
)

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


def _panels(all_shown: Sequence[_Shown], rows: Sequence[Record]) -> tuple[Panel, ...]:
    """A panel for each quantity that the rows have; the same case has one colour in all of them."""
    colours: dict[str, int] = {}
    return tuple(panel for shown in all_shown if (panel := _panel(shown, rows, colours)))


def variance(rows: Sequence[Record]) -> FigureData:
    """Logit variance (or, without it, standard deviation) against d_k, both axes logarithmic."""
    caption = f"Logit variance against dₖ. {_BARS}"
    return FigureData("variance", caption, _panels(_SPREAD, rows)[:1])


def softmax(rows: Sequence[Record]) -> FigureData:
    """Largest probability, entropy and effective keys exp(E H) against d_k."""
    return FigureData("softmax", f"Softmax rows against dₖ. {_BARS}", _panels(_SOFTMAX, rows))


def jacobian(rows: Sequence[Record]) -> FigureData:
    """Norms of the softmax Jacobian J = diag(p) - p pᵀ against d_k."""
    caption = "Norms of the softmax Jacobian J = diag(p) − p pᵀ against dₖ."
    return FigureData("jacobian", f"{caption} {_BARS}{_SHADES}", _panels(_JACOBIAN, rows))


def _panel(shown: _Shown, rows: Sequence[Record], colours: dict[str, int]) -> Panel | None:
    series = by_x(rows, shown.quantity)
    if not series:
        return None
    lines, points, bands = [], [], []
    drawn = [one for one in series if colours.setdefault(one.label, len(colours)) < MOST_SERIES]
    for one in drawn:
        colour = colours[one.label]
        span = [(x, shown.through(a), shown.through(b)) for x, a, b in theory_along(one)]
        curve = _curve(span, shown.scale)
        xs, low, high = tuple(zip(*curve, strict=True)) if curve else ((), (), ())
        if low == high and xs:
            lines.append(Line(xs, low, colour=colour))
        elif xs:
            bands.append(Band(xs, low, high, colour=colour))
        points.append(_points(one, colour, shown.through))
    part = f"\n{len(drawn)} of {len(series)} cases" if len(drawn) < len(series) else ""
    y_axis = Axis(_label(shown, series), shown.scale)
    x_axis = _x_axis(rows, series)
    return Panel(shown.title + part, x_axis, y_axis, tuple(lines), tuple(points), tuple(bands))


def _label(shown: _Shown, series: Sequence[Series]) -> str:
    """What is plotted: q·k itself, or the logit x that a scale or a transform made of it."""
    rows = [row for one in series for row in one.rows]
    scales = {row["scale"] for row in rows}
    if scales == {"none"} and not any(row["transform"] for row in rows):
        return shown.label
    label = shown.label.replace("q·k", "x")
    shared = label != shown.label and len(scales) == 1 and scales != {"none"}
    return f"{label}, {scale_words(str(scales.pop()))}" if shared else label


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
