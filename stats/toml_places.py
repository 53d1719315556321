"""Where something stands in a TOML text: the reader forgets it, an error should not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .checks import InputError, near_names


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file something is said: its lines, so that an error can name one."""

    name: str
    lines: tuple[str, ...]
    first: int  # line of the header, counted from 1; 0 for the whole file
    last: int

    def error(self, key: str, complaint: str) -> InputError:
        """The complaint with file and line in front."""
        return InputError(f"{self.name}, line {self._line(key)}: {complaint}")

    def blocks(self, header: str) -> list[Place]:
        """The parts that begin with `[[header]]`, each up to the next."""
        pattern = re.compile(rf"\s*\[\[\s*{re.escape(header)}\s*\]\]")
        starts = [i for i in range(self.first, self.last + 1) if pattern.match(self._text(i))]
        ends = [*(start - 1 for start in starts[1:]), self.last]
        return [Place(self.name, self.lines, *both) for both in zip(starts, ends, strict=False)]

    def known_keys(self, given: dict[str, Any], known: Sequence[str], what: str) -> None:
        """Refuse a key that is not known, naming the near ones."""
        for key in given:
            if key not in known:
                raise self.error(key, f"unknown {what} {key!r}; {near_names(key, known)}")

    def _text(self, i: int) -> str:
        return self.lines[i - 1] if i else ""

    def _line(self, key: str) -> int:
        """The line where a key is given: at a line's start, else anywhere in the part."""
        for pattern in (rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", rf".*\b{re.escape(key)}\b"):
            for i in range(max(self.first, 1), self.last + 1):
                if re.match(pattern, self._text(i)):
                    return i
        return max(self.first, 1)
