"""The one place that reads and writes files; writing is atomic."""

from __future__ import annotations

import os
import re
import tempfile
import tokenize
import warnings
import zipfile
from pathlib import Path
from typing import Any

from ..stats.checks import InputError, choice

_BROKEN = (OSError, ValueError, TypeError, EOFError, LookupError, SyntaxError, MemoryError)
"""What NumPy raises for a file whose header is wrong, or says more than is there."""
_NO_NAMES = ("nan", "inf", "infinity")  # words that are numbers


def check_writable(path: str, name: str = "output") -> None:
    """Refuse an output that could not be written, before any work is done for it."""
    target = Path(path).resolve()
    folder = target.parent
    if target.is_dir():
        raise InputError(f"{name} must be a file, got the folder {target}; name a file in it")
    if target.exists() and not target.is_file():
        instead = "redirect stdout instead" if name == "output" else "name another"
        raise InputError(f"{name} must be an ordinary file, got {path}; {instead}")
    if not folder.is_dir():
        raise InputError(f"{name}'s folder must exist, got {folder}; create it or name another")
    if not os.access(folder, os.W_OK) or (target.exists() and not os.access(target, os.W_OK)):
        raise InputError(f"{name} must be writable, got {path}; name another")


def write_text(path: str, text: str) -> None:
    """Write to a temporary name beside `path`, then rename: never a half-written file."""
    write_bytes(path, text.encode())


def write_bytes(path: str, data: bytes) -> None:
    """Write bytes as `write_text` writes text."""
    check_writable(path)
    target = Path(path).resolve()  # a link stays, what it points to is replaced
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"output could not be written to {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(handle)
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(f"output could not be written to {path}: {error.strerror}") from None
        raise


def append_text(path: str, text: str) -> None:
    """Add to a file that others write to as well, such as a CI's step summary."""
    try:
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise InputError(f"{path} could not be added to: {error.strerror}") from None


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or what a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def read_settings(path: str, *keys: str) -> dict[str, Any]:
    """The table under `keys` in a TOML file; empty where the file or the table is not there."""
    source = Path(path)
    if not source.is_file():
        return {}
    import tomllib

    try:
        table: Any = tomllib.loads(source.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}") from None
    for key in keys:
        table = table.get(key, {}) if isinstance(table, dict) else table
    if not isinstance(table, dict):
        raise InputError(f"{'.'.join(keys)} in {path} must be a table, got {table!r}")
    return table


def read_text(path: str, what: str) -> str:
    """The text of a file; `what` is what an error calls it."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{what} {path} must be UTF-8 text; save it as such") from None


def read_logits(path: str, array: str | None = None) -> Any:
    """The numbers of an npy, npz or csv file; nothing in it is ever unpickled or executed."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"file must exist, got {path}; name an npy, npz or csv file")
    if source.suffix not in (".npy", ".npz", ".csv"):
        raise InputError(f"file must end in .npy, .npz or .csv, got {path}; save it as one")
    try:
        return _read_csv(path) if source.suffix == ".csv" else _read_numpy(path, array)
    except InputError:
        raise
    except (*_BROKEN, zipfile.BadZipFile, tokenize.TokenError) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"file {path} cannot be read as numbers: {said}") from None


def _read_numpy(path: str, array: str | None) -> Any:
    import numpy as np

    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        _check_expansion(path, loaded.zip)
        names = loaded.files
        if array is None and len(names) != 1:
            raise InputError(
                f"file {path} has {len(names)} arrays ({', '.join(names)}); name one with --array"
            )
        return loaded[choice("array", array or names[0], names)]


def _check_expansion(path: str, archive: Any) -> None:
    """Refuse an archive of more than 1 GB that is nearly all repetition: no numbers are."""
    size = sum(entry.file_size for entry in archive.infolist())
    packed = sum(entry.compress_size for entry in archive.infolist())
    if size > max(1e9, 100 * packed):
        raise InputError(
            f"file {path} would expand from {packed / 1e9:.2g} to {size / 1e9:.2g} GB; "
            "save its array as npy"
        )


def _read_csv(path: str) -> Any:
    import numpy as np

    lines = read_text(path, "file").removeprefix("\ufeff").splitlines()
    named = bool(lines) and all(re.match(r'\s*"?[^\W\d]', name) for name in lines[0].split(","))
    header = named and not all(name.strip().lower() in _NO_NAMES for name in lines[0].split(","))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty file is said in our own words
        table = np.loadtxt(lines[header:], delimiter=",", ndmin=2)
    if table.size == 0:
        raise InputError(f"file {path} is empty; write one number a line")
    return table[:, 0] if table.shape[1] == 1 else table


def file_size(path: str) -> int:
    """Bytes of an ordinary file."""
    source = Path(path)
    try:
        if source.is_file():
            return source.stat().st_size
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        raise InputError(f"{path} cannot be read: {error}") from None
    raise InputError(f"{path} must be an ordinary file; name one that exists")


def read_part(path: str, offset: int, length: int) -> bytes:
    """Some bytes of a file; fewer where it ends before."""
    try:
        with open(path, "rb") as stream:
            stream.seek(offset)
            return stream.read(length)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def mapped(path: str, dtype: Any, offset: int, shape: tuple[int, ...]) -> Any:
    """An array in a file, of which only what is looked at is read; gone when it is let go."""
    import numpy as np

    try:
        return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def read_torch(path: str) -> Any:
    """What torch.save wrote, weights alone: a file that asks for code is refused, never run."""
    try:
        import torch
    except ImportError:
        raise InputError(
            f"{path} is torch's and needs it: pip install 'verify-variance[torch]', or save it as "
            "safetensors"
        ) from None
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # whatever a hostile file makes torch raise
        said = " ".join(str(error).split())[:160] or type(error).__name__
        raise InputError(
            f"{path} cannot be read as weights alone: {said}; save it as safetensors"
        ) from None
