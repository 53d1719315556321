"""How logits answer as q.k grows along one direction: where a cap or a clip shows."""

from __future__ import annotations

import numpy as np

from ...stats.arrays import ROUNDING
from ...stats.audit.curves import Curve, curve_of
from .black_box import Array, BlackBox

LARGEST = 60.0  # exp(-60) is still a float32


def response(box: BlackBox, like: Array, factor: float, largest: float = LARGEST) -> Curve:
    """How logits as large as `largest` answer to products along one direction, about `factor`.

    `like` has the shape (head, length, d_k) of the queries and keys.
    """
    x, y, rounding = answers(box, like, factor, largest)
    if len(x) < like.shape[1] // 2:
        return Curve("linear", factor)  # too few are seen to say otherwise
    return curve_of(x, y, max(rounding, ROUNDING["float32"]))


def answers(
    box: BlackBox, like: Array, factor: float, largest: float
) -> tuple[Array, Array, float]:
    """Products along one direction, growing in size, logits of the first head, the unit roundoff.

    Each query meets a key of its own position, every other key is 0 and has logit 0: so rotations
    by position and windows of two keys or more do not matter.
    """
    keys, d_k = like.shape[1:]
    u = np.where(np.arange(d_k) % 2, 1.0, -1.0)
    steps = (np.arange(1, keys + 1) / keys) ** 2 * largest / abs(factor) / d_k
    x, y = np.empty(keys), np.empty(keys)
    for first in (0, 1):
        own = np.arange(first, keys, 2)
        q, k = np.zeros(like.shape), np.zeros(like.shape)
        q[:, own], k[:, own] = steps[own, None] * u, -u
        plus, saw_q, saw_k, rounding = box.weights(q, k)
        minus = box.weights(-q, k)[0]
        logs = (np.log(plus[0]) - np.log(minus[0])) / 2
        at_zero = logs[:, 1 - first :: 2]
        at_zero = np.where(np.isfinite(at_zero), at_zero, np.nan)
        x[own] = (saw_q[0, own] * saw_k[0, own]).sum(-1)
        y[own] = logs[own, own] - np.nanmean(at_zero[own], -1)
    kept = np.isfinite(y)
    return x[kept], y[kept], rounding
