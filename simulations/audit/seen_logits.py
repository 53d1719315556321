"""The logits of a black box: read off its weights, brought into range, fitted by q.k."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...stats.failures import InconclusiveError
from .black_box import Array, BlackBox

LEAST_WEIGHT = 1e-6  # smaller weights have lost their digits
LARGEST_LOGIT = 3.0
_LEAST_POINTS = 4
_ROUNDS = 16
_LARGEST_GROWTH = 2.0**12  # of q: factors down to 1e-4 of the expected one are told from 0


@dataclass(frozen=True, slots=True)
class SeenLogits:
    """Products and logits about their row means, over the keys that a row's weights show.

    `odd` is what changes sign with q, `even` what does not; `product` is q.k. All are 1-D over
    the points kept; a row's mean takes one of them. `q` and `k` are what was handed over, `saw_q`
    and `saw_k` those as the function saw them, and `kept` the points (head, query, key).
    """

    q: Array
    k: Array
    saw_q: Array
    saw_k: Array
    kept: NDArray[np.bool_]
    product: Array
    odd: Array
    even: Array
    mass: float
    points: int
    rounding: float

    @property
    def largest(self) -> float:
        """Largest logit about its row's mean, 0 where none was seen."""
        return float(np.abs(self.odd).max(initial=0.0))

    @property
    def intercept(self) -> float:
        """Root mean square of what is added whatever the query."""
        return float(np.sqrt(np.mean(self.even**2)))

    def fitted(self) -> tuple[float, float]:
        """The factor of q.k by least squares and the root mean square of what is left."""
        factor = float(self.product @ self.odd / (self.product @ self.product))
        return factor, float(np.sqrt(np.mean((self.odd - factor * self.product) ** 2)))

    def of_head(self, head: int) -> SeenLogits:
        """What one head shows of it."""
        kept = np.zeros_like(self.kept)
        kept[head] = self.kept[head]
        chosen = kept[self.kept]
        parts = {name: getattr(self, name)[chosen] for name in ("product", "odd", "even")}
        points = int(kept.sum() - kept.any(-1).sum())
        return replace(self, kept=kept, points=points, **parts)

    def centred(self, x: Array) -> Array:
        """A function of (head, query, key) at the points kept, about its row means over them."""
        return _centred(x, self.kept)


def _centred(x: Array, kept: NDArray[np.bool_]) -> Array:
    counts = np.maximum(kept.sum(-1, keepdims=True), 1)
    centred: Array = (x - np.where(kept, x, 0.0).sum(-1, keepdims=True) / counts)[kept]
    return centred


def seen_logits(box: BlackBox, q: Array, k: Array) -> SeenLogits:
    """The logits that q and -q make with k (both (head, length, d_k))."""
    plus, saw_q, saw_k, rounding = box.weights(q, k)
    minus = box.weights(-q, k)[0]
    kept = (plus >= LEAST_WEIGHT) & (minus >= LEAST_WEIGHT)
    kept &= kept.sum(-1, keepdims=True) > 1
    logs = [np.log(np.where(kept, p, 1.0)) for p in (plus, minus)]
    found = (saw_q @ saw_k.swapaxes(-1, -2), (logs[0] - logs[1]) / 2, (logs[0] + logs[1]) / 2)
    product, odd, even = (_centred(x, kept) for x in found)
    mass = float(np.nanmean(plus.sum(-1)))
    points = int(kept.sum() - kept.any(-1).sum())
    return SeenLogits(q, k, saw_q, saw_k, kept, product, odd, even, mass, points, rounding)


def seen_in_range(box: BlackBox, q: Array, k: Array) -> SeenLogits:
    """The logits with q shrunk, or grown, until the largest is between 1 and 3 or so.

    Raises InconclusiveError where too few of them can be seen however small q is.
    """
    growth, before = 1.0, math.inf
    for _ in range(_ROUNDS):
        seen = seen_logits(box, growth * q, k)
        largest = seen.largest
        if not seen.points:
            growth /= 8
            continue
        if largest > LARGEST_LOGIT:
            if largest > 0.9 * before:
                break  # smaller q make no smaller logits
            before = largest
            growth *= 2.0 ** -math.ceil(math.log2(largest / LARGEST_LOGIT))
        elif largest < LARGEST_LOGIT / 2 and growth < _LARGEST_GROWTH:
            room = LARGEST_LOGIT / max(largest, LARGEST_LOGIT / 256)
            growth = min(growth * 2.0 ** math.floor(math.log2(room)), _LARGEST_GROWTH)
        elif seen.kept.all() or _points(box, growth / 8 * q, k) <= 1.5 * seen.points:
            break
        else:
            growth /= 8  # only keys that happen to be near the largest are seen
    if seen.points < _LEAST_POINTS:
        raise InconclusiveError(
            f"the scale is inconclusive: {seen.points} logits seen, {_LEAST_POINTS} are needed; "
            "each query shows one key only, so take off masks and windows, or give a larger d_k"
        )
    return seen


def _points(box: BlackBox, q: Array, k: Array) -> int:
    return seen_logits(box, q, k).points


def unlike(box: BlackBox, seen: SeenLogits, floor: float) -> str:
    """What a function whose logits are no multiple of q.k seems to do, from a second look."""
    again = seen_logits(box, seen.q, seen.k)
    if len(again.odd) != len(seen.odd) or np.abs(again.odd - seen.odd).max() > 10 * floor:
        return "its outputs are random: is dropout on?"
    factor, residual = seen.fitted()
    quarter_factor, quarter_residual = seen_logits(box, seen.q / 4, seen.k).fitted()
    if abs(quarter_factor) > 2 * abs(factor):
        return "its logits do not grow with q: are queries normalised (QK-norm)?"
    if quarter_residual < residual / 10:
        return "its logits grow less than q does: a softcap (tanh)?"
    return (
        "its logits grow with q but are no multiple of q.k: are q and k rotated (RoPE), keys "
        "normalised, or products rounded more than their dtype (TF32)?"
    )
