"""The one place that reads and writes files; writing is atomic."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..stats.checks import InputError


def check_writable(path: str) -> None:
    """Refuse an output that could not be written, before any work is done for it."""
    target = Path(path)
    folder = target.parent
    if target.is_dir():
        raise InputError(f"output must be a file, got the folder {path}; name a file in it")
    if not folder.is_dir():
        raise InputError(f"output's folder must exist, got {folder}; create it or name another")
    if not os.access(folder, os.W_OK):
        raise InputError(f"output's folder must be writable, got {folder}; name another")


def write_text(path: str, text: str) -> None:
    """Write to a temporary name beside `path`, then rename: never a half-written file."""
    write_bytes(path, text.encode())


def write_bytes(path: str, data: bytes) -> None:
    """Write bytes as `write_text` writes text."""
    check_writable(path)
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(f"output could not be written to {path}: {error.strerror}") from None
        raise


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or what a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
