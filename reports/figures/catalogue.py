"""The figures by name, and their images; drawn from records, so without JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...stats.checks import InputError, choice
from ..record import OWN_ROWS, Record
from . import laws as figure_laws
from . import rows as figure_rows
from . import sweeps as figure_sweeps
from . import training as training_figures
from .panels import FigureData

FIGURES: dict[str, Callable[[Sequence[Record]], FigureData]] = {
    "variance": figure_sweeps.variance,
    "softmax": figure_sweeps.softmax,
    "jacobian": figure_sweeps.jacobian,
    "gap": figure_rows.gap,
    "z": figure_rows.z_scores,
    "law": figure_laws.law,
    "saturation": figure_laws.saturation,
}
TRAINING: dict[str, Callable[[Record], FigureData]] = {
    "training": training_figures.losses,
    "attention": training_figures.attention,
    "heads": training_figures.heads,
    "maps": training_figures.maps,
}
"""Figures of a training experiment: of its record, not of rows alone."""
NAMES = (*FIGURES, *TRAINING)
_QUICK = ("variance", "softmax", "jacobian")
_NEEDS = {
    "variance": "rows of variance or std",
    "softmax": "rows of max_prob or entropy",
    "jacobian": "rows of Jacobian norms",
    "gap": "rows that were compared with theory",
    "z": "rows that were compared with theory",
    "law": "logit moments of drawn q and k",
}


def figure_data(name: str, records: Sequence[Record]) -> FigureData:
    """What a figure shows of the rows of records; InputError where they have nothing for it.

    Examples:
        >>> from ..theory import predicted
        >>> from ...stats.request import CaseOptions
        >>> data = figure_data("variance", [predicted(CaseOptions()).record])
        >>> data.panels[0].y.label
        'Var(q·k)'

    """
    choice("figure", name, NAMES)
    if name in TRAINING:
        trained = [record for record in records if record["command"] == "train"]
        if not trained:
            raise InputError(f"figure {name} needs a record of train, got none; run train")
        return TRAINING[name](trained[0])
    data = FIGURES[name](_rows(records))
    if not data.panels:
        raise InputError(f"figure {name} needs {_NEEDS[name]}, got none; run with such quantities")
    return data


def _rows(records: Sequence[Record]) -> list[Record]:
    """The rows that are about cases, each with the number of its record where there are several."""
    return [
        {"record": number, **row} if len(records) > 1 else row
        for number, record in enumerate(records, 1)
        if record["command"] not in OWN_ROWS
        for row in record["rows"]
    ]


def figures_of(records: Sequence[Record]) -> list[FigureData]:
    """Every figure that the records have something for."""
    rows = _rows(records)
    found = [data for make in FIGURES.values() if rows and (data := make(rows)).panels]
    trained = [record for record in records if record["command"] == "train"]
    return found + [make(record) for record in trained for make in TRAINING.values()]


def quick_figures(record: Record) -> list[FigureData]:
    """What a notebook shows beside a table: sweeps where there are any, otherwise the gaps."""
    if record["command"] == "claims":  # each of its rows is about something else
        return []
    if record["command"] == "train":
        return [TRAINING["training"](record)]
    rows = record["rows"]
    sweeps = [data for name in _QUICK if (data := FIGURES[name](rows)).panels]
    gaps = figure_rows.gap(rows)
    return sweeps or ([gaps] if gaps.panels else [])


def figure_form(path: str | None) -> str:
    """The form that a file's name asks for: svg, png or pdf."""
    from .drawing import FORMS

    form = "svg" if path is None else Path(path).suffix.removeprefix(".")
    if form not in FORMS:
        raise InputError(f"output of a figure must end in .svg, .png or .pdf, got {path}")
    return form


@dataclass(frozen=True)
class Drawing:
    """A figure that a notebook shows by itself; `data` is what is drawn, `image` its bytes."""

    data: FigureData
    style: str = "screen"

    def image(self, form: str = "svg") -> bytes:
        """The figure as svg, png or pdf; the same bytes for the same data."""
        from .drawing import drawn

        return drawn(self.data.panels, form, self.style)

    def save(self, path: str) -> None:
        """Write the figure in the form that the name ends in."""
        from ..files import write_bytes

        write_bytes(path, self.image(figure_form(path)))

    def _repr_svg_(self) -> str:
        return self.image().decode()
