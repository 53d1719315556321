"""What each transform does to arrays: q.k on its way, rows of scaled logits, their softmax.

Key j of a row is the j-th nearest; the last axis is that of the keys. The order in which
`variants` calls these is that of `stats.transforms.catalogue.STEPS`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from ..stats.rows.unlike_keys import LOCAL
from .recipes import Key, Numbers, Recipe
from .reduce import tree_sum
from .vectors import draw_pair

ROPE_BASE = 10_000.0


class Sums(NamedTuple):
    """Running totals over the planes; those that a norm does not need stay None."""

    dot: Array
    square_q: Array | None
    square_k: Array | None
    sum_q: Array | None
    sum_k: Array | None
    turned_q: Array | None
    turned_k: Array | None
    ones: Array | None


def vector_logits(
    recipe: Recipe,
    key: Key,
    numbers: Numbers,
    lanes: tuple[Array, Array],
    norm: str | None,
    distance: Array | None,
) -> Array:
    """`N(q) . R N(k)` of centred vectors: N the norm, R the turn of plane i by -distance theta_i.

    Normalising is an identity in the totals: with LayerNorm `(q - a 1).R(k - b 1)`, a and b the
    means, is `q.Rk - a 1.Rk - b q.R1 + a b 1.R1`.
    """
    lane_q, lane_k = lanes
    dtype = recipe.float_type
    shape = jnp.broadcast_shapes(lane_q.shape, lane_k.shape)
    centred = norm == "qk-layernorm"

    def zero(wanted: bool, size: tuple[int, ...]) -> Array | None:
        return jnp.zeros(size, dtype) if wanted else None

    dot = jnp.zeros(shape, dtype)
    start = Sums(
        dot,
        zero(norm is not None or recipe.q.normalised, lane_q.shape),
        zero(norm is not None or recipe.k.normalised, lane_k.shape),
        zero(centred, lane_q.shape),
        zero(centred, lane_k.shape),
        zero(centred, shape),
        zero(centred, shape),
        zero(centred, () if distance is None else distance.shape),
    )

    def add(i: Array, sums: Sums) -> Sums:
        q, k = draw_pair(recipe, key, numbers, lane_q, lane_k, i)
        both = 2 * i + 1 < numbers.d_k  # the last pair of an odd d_k is half a pair
        q, k = ((pair[0], jnp.where(both, pair[1], 0)) for pair in (q, k))
        one = (jnp.ones((), dtype), both.astype(dtype))
        c, s = _turn(i, numbers.d_k, distance, dtype)

        def product(a: Any, b: Any) -> Array:
            """`a . R b` in this plane."""
            along: Array = a[0] * b[0] + a[1] * b[1]
            return along if distance is None else c * along + s * (a[0] * b[1] - a[1] * b[0])

        def plus(total: Array | None, term: Any) -> Array | None:
            return None if total is None else total + term

        return Sums(
            sums.dot + product(q, k),
            plus(sums.square_q, q[0] * q[0] + q[1] * q[1]),
            plus(sums.square_k, k[0] * k[0] + k[1] * k[1]),
            plus(sums.sum_q, q[0] + q[1]),
            plus(sums.sum_k, k[0] + k[1]),
            plus(sums.turned_q, product(q, one)),
            plus(sums.turned_k, product(one, k)),
            plus(sums.ones, product(one, one)),
        )

    sums = lax.fori_loop(0, (numbers.d_k + 1) // 2, add, start)
    return _normalised(numbers, norm, sums)


def _turn(i: Array, d_k: Array, distance: Array | None, dtype: Any) -> tuple[Any, Any]:
    """Cosine and sine of `distance base^(-2 i / d)`, made once for each key and plane."""
    if distance is None:
        return 1.0, 0.0
    power = -2.0 * math.log(ROPE_BASE) * i.astype(dtype) / d_k.astype(dtype)
    angle = distance * jnp.exp(power)
    turn: tuple[Array, Array] = lax.optimization_barrier((jnp.cos(angle), jnp.sin(angle)))
    return turn


def _normalised(numbers: Numbers, norm: str | None, sums: Sums) -> Array:
    """The dot product of the normalised vectors; 0 where a vector has no direction."""
    d = numbers.d_k.astype(sums.dot.dtype)
    dot: Any = sums.dot
    square_q: Any = sums.square_q
    square_k: Any = sums.square_k
    if sums.sum_q is not None:
        a, b = sums.sum_q / d, sums.sum_k / d
        dot = dot - a * sums.turned_k - b * sums.turned_q + a * b * sums.ones
        square_q, square_k = square_q - a * sums.sum_q, square_k - b * sums.sum_k
    if norm is not None:
        squares = square_q * square_k
        size = {"l2norm": 1.0}.get(norm, d)
        dot = dot * size / jnp.sqrt(jnp.where(squares > 0, squares, 1))
        return jnp.where(squares > 0, dot, 0)
    for square, sigma in ((square_q, numbers.sigma_q), (square_k, numbers.sigma_k)):
        if square is not None:  # a law on the sphere
            dot = dot * (sigma * jnp.sqrt(d / square))
    return jnp.asarray(dot)


def local_scaled(x: Array, width: Array) -> Array:
    """The `width` nearest keys times sqrt(2): divided by sqrt(d/2) where others are by sqrt(d)."""
    return x * jnp.where(positions(x) < width, LOCAL, 1).astype(x.dtype)


def positions(x: Array) -> Array:
    """0, 1, ... along the keys."""
    return jnp.arange(x.shape[-1], dtype=x.dtype)


def layer_normalised(x: Array) -> Array:
    """`(x - mean) / sd` over the keys of each row."""
    n = x.shape[-1]
    centred = x - tree_sum(x)[..., None] / n
    variance = tree_sum(centred * centred)[..., None] / n
    return centred / jnp.sqrt(jnp.where(variance > 0, variance, 1))


def soft_capped(x: Array, cap: Array) -> Array:
    """`C tanh(x / C)`."""
    return cap * jnp.tanh(x / cap)


def clipped(x: Array, cap: Array) -> Array:
    """X between -C and C."""
    return jnp.clip(x, -cap, cap)


def distance_biased(x: Array, slope: Array) -> Array:
    """`x_j - slope j`: ALiBi."""
    return x - slope * positions(x)


def causally_masked(x: Array, last: Array) -> Array:
    """Minus infinity beyond key `last` of each row."""
    return jnp.where(positions(x) <= last[..., None].astype(x.dtype), x, -jnp.inf)


def largest(x: Array, kept: int) -> Array:
    """The `kept` largest logits of each row, in falling order."""
    values: Array = lax.top_k(x, kept)[0]
    return values


def with_sink(x: Array) -> Array:
    """One more key whose logit is 0: softmax1 is softmax with it."""
    return jnp.concatenate([x, jnp.zeros((*x.shape[:-1], 1), x.dtype)], axis=-1)
