"""What a long or a large run takes besides its cases: where it is kept, how it is shared out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .checks import InputError, choice, count

DISTRIBUTED = ("auto", "on", "off")


class LostProcess(RuntimeError):
    """Another process of the run has stopped: this one cannot go on without it."""


@dataclass(frozen=True)
class LongRunOptions:
    """How a run is kept, and shared out among processes.

    Parameters
    ----------
    resume
        File (SQLite) that keeps finished blocks: after an interruption the same command goes on
        from them, with the same bits; --samples may be raised.
    distributed
        Whether several processes draw: auto (where a cluster has started this one, or
        --coordinator is given), on or off. The first of them prints and writes.
    coordinator
        HOST:PORT of the first process, where no cluster says it.
    num_processes
        Number of processes.
    process_id
        Number of this process, from 0.

    """

    resume: str | None = None
    distributed: str = "auto"
    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None

    def check(self) -> None:
        """InputError where the options break a rule or do not go together."""
        choice("distributed", self.distributed, DISTRIBUTED)
        given = {name: getattr(self, name) for name in _OF_PROCESSES}
        said = [name for name, value in given.items() if value is not None]
        missing = [name for name, value in given.items() if value is None]
        if said and self.distributed == "off":
            raise InputError(f"{said[0]} needs distributed auto or on, got off; leave it out")
        if said and missing:
            raise InputError(
                f"{', '.join(_OF_PROCESSES)} go together, got no {' and no '.join(missing)}; "
                "give all three, or none where a cluster says them"
            )
        if not said:
            return
        _check_address(str(self.coordinator))
        processes = count("num_processes", self.num_processes, most=2**20)
        count("process_id", self.process_id, least=0, most=processes - 1)

    def refuse_random_seed(self) -> None:
        """InputError where a run that is kept would draw its seed."""
        if self.resume is not None:
            raise InputError(
                "seed must be a number with --resume, got random; name one, so that the run can be "
                "continued"
            )

    @classmethod
    def taken_from(cls, options: Mapping[str, Any]) -> tuple[LongRunOptions, dict[str, Any]]:
        """These options out of all that were given, checked, and the others.

        Examples:
            >>> LongRunOptions.taken_from({"dk": 16, "resume": "run.db"})[1]
            {'dk': 16}

        """
        names = {field.name for field in fields(cls)}
        own = cls(**{name: value for name, value in options.items() if name in names})
        own.check()
        return own, {name: value for name, value in options.items() if name not in names}


_OF_PROCESSES = ("coordinator", "num_processes", "process_id")


def _check_address(text: str) -> None:
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 2**16):
        raise InputError(f"coordinator must be HOST:PORT, got {text!r}; write it as 10.0.0.1:8476")
