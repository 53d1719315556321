"""How a run goes on: said first where it is long, then a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TextIO

from ..stats.planning import ELEMENTS_PER_SECOND, shown_duration
from .record import Record

_PROMPT_SECONDS = 3.0  # a run this short needs no bar
_LINE_SECONDS = 30.0  # between two lines where there is no terminal
_WORTH_SAYING = 60.0


@dataclass(frozen=True)
class Work:
    """What is counted as work, in words, how much of it two cores do in a second, and less."""

    units: str = "elements"
    done: str = "drawn"
    doing: str = "drawing"
    per_second: float = ELEMENTS_PER_SECOND
    less: str = "fewer --samples or a wider --tolerance make it shorter"


DRAWING = Work()
TRAINING = Work("characters", "trained", "training", 7e4, "--quick is shorter")


class Progress:
    """A bar of the work done on a terminal; elsewhere a line every half minute."""

    def __init__(self, stream: TextIO | None, work: Work = DRAWING) -> None:
        self._stream, self._work = stream, work
        self._terminal = stream is not None and stream.isatty()
        self._started = self._said = time.perf_counter()
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

    def advance(self, drawn: int, total: int, error: float | None = None) -> None:
        """Show that `drawn` of `total` random elements, or other work, are done; first none.

        `error` is the relative standard error of the cell so far.
        """
        if self._stream is None:
            return
        if drawn == 0:
            self._say_if_long(total)
        elif self._terminal:
            self._show(drawn, total, error)
        elif time.perf_counter() - self._said >= _LINE_SECONDS and drawn < total:
            self._said = time.perf_counter()
            self._say(
                f"{100 * drawn / total:.1f} % {self._work.done}, {self._pace(drawn, total, error)}"
            )

    def _pace(self, drawn: int, total: int, error: float | None) -> str:
        """Rate, relative error and time left."""
        rate = drawn / max(time.perf_counter() - self._started, 1e-9)
        known = "" if error is None else f"relative error {error:.1e}, "
        left = shown_duration(max(total - drawn, 0) / rate)
        return f"{rate:.1e} {self._work.units} a second, {known}{left} left"

    def _show(self, drawn: int, total: int, error: float | None) -> None:
        if self._bar is None:
            if drawn >= total or time.perf_counter() - self._started < _PROMPT_SECONDS:
                return
            self._open()
        pace = self._pace(drawn, total, error)
        self._bar.update(self._task, completed=drawn, total=total, pace=pace)

    def _say_if_long(self, total: int) -> None:
        seconds = total / self._work.per_second
        if seconds > _WORTH_SAYING:
            self._say(f"about {shown_duration(seconds)} on two cores; {self._work.less}")

    def _say(self, line: str) -> None:
        assert self._stream is not None
        self._stream.write(f"{line}\n")
        self._stream.flush()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn(self._work.doing),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %, {task.fields[pace]}"),
        )
        self._bar = Bar(*columns, console=Console(file=self._stream), transient=True)
        self._bar.start()
        self._task = self._bar.add_task(self._work.doing, pace="")


def effort(record: Record) -> str:
    """What a long run, or one of several processes or sittings, took; nothing for another."""
    facts = record["provenance"]
    seconds, resumed = facts["wall_seconds"] or 0.0, facts["resumed_blocks"] or 0
    alone = seconds < _LINE_SECONDS and not resumed and (facts["processes"] or 1) == 1
    if alone or facts["elements_per_second"] is None:
        return ""
    kept = f"{resumed} blocks were resumed; " if resumed else ""
    devices, processes = _number(len(facts["devices"]), "device"), facts["processes"]
    where = devices if processes == 1 else f"{devices} of {_number(processes, 'process')}"
    pace = facts["elements_per_second"] / 1e6
    return f"{kept}{facts['elements']:.3g} elements on {where}, {pace:.3g} million a second each"


def _number(n: int, name: str) -> str:
    ending = "" if n == 1 else "es" if name.endswith("s") else "s"
    return f"{n} {name}{ending}"
