"""Foreign code on a leash: a record on stdout stays whole, whatever it prints."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def guarded() -> Iterator[None]:
    """Within it, what is printed goes to stderr, or nowhere where there is none."""
    with redirect_stdout(sys.stderr or io.StringIO()):
        yield
