"""Progress on stderr: only on a terminal, only when a run takes more than a few seconds."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

_QUIET_SECONDS = 3.0
_WORTH_SAYING = 60.0


class Progress:
    """A bar of drawn elements with the time left; nothing where stderr is no terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._shown = not quiet and sys.stderr.isatty()
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
        """Show that `drawn` of `total` random elements are done."""
        if not self._shown:
            return
        if self._bar is None:
            if drawn >= total or time.perf_counter() - self._started < _QUIET_SECONDS:
                return
            self._open(total)
        self._bar.update(self._task, completed=drawn)

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
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("drawing", total=total)
