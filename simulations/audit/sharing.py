"""Whether an attention is right where several query heads share one head of keys and values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...stats.audit.findings import Finding
from .black_box import Array, BlackBox
from .compared import compared
from .key_heads import in_its_order, served
from .subject import Subject

_ORDER = (
    "where torch, JAX, transformers and their checkpoints let neighbours share it "
    "(repeat_interleave)."
)


def order_findings(subject: Subject) -> list[Finding]:
    """The order of key heads in a function that is called with fewer of them."""
    return _of_order(subject.box, subject) if subject.box.sharing > 1 else []


def sharing_findings(subject: Subject, factor: float) -> list[Finding]:
    """What a function of as many heads of k as of q does with fewer, where it takes them.

    Held against its own outputs for keys and values that are repeated beforehand. An array that is
    too short may be read anyhow: only what else is right, in a known order, is judged. Nothing is
    tried where the heads of k were declared.
    """
    options, box = subject.options, subject.box
    if "h" not in box.layout or box.inner or box.sharing > 1 or options.n_kv_heads is not None:
        return []
    found = []
    for sharing in options.sharings[1:]:
        found += _shared(subject, replace(box, sharing=sharing), factor)
    return found


def _shared(subject: Subject, fewer: BlackBox, factor: float) -> list[Finding]:
    q, k = subject.draw(subject.d_k)
    room = 10 * subject.rtol
    try:
        fewer = in_its_order(fewer, q, k)
        k = fewer.shared(k)
        first = served(fewer, q, k)
        seen, wanted = fewer.weights(q, k)[0], subject.box.weights(q, k)[0]
        off = _of_values(subject, fewer, q, k)
    except (Exception, SystemExit):  # it may be made for as many heads of k as of q
        return []
    found, where = compared(seen, wanted), _where(fewer, len(q))
    known = first == tuple(np.flatnonzero(fewer.key_heads(len(q)) == 0))
    if not known or not (found.off <= room or found.scaled(room)):
        said = f"With {where} weights are not those of keys repeated beforehand: it may not be "
        return [Finding("key heads", where, "measured", f"{said}made for that.", "own-key-heads")]
    measured = found.times(factor)
    numbers = factor, measured, room
    if found.off > room:
        said = f"The factor depends on the heads of k: {factor:.6g} with {len(q)} of them, "
        said += f"{measured:.6g} with {where}."
        return [Finding("key heads", where, "mismatch", said, "factor-by-key-heads", *numbers)]
    if off > 10 * room:
        said = f"With {where} the heads of v are not shared as those of k."
        return [Finding("key heads", where, "mismatch", said, "value-heads", 0.0, off, 10 * room)]
    if fewer.tiled:
        return _of_order(fewer, subject)
    return [Finding("key heads", where, "match", "", None, *numbers)]


def _of_values(subject: Subject, fewer: BlackBox, q: Array, k: Array) -> float:
    """How far outputs are off those of values that are repeated beforehand, of the largest."""
    rng = np.random.default_rng((subject.options.chosen_seed, 5))
    v = fewer.shared(rng.standard_normal(k.shape))
    out, wanted = fewer.call(q, k, v).out, subject.box.call(q, k, v).out
    there = np.isfinite(wanted)
    return float(np.abs(np.where(there, out - wanted, 0.0)).max() / np.abs(wanted[there]).max())


def _of_order(box: BlackBox, subject: Subject) -> list[Finding]:
    q, k = subject.draw(subject.d_k)
    first = served(box, q, box.shared(k))
    where = _where(box, len(q))
    if box.tiled:
        said = (
            f"Key heads are tiled over query heads ({where}: the first serves {_listed(first)}), "
        )
        return [Finding("key heads", where, "mismatch", f"{said}{_ORDER}", "key-heads-tiled")]
    if first != tuple(np.flatnonzero(box.key_heads(len(q)) == 0)):
        said = f"The first key head serves query heads {_listed(first)} ({where}), {_ORDER}"
        return [Finding("key heads", where, "mismatch", said, "key-heads-order")]
    return [Finding("key heads", where, "match")]


def _where(box: BlackBox, heads: int) -> str:
    return f"{heads} heads, {len(set(box.key_heads(heads).tolist()))} of k"


def _listed(heads: tuple[int, ...]) -> str:
    return ", ".join(map(str, heads)) or "none"
