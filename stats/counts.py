"""Counts in fixed bins: exact, mergeable in any order, and enough for a median.

A value's bin is the upper half of its float32 bit pattern, so that bins are at most 1/128 of
their value wide, reach down to the smallest positive float32, and no rounding moves their bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DROPPED_BITS = 16
BINS = 0x3F80  # up to 1.0 exclusive


@dataclass(frozen=True, slots=True)
class BinCounts:
    """How many of `count` values in [0, 1) fell into each bin.

    Examples:
        >>> counts = BinCounts.of([0.1, 0.2, 0.4])
        >>> abs(counts.quantile(0.5) / 0.2 - 1) < 1 / 128
        True

    """

    bins: NDArray[np.int64]

    @classmethod
    def of(cls, values: object) -> BinCounts:
        """Counts of an array of values, in float32."""
        patterns = np.asarray(values, np.float32).view(np.int32) >> DROPPED_BITS
        return cls(np.bincount(np.clip(patterns, 0, BINS - 1), minlength=BINS))

    @property
    def count(self) -> int:
        """Values counted."""
        return int(self.bins.sum())

    def merge(self, other: BinCounts) -> BinCounts:
        """Counts of both samples together."""
        return BinCounts(self.bins + other.bins)

    def quantile(self, share: float) -> float:
        """Value below which `share` of the sample lies, interpolated within its bin."""
        cumulative = np.cumsum(self.bins, dtype=np.int64)
        if cumulative[-1] == 0:
            raise ValueError("counts must hold at least one value, got none; draw some rows")
        rank = share * float(cumulative[-1])
        bin_ = int(np.searchsorted(cumulative, rank, side="left"))
        before = float(cumulative[bin_ - 1]) if bin_ else 0.0
        edges = (np.array([bin_, bin_ + 1], np.uint32) << DROPPED_BITS).view(np.float32)
        low, high = (float(edge) for edge in edges)
        if bin_ == 0:
            return 0.0  # the bin of 0 holds what no float32 is small enough for
        return low + (high - low) * (rank - before) / max(float(self.bins[bin_]), 1.0)

    def median(self) -> tuple[float, float]:
        """The median and its replicate sd, from the ranks one binomial error to either side.

        The number of values below the median is binomial with standard error sqrt(N) / 2; where in
        its bin the median lies is known only as a uniform on it would be.
        """
        n, middle = self.count, self.quantile(0.5)
        step = min(0.5 / math.sqrt(n), 0.5)
        half = (self.quantile(0.5 + step) - self.quantile(0.5 - step)) / 2
        return middle, math.sqrt(n) * math.hypot(half, _bin_width(middle) / math.sqrt(12))


def _bin_width(value: float) -> float:
    """Width of the bin of a value: 2^-7 of the power of two below it."""
    return math.ldexp(1.0, math.frexp(value)[1] - 8) if value else 0.0
