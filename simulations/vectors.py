"""Vectors q and k and their logit x = q . k, drawn in one fused loop over the dimensions.

Block b of a cell has the key threefry(cell key, b), and the counter inside is (lane, role and
dimension pair), so that a block has the same bits whatever is drawn beside it, on any number of
devices or threads. d_k, the sigmas, the means, the correlation and the laws' parameters are
run-time values: one compilation serves them all.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from ..stats.cases import Case
from .elements import Sampler
from .keys import block_words
from .random import random_words, to_bits
from .recipes import Key, Numbers, Recipe, block_key, cell_words, recipe_of, with_float64
from .rounding import rounded

_ROLE_Q, _ROLE_K = 0, 1


def draw_logits(
    recipe: Recipe, key: Key, numbers: Numbers, rows: int, keys: int | None = None
) -> Array:
    """Logits `x[r] = q_r . k_r`, or `x[r, j] = q_r . k_rj` of one query with `keys` keys.

    The counter's lane is the row for q and `row * keys + j` for k, so that one key alone gives
    the pair's bits.
    """
    draw = _packed_logits if recipe.packed else _element_logits
    return draw(recipe, key, numbers, *lanes_of(rows, keys))


def lanes_of(rows: int, keys: int | None) -> tuple[Array, Array]:
    """Counter lanes of q and of k, shaped to meet: [rows], or [rows, 1] and [rows, keys]."""
    lane = jnp.arange(rows, dtype=jnp.uint32)
    if keys is None:
        return lane, lane
    if rows * keys > 2**32:
        raise ValueError(f"rows x keys must be at most 2^32, got {rows} x {keys}; ask fewer rows")
    key_lane = lane[:, None] * jnp.uint32(keys) + jnp.arange(keys, dtype=jnp.uint32)
    return lane[:, None], key_lane


def _unit_pair(
    sampler: Sampler, key: Key, lane: Array, role: int, pair: Array, constants: Any, dtype: Any
) -> tuple[Array, Array]:
    per_uniform = 2 if dtype == jnp.float64 else 1
    n_words = sampler.uniforms * per_uniform
    words = random_words(key, lane, role, pair, n_words + n_words % 2)[:n_words]
    return sampler.draw(to_bits(words, per_uniform), constants)


def draw_pair(
    recipe: Recipe, key: Key, numbers: Numbers, lane_q: Array, lane_k: Array, pair: Array
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Elements (q_2i, q_2i+1), (k_2i, k_2i+1); a normalised law's before its norm and sigma."""
    dtype = recipe.float_type
    q = _unit_pair(recipe.q, key, lane_q, _ROLE_Q, pair, numbers.constants_q, dtype)
    k = _unit_pair(recipe.k, key, lane_k, _ROLE_K, pair, numbers.constants_k, dtype)
    if lane_q.ndim > 1:
        q = lax.optimization_barrier(q)  # or every key would draw its query again
    if recipe.correlated:
        rho = numbers.correlation
        rest = jnp.sqrt((1 - rho) * (1 + rho))
        k = (rho * q[0] + rest * k[0], rho * q[1] + rest * k[1])
    return (
        _scaled(recipe, recipe.q, q, numbers.sigma_q, numbers.mean_q),
        _scaled(recipe, recipe.k, k, numbers.sigma_k, numbers.mean_k),
    )


def _scaled(
    recipe: Recipe, sampler: Sampler, pair: tuple[Array, Array], sigma: Array, mean: Array
) -> tuple[Array, Array]:
    if sampler.normalised:
        return pair
    first, second = (rounded(mean + sigma * element, recipe.dtype) for element in pair)
    return first, second


