"""Guards against a broken generator: they end a run and never touch a verdict.

A kernel that ignores its block index, or blocks that share draws, would make error bars too small
while every mean stays right. Each guard has a false-alarm rate of 1e-9.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc, pdtrc

FALSE_ALARM = 1e-9
_HEAVIEST = 0.1  # excess kurtosis of a block mean beyond which its chi-square law is not trusted


class BrokenGenerator(RuntimeError):
    """Blocks are not independent draws of one law: an internal error, whatever the theory."""


def check_blocks(sums: NDArray[np.float64], block: int, *, lattice: bool, what: str) -> None:
    """Both guards on the full blocks of one cell.

    Args:
        sums: [blocks, columns]: count, mean and centred sums S_2, ... of one variable.
        block: replicates in a full block.
        lattice: the variable takes few values, so that equal blocks happen by chance.
        what: the cell, for the message.

    """
    full = sums[(sums[:, 0] == block) & (sums[:, 2] > 0)]
    if len(full) < 2:
        return
    _check_distinct(full, block, lattice, what)
    _check_spread(full[:, 1], full[:, 2:], block, what)


def _check_distinct(full: NDArray[np.float64], block: int, lattice: bool, what: str) -> None:
    """Blocks equal in all their power sums: none for a continuous law, few for a lattice."""
    equal = len(full) - len(np.unique(full, axis=0))
    pairs = len(full) * (len(full) - 1) / 2
    # two sums of `block` lattice variables agree with probability 1 / (2 sqrt(pi) sd), sd >= sqrt/2
    expected = pairs / math.sqrt(math.pi * block) if lattice else 0.0
    if equal and (not expected or pdtrc(equal - 1, expected) < FALSE_ALARM):
        raise BrokenGenerator(f"{equal} blocks of {what} repeat others in all their power sums")


def _check_spread(
    means: NDArray[np.float64], sums: NDArray[np.float64], block: int, what: str
) -> None:
    """Block means must spread as the replicates' own standard deviation says."""
    m = len(means)
    variance = sums[:, 0].sum() / (m * (block - 1))
    kurtosis = sums[:, 2].mean() / block / variance**2 - 3.0 if sums.shape[1] > 2 else 0.0
    if m < 3 or kurtosis / block > _HEAVIEST:
        return
    nu = (m - 1) / (1.0 + max(kurtosis, 0.0) / (2.0 * block))
    ratio = float(np.var(means, ddof=1)) * block / variance
    if 2 * min(chdtr(nu, nu * ratio), chdtrc(nu, nu * ratio)) < FALSE_ALARM:
        raise BrokenGenerator(
            f"block means of {what} spread {math.sqrt(ratio):.3g} times what independent draws give"
        )
