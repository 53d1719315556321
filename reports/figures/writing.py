"""What is written in an image: labels of a safe length, and one legend that covers nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .panels import INK, Band, Line, Panel, Points

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE = 0.2  # inches that a line of a legend needs
_LONGEST = 48
_WRAPPED = 34  # characters in a line of a row's name


def shared_labels(panels: Sequence[Panel]) -> list[str]:
    """Labels for one legend of all panels; none where two things have one label or one colour."""
    drawn: list[Line | Points | Band] = []
    for panel in panels:
        drawn += [*panel.lines, *panel.points, *panel.bands]
    said = [(short(one.label), one.colour) for one in drawn if one.label]
    pairs, labels = dict.fromkeys(said), dict.fromkeys(label for label, _ in said)
    colours = [colour for _, colour in pairs if colour != INK]
    alike = len(panels) > 1 and len(set(colours)) < len(colours)
    return [] if alike or len(pairs) > len(labels) else list(labels)


def legend_columns(labels: Sequence[str], width: float, size: float) -> int:
    """How many labels stand beside each other in so many inches, at a size in points."""
    longest = max(map(len, labels), default=0)
    fit = int(width / (0.6 * longest * size / 72 + 0.5))
    return min(max(fit, 1), max(len(labels), 1))


def legend_below(figure: Figure, columns: int) -> None:
    """One legend that covers nothing, under everything else."""
    of_axes = [axes.get_legend_handles_labels() for axes in figure.axes]
    named = {text: handle for pair in of_axes for handle, text in zip(*pair, strict=True)}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns)


def row_name(text: str) -> str:
    """The name of a row, in lines that break after commas where they can."""
    parts = short(text, 3 * _WRAPPED).split(", ")
    return textwrap.fill(", ".join(part.replace(" ", "\xa0") for part in parts), _WRAPPED)


def short(text: str, most: int = _LONGEST) -> str:
    """A label without control characters, and not longer than fits."""
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
