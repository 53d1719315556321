"""What a Python caller gets: a record with its views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from ..stats.shown import printable
from .advice import advice
from .record import Record
from .table import FORMATS, frame, render
from .wording import exit_code, summary, wrapped

if TYPE_CHECKING:
    from .figures.catalogue import Drawing


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

    def assert_match(self) -> Result:
        """Itself where it exits with 0; else an AssertionError that shows what is printed.

        Examples:
            >>> import verify_variance as vv
            >>> vv.verify(dk=16, samples=10_000).assert_match().exit_code
            0

        """
        __tracebackhide__ = True  # pytest then shows the user's line
        if self.exit_code:
            raise AssertionError(f"{self.verdict}\n{self.text()}")
        return self

    @property
    def frame(self) -> Any:
        """The rows as a pandas DataFrame at full precision."""
        return frame(self.record)

    @property
    def summary(self) -> str:
        """What was shown, in plain sentences."""
        return summary(self.record)

    def table(self, form: str = "plain") -> str:
        """The rows as `plain`, `pipe`, `rst`, `latex`, `html`, `csv`, `tsv` or `json`."""
        from ..stats.checks import choice

        return render(self.record, choice("format", form, FORMATS))

    def grouped(self, names: Sequence[str]) -> Result:
        """The same rows, those with the same value of each of these names together."""
        from .grouping import group_names, grouped

        return Result(grouped(self.record, group_names(names)) if names else self.record)

    def text(self) -> str:
        """The table, what to do about its failures, and the summary: what the command prints."""
        return "\n\n".join(filter(None, [self.table(), self.words()]))

    def words(self) -> str:
        """What stands under the table: what to do about each failure, then the summary."""
        said = [*advice(self.record), self.summary]
        return "\n".join(wrapped(printable(sentence)) for sentence in said if sentence)

    def __str__(self) -> str:
        return self.text()

    def figure(self, name: str, style: str = "screen") -> Drawing:
        """A figure by name: `variance`, `softmax`, `jacobian`, `gap`, `z`, `law`, `saturation`.

        A notebook shows it by itself; `save("fig.pdf")` writes it, with style `paper` as wide as a
        column. InputError where the record has nothing for it.

        Examples:
            >>> import verify_variance as vv
            >>> drawing = vv.verify(dk=[16, 32], samples=10_000).figure("variance")
            >>> drawing.data.panels[0].points[0].x
            (16.0, 32.0)

        """
        from .figures.catalogue import Drawing, figure_data

        return Drawing(figure_data(name, [self.record]), style)

    def page(self) -> str:
        """The whole report as one HTML page, to be read offline."""
        from .page.html import page

        return page([self.record])

    def _repr_html_(self) -> str:
        """The table, the figures of what was measured, and the summary."""
        from .figures.catalogue import quick_figures
        from .figures.drawing import inline

        images = [
            f'<div style="flex: 1 1 18em">{inline([panel], f"{data.name}{i}")}</div>'
            for data in quick_figures(self.record)
            for i, panel in enumerate(data.panels)
        ]
        row = f'<div style="display: flex; flex-wrap: wrap">{"".join(images)}</div>'
        return f"{self.table('html')}\n{row}\n<p>{escape(self.summary)}</p>"
