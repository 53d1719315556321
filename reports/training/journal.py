"""Finished training runs, kept in a file so that a long experiment can go on after a stop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...stats.checks import InputError
from ..files import check_writable, read_text, write_text

Logs = dict[str, Any]


class Journal:
    """The logs of finished runs by name, and the file (if any) that holds them.

    `about` is what the logs depend on: another seed, version or text is another experiment.
    """

    def __init__(self, path: str | None, about: Mapping[str, object]) -> None:
        self.path, self.about = path, dict(about)
        self.logs: Logs = {}
        if path is not None:
            check_writable(path, "resume")
            if Path(path).exists():
                self.logs = self._read(path)

    def _read(self, path: str) -> Logs:
        try:
            found = json.loads(read_text(path, "journal"))
            about, logs = found["about"], found["logs"]
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"resume must be a file that train --resume wrote, got {path}; name another"
            ) from None
        for name, mine in self.about.items():
            if about.get(name) != mine:
                raise InputError(
                    f"journal {path} is of another experiment: its {name} is {about.get(name)!r}, "
                    f"not {mine!r}; name another file"
                )
        kept: Logs = logs
        return kept

    def save(self) -> None:
        """Write all logs, whole or not at all."""
        if self.path is not None:
            text = json.dumps({"about": self.about, "logs": self.logs}, allow_nan=False)
            write_text(self.path, f"{text}\n")
