"""The logit of every query with every key by itself, and factors that depend on their places.

Weights show logits up to a constant of each row. Keys of odd places are turned over while those of
even ones stay, then the other way round: what changes against the keys that stay is twice a logit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .black_box import Array, BlackBox, Mask
from .seen_logits import LEAST_WEIGHT, SeenLogits

Change = Callable[[Array], Array]
_SAME = 1e-3  # factors closer than this, relative to the largest, are one


@dataclass(frozen=True, slots=True)
class PairLogits:
    """Logits (call, head, query, key) of single pairs, 0 where `kept` is false; q and k as seen."""

    logits: Array
    q: Array
    k: Array
    kept: Mask


def pair_logits(box: BlackBox, like: SeenLogits, calls: int) -> PairLogits:
    """The logits of pairs drawn anew for each call, as large as those of `like`."""
    rng = np.random.default_rng(calls)
    found = []
    for _ in range(calls):
        q, k = (rng.standard_normal(x.shape) * np.sqrt((x**2).mean()) for x in (like.q, like.k))
        found.append(_of_call(box, q, box.shared(k)))
    logits, saw_q, saw_k = (np.stack(arrays) for arrays in zip(*found, strict=True))
    kept = np.isfinite(logits)
    return PairLogits(np.where(kept, logits, 0.0), saw_q, saw_k, kept)


def _of_call(box: BlackBox, q: Array, k: Array) -> tuple[Array, Array, Array]:
    weights, saw_q, saw_k, _ = box.weights(q, k)
    logits = np.full(weights.shape, np.nan)
    for first in (0, 1):
        over = k.copy()
        over[:, first::2] *= -1
        turned = box.weights(q, over)[0]
        kept = (weights >= LEAST_WEIGHT) & (turned >= LEAST_WEIGHT)
        change = np.where(kept, np.log(weights / turned), np.nan) / 2
        stayed = np.nanmean(change[..., 1 - first :: 2], -1, keepdims=True)
        logits[..., first::2] = change[..., first::2] - stayed
    return logits, saw_q, saw_k


def enough_calls(seen: SeenLogits) -> int:
    """Calls that give four logits to each element of q at every distance but the longest."""
    heads, keys, d_k = seen.saw_q.shape
    least: int = math.ceil(4 * d_k / (heads * (keys - 1)))
    return least + 2


@dataclass(frozen=True, slots=True)
class PlaceFactors:
    """What a factor that is not everywhere the same depends on, and its two ends."""

    axis: str
    low: float
    high: float
    where: tuple[int, int]


def by_place(box: BlackBox, seen: SeenLogits, floor: float) -> PlaceFactors | None:
    """Factors of q.k that depend on the query, on the key or on both; None where q.k is not it."""
    pairs = pair_logits(box, seen, enough_calls(seen))
    product = np.where(pairs.kept, pairs.q @ pairs.k.swapaxes(-1, -2), 0.0)
    below = (product**2).sum((0, 1))
    factors = np.where(
        below > 0, (product * pairs.logits).sum((0, 1)) / np.where(below, below, 1), np.nan
    )
    left = (pairs.logits - np.nan_to_num(factors) * product)[pairs.kept]
    if not left.size or np.sqrt(np.mean(left**2)) > 10 * floor:
        return None
    allowed = _SAME * np.nanmax(np.abs(factors))
    for axis, other in (("query", 1), ("key", 0)):
        seen_there = np.isfinite(factors).any(other)
        rows = factors if other else factors.T
        rows = rows[seen_there]
        if (np.nanmax(rows, 1) - np.nanmin(rows, 1)).max() <= allowed:
            each, places = np.nanmean(rows, 1), np.flatnonzero(seen_there)
            low, high = int(np.argmin(each)), int(np.argmax(each))
            where = int(places[low]), int(places[high])
            return PlaceFactors(axis, float(each[low]), float(each[high]), where)
    return PlaceFactors("distance", float(np.nanmin(factors)), float(np.nanmax(factors)), (0, 0))
