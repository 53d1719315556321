"""Where results go and in which form."""

from __future__ import annotations

from collections.abc import Sequence
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
        plain, pipe (Markdown), rst, latex (with the package booktabs), html, csv, tsv or json (the
        record); by default what the name of --output says, else plain.
    output
        Write to this file instead of stdout (whole or not at all).
    caption
        Caption of a latex, html or rst table, as that format writes it (html: as plain text).
    label
        Label of a latex or rst table, to refer to it.
    group_by
        Put rows together that share this, under a heading of their own: quantity, elements,
        scale, weights, d_k, sigma_q, verdict, of claims source, of audits check, ... (several
        names nest). csv and tsv have no headings, only that order; json is the record as it is.
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
    def suffix(self) -> str:
        """How the name of the output ends, in small letters."""
        return Path(self.output or "").suffix.lower()

    @property
    def form(self) -> str:
        """The format asked for, or the one that the output's name says."""
        if self.format is not None:
            return self.format
        return _SUFFIXES.get(self.suffix, "plain")

    def check(self, others: Sequence[str] = ()) -> None:
        """Refuse a wrong format or an output that cannot be written, before any work.

        `others` are endings that a command knows besides.
        """
        choice("format", self.form, FORMATS)
        if self.format is None and self.suffix not in _SUFFIXES:
            known = ", or ".join([", ".join(filter(None, _SUFFIXES)), *others])
            raise InputError(
                f"output must end in {known}, got {self.suffix}; rename it, or name a --format"
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
        Draw this figure alone (.svg, .png or .pdf) instead of the page: variance, softmax,
        jacobian, gap, z, law or saturation; of a record of train, training, attention, heads or
        maps.
    style
        How a figure is laid out: screen, or paper (one column of 85 mm).

    """

    figure: str | None = None
    style: str = "screen"

    def form(self, output: OutputOptions) -> str:
        """What is made: a `figure`, a `page`, or a table in one of the formats."""
        if self.figure is not None:
            return "figure"
        page = output.format is None and output.suffix in ("", ".html", ".htm")
        return "page" if page else output.form

    def check(self, output: OutputOptions) -> None:
        """Refuse what could not be drawn or written, before any work."""
        from .figures.catalogue import NAMES, figure_form
        from .figures.drawing import FORMS, STYLES

        choice("style", self.style, STYLES)
        form = self.form(output)
        if form == "figure":
            choice("figure", str(self.figure), NAMES)
            figure_form(output.output)
        elif output.format is None and output.suffix.removeprefix(".") in FORMS:
            raise InputError(f"output {output.suffix} is of a figure; name it with --figure")
        elif form in FORMATS:
            output.check(("--figure and .svg, .png or .pdf",))
            return
        for name in ("format", "caption", "label", "group_by"):
            if getattr(output, name):
                option = name.replace("_", "-")
                raise InputError(f"{option} is of a table, got a {form}; drop --{option}"
                                 + (", or name a --format" if form == "page" else ""))  # fmt: skip
        if output.output is not None:
            check_writable(output.output)


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
