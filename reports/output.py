"""Where results go and in which form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..stats.checks import choice
from .files import check_writable
from .table import FORMATS

_SUFFIXES = {".md": "pipe", ".tex": "latex", ".htm": "html"} | {f".{f}": f for f in FORMATS}


@dataclass(frozen=True)
class OutputOptions:
    """How results are shown.

    Parameters
    ----------
    format
        plain, pipe (Markdown), latex, html, csv, tsv or json (the record); by default what the
        name of --output says, else plain.
    output
        Write to this file instead of stdout (whole or not at all).
    quiet
        Print the table alone: no progress, no sentences.

    """

    format: str | None = None
    output: str | None = None
    quiet: bool = False

    @property
    def form(self) -> str:
        """The format asked for, or the one that the output's name says."""
        if self.format is not None:
            return self.format
        return _SUFFIXES.get(Path(self.output or "").suffix, "plain")

    def check(self) -> None:
        """Refuse a wrong format or an output that cannot be written, before any work."""
        choice("format", self.form, FORMATS)
        if self.output is not None:
            check_writable(self.output)
