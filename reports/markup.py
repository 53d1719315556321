"""Cells as tables in the markup of a terminal, a paper or a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape as html_text

from ..stats.shown import printable
from .latex import latex_table, latex_text

TABULATE_FORMATS = {"plain": "simple", "pipe": "pipe", "rst": "rst", "html": "html"}
MARKUP = (*TABULATE_FORMATS, "latex")
_MARKUP = {"pipe": r"\|", "rst": r"[*`|\\]|_(?![^\W_])"}
"""What a format would read as markup, and takes as text behind a backslash."""


@dataclass(frozen=True)
class Block:
    """One table of a record: its heading, "" for none, whether that is in bold; its columns."""

    heading: str
    headers: Sequence[str]
    texts: Sequence[bool]
    cells: Sequence[Sequence[str]]
    bold: bool = True


def joined(blocks: Iterable[Block], form: str) -> str:
    """The tables one under the other, each with its heading."""
    return "\n\n".join(
        _heading(block, form) + tabulated(block.cells, block.headers, form, block.texts)
        for block in blocks
    )


def _heading(block: Block, form: str) -> str:
    """What stands over a table."""
    if not block.heading:
        return ""
    text, bold = printable(block.heading), block.bold
    if form == "html":
        return f"<p>{'<b>' * bold}{html_text(text)}{'</b>' * bold}</p>\n"
    if form == "latex":
        said = latex_text(text)
        return (rf"\textbf{{{said}}}" if bold else said) + "\\par\n"
    return f"{'**' * bold}{_inert(text, form)}{'**' * bold}\n\n"


def _inert(text: str, form: str) -> str:
    text, markup = printable(text), _MARKUP.get(form)
    return re.sub(markup, r"\\\g<0>", text) if markup else text


def tabulated(
    cells: Iterable[Sequence[str]], headers: Sequence[str], form: str, texts: Sequence[bool]
) -> str:
    """Cells as a table in one of `MARKUP`; columns of numbers are aligned right."""
    if form == "latex":
        said = [[printable(cell) for cell in row] for row in cells]
        return latex_table(said, headers, texts)
    from tabulate import tabulate

    table: str = tabulate(
        [[_inert(cell, form) for cell in row] for row in cells],
        headers=[_inert(header, form) for header in headers],
        tablefmt=TABULATE_FORMATS[form],
        disable_numparse=True,
        colalign=["left" if text else "right" for text in texts],
    )
    return table
