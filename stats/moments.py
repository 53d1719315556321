"""Mergeable moments: count, mean and centred sums, in float64.

What can go wrong: raw power sums cancel when the mean is large, and running float32 totals lose
digits. Blocks are therefore centred on their own mean and merged exactly (Pebay 2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, mean and centred sums of one measured variable.

    `sums[r - 2]` is `sum_i (x_i - mean)^r` for r = 2, 3, ... `order`.

    Examples:
        >>> a, b = Moments.of([1.0, 2.0]), Moments.of([3.0, 6.0])
        >>> merged = a.merge(b)
        >>> merged.count, merged.mean, merged.sums[0]
        (4, 3.0, 14.0)

    """

    count: int
    mean: float
    sums: tuple[float, ...]

    @classmethod
    def of(cls, values: object, order: int = 2) -> Moments:
        """Moments of an array of values, one per replicate."""
        import numpy as np

        x = np.asarray(values, dtype=np.float64).ravel()
        if x.size == 0:
            return cls(0, 0.0, (0.0,) * (order - 1))
        mean = float(x.mean())
        centred = power = x - mean
        sums = []
        for _ in range(2, order + 1):
            power = power * centred  # ten times faster than a power function
            sums.append(float(power.sum()))
        return cls(x.size, mean, tuple(sums))

    @property
    def order(self) -> int:
        """Highest order of centred sum kept."""
        return len(self.sums) + 1

    def merge(self, other: Moments) -> Moments:
        """Moments of the two samples together, exact up to rounding.

        With `delta = mean_b - mean_a` each sample's values are shifted onto the common mean:
        `S_p = sum_j C(p, j) (-d_a)^j S_a,p-j + the same for b` (Pebay 2008, eq. 2.1).
        """
        if other.count == 0:
            return self
        if self.count == 0:
            return other
        if self.order != other.order:
            raise ValueError(
                f"merged moments must be of one order, got {self.order}, {other.order}"
            )
        count = self.count + other.count
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.count / count)
        shifts = (self.mean - mean, other.mean - mean)
        sums = tuple(
            _shifted_sum(self, shifts[0], r) + _shifted_sum(other, shifts[1], r)
            for r in range(2, self.order + 1)
        )
        return Moments(count, mean, sums)

    def scaled(self, factor: float) -> Moments:
        """Moments of `factor * x`."""
        sums = tuple(s * factor**r for r, s in enumerate(self.sums, start=2))
        return Moments(self.count, self.mean * factor, sums)

    def central(self, r: int) -> float:
        """Central moment `m_r = S_r / count`."""
        return self.sums[r - 2] / self.count

    def standardised(self, r: int) -> float:
        """Standardised moment `m_r / m_2^(r/2)` (0 and 1 for r = 1 and 2)."""
        if r <= 2:
            return (1.0, 0.0, 1.0)[r]
        return self.central(r) / math.pow(self.central(2), r / 2)


def _shifted_sum(m: Moments, shift: float, p: int) -> float:
    """`sum (x - mean + shift)^p`: the linear term vanishes since x is centred."""
    total = m.count * shift**p
    for j in range(p - 1):
        total += math.comb(p, j) * shift**j * m.sums[p - j - 2]
    return total
