"""One argument of a function at a time: what it makes of a value, and whether it looks at it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...stats.audit.findings import Finding
from .black_box import Array, ProbeError
from .subject import Subject


class NotFiniteError(ProbeError):
    """With the argument no output is finite."""


class RandomError(ProbeError):
    """With the argument two calls give two outputs."""


Drawn = tuple[Array, Array]


def weights_with(subject: Subject, name: str, value: Any, drawn: Drawn | None = None) -> Array:
    """The weights (head, query, key) with the argument, where two calls agree on finite ones.

    `drawn` are other queries and keys than those of the subject.

    Raises NotFiniteError, RandomError.
    """
    q, k = drawn or subject.draw(subject.d_k)
    box = subject.given({name: value}).box
    first, second = (box.weights(q, k)[0] for _ in range(2))
    if not np.isfinite(first).all(-1).any():
        raise NotFiniteError(f"With {name}= no output is finite.")
    if not np.allclose(first, second, rtol=10 * subject.rtol, atol=subject.rtol, equal_nan=True):
        raise RandomError(
            f"With {name}= outputs are random, so that it cannot be told what it does."
        )
    return first


def ignored(
    subject: Subject, name: str, values: tuple[Any, Any], drawn: Drawn | None = None
) -> bool:
    """Whether two values of an argument give the same bits."""
    first, second = (weights_with(subject, name, value, drawn) for value in values)
    return bool(np.array_equal(first, second, equal_nan=True))


def dead(name: str) -> Finding:
    """The finding of an argument that is ignored."""
    said = f"The argument {name}= is accepted and ignored: two values give the same bits."
    return Finding("argument", f"{name}=", "mismatch", said, "argument-ignored")
