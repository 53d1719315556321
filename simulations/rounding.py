"""Rounding to half precision inside float32, bit for bit what float16 or bfloat16 would give.

Sums and products of p-bit numbers made in float32 and then rounded are rounded once as it were:
24 >= 2 p + 2 (Figueroa 1995, SIGNUM 30(3)). What can go wrong: a pair of casts is removed by XLA on
some devices, and `reduce_precision` gives 0 for the subnormal numbers that float16 has.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from ..stats.cases import HALF

_SHIFT = 0.75  # float32 numbers about it are multiples of 2^-24, the smallest float16


def rounded(x: Array, dtype: str) -> Array:
    """The nearest values that `dtype` can hold, in the type of x; beyond its largest, infinity.

    Examples:
        >>> rounded(jnp.array([65519.0, 65520.0, 1e-7, 1e-8]), "float16").tolist()
        [65504.0, inf, 1.1920928955078125e-07, 0.0]

    """
    if dtype not in HALF:
        return x
    held = jnp.finfo(dtype)
    nearest: Array = lax.reduce_precision(x, held.nexp, held.nmant)
    if dtype == "bfloat16":
        return nearest
    shifted = lax.optimization_barrier(x + _SHIFT)
    return jnp.where(jnp.abs(x) < float(held.tiny), shifted - _SHIFT, nearest)
