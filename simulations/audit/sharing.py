"""Whether an attention is right where several query heads share one head of keys and values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...stats.audit.findings import Finding
from .black_box import BlackBox
from .compared import compared
from .key_heads import in_its_order, served
from .subject import Subject

_TILED = (
    "Key head g serves query heads g, g + {0}, ... ({1} heads of q, {0} of k: tiled), where torch, "
    "JAX, transformers and their checkpoints let neighbours share it (repeat_interleave)."
)


def sharing_findings(subject: Subject, factor: float) -> list[Finding]:
    """What a function does with fewer heads of k than of q, where it takes them at all.

    Held against its own weights for keys that are repeated beforehand; heads in no known order are
    reported alone, since an array that is too short may be read anyhow.
    """
    heads, box = subject.options.heads, subject.box
    if "h" not in box.layout or heads % 2 or box.inner:
        return []
    if box.sharing > 1:
        return _of_order(box, heads)
    fewer = replace(box, sharing=2)
    q, k = subject.draw(subject.d_k)
    try:
        fewer = in_its_order(fewer, q, k)
        k = fewer.shared(k)
        seen, wanted = fewer.weights(q, k)[0], box.weights(q, k)[0]
        first = served(fewer, q, k)
    except (Exception, SystemExit):  # it may be made for as many heads of k as of q
        return []
    where = f"{heads} heads, {heads // 2} of k"
    if first != tuple(np.flatnonzero(fewer.key_heads(heads) == 0)):
        said = f"With {heads // 2} heads of k the first serves query heads {_listed(first)}."
        return [Finding("key heads", where, "measured", f"{said} It may not be made for that.")]
    found, room = compared(seen, wanted), 10 * subject.rtol
    measured = found.times(factor)
    said = f"With {heads // 2} heads of k weights are not those of keys repeated beforehand."
    if found.scaled(room):
        said = (
            f"The factor depends on the heads of k: {factor:.6g} with {heads} of them, "
            f"{measured:.6g} with {heads // 2}."
        )
    finding = Finding("key heads", where, "match", "", None, factor, measured, room)
    if found.off > room:
        cause = "factor-by-key-heads"
        finding = replace(finding, verdict="mismatch", said=said, cause=cause)
    return [finding, *(_of_order(fewer, heads) if fewer.tiled else [])]


def _of_order(box: BlackBox, heads: int) -> list[Finding]:
    few = len(set(box.key_heads(heads).tolist()))
    where = f"{heads} heads, {few} of k"
    if box.tiled:
        said = _TILED.format(few, heads)
        return [Finding("key heads", where, "mismatch", said, "key-heads-tiled")]
    return [Finding("key heads", where, "match")]


def _listed(heads: tuple[int, ...]) -> str:
    return ", ".join(map(str, heads)) or "none"
