"""What a figure shows, as plain data: panels of lines, points, bands and a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Numbers = tuple[float, ...]
INK = -1  # the colour of the text; others count through the palette


@dataclass(frozen=True)
class Axis:
    """A labelled axis (symbol and unit) with its scale and, where they are chosen, its ticks."""

    label: str
    scale: Literal["linear", "log", "symlog"] = "linear"
    ticks: tuple[tuple[float, str], ...] = ()
    limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class Line:
    """A curve: theory, unless it is dashed."""

    x: Numbers
    y: Numbers
    label: str = ""
    colour: int = INK
    dashed: bool = False


@dataclass(frozen=True)
class Points:
    """Measured points with their intervals, along y or (`sideways`) along x."""

    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()
    label: str = ""
    colour: int = INK
    sideways: bool = False


@dataclass(frozen=True)
class Band:
    """The area between two curves: a bracket, a tolerance, a histogram (`steps`)."""

    x: Numbers
    low: Numbers
    high: Numbers
    label: str = ""
    colour: int = INK
    steps: bool = False


@dataclass(frozen=True)
class Map:
    """Values over a grid: `values[i][j]` at `y[i]`, `x[j]`; `cells` shows each as a square."""

    x: Numbers
    y: Numbers
    values: tuple[Numbers, ...]
    label: str
    levels: Numbers
    cells: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes and what is drawn in it."""

    title: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...] = ()
    points: tuple[Points, ...] = ()
    bands: tuple[Band, ...] = ()
    map: Map | None = None


@dataclass(frozen=True)
class FigureData:
    """A figure's panels and the sentence under it."""

    name: str
    caption: str
    panels: tuple[Panel, ...]
