"""Where results go and in which form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..stats.checks import InputError, choice
from .caption import CAPTIONED, LABELLED
from .files import check_writable
from .grouping import group_names
from .table import FORMATS

_SUFFIXES = {".md": "pipe", ".tex": "latex", ".htm": "html", ".txt": "plain", "": "plain"} | {
    f".{f}": f for f in FORMATS
}


Target = Annotated[str | None, Parameter(name=("--output", "-o"))]


@dataclass(frozen=True)
class OutputOptions:
    """How results are shown.

    Parameters
    ----------
    format
        plain, pipe (Markdown), rst, latex, html, csv, tsv or json (the record); by default what
        the name of --output says, else plain.
    output
        Write to this file instead of stdout (whole or not at all).
    caption
        Caption of a latex, html or rst table, as that format writes it (html: as plain text).
    label
        Label of a latex or rst table, to refer to it.
    group_by
        Put rows together that share this, under a heading of their own: quantity, elements,
        scale, weights, d_k, sigma_q, verdict, of claims source, ... (several names nest).
    quiet
        Print the table alone: no progress, no sentences.

    """

    format: str | None = None
    output: Target = None
    caption: str | None = None
    label: str | None = None
    group_by: tuple[str, ...] = ()
    quiet: bool = False

    @property
    def form(self) -> str:
        """The format asked for, or the one that the output's name says."""
        if self.format is not None:
            return self.format
        return _SUFFIXES.get(Path(self.output or "").suffix.lower(), "plain")

    def check(self) -> None:
        """Refuse a wrong format or an output that cannot be written, before any work."""
        choice("format", self.form, FORMATS)
        suffix = Path(self.output or "").suffix.lower()
        if self.format is None and suffix not in _SUFFIXES:
            raise InputError(
                f"output must end in {', '.join(filter(None, _SUFFIXES))}, got {suffix}; "
                "rename it, or name a --format"
            )
        group_names(self.group_by)
        for name, able in (("caption", CAPTIONED), ("label", LABELLED)):
            if getattr(self, name) is not None and self.form not in able:
                raise InputError(
                    f"{name} needs --format {' or '.join(able)}, got {self.form}; drop --{name}"
                )
        if self.output is not None:
            check_writable(self.output)


@dataclass(frozen=True)
class ReportOptions:
    """What a report is made as.

    Parameters
    ----------
    figure
        Draw this figure alone instead of the page: variance, softmax, jacobian, gap, z, law or
        saturation; of a record of train, training, attention, heads or maps.
    style
        How a figure is laid out: screen, or paper (one column of 85 mm).
    output
        Write the page (HTML) or the figure (.svg, .png or .pdf) to this file instead of stdout.
    quiet
        No progress and no sentences.

    """

    figure: str | None = None
    style: str = "screen"
    output: Target = None
    quiet: bool = False

    def check(self) -> None:
        """Refuse what could not be drawn or written, before any work."""
        from .figures.catalogue import NAMES, figure_form
        from .figures.drawing import STYLES

        choice("style", self.style, STYLES)
        if self.figure is not None:
            choice("figure", self.figure, NAMES)
            figure_form(self.output)
        if self.output is not None:
            check_writable(self.output)


@dataclass(frozen=True)
class CiOptions:
    """What continuous integration gets.

    Parameters
    ----------
    junit
        Write a JUnit XML file too: one test case a row.
    undecided
        What an undecided run is: fail (exit 3) or pass (exit 0).

    """

    junit: str | None = None
    undecided: str = "fail"

    def check(self) -> None:
        """Refuse a wrong choice or a file that cannot be written, before any work."""
        choice("undecided", self.undecided, ("fail", "pass"))
        if self.junit is not None:
            check_writable(self.junit, "junit")
