"""A run while it is measured: its journal, its processes, how far it is and how fast it goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from .. import __version__
from ..stats.checks import InputError
from ..stats.long_runs import LostProcess
from .devices import identity
from .journal import Journal
from .processes import Team
from .sweep import Place, Step

Report = Callable[[int, int, float | None], None]
# more draws continue those that are there; and it is the device's own kind that counts
_MAY_CHANGE = ("samples", "max_samples", "platform")


class Measuring:
    """A context in which cells are measured; it closes the journal and ends the team.

    Args:
        elements: random elements that all cells draw.
        request: the options as resolved, by which a journal is known.
        devices: those of this process.
        team: all processes.
        resume: the journal's path; the first process alone opens it.
        report: called with (elements drawn, elements to draw, relative error of the cell so far),
            of which neither counts what the journal had.

    """

    def __init__(
        self,
        elements: int,
        request: Mapping[str, Any],
        devices: Sequence[Any],
        team: Team,
        resume: str | None = None,
        report: Report | None = None,
    ) -> None:
        self._planned, self._request, self._report = elements, request, report
        self._devices, self._team, self._path = devices, team, resume
        self._drawn = self._resumed_elements = self._resumed_blocks = 0
        self._started = time.perf_counter()
        self._journal: Journal | None = None

    def __enter__(self) -> Measuring:
        try:
            if self._path is not None and self._team.index == 0:
                self._journal = Journal(self._path, self._identity())
        except InputError as error:
            self._team.fail(str(error))
            raise
        self.place = Place(self._devices, self._team, self._journal)
        self.advance(Step(0))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._seconds = time.perf_counter() - self._started
        try:
            if self._journal is not None:
                with suppress(*([InputError] if error else [])):  # the first complaint is the cause
                    self._journal.close()
            if error is None:
                self._team.gather(b"")
        except InputError as late:
            self._team.fail(str(late))
            raise
        if error is not None and not isinstance(error, LostProcess):
            self._team.fail(str(error) or type(error).__name__)
        if isinstance(error, KeyboardInterrupt) and self._journal is not None:
            raise KeyboardInterrupt(f"{self._path} keeps what is done: run it again to go on")

    def facts(self) -> dict[str, object]:
        """What the record says of it."""
        fresh = self._drawn - self._resumed_elements
        workers = self.place.workers
        return {
            "processes": self._team.count,
            "elements": self._drawn,
            "elements_per_second": round(fresh / self._seconds / workers),
            "resumed_blocks": self._resumed_blocks,
        }

    def _identity(self) -> dict[str, Any]:
        kept = ("samples",) if self._request["until_decided"] else ()  # it plans the looks
        request = {
            name: value
            for name, value in self._request.items()
            if name in kept or name not in _MAY_CHANGE
        }
        return {**request, "version": __version__, **identity(list(self._devices))}

    def advance(self, step: Step) -> None:
        """Hear of what has been measured."""
        self._drawn += step.elements
        if step.resumed_blocks:
            self._resumed_elements += step.elements
            self._resumed_blocks += step.resumed_blocks
        if self._report is not None:
            done = self._resumed_elements
            self._report(self._drawn - done, self._planned - done, step.error)
