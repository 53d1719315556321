"""Queries and keys that are rotated by their position (RoPE): the angles, read off the logits.

A rotation turns pairs of elements by an angle that grows with the position, so that a logit is
`factor sum_m (dot_m cos((i - j) a_m) + cross_m sin((i - j) a_m))` over the pairs m. The angles come
from neighbours (i - j = 1), where this is linear, and are then fitted to all pairs of places.
What can go wrong: rotations that are not a function of the distance (2-D RoPE) are not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .black_box import Array, BlackBox
from .places import PairLogits, enough_calls, pair_logits
from .seen_logits import SeenLogits, seen_in_range

Change = Callable[[Array], Array]
_OWN_CALLS = 4
_ROUNDS = 3  # of Gauss and Newton, from angles that are right to 1e-6


def own_place(pairs: PairLogits, prepared: Change, unlinked: Change) -> tuple[float, float]:
    """The factor of products with the key of the own place, and the rms of what is left.

    Rotations leave these as they are. `prepared` is done to q and k before the product, and
    `unlinked` undoes what is done to logits after it.
    """
    kept = np.diagonal(pairs.kept, axis1=-2, axis2=-1)
    x = (prepared(pairs.q) * prepared(pairs.k)).sum(-1)[kept]
    y = unlinked(np.diagonal(pairs.logits, axis1=-2, axis2=-1))[kept]
    if len(x) < 2:
        return 0.0, np.inf
    factor = float(x @ y / (x @ x))
    return factor, float(np.sqrt(np.mean((y - factor * x) ** 2)))


def read_rotated(box: BlackBox, q: Array, k: Array, prepared: Change) -> float:
    """The factor of products with the key of the own place."""
    pairs = pair_logits(box, seen_in_range(box, q, k), _OWN_CALLS)
    return own_place(pairs, prepared, lambda y: y)[0]


def rotated_product(
    box: BlackBox, seen: SeenLogits, floor: float, prepared: Change, unlinked: Change
) -> tuple[bool, Callable[[Array, Array], Array] | None]:
    """Whether products with the own key have one factor, and the product that gives all logits.

    The product is None where no rotation by the distance alone explains every logit.
    """
    pairs = pair_logits(box, seen, enough_calls(seen))
    if own_place(pairs, prepared, unlinked)[1] > 10 * floor:
        return False, None
    q, k, logits = prepared(pairs.q), prepared(pairs.k), unlinked(pairs.logits)
    for mates in _pairings(q.shape[-1]):
        first = _neighbours(q, k, logits, pairs, mates, floor)
        if first is None:
            continue
        angles, left = _fitted(q, k, logits, pairs, mates, first)
        if left <= 10 * floor:
            return True, partial(_product, prepared=prepared, mates=mates, angles=angles)
    return True, None


Mates = tuple[NDArray[np.int64], NDArray[np.int64]]


def _pairings(d_k: int) -> Iterator[Mates]:
    """Which elements are turned together: neighbours, or halves of d_k or of an end of it."""
    yield np.arange(0, d_k - 1, 2), np.arange(1, d_k, 2)
    for turned in (d_k - d_k % 2, *range(d_k - 2 - d_k % 2, 1, -2)):
        for start in dict.fromkeys((0, d_k - turned)):
            low = np.arange(start, start + turned // 2)
            yield low, low + turned // 2


def _neighbours(
    q: Array, k: Array, logits: Array, pairs: PairLogits, mates: Mates, floor: float
) -> Array | None:
    """Angles of one step from the logits of each query with the key before it."""
    kept = np.diagonal(pairs.kept, -1, -2, -1)
    x, z = q[..., 1:, :][kept], k[..., :-1, :][kept]
    y = np.diagonal(logits, -1, -2, -1)[kept]
    table = np.concatenate([x * z, _cross(x, z, mates)], -1)
    if len(y) < table.shape[1] + 8:
        return None
    found, *_ = np.linalg.lstsq(table, y, rcond=None)
    if np.sqrt(np.mean((y - table @ found) ** 2)) > 10 * floor:
        return None
    dots = (found[mates[0]] + found[mates[1]]) / 2
    angles: Array = np.arctan2(found[x.shape[-1] :], dots)
    return angles


def _cross(x: Array, z: Array, mates: Mates) -> Array:
    one, two = mates
    crossed: Array = x[..., one] * z[..., two] - x[..., two] * z[..., one]
    return crossed


def _fitted(
    q: Array, k: Array, logits: Array, pairs: PairLogits, mates: Mates, angles: Array
) -> tuple[Array, float]:
    """Angles of one step by least squares over all places, and the rms of what is left."""
    calls, heads, rows, columns = np.nonzero(pairs.kept)
    x, z = q[calls, heads, rows], k[calls, heads, columns]
    y = logits[pairs.kept]
    steps = (rows - columns)[:, None]
    one, two = mates
    dot, cross = x[:, one] * z[:, one] + x[:, two] * z[:, two], _cross(x, z, mates)
    alone = (x * z).sum(-1) - dot.sum(-1)  # elements that are not turned
    for _ in range(_ROUNDS):
        c, s = np.cos(steps * angles), np.sin(steps * angles)
        product = alone + (dot * c + cross * s).sum(-1)
        factor = float(product @ y / (product @ product))
        left = y - factor * product
        table = factor * steps * (cross * c - dot * s)
        angles = angles + np.linalg.lstsq(table, left, rcond=None)[0]
    return angles, float(np.sqrt(np.mean(left**2)))


def _product(q: Array, k: Array, prepared: Change, mates: Mates, angles: Array) -> Array:
    """The products (head, query, key) of rotated queries and keys."""

    def turned(x: Array) -> Array:
        one, two = mates
        phases = np.arange(x.shape[-2])[:, None] * angles
        c, s, out = np.cos(phases), np.sin(phases), x.copy()
        out[..., one] = x[..., one] * c - x[..., two] * s
        out[..., two] = x[..., one] * s + x[..., two] * c
        return out

    return turned(prepared(q)) @ turned(prepared(k)).swapaxes(-1, -2)
