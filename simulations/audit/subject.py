"""The function under audit, opened: how it is called, and what is drawn for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from ...stats.arrays import LAYOUTS, ROUNDING
from ...stats.audit.options import AuditOptions
from ...stats.checks import InputError
from .black_box import Array, BlackBox, ProbeError
from .key_heads import in_its_order
from .opening import array_makers, open_box

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
        drawn[1] = self.box.shared(drawn[1])
        return drawn

    def given(self, more: Mapping[str, Any]) -> Subject:
        """The same function with further arguments."""
        return replace(self, box=replace(self.box, more={**self.box.more, **more}))

    @property
    def fewer_heads(self) -> int:
        """The next smaller number of heads that still share key heads alike; 0 for none."""
        heads, sharing = self.options.heads, self.box.sharing
        return heads - (sharing if heads > sharing else 1)

    @property
    def axes(self) -> str:
        """The layout with its axes in words."""
        axes = AXES | ({"d": f"{self.box.inner} heads x d_k"} if self.box.inner else {})
        single = ", one query at a time" if self.box.single else ""
        return f"{self.box.layout} ({', '.join(axes[axis] for axis in self.box.layout)}){single}"


def opened(
    attention: Any, options: AuditOptions, dtype: str, layout: str | None = None, kind: str = ""
) -> Subject:
    """The function, opened at the first head dimension that it takes, 64 before others.

    `layout` and `kind` of arrays are what is known of it. Raises ProbeError, with what each attempt
    met, where it takes none.
    """
    sizes = sorted(options.sizes, key=lambda size: (size != 64, -size))
    layout = layout or options.layout
    failed: dict[tuple[str, ...], ProbeError] = {}
    makers = array_makers(dtype, kind)
    for (blank, layouts), size in product(_ways(attention, options, layout), sizes[:3]):
        rtol = 1e-5 if dtype in ("float32", "float64") else 1e-2
        subject = Subject(attention, BlackBox(attention), options, size, rtol)
        q, k = subject.draw(size)
        try:
            box = open_box(blank, q, k, layouts, makers, refusal)
        except ProbeError as error:
            failed.setdefault(layouts, error)
            continue
        box = in_its_order(box, q, k)
        coarse = box.weights(q, box.shared(k))[3] > ROUNDING["float32"]  # returned may be half
        found = replace(subject, box=box, rtol=1e-2 if coarse else rtol)
        whole = box.sharing == 1 and not box.single
        return _with_heads_inside(found, layout) if whole else found
    raise failed[max(failed, key=len)]


def _ways(
    attention: Any, options: AuditOptions, layout: str
) -> Iterator[tuple[BlackBox, tuple[str, ...]]]:
    """Heads of k that are shared or not, and layouts; last, one query at a time.

    Layouts without heads come after all with heads: keys that a function repeats for its heads
    would be repeated along the length there.
    """
    layouts = LAYOUTS if layout == "auto" else (layout,)
    with_heads = tuple(name for name in layouts if "h" in name)
    declared = options.n_kv_heads is not None
    if declared and not with_heads:
        raise InputError(f"n_kv_heads needs a layout with heads, bhld or blhd, got {layout}")
    for single in (False, True):
        for sharing in options.sharings if with_heads else ():
            yield BlackBox(attention, sharing=sharing, single=single), with_heads
        if not declared:
            yield BlackBox(attention, single=single), layouts


def _with_heads_inside(subject: Subject, layout: str) -> Subject:
    """The function with the heads that it makes of its last axis by itself, if it makes any.

    Arrays with an axis of heads may pass through such a function by chance of their sizes, so that
    where the layout is not declared the one without is tried as well.
    """
    names = ("bld",) if layout == "auto" and "h" in subject.box.layout else (subject.box.layout,)
    for name in names:
        if "h" in name:
            continue
        box = replace(subject.box, layout=name)
        q, k = subject.draw(subject.d_k)
        with suppress(Exception, SystemExit):  # it may want an axis of heads
            if (inner := heads_inside(box, q, k)) < 2:
                continue
            options = replace(subject.options, n_heads=inner)
            merged = replace(subject, box=replace(box, inner=inner), options=options)
            return merged if _takes(merged) else _of_one_width(merged)
    return subject


def _takes(subject: Subject) -> bool:
    """Whether the function takes arrays of the subject's d_k."""
    with suppress(Exception, SystemExit):
        subject.box.weights(*subject.draw(subject.d_k))
        return True
    return False


def _of_one_width(merged: Subject) -> Subject:
    """A function that makes heads inside of the one width that it was opened at."""
    size = merged.d_k // merged.box.inner
    options = replace(merged.options, dk=(str(size),))
    return replace(merged, d_k=size, options=options)


def heads_inside(box: BlackBox, q: Array, k: Array) -> int:
    """How many equal parts of the output's last axis have weights of their own.

    One key's values are 1 throughout and the others' 0, so that each number of the output is that
    key's weight in the head that it belongs to.
    """
    values = np.zeros_like(k)
    values[:, k.shape[1] // 2] = 1.0
    seen = box.call(q, k, values)
    out, width = seen.out[0], k.shape[-1]
    room = 16 * seen.rounding * np.abs(out).max()
    edges = np.flatnonzero((np.abs(np.diff(out, axis=-1)) > room).any(0)) + 1
    heads = len(edges) + 1
    even = width % heads == 0 and np.array_equal(edges, np.arange(1, heads) * (width // heads))
    return heads if even else 1


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
