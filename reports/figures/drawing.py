"""Panels drawn: SVG, PNG or PDF with the same bytes from the same data, whatever the settings.

Matplotlib without pyplot, so that nobody's figures or back end are touched.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...stats.checks import choice
from .panels import INK, Axis, Map, Panel, Points
from .writing import LINE as LEGEND_LINE
from .writing import legend_below, legend_columns, row_name, shared_labels, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMS = ("svg", "png", "pdf")
STYLES = ("screen", "paper")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7")
"""Told apart by colour-blind people too (Okabe and Ito 2008)."""
MARKERS = "osD^vP"
INK_COLOUR = "#24292e"  # what a page replaces by the colour of its own text
_WIDTHS = {"screen": 4.8, "paper": 3.35}  # inches; a column of most journals is 85 mm
_HEIGHTS = {"screen": 3.4, "paper": 2.4}
_COLUMNS = {"screen": 3, "paper": 1}
_SIZES = {"screen": 10.0, "paper": 8.0}
_ROW = 0.17  # inches that a line of a row's name needs
_RAISED = str.maketrans("0123456789−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_DIGITS = re.compile(r"(\.\d\d)\d+")  # of a path in a page: a hundredth of a point is enough
_NO_DATE: dict[str, dict[str, None]] = {
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "png": {"Software": None},
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}


def drawn(
    panels: Sequence[Panel], form: str = "svg", style: str = "screen", *, text: str = "path"
) -> bytes:
    """The panels as one image: beside each other on a screen, in one column for a paper.

    `text` is how an SVG holds text: as a `path`, the same everywhere, or as text (`none`).

    Examples:
        >>> from .panels import Line
        >>> panel = Panel("a", Axis("x"), Axis("y"), (Line((0.0, 1.0), (0.0, 1.0)),))
        >>> drawn([panel]) == drawn([panel])
        True

    """
    choice("format", form, FORMS)
    choice("style", style, STYLES)
    out = io.BytesIO()
    with _settings(style, text):
        from matplotlib.figure import Figure

        columns = min(len(panels), _COLUMNS[style])
        lines = -(-len(panels) // columns)
        width, labels = _WIDTHS[style] * columns, shared_labels(panels)
        beside = legend_columns(labels, width, _SIZES[style])
        height = lines * max(_height(panel, style) for panel in panels)
        height += LEGEND_LINE * -(-len(labels) // beside)
        figure = Figure(figsize=(width, height), layout="constrained")
        for place, panel in enumerate(panels, 1):
            axes = figure.add_subplot(lines, columns, place)
            _draw(figure, axes, panel)
            if not labels and axes.get_legend_handles_labels()[1]:
                axes.legend(loc="best")
        if labels:
            legend_below(figure, beside)
        figure.savefig(out, format=form, dpi=200, metadata=_NO_DATE[form])
    return out.getvalue()


def inline(panels: Sequence[Panel], name: str) -> str:
    """The panels as an SVG element for a page: its own ids, and the page's colour of text."""
    text = drawn(panels, text="none").decode()
    text = re.sub(r"<!--.*?-->", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", text)
    text = re.sub(r'\b(width|height)="[\d.]+pt" ?', "", text, count=2)
    text = re.sub(r' d="[^"]*"', lambda path: _DIGITS.sub(r"\1", path[0]), text)
    return re.sub(r"\s*\n\s*", "\n", text.replace(INK_COLOUR, "currentColor")).strip()


@contextmanager
def _settings(style: str, text: str) -> Iterator[None]:
    """Matplotlib's defaults and ours, whatever the user's own settings are."""
    import matplotlib as mpl

    size = _SIZES[style]
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font has not is drawn as a box
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "svg.hashsalt": "verify-variance",
                "svg.fonttype": text,
                "pdf.fonttype": 42,
                "text.parse_math": False,  # a dollar sign in a name is a dollar sign
                "font.size": size,
                "figure.titlesize": size,
                "figure.titleweight": "bold",
                "axes.titlesize": size,
                "axes.titleweight": "bold",
                "axes.titlelocation": "left",
                "axes.labelsize": size,
                "legend.fontsize": size - 1,
                "legend.frameon": False,
                "xtick.labelsize": size - 1,
                "ytick.labelsize": size - 1,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "lines.linewidth": 1.4,
                "lines.markersize": 0.5 * size,
                "savefig.transparent": style == "screen",
                **dict.fromkeys(
                    ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor",
                     "xtick.color", "ytick.color", "legend.labelcolor"),
                    INK_COLOUR,
                ),
            }
        )  # fmt: skip
        yield


def _height(panel: Panel, style: str) -> float:
    deepest = max((row_name(text).count("\n") + 1 for _, text in panel.y.ticks), default=0)
    return max(_HEIGHTS[style], _ROW * deepest * len(panel.y.ticks) + 0.8)


