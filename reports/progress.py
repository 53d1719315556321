"""How a run goes on: said first where it is long, then a bar on a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, TextIO

from ..stats.planning import predicted_seconds, shown_duration

_PROMPT_SECONDS = 3.0  # a run this short needs no bar
_WORTH_SAYING = 60.0


class Progress:
    """A bar of drawn elements with the time left; nothing where the stream is no terminal."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._shown = stream is not None and stream.isatty()
        self._started = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, drawn: int, total: int) -> None:
        """Show that `drawn` of `total` random elements are done; first called with none."""
        if drawn == 0:
            self._say_if_long(total)
        if not self._shown:
            return
        if self._bar is None:
            if drawn >= total or time.perf_counter() - self._started < _PROMPT_SECONDS:
                return
            self._open(total)
        self._bar.update(self._task, completed=drawn)

    def _say_if_long(self, total: int) -> None:
        seconds = predicted_seconds(total)
        if self._stream is not None and seconds > _WORTH_SAYING:
            self._stream.write(
                f"about {shown_duration(seconds)} on two cores; fewer --samples or a wider "
                "--tolerance make it shorter\n"
            )
            self._stream.flush()

    def _open(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("drawing"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
        )
        self._bar = Bar(*columns, console=Console(file=self._stream), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("drawing", total=total)
