"""The factor of queries and keys that are rotated by their position (RoPE).

A rotation leaves the product of a query with the key at its own position as it is. With every
other key zero, whose logits are 0, it is seen alone: `log p_i - log p_0 = factor q_i.k_i`.
"""

from __future__ import annotations

import numpy as np

from .black_box import Array, BlackBox
from .seen_logits import seen_in_range

_CALLS = 8


def same_position(box: BlackBox, q: Array, k: Array) -> tuple[float, float]:
    """The factor of products at the last position, and the rms of what is left of the logits.

    q and k are (head, length, d_k), q small enough for logits to be seen.
    """
    products, logits = [], []
    for call in range(_CALLS):
        alone = np.zeros_like(k)
        alone[:, -1] = k[:, call % k.shape[1]]
        plus, saw_q, saw_k, _ = box.weights(q, alone)
        minus = box.weights(-q, alone)[0]
        logs = (np.log(plus[:, -1]) - np.log(minus[:, -1])) / 2
        products.append((saw_q[:, -1] * saw_k[:, -1]).sum(-1))
        logits.append(logs[:, -1] - logs[:, 0])
    x, y = np.concatenate(products), np.concatenate(logits)
    factor = float(x @ y / (x @ x))
    return factor, float(np.sqrt(np.mean((y - factor * x) ** 2)))


def read_rotated(box: BlackBox, q: Array, k: Array) -> float:
    """The factor alone, with q brought into range first."""
    return same_position(box, seen_in_range(box, q, k).q, k)[0]