def _colour(index: int) -> str:
    return INK_COLOUR if index == INK else COLOURS[index % len(COLOURS)]


def _again(index: int) -> bool:
    """Whether a colour is used for the second time."""
    return index >= len(COLOURS)


def _draw(figure: Figure, axes: Axes, panel: Panel) -> None:
    title = "\n".join(map(short, panel.title.split("\n")))
    if panel.y.ticks:  # over the names of the rows as well
        figure.suptitle(title, x=0.01, ha="left")
    else:
        axes.set_title(title)
    if panel.map is not None:
        _draw_map(figure, axes, panel.map)
    for band in panel.bands:
        axes.fill_between(
            band.x, band.low, band.high, step="post" if band.steps else None, alpha=0.22,
            linewidth=0.8, color=_colour(band.colour), label=short(band.label),
        )  # fmt: skip
    for line in panel.lines:
        dashes = (0, (4, 2)) if line.dashed else (0, (1, 1)) if _again(line.colour) else "solid"
        axes.plot(
            line.x, line.y, color=_colour(line.colour), linestyle=dashes, label=short(line.label)
        )
    on_map: dict[str, Any] = {"markeredgecolor": "white"} if panel.map else {}
    for points in panel.points:
        bars = _bars(points) if points.low else {}
        colour = _colour(points.colour)
        axes.errorbar(
            points.x, points.y, color=colour, fmt=MARKERS[max(points.colour, 0) % len(MARKERS)],
            elinewidth=1.0, capsize=2.0, label=short(points.label),
            fillstyle="none" if _again(points.colour) else "full", **bars, **on_map,
        )  # fmt: skip
    for which, axis in (("x", panel.x), ("y", panel.y)):
        _set_axis(axes, which, axis, panel.map is not None)


def _bars(points: Points) -> dict[str, Any]:
    """Lengths of the error bars below and above, as matplotlib takes them."""
    middle = points.x if points.sideways else points.y
    lengths = [
        [abs(end - at) for end, at in zip(ends, middle, strict=True)]
        for ends in (points.low, points.high)
    ]
    return {"xerr" if points.sideways else "yerr": lengths}


def _draw_map(figure: Figure, axes: Axes, values: Map) -> None:
    filled: Any
    if values.cells:
        ends = (values.x[0] - 0.5, values.x[-1] + 0.5, values.y[-1] + 0.5, values.y[0] - 0.5)
        filled = axes.imshow(
            values.values, cmap="cividis", vmin=values.levels[0], vmax=values.levels[-1],
            interpolation="none", extent=ends, aspect="auto",
        )  # fmt: skip
    else:
        filled = axes.contourf(values.x, values.y, values.values, values.levels, cmap="cividis")
        filled.set_edgecolor("face")  # no seams between levels
    bar = figure.colorbar(filled, ax=axes, label=short(values.label), pad=0.02, aspect=30)
    bar.outline.set_visible(False)


def _set_axis(axes: Axes, which: str, axis: Axis, mapped: bool) -> None:
    own = axes.xaxis if which == "x" else axes.yaxis
    set_scale = axes.set_xscale if which == "x" else axes.set_yscale
    if axis.scale != "linear":
        set_scale(axis.scale, **({"linthresh": 2.0} if axis.scale == "symlog" else {}))
        own.set_major_formatter(lambda value, _: _number(value))
        own.set_minor_formatter(lambda value, _: "")
    if axis.ticks:
        own.set_ticks(
            [at for at, _ in axis.ticks], labels=[row_name(text) for _, text in axis.ticks]
        )
        own.set_ticks([], minor=True)
    elif axis.scale == "log":
        _tick_short_range(own)
    if axis.limits is not None:
        (axes.set_xlim if which == "x" else axes.set_ylim)(*axis.limits)
    own.set_label_text(short(axis.label))
    if not mapped and (which == "x" or not axis.ticks):
        own.grid(True, alpha=0.25, linewidth=0.5)


def _tick_short_range(own: Any) -> None:
    """Ticks at 1, 2 and 5 on less than two decades, and at even steps on less than half of one."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    low, high = own.get_view_interval()
    if 0 < low < high < 3 * low:
        own.set_major_locator(MaxNLocator(5))
        own.set_minor_locator(NullLocator())
    elif 0 < low < high < 100 * low:
        own.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def _number(value: float) -> str:
    mantissa, _, exponent = f"{value:g}".replace("-", "−").partition("e")
    if not exponent:
        return mantissa
    power = exponent.replace("+", "").replace("−0", "−").lstrip("0").translate(_RAISED)
    return f"10{power}" if mantissa == "1" else f"{mantissa}·10{power}"
