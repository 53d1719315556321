"""What is measured on the softmax Jacobian J = diag(p) - p p^T, without forming it.

What can go wrong: sum p^2 - 2 sum p^3 + (sum p^2)^2 is off by percents in float32 when a row is
saturated, and the secular equation divides by zero at ties. Written in the weights of the keys
beside the largest (see `Row`) neither happens.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from .softmax import ROW_STATISTICS, Row

_NEWTON_STEPS = 3  # leave 6e-7, 7e-14 after two and three steps, at worst over clustered keys


def jacobian_trace(row: Row) -> jax.Array:
    """Trace of J, 1 - sum p^2 = (2 W + W^2 - sum w_j^2) / (1 + W)^2, [rows]; W^2 >= sum w_j^2."""
    return (2 * row.others + (row.others**2 - row.squares)) / row.total**2


def jacobian_frobenius(row: Row) -> jax.Array:
    """||J||_F, [rows].

    With V_r = sum w_j^r over the others and T = 1 + W the definition sum_i p_i^2 (1 - p_i)^2 +
    sum_{i != j} p_i^2 p_j^2 becomes (W^2 + (2 + T^2) V_2 + V_2^2 - 2 T V_3) / T^4. The
    negative term is at most 3/4 of the positive ones. W^2 is taken out, so that a saturated row
    has a norm long after its square is below the smallest float.
    """
    shares = row.weights * row.per_other[:, None]
    cubes = row.tied_squares + row.sum_below(shares**2 * row.weights)
    positive = 1 + row.relative_squares * (2 + row.total**2 + row.squares)
    return row.others / row.total**2 * jnp.sqrt(positive - 2 * row.total * cubes)


def jacobian_frobenius_sq(row: Row) -> jax.Array:
    """||J||_F^2, [rows]."""
    return jacobian_frobenius(row) ** 2


def jacobian_spectral(row: Row) -> jax.Array:
    """Largest eigenvalue of J, which is its spectral norm, [rows].

    It is m / (1 + W) with m the root of h(m) = sum w_j / (m - w_j) = 1 / (1 - m) between the second
    largest weight and 1 (the secular equation sum p_i / (p_i - lambda) = 0, Golub 1973), or 1
    if these two tie. 1 / h is concave and increasing, so that Newton's method on
    1 / h(m) - (1 - m) rises to the root from any lower bound; the first is the Rayleigh quotient
    of the vector that is 1 at the largest key and -1 at the second, exact for two keys.
    """
    second, others = row.second, row.others
    root = (second * (3 - second) + others * (1 + second)) / (2 * row.total)
    root = jax.lax.fori_loop(0, _NEWTON_STEPS, lambda _, m: _newton_step(row, m), root)
    return jnp.where(row.ties >= 1, 1, root) / row.total


def _newton_step(row: Row, root: jax.Array) -> jax.Array:
    """One step on psi = 1 / h - (1 - m), with r_j = w_j / (m - w_j) and -m h' = sum r + r^2."""
    # At a near tie m may round onto the pole; one unit in the last place beside it is as good.
    closest = jnp.maximum(jnp.finfo(root.dtype).eps * root, jnp.finfo(root.dtype).tiny)[:, None]
    ratios = row.weights / jnp.maximum(root[:, None] - row.weights, closest)
    h, squares = row.sum_below(ratios), row.sum_below(ratios**2)
    slope = h + squares + root * h**2
    step = jnp.where(slope > 0, h * (1 - h * (1 - root)) / slope, 0)
    return jnp.clip(root - root * step, row.second, 1)


JACOBIAN_STATISTICS: dict[str, Callable[[Row], jax.Array]] = {
    "jacobian_trace": jacobian_trace,
    "jacobian_frobenius_sq": jacobian_frobenius_sq,
    "jacobian_frobenius": jacobian_frobenius,
    "jacobian_spectral": jacobian_spectral,
}


@partial(jax.jit, static_argnames="quantities")
def jacobian_statistics(
    logits: jax.Array,
    factor: jax.Array | float,
    quantities: tuple[str, ...] = tuple(JACOBIAN_STATISTICS),
) -> dict[str, jax.Array]:
    """Statistics of the Jacobian of softmax at factor * logits, one number per row.

    In float32 each is within 1e-6 of its value for the same logits.

    Args:
        logits: [rows, n_keys], float32 or float64.
        factor: what the scale multiplies the logits by; traced, so one compilation serves all.
        quantities: names out of JACOBIAN_STATISTICS or, for one pass over both,
            `softmax.ROW_STATISTICS`; only these are computed.

    Returns:
        Arrays [rows] by name, in the alphabetical order that jit gives a dict.

    Examples:
        >>> row = jacobian_statistics(jnp.zeros((1, 2)), 1.0)
        >>> [round(value.item(), 6) for value in row.values()]
        [0.5, 0.25, 0.5, 0.5]

    """
    row = Row(logits, factor)
    catalogue = ROW_STATISTICS | JACOBIAN_STATISTICS
    return {name: catalogue[name](row) for name in quantities}
