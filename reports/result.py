"""What a Python caller gets: a record with its views."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from .record import Record
from .table import FORMATS, frame, render
from .wording import advice, exit_code, summary, wrapped


@dataclass(frozen=True)
class Result:
    """A record and its views: `frame`, `table(format)`, `verdict`, `summary`; HTML in a notebook.

    Examples:
        >>> import verify_variance as vv
        >>> result = vv.verify(dk=[16, 32], samples=10_000)
        >>> result.verdict
        'match'
        >>> list(result.frame["d_k"])
        [16, 32]

    """

    record: Record

    @property
    def verdict(self) -> str | None:
        """`match`, `mismatch`, `undecided` or `measured`; None where nothing was measured."""
        verdict: str | None = self.record["verdict"]
        return verdict

    @property
    def exit_code(self) -> int:
        """0 match or measured, 1 mismatch, 3 undecided: what the command exits with."""
        return exit_code(self.record)

    @property
    def frame(self) -> Any:
        """The rows as a pandas DataFrame at full precision."""
        return frame(self.record)

    @property
    def summary(self) -> str:
        """What was shown, in plain sentences."""
        return summary(self.record)

    def table(self, form: str = "plain") -> str:
        """The rows as `plain`, `pipe`, `latex`, `html`, `csv`, `tsv` or `json` text."""
        from ..stats.checks import choice

        return render(self.record, choice("format", form, FORMATS))

    def text(self) -> str:
        """The table, what to do about its failures, and the summary: what the command prints."""
        return "\n\n".join(filter(None, [self.table(), self.words()]))

    def words(self) -> str:
        """What stands under the table: what to do about each failure, then the summary."""
        said = [*advice(self.record), self.summary]
        return "\n".join(wrapped(sentence) for sentence in said if sentence)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f"{self.table('html')}\n<p>{escape(self.summary)}</p>"
