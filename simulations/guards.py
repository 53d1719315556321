"""Guards against a broken generator: they end a run and never touch a verdict.

A kernel that ignores its block index, or blocks that share draws, would make error bars too small
while every mean stays right. Each guard has a false-alarm rate of 1e-9.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtr, fdtrc, pdtrc

FALSE_ALARM = 1e-9
_HEAVIEST = 0.01  # excess kurtosis of a block mean that moves the tail at 1e-9 by a factor 2 or 3
_SMALLEST = 32  # replicates of a block below which that kurtosis cannot be told


class BrokenGenerator(RuntimeError):
    """Blocks are not independent draws of one law: an internal error, whatever the theory."""


def check_blocks(sums: NDArray[np.float64], block: int, *, lattice: bool, what: str) -> None:
    """Both guards on the full blocks of one cell.

    Args:
        sums: [blocks, columns]: count, mean and centred sums S_2, S_3, ... of one variable.
        block: replicates in a full block.
        lattice: the variable takes few values, so that equal blocks happen by chance.
        what: the cell, for the message.

    """
    full = sums[(sums[:, 0] == block) & (sums[:, 2] > 0)]
    if len(full) < 2:
        return
    variance = full[:, 2].sum() / (len(full) * (block - 1))
    excess = _excess_kurtosis(full, variance, block)
    _check_distinct(full, block, excess if lattice else None, what)
    if len(full) > 2 and block >= _SMALLEST and excess / block <= _HEAVIEST:
        _check_spread(full[:, 1], variance, block, what)


def _excess_kurtosis(full: NDArray[np.float64], variance: float, block: int) -> float:
    """Of one replicate: from S_4 where it is there, and not below a gamma law's, 3/2 skewness^2."""
    third = full[:, 3].mean() / block
    fourth = full[:, 4].mean() / block if full.shape[1] > 4 else 0.0
    return float(max(fourth / variance**2 - 3.0, 1.5 * third**2 / variance**3))


def _check_distinct(
    full: NDArray[np.float64], block: int, lattice_kurtosis: float | None, what: str
) -> None:
    """Blocks equal in all their power sums: none for a continuous law, few for a lattice."""
    equal = len(full) - len(np.unique(full, axis=0))
    expected = 0.0
    if lattice_kurtosis is not None:
        # sums of `block` two-point variables agree with probability 1 / (2 sqrt(pi) sd), where
        # sd^2 = block p (1 - p) = block / (6 + excess kurtosis); more points agree less often
        pairs = len(full) * (len(full) - 1) / 2
        expected = pairs * math.sqrt((6.0 + lattice_kurtosis) / (4.0 * math.pi * block))
    if equal and (not expected or pdtrc(equal - 1, expected) < FALSE_ALARM):
        raise BrokenGenerator(f"{equal} blocks of {what} repeat others in all their power sums")


def _check_spread(means: NDArray[np.float64], variance: float, block: int, what: str) -> None:
    """Block means must spread as the replicates' own standard deviation says.

    The ratio of the two variances has Fisher's law with m - 1 and m (block - 1) degrees of freedom:
    one-way analysis of variance, which kurtosis leaves alone to first order (Box 1953).
    """
    m = len(means)
    ratio = float(np.var(means, ddof=1)) * block / variance
    freedom = m - 1, m * (block - 1)
    if 2 * min(fdtr(*freedom, ratio), fdtrc(*freedom, ratio)) < FALSE_ALARM:
        raise BrokenGenerator(
            f"block means of {what} spread {math.sqrt(ratio):.3g} times what independent draws give"
        )
