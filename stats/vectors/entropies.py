"""What softmax makes of the same logits under several factors, in one pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MOST_LOGITS = 2**22
SATURATED = 0.99  # of a row's largest probability


@dataclass(frozen=True, slots=True)
class RowFigures:
    """Means over rows at one factor: entropy in nats, largest probability, share saturated."""

    factor: float
    entropy: float
    max_prob: float
    saturated: float


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass: figures at each factor, rows seen, the variance of the plain logits.

    `whole` says whether every row was seen.
    """

    figures: tuple[RowFigures, ...]
    rows: int
    whole: bool
    variance: float


def forward(q: Array, k: Array, factors: Sequence[float]) -> Pass:
    """Softmax statistics of q (L, n, d_k) on k (L, m, d_k) with the logits times each factor.

    No more than about `MOST_LOGITS` logits are formed: rows evenly apart, of every leading index.

    Examples:
        >>> q = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
        >>> seen = forward(q, np.stack([np.eye(2)] * 2), [0.0, math.log(3)])
        >>> [round(figures.max_prob, 12) for figures in seen.figures], seen.variance
        ([0.5, 0.75], 0.25)

    """
    leading, n, m = q.shape[0], q.shape[1], k.shape[1]
    wanted = max(MOST_LOGITS // m, 1)
    places = _evenly(n, max(wanted // leading, 1))
    chosen = _evenly(leading, max(wanted // len(places), 1))
    sums, moments = np.zeros((len(factors), 3)), np.zeros(3)
    shift = float((q.mean((0, 1)) * k.mean((0, 1))).sum())  # any: it keeps squares from cancelling
    for index in chosen:
        logits = q[index, places] @ k[index].T
        off = logits - shift
        moments += logits.size, off.sum(), (off * off).sum()
        logits -= logits.max(axis=1, keepdims=True)
        for row, factor in zip(sums, factors, strict=True):
            row += _row_sums(logits if factor >= 0 else -logits, abs(factor))
    rows = len(chosen) * len(places)
    figures = tuple(RowFigures(f, *(s / rows).tolist()) for f, s in zip(factors, sums, strict=True))
    variance = moments[2] / moments[0] - (moments[1] / moments[0]) ** 2
    return Pass(figures, rows, rows == leading * n, float(variance))


def _evenly(count: int, most: int) -> Array:
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _row_sums(logits: Array, factor: float) -> Array:
    """Sums over rows of entropy, largest probability and saturation; the largest logit is 0."""
    scaled = factor * (logits - logits.max(axis=1, keepdims=True))
    weights = np.exp(scaled)
    total = weights.sum(axis=1)
    entropy = np.log(total) - (weights * scaled).sum(axis=1) / total
    top = 1 / total
    return np.array([entropy.sum(), top.sum(), (top > SATURATED).sum()])


def reference_entropy(d_k: int, n_keys: int, factor: float) -> float | None:
    """Entropy that unit normal q and k of this many keys would give, None with one key."""
    from ..cases import Case
    from ..predict import predict

    if n_keys < 2 or not math.isfinite(factor):
        return None
    case = Case(d_k, n_keys, scale=f"multiplier:{factor!r}")
    value = predict(case, "entropy").value
    return value if isinstance(value, float) else None
