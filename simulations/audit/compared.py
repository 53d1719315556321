"""Weights held against others that should be the same, and the factor between their logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .black_box import Array, Mask
from .seen_logits import LEAST_WEIGHT


def about_means(x: Array, kept: Mask) -> Array:
    """An array about its row means over the points kept, and 0 elsewhere."""
    counts = np.maximum(kept.sum(-1, keepdims=True), 1)
    means = np.where(kept, x, 0.0).sum(-1, keepdims=True) / counts
    centred: Array = np.where(kept, x - means, 0.0)
    return centred


@dataclass(frozen=True, slots=True)
class Compared:
    """`off` is the largest difference of log weights, inf where other keys are seen.

    `slope` is what multiplies the logits of the one to give those of the other, None where no row
    shows two keys; `left` is the root mean square of what that leaves.
    """

    off: float
    slope: float | None
    left: float

    def scaled(self, room: float) -> bool:
        """Whether they differ by a factor of the logits alone."""
        return self.slope is not None and self.left <= room and abs(self.slope - 1) > room

    def times(self, factor: float) -> float | None:
        """The factor of the one where `factor` is that of the other."""
        return None if self.slope is None else factor * self.slope


def compared(weights: Array, wanted: Array) -> Compared:
    """Weights (head, query, key) beside those wanted; rows that are nan in both are the same.

    Examples:
        >>> x = np.array([[[0.3, 0.1, -0.6], [0.0, 1.0, 0.5]]])
        >>> once, twice = (np.exp(n * x) / np.exp(n * x).sum(-1, keepdims=True) for n in (1, 2))
        >>> round(compared(twice, once).slope, 12)
        2.0

    """
    seen, there = (np.nan_to_num(x) >= LEAST_WEIGHT for x in (weights, wanted))
    kept = seen & there
    logs = [np.log(np.where(kept, x, 1.0)) for x in (weights, wanted)]
    y, x = (about_means(log, kept) for log in logs)
    slope, left = _fit(y, x, kept)
    clearly = (np.nan_to_num(x) >= 10 * LEAST_WEIGHT for x in (weights, wanted))
    hidden = any((sure & ~other).any() for sure, other in zip(clearly, (there, seen), strict=True))
    off = np.inf if hidden else float(np.abs(logs[0] - logs[1]).max(initial=0.0))
    return Compared(off, slope, left)


def _fit(y: Array, x: Array, kept: Mask) -> tuple[float | None, float]:
    """The slope of y on x by least squares, and the root mean square of the rest."""
    below = float((x * x).sum())
    slope = float((x * y).sum() / below) if below else None
    left = y - (slope or 0.0) * x
    return slope, float(np.sqrt((left**2).sum() / max(int(kept.sum()), 1)))


def odd_factor(few: tuple[Array, Array], all_of_them: tuple[Array, Array]) -> Compared:
    """The same of that part of the logits which turns over with q; the weights are for q and -q.

    Masks and biases drop out of it, and `off` counts no keys that are not seen.
    """
    kept = np.all([np.nan_to_num(x) >= LEAST_WEIGHT for x in (*few, *all_of_them)], axis=0)
    logs = [[np.log(np.where(kept, x, 1.0)) for x in pair] for pair in (few, all_of_them)]
    y, x = (about_means((plus - minus) / 2, kept) for plus, minus in logs)
    slope, left = _fit(y, x, kept)
    return Compared(float(np.abs(y - x).max(initial=0.0)), slope, left)
