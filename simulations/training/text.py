"""Text that every Python carries: the help topics of the standard library, as symbols.

What can go wrong: the topics differ between versions of Python, and so do the losses; the record
says which text it was. Every tenth block of 512 characters is held out; no window that is trained
on touches it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...stats.checks import InputError

SYMBOLS = 97
"""Line feed, the 95 printable ASCII characters, and one for all others."""
_BLOCK, _HELD_OUT = 512, 10
_CLASSES = ("specialnames", "compound")


@dataclass(frozen=True)
class Text:
    """Symbols with a class for each, and where windows of one length may start."""

    symbols: NDArray[np.int32]
    classes: NDArray[np.int32]
    training: NDArray[np.int64]
    validation: NDArray[np.int64]
    digest: str


def help_text(task: str, length: int) -> Text:
    """The text of a task: all topics for `characters`, the two longest for `topics`.

    Windows have `length` symbols and the one after them, and lie within one topic for `topics`.

    Examples:
        >>> text = help_text("topics", 64)
        >>> sorted(set(text.classes.tolist())), bool(text.symbols.max() < SYMBOLS)
        ([0, 1], True)

    """
    topics = _topics()
    names = _CLASSES if task == "topics" else tuple(sorted(topics))
    if missing := [name for name in names if name not in topics]:
        raise InputError(f"help topics must have {missing[0]}, which this Python leaves out")
    parts = [topics[name].encode("latin-1", "replace") for name in names]
    whole = np.frombuffer(b"".join(parts), np.uint8).astype(np.int32)
    symbols = np.where(whole == 10, 0, np.where((whole < 32) | (whole > 126), 96, whole - 31))
    topic = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    classes = topic if task == "topics" else np.zeros_like(topic)
    training, validation = _starts(len(symbols), classes, length + 1)
    digest = hashlib.sha256(symbols.astype(np.uint8).tobytes()).hexdigest()[:12]
    return Text(symbols.astype(np.int32), classes.astype(np.int32), training, validation, digest)


def _topics() -> dict[str, str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise InputError(
            "training needs the standard library's help topics (pydoc_data), which this Python "
            "leaves out; install the full standard library"
        ) from None
    return dict(topics)


def _starts(
    size: int, classes: NDArray[np.int64], width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where a window lies wholly in what is trained on, or wholly in what is held out."""
    held_out = np.arange(size) // _BLOCK % _HELD_OUT == _HELD_OUT - 1
    before = np.concatenate([[0], np.cumsum(held_out)])
    inside = before[width:] - before[: size - width + 1]
    one_class = classes[: size - width + 1] == classes[width - 1 :]
    return np.flatnonzero((inside == 0) & one_class), np.flatnonzero((inside == width) & one_class)


def validation_starts(text: Text, count: int) -> NDArray[np.int64]:
    """Starts of `count` held-out windows, evenly spread over all that there are."""
    places = np.linspace(0, len(text.validation) - 1, count).round().astype(np.int64)
    return text.validation[places]
