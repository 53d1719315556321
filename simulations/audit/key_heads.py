"""Which query heads meet which head of keys, where there are fewer of these.

Grouped-query attention lets neighbouring query heads share a key head, multi-query attention all of
them. Changing one key head alone shows the query heads that it serves, whatever the logits are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .black_box import Array, BlackBox


def served(box: BlackBox, q: Array, k: Array) -> tuple[int, ...]:
    """The query heads whose weights change with the first key head."""
    other = k.copy()
    other[box.key_heads(len(k)) == 0] = k[box.key_heads(len(k)) == 0][:, ::-1] * 0.5
    before, after = (box.weights(q, keys)[0] for keys in (k, other))
    changed = (np.nan_to_num(before) != np.nan_to_num(after)).any((-1, -2))
    return tuple(np.flatnonzero(changed).tolist())


def in_its_order(box: BlackBox, q: Array, k: Array) -> BlackBox:
    """The box with key heads tiled where the function takes them so; q, k of all heads."""
    if box.sharing == 1 or len(q) <= box.sharing:
        return box
    tiled = replace(box, tiled=True)
    tiles = tuple(np.flatnonzero(tiled.key_heads(len(q)) == 0).tolist())
    return tiled if served(box, q, box.shared(k)) == tiles else box
