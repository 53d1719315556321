"""The function under audit, opened: how it is called, and what is drawn for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...stats.arrays import LAYOUTS, ROUNDING
from ...stats.audit.options import AuditOptions
from .black_box import Array, BlackBox, ProbeError, open_box

AXES = {"b": "batch", "h": "heads", "l": "length", "d": "d_k"}
N_KEYS = 16


@dataclass(frozen=True, slots=True)
class Subject:
    """An attention function with the box that it is called through.

    `d_k` is the head dimension of every check that needs one alone, and `rtol` what the
    precision allows of a factor.
    """

    attention: Any
    box: BlackBox
    options: AuditOptions
    d_k: int
    rtol: float

    def draw(self, d_k: int, n_keys: int = N_KEYS, n_heads: int | None = None) -> Array:
        """Queries and keys (2, head, length, d_k), the queries small enough for logits near 1."""
        heads = self.options.heads if n_heads is None else n_heads
        rng = np.random.default_rng((self.options.chosen_seed, d_k, n_keys, heads))
        drawn = rng.standard_normal((2, heads, n_keys, d_k))
        drawn[0] *= 2.0 ** -round(math.log2(d_k) / 2)  # powers of two round nothing
        return drawn

    def given(self, more: Mapping[str, Any]) -> Subject:
        """The same function with further arguments."""
        return replace(self, box=replace(self.box, more={**self.box.more, **more}))

    @property
    def axes(self) -> str:
        """The layout with its axes in words."""
        return f"{self.box.layout} ({', '.join(AXES[axis] for axis in self.box.layout)})"


def opened(attention: Any, options: AuditOptions, dtype: str, layout: str | None = None) -> Subject:
    """The function, opened at the first head dimension that it takes, 64 before others.

    Raises ProbeError, with what each attempt met, where it takes none.
    """
    sizes = sorted(options.sizes, key=lambda size: (size != 64, -size))
    first: ProbeError | None = None
    for size in sizes[:3]:
        blank = BlackBox(attention, "", lambda x: x)
        rtol = 1e-5 if dtype in ("float32", "float64") else 1e-2
        subject = Subject(attention, blank, options, size, rtol)
        q, k = subject.draw(size)
        try:
            box = open_box(attention, q, k, layout or options.layout, dtype, None, refusal)
        except ProbeError as error:
            first = first or error
            continue
        coarse = box.weights(q, k)[3] > ROUNDING["float32"]  # what it returns may be half
        return replace(subject, box=box, rtol=1e-2 if coarse else rtol)
    assert first is not None
    raise first


def refusal(weights: Array) -> str:
    """Why outputs are no weights of any kind, or ""; rows of any sum pass, to be explained."""
    finite = weights[np.isfinite(weights).all(-1)]
    if not finite.size:
        return "outputs are not finite"
    if finite.min() < -1e-3 * np.abs(finite).max():
        return "outputs are no weighted means of the values"
    off = finite.sum() - np.trace(np.nan_to_num(weights), axis1=-2, axis2=-1).sum()
    if off < 1e-3 * finite.sum():
        return "the values came back: each query met one key only, so is this the axis of the keys?"
    return ""


def other_layout(subject_of: Any, options: AuditOptions, dtype: str) -> Subject | None:
    """The function in a layout that is not the declared one, where it takes one."""
    for layout in LAYOUTS:
        if layout != options.layout and len(layout) == len(options.layout):
            try:
                return opened(subject_of, options, dtype, layout)
            except ProbeError:
                continue
    return None
