"""The command report: records in, one page, one figure or one table out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..stats.checks import InputError
from .record import Record

if TYPE_CHECKING:
    from .result import Result

_OWN = (
    *("--figure", "--style", "--output", "-o", "--quiet"),
    *("--format", "--caption", "--label", "--group-by"),
)


def saved(files: Sequence[str], tokens: Sequence[str]) -> list[Record]:
    """Saved records, none for no files; InputError where the command line asks for a run too."""
    from .saved import read_records

    if not files:
        return []

    given = [token.partition("=")[0] for token in tokens if token.startswith("-")]
    if asked := [name for name in given if name not in _OWN]:
        raise InputError(
            f"a report of saved records takes no {asked[0]}: they are decided; drop it or the files"
        )
    return read_records(files)


def reported(records: Sequence[Record], figure: str | None, style: str, path: str | None) -> bytes:
    """The page, or one figure in the form that the name of the output ends in."""
    if figure is None:
        from .page.html import page

        return f"{page(records)}\n".encode(errors="replace")  # JSON can name half a character
    from .figures.catalogue import Drawing, figure_data, figure_form

    return Drawing(figure_data(figure, records), style).image(figure_form(path))


def tabled(records: Sequence[Record]) -> Result:
    """The one record that a table can be of."""
    from .result import Result

    if len(records) > 1:
        raise InputError(
            f"a table is of one record, got {len(records)}; make a page of them, or give one file"
        )
    return Result(records[0])
