"""Reductions whose bits do not depend on the number of threads or devices.

What can go wrong: `jnp.sum` is free to split an axis by the number of threads, and a running
float32 total loses digits. Here an axis is folded in half until one value is left, so that the
order of the additions is fixed by the length alone, and rounding grows only with its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from ..stats.counts import BINS, DROPPED_BITS
from ..stats.moments import Moments

if TYPE_CHECKING:
    import numpy as np


def tree_reduce(
    combine: Callable[[jax.Array, jax.Array], jax.Array], x: jax.Array, axis: int = -1
) -> jax.Array:
    """Fold an axis in half until one value is left: first half with second half, elementwise.

    A length that is no power of two is treated as if it were padded up to the next one with
    elements that leave their partner as it is, so that padding with zeros changes no bit of a sum.

    Args:
        combine: associative up to rounding, of two equally shaped arrays.
        x: any shape.
        axis: the axis that is folded away, of length at least 1.

    Returns:
        The shape of x without that axis.

    Examples:
        >>> tree_reduce(jnp.maximum, jnp.array([[1, 7, 3], [5, 2, 4]]), axis=0).tolist()
        [5, 7, 4]

    """
    axis %= x.ndim
    length = x.shape[axis]
    if length == 0:
        raise ValueError(f"axis {axis} must have at least one element, got 0; drop empty blocks")
    while length > 1:
        half = 1 << ((length - 1).bit_length() - 1)
        paired = length - half
        folded = combine(
            jax.lax.slice_in_dim(x, 0, paired, axis=axis),
            jax.lax.slice_in_dim(x, half, length, axis=axis),
        )
        rest = jax.lax.slice_in_dim(x, paired, half, axis=axis)
        x = jnp.concatenate([folded, rest], axis) if paired < half else folded
        length = half
    return jnp.squeeze(x, axis)


def tree_sum(x: jax.Array, axis: int = -1) -> jax.Array:
    """Sum over one axis by a fixed tree.

    Relative error of a sum of non-negative terms: at most `ceil(log2 n)` roundings, hence 1e-6 in
    float32 at n = 65536 (Higham 2002, Accuracy and Stability of Numerical Algorithms, 4.1).

    Examples:
        >>> tree_sum(jnp.arange(5.0)).item()
        10.0

    """
    return tree_reduce(jnp.add, x, axis)


def tree_max(x: jax.Array, axis: int = -1) -> jax.Array:
    """Maximum over one axis: exact in any order, and on CPU faster folded than with `jnp.max`.

    Examples:
        >>> tree_max(jnp.array([1.0, 3.0, 2.0])).item()
        3.0

    """
    return tree_reduce(jnp.maximum, x, axis)


def row_moments(
    statistics: Mapping[str, jax.Array], valid_rows: jax.Array | int
) -> dict[str, jax.Array]:
    """Centred sums of each statistic over the first `valid_rows` rows of a block.

    With c the mean as rounded by the dtype and d = x - c, the sums are of d, d^2 and d^3; the
    first tells how far c is from the mean, so that nothing is lost to the rounding of c.

    Args:
        statistics: arrays [rows] by name.
        valid_rows: how many rows count; at least 1, may be traced.

    Returns:
        Arrays [4] by name: c, sum d, sum d^2, sum d^3. `block_moments` turns one into Moments.

    Examples:
        >>> sums = row_moments({"entropy": jnp.array([1.0, 3.0, 99.0])}, 2)
        >>> sums["entropy"].tolist()
        [2.0, 0.0, 2.0, 0.0]

    """
    return {name: _centred_sums(x, valid_rows) for name, x in statistics.items()}


def _centred_sums(x: jax.Array, valid_rows: jax.Array | int) -> jax.Array:
    valid = jnp.arange(x.shape[0]) < valid_rows
    centre = tree_sum(jnp.where(valid, x, 0), 0) / jnp.asarray(valid_rows, x.dtype)
    d = jnp.where(valid, x - centre, 0)
    return jnp.stack([centre, *(tree_sum(d**power, 0) for power in (1, 2, 3))])


def block_moments(sums: np.ndarray, count: int) -> Moments:
    """Moments of a block on the host, in float64: sums about a centre moved onto the mean.

    With c near the mean and `S_r = sum (x - c)^r`, the mean is `c + S_1 / n`, and the sums about it
    are `sum_j C(r, j) (-S_1 / n)^(r - j) S_j` (Pebay 2008, eq. 2.1 for a single sample).

    Args:
        sums: c, S_1, ... S_order of `count` values; all are finite where the count is not 0.
        count: how many values; of none, the sums are 0.

    Examples:
        >>> import numpy as np
        >>> block_moments(np.array([2.0, 0.0, 2.0, 0.0]), 2)
        Moments(count=2, mean=2.0, sums=(2.0, 0.0))

    """
    centre, *powers = (float(s) for s in sums)
    shift = powers[0] / max(count, 1)
    about = [float(count), *powers]
    moved = tuple(
        sum(math.comb(r, j) * (-shift) ** (r - j) * about[j] for j in range(r + 1))
        for r in range(2, len(about))
    )
    return Moments(count, centre + shift, moved)


def bin_counts(x: jax.Array, valid_rows: jax.Array | int) -> jax.Array:
    """Exact counts of values in [0, 1) in the bins of `stats.counts`; others join the outermost.

    Args:
        x: values [rows], float32 or float64.
        valid_rows: how many rows count; may be traced.

    Returns:
        int32 counts [BINS].

    Examples:
        >>> counts = bin_counts(jnp.array([0.0, 0.5, 0.5, 0.25]), 3)
        >>> counts.sum().item(), counts[0].item(), counts.max().item()
        (3, 1, 2)

    """
    pattern = jax.lax.bitcast_convert_type(x.astype(jnp.float32), jnp.int32)
    bins = jnp.clip(pattern >> DROPPED_BITS, 0, BINS - 1)
    valid = jnp.arange(x.shape[0]) < valid_rows
    return jnp.zeros(BINS, jnp.int32).at[bins].add(valid.astype(jnp.int32))
