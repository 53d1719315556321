"""Finished blocks in an SQLite file: what an interrupted run has drawn is never drawn again.

A part of a pass is one row with its own checksum, and rows are committed together, a second's work
at a time; a run that is killed loses what it had not committed and nothing else. The file says
which request it belongs to and what drew it; it is held by one process at a time.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any

import numpy as np

from ..stats.checks import InputError
from .parts import Part

APPLICATION_ID = 0x76765641  # "vvVA": this file is ours
COMMIT_SECONDS = 1.0  # work between two transactions
_ANEW = "move it away to begin anew"


class Journal:
    """The parts that a request's passes have measured, by the name of the pass.

    Args:
        path: the file, made where it is not there.
        identity: what the bits depend on, and the request; plain data by name.

    Raises InputError for a file that belongs to another request, is held by another process, is
    damaged, or cannot be written.

    """

    def __init__(self, path: str, identity: Mapping[str, Any]) -> None:
        self._path = path
        self._waiting: list[tuple[str, int, int, bytes, bytes]] = []
        with self._explained():
            self._file = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            with self._explained():
                self._open(json.loads(json.dumps(dict(identity))))
        except BaseException:
            self._file.close()
            raise
        self._committed = time.monotonic()

    def _open(self, identity: dict[str, Any]) -> None:
        run = self._file.execute
        run("PRAGMA locking_mode=EXCLUSIVE")
        run("PRAGMA synchronous=FULL")
        run("BEGIN EXCLUSIVE")
        (application,), (tables,) = (
            run("PRAGMA application_id").fetchone(),
            run("SELECT count(*) FROM sqlite_master").fetchone(),
        )
        if tables and application != APPLICATION_ID:
            raise InputError(f"resume file {self._path} is another program's; name another")
        if not tables:
            run(f"PRAGMA application_id={APPLICATION_ID}")
            run("CREATE TABLE identity (text TEXT NOT NULL)")
            run(
                "CREATE TABLE parts (pass TEXT, first INTEGER, blocks INTEGER, data BLOB, "
                "checksum BLOB, PRIMARY KEY (pass, first)) WITHOUT ROWID"
            )
            run("INSERT INTO identity VALUES (?)", (json.dumps(identity),))
        run("COMMIT")
        found = [row[0] for row in run("PRAGMA integrity_check")]
        if found != ["ok"]:
            raise sqlite3.DatabaseError(found[0])
        (text,) = run("SELECT text FROM identity").fetchone()
        self._compare(json.loads(text), identity)
        ends = run("SELECT pass, max(first + blocks) FROM parts GROUP BY pass")
        self._ends: dict[str, int] = dict(ends.fetchall())

    def _compare(self, there: dict[str, Any], here: dict[str, Any]) -> None:
        for name in {**there, **here}:
            if there.get(name) != here.get(name):
                raise InputError(
                    f"resume file {self._path} is of another run: {name} is "
                    f"{json.dumps(there.get(name))} there, got {json.dumps(here.get(name))}; "
                    f"run what it was begun with, or {_ANEW}"
                )

    def part(self, name: str, first: int, end: int) -> Part | None:
        """The part of a pass that begins with block `first`; None if it goes beyond block `end`."""
        with self._explained():
            found = self._file.execute(
                "SELECT blocks, data, checksum FROM parts WHERE pass = ? AND first = ?",
                (name, first),
            ).fetchone()
        if found is None or first + found[0] > end:
            return None
        blocks, data, checksum = found
        part = None
        if checksum == _checksum(name, first, blocks, data):
            part = unpacked(zlib.decompress(data))
        if part is None or (part.first, part.blocks) != (first, blocks):
            raise InputError(f"resume file {self._path} is damaged at block {first}; {_ANEW}")
        return part

    def keep(self, name: str, part: Part) -> None:
        """Take a part that follows those that are there."""
        if part.first < self._ends.get(name, 0):
            return
        self._ends[name] = part.first + part.blocks
        data = zlib.compress(packed(part), 1)
        checksum = _checksum(name, part.first, part.blocks, data)
        self._waiting.append((name, part.first, part.blocks, data, checksum))
        if time.monotonic() - self._committed > COMMIT_SECONDS:
            self.commit()

    def commit(self) -> None:
        """Write what waits, in one transaction."""
        if self._waiting:
            with self._explained():
                self._file.execute("BEGIN")
                self._file.executemany("INSERT INTO parts VALUES (?, ?, ?, ?, ?)", self._waiting)
                self._file.execute("COMMIT")
        self._waiting = []
        self._committed = time.monotonic()

    def close(self) -> None:
        """Write what waits and let the file go."""
        try:
            self.commit()
        finally:
            with suppress(sqlite3.Error):
                self._file.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """SQLite's complaints in one line, with the way out."""
        try:
            yield
        except sqlite3.Error as error:
            self._waiting = []
            path, said = self._path, str(error)
            if "locked" in said:
                raise InputError(
                    f"resume file {path} is in use by another process; wait for it to end, or "
                    "name another"
                ) from None
            if "not a database" in said:
                raise InputError(f"resume file {path} is no SQLite file; name another") from None
            if "malformed" in said or not isinstance(error, sqlite3.OperationalError):
                raise InputError(f"resume file {path} is damaged: {said}; {_ANEW}") from None
            raise InputError(
                f"resume file {path} cannot be written: {said}; what it holds is whole: put that "
                "right and run the same command again"
            ) from None


def _checksum(name: str, first: int, blocks: int, data: bytes) -> bytes:
    return sha256(f"{name} {first} {blocks} ".encode() + data).digest()


def packed(part: Part) -> bytes:
    """A part as bytes: a line of JSON that says what follows, then the arrays.

    Examples:
        >>> unpacked(packed(Part(3, 2, ends=(0.5, 2.0)))).ends
        (0.5, 2.0)

    """
    groups = (part.sums, part.seen, part.counts)
    arrays = [(i, *key, array) for i, group in enumerate(groups) for key, array in group.items()]
    head = {
        "blocks": [part.first, part.blocks],
        "ends": part.ends,
        "arrays": [(i, name, factor, array.shape) for i, name, factor, array in arrays],
    }
    body = b"".join(np.asarray(array).astype(_TYPES[i]).tobytes() for i, *_, array in arrays)
    return json.dumps(head).encode() + b"\n" + body


_TYPES = ("<f8", "<f8", "<i8")


def unpacked(data: bytes) -> Part:
    """The part whose bytes `packed` gave."""
    line, _, body = data.partition(b"\n")
    head = json.loads(line)
    groups: tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]] = ({}, {}, {})
    at = 0
    for i, name, factor, shape in head["arrays"]:
        size = math.prod(shape)
        array = np.frombuffer(body, _TYPES[i], size, at).reshape(shape)
        groups[i][name, factor] = array
        at += 8 * size
    (first, blocks), (low, high) = head["blocks"], head["ends"]
    return Part(first, blocks, *groups, (low, high))
