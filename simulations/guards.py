"""Guards against a broken generator: they end a run and never touch a verdict.

A kernel that ignores its block index, or blocks that share draws, would make error bars too small
while every mean stays right. Each guard has a false-alarm rate of 1e-9.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtr, fdtrc, pdtrc

from ..stats.moments import Moments

FALSE_ALARM = 1e-9
_HEAVIEST = 0.01  # excess kurtosis of a block mean that moves the tail at 1e-9 by a factor 2 or 3
_SMALLEST = 32  # replicates of a block below which that kurtosis cannot be told


class BrokenGenerator(RuntimeError):
    """Blocks are not independent draws of one law: an internal error, whatever the theory."""


class Guard:
    """Both guards over the full blocks of one variable, in bounded memory.

    Args:
        block: replicates in a full block.
        lattice: the variable takes few values, so that equal blocks happen by chance.
        what: the cell, for the message.
        resolution: a spread below this share of the mean is rounding, which says nothing of draws.

    """

    def __init__(self, block: int, *, lattice: bool, what: str, resolution: float = 0.0) -> None:
        self._block, self._lattice, self._what = block, lattice, what
        self._resolution = resolution
        self._means = Moments(0, 0.0, (0.0,))
        self._powers = np.zeros(3)  # totals of S_2, S_3 and S_4
        self._distinct = Distinct()

    def add(self, rows: NDArray[np.float64]) -> None:
        """Blocks' sums [blocks, columns]: count, a centre c, sums of (x - c)^r for r = 1, 2, ..."""
        count, centre, first = rows[:, :3].T
        means = centre + first / np.maximum(count, 1)
        full = (count == self._block) & (rows[:, 3] > 0)
        about = rows[full, 3:6].sum(0)
        self._powers[: len(about)] += about
        self._means = self._means.merge(Moments.of(means[full]))
        self._distinct.add(np.column_stack([means[full], rows[full, 3:]]))

    def check(self) -> None:
        """BrokenGenerator where the blocks are not independent draws of one law."""
        n, block = self._means.count, self._block
        if n < 2:
            return
        variance = self._powers[0] / (n * (block - 1))
        if math.sqrt(variance) < self._resolution * abs(self._means.mean):
            return
        third, fourth = self._powers[1:] / (n * block)
        # of one replicate, and not below a gamma law's, 3/2 skewness^2
        excess = float(max(fourth / variance**2 - 3.0, 1.5 * third**2 / variance**3))
        self._check_distinct(excess)
        if n > 2 and block >= _SMALLEST and excess / block <= _HEAVIEST:
            _check_spread(self._means, variance, block, self._what)

    def _check_distinct(self, excess: float) -> None:
        """Blocks equal in all their power sums: none for a continuous law, few for a lattice."""
        n, block, equal = self._means.count, self._block, self._distinct.repeated
        expected = 0.0
        if self._lattice:
            # sums of `block` two-point variables agree with probability 1 / (2 sqrt(pi) sd), where
            # sd^2 = block p (1 - p) = block / (6 + excess); more points agree less often
            pairs = n * (n - 1) / 2 * self._distinct.share
            expected = pairs * math.sqrt((6.0 + excess) / (4.0 * math.pi * block))
        if equal and (not expected or pdtrc(equal - 1, expected) < FALSE_ALARM):
            raise BrokenGenerator(
                f"{equal} blocks of {self._what} repeat others in all their power sums"
            )


class Distinct:
    """How many rows were there before, in bounded memory.

    Where too many are kept, half of them go, chosen by what they hold: equal rows stay together or
    go together, so that of all repetitions a known share is found, however far apart they are.
    """

    def __init__(self, most: int = 2**17) -> None:
        self._most, self._halvings = most, 0
        self._new: list[NDArray[np.float64]] = []
        self._rows: NDArray[np.float64] | None = None
        self._times = np.zeros(0, np.int64)

    @property
    def share(self) -> float:
        """Of all rows, those that are looked at."""
        return 0.5**self._halvings

    @property
    def repeated(self) -> int:
        """Rows, among those that are looked at, that are equal to an earlier one."""
        self._compact()
        return int((self._times - 1).sum())

    def add(self, rows: NDArray[np.float64]) -> None:
        """Take rows [n, columns]."""
        self._new.append(rows + 0.0)  # -0 as 0
        if sum(map(len, self._new)) > self._most:
            self._compact()

    def _compact(self) -> None:
        if not self._new:
            return
        new = np.concatenate(self._new)
        new = new[self._kept(new)]
        old = new[:0] if self._rows is None else self._rows
        times = np.concatenate([self._times, np.ones(len(new), np.int64)])
        self._rows, place = np.unique(np.concatenate([old, new]), axis=0, return_inverse=True)
        self._times = np.bincount(place.ravel(), times, len(self._rows)).astype(np.int64)
        self._new = []
        while len(self._rows) > self._most:
            self._halvings += 1
            kept = self._kept(self._rows)
            self._rows, self._times = self._rows[kept], self._times[kept]

    def _kept(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Those whose hash ends in as many zeros as there were halvings."""
        mixed = np.zeros(len(rows), np.uint64)
        for column in np.ascontiguousarray(rows.T).view(np.uint64):
            mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)  # Knuth's multiplier, 2^64/phi
            mixed ^= mixed >> np.uint64(32)
        kept: NDArray[np.bool_] = mixed % np.uint64(1 << self._halvings) == 0
        return kept


def _check_spread(means: Moments, variance: float, block: int, what: str) -> None:
    """Block means must spread as the replicates' own standard deviation says.

    The ratio of the two variances has Fisher's law with m - 1 and m (block - 1) degrees of freedom:
    one-way analysis of variance, which kurtosis leaves alone to first order (Box 1953).
    """
    m = means.count
    ratio = means.sums[0] / (m - 1) * block / variance
    freedom = m - 1, m * (block - 1)
    if 2 * min(fdtr(*freedom, ratio), fdtrc(*freedom, ratio)) < FALSE_ALARM:
        raise BrokenGenerator(
            f"block means of {what} spread {math.sqrt(ratio):.3g} times what independent draws give"
        )