def _element_logits(
    recipe: Recipe, key: Key, numbers: Numbers, lane_q: Array, lane_k: Array
) -> Array:
    dtype = recipe.float_type
    zero = jnp.zeros(lane_k.shape, dtype)
    norm_q = jnp.zeros(lane_q.shape, dtype) if recipe.q.normalised else None
    norm_k = zero if recipe.k.normalised else None

    # the totals stay centred, or rounding would grow with the mean's share of the sum
    drift = numbers.mean_q * numbers.mean_k + numbers.correlation * (
        numbers.sigma_q * numbers.sigma_k
    )

    def add(i: Array, sums: Any) -> Any:
        dot, norm_q, norm_k = sums
        q, k = draw_pair(recipe, key, numbers, lane_q, lane_k, i)
        both = 2 * i + 1 < numbers.d_k  # the last pair of an odd d_k is half a pair
        dot = dot + (q[0] * k[0] - drift) + jnp.where(both, q[1] * k[1] - drift, 0)
        if norm_q is not None:
            norm_q = norm_q + q[0] * q[0] + jnp.where(both, q[1] * q[1], 0)
        if norm_k is not None:
            norm_k = norm_k + k[0] * k[0] + jnp.where(both, k[1] * k[1], 0)
        return dot, norm_q, norm_k

    sums = lax.fori_loop(0, (numbers.d_k + 1) // 2, add, (zero, norm_q, norm_k))
    dot, norm_q, norm_k = sums
    for norm, sigma in ((norm_q, numbers.sigma_q), (norm_k, numbers.sigma_k)):
        if norm is not None:
            dot = dot * (sigma * jnp.sqrt(numbers.d_k.astype(dtype) / norm))
    return rounded(dot + numbers.d_k.astype(dtype) * drift, recipe.dtype)


def _packed_logits(
    recipe: Recipe, key: Key, numbers: Numbers, lane_q: Array, lane_k: Array
) -> Array:
    """With q = m_q + s_q r and k = m_k + s_k r' of signs, from counts of bits (1 means -1).

    `x = d m_q m_k + m_q s_k sum r' + m_k s_q sum r + s_q s_k sum r r'`, 64 dimensions a hash.
    One total, since a loop of several would hash anew for each.
    """
    m_q, m_k, s_q, s_k = numbers.mean_q, numbers.mean_k, numbers.sigma_q, numbers.sigma_k
    d_k, dtype = numbers.d_k, recipe.float_type

    def add(i: Array, total: Array) -> Array:
        q = _packed_words(key, lane_q, _ROLE_Q, i, d_k)
        k = _packed_words(key, lane_k, _ROLE_K, i, d_k)
        if lane_q.ndim > 1:
            q = lax.optimization_barrier(q)
        used = jnp.clip(d_k - 64 * i, 0, 64)
        sum_q, sum_k, sum_qk = (
            lax.convert_element_type(used - 2 * _bits_set(a, b), dtype)
            for a, b in (q, k, (q[0] ^ k[0], q[1] ^ k[1]))
        )
        terms: Array = m_k * s_q * sum_q + m_q * s_k * sum_k + s_q * s_k * sum_qk
        return total + terms

    total: Array = lax.fori_loop(0, (d_k + 63) // 64, add, jnp.zeros(lane_k.shape, dtype))
    mean: Array = d_k.astype(dtype) * m_q * m_k
    return total + mean


def _bits_set(first: Array, second: Array) -> Array:
    both = lax.population_count(first) + lax.population_count(second)
    return lax.convert_element_type(both, jnp.int32)


def _packed_words(
    key: Key, lane: Array, role: int, chunk: Array, d_k: Array
) -> tuple[Array, Array]:
    """64 bits, those of dimensions from d_k on cleared."""
    low, high = random_words(key, lane, role, chunk, 2)
    left = d_k - 64 * chunk
    return low & _low_bits(left), high & _low_bits(left - 32)


def _low_bits(n: Array) -> Array:
    """A word whose n lowest bits are set, n clipped to 0..32."""
    shift = jnp.clip(32 - n, 0, 31).astype(jnp.uint32)
    return jnp.where(n > 0, jnp.uint32(0xFFFFFFFF) >> shift, jnp.uint32(0))


def draw_vectors(
    case: Case, seed: int, block: int, rows: int, keys: int | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The first `rows` q and k of a block as arrays, the very ones that the kernel multiplies.

    Shapes `[rows, d_k]` and `[rows, d_k]`, or `[rows, keys, d_k]` for k. Slow and plain: for
    tests and for looking.
    """
    recipe, numbers = recipe_of(case)
    index = [np.uint32(word) for word in block_words(block)]
    key = jax.jit(block_key)(cell_words(case, seed), *index)
    draw = _sign_vectors if recipe.packed else jax.jit(_vectors, static_argnums=(0, 1, 2, 3))
    with with_float64("float32" if recipe.packed else case.dtype):
        q, k = draw(recipe, int(numbers.d_k), rows, keys, key, numbers)
        return np.asarray(q[:, 0] if keys is not None else q), np.asarray(k)


def _sign_vectors(
    recipe: Recipe, d_k: int, rows: int, keys: int | None, key: Key, numbers: Numbers
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Bits unpacked by NumPy: XLA compiles the same in float64 for minutes."""
    hashed = jax.jit(random_words, static_argnums=(2, 4))
    chunks = jnp.arange((d_k + 63) // 64)
    vectors = []
    for role, lane in enumerate(lanes_of(rows, keys)):
        words = np.stack(hashed(key, lane[..., None], role, chunks, 2), -1)
        bits = words[..., None] >> np.arange(32, dtype=np.uint32) & 1
        flat = bits.reshape(*lane.shape, -1)[..., :d_k].astype(numbers.sigma_q.dtype)
        vectors.append(1 - 2 * flat)
    q, k = vectors
    return numbers.mean_q + numbers.sigma_q * q, numbers.mean_k + numbers.sigma_k * k


def _vectors(
    recipe: Recipe, d_k: int, rows: int, keys: int | None, key: Key, numbers: Numbers
) -> tuple[Array, Array]:
    lane_q, lane_k = (lane[..., None] for lane in lanes_of(rows, keys))
    pairs = draw_pair(recipe, key, numbers, lane_q, lane_k, jnp.arange((d_k + 1) // 2))
    q, k = (jnp.stack(pair, -1).reshape(*pair[0].shape[:-1], -1)[..., :d_k] for pair in pairs)
    if recipe.q.normalised:
        q = _on_sphere(q, numbers.sigma_q)
    if recipe.k.normalised:
        k = _on_sphere(k, numbers.sigma_k)
    return q, k


def _on_sphere(vectors: Array, sigma: Array) -> Array:
    norm = jnp.sqrt((vectors * vectors).sum(-1, keepdims=True))
    return vectors * (sigma * math.sqrt(vectors.shape[-1]) / norm)
