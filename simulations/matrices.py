"""Weights and tokens as arrays: the ones that stay, and those behind the first replicates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from ..stats.cases import Case
from ..stats.weights.fixed import Matrices
from ..stats.weights.layers import layer_of
from .keys import block_words
from .layers import WeightNumbers, WeightRecipe, weight_recipe
from .recipes import Key, block_key, cell_words, with_float64
from .tokens import tokens
from .weights import K, Q, X, Y, applied, entries_by_column, entries_by_row

_FIXED_BLOCK = 2**64 - 1  # the block index whose key draws weights that stay


@lru_cache(maxsize=8)
def drawn_weights(case: Case, seed: int) -> Matrices:
    """The one pair W_Q, W_K of a cell whose replicates are fresh tokens, both [d_k, d_model]."""
    w_q, w_k = _drawn(_weights, case, seed, _FIXED_BLOCK, 1)
    return w_q[0], w_k[0]


def draw_weights(
    case: Case, seed: int, block: int, rows: int, keys: int = 1
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """What the first `rows` replicates of a block multiply: W_Q, W_K, x and y as arrays.

    Shapes [rows, d_k, d_model] (twice), [rows, d_model] and [rows, keys, d_model]. Slow and plain:
    for tests and for looking.
    """
    w_q, w_k = _drawn(_weights, case, seed, block, rows)
    x, y = _drawn(partial(_tokens, keys), case, seed, block, rows)
    return w_q, w_k, x, y


def _drawn(draw: Callable[..., Any], case: Case, seed: int, block: int, rows: int) -> Any:
    """Arrays of the first replicates of a block, their weights fresh."""
    recipe, numbers = weight_recipe(replace(case, ensemble="weights"), None)
    index = [np.uint32(word) for word in block_words(block)]
    key = jax.jit(block_key)(cell_words(case, seed), *index)
    layer = layer_of(case)
    sds = (layer.variance_q**0.5, layer.variance_k**0.5)
    with with_float64(case.dtype):
        arrays = jax.jit(partial(draw, recipe, rows))(key, numbers)
        if draw is _weights and recipe.sampler is not None:
            arrays = [w * jnp.asarray(sd, w.dtype) for w, sd in zip(arrays, sds, strict=True)]
        return tuple(np.asarray(array) for array in arrays)


def _tokens(
    keys: int, recipe: WeightRecipe, rows: int, key: Key, numbers: WeightNumbers
) -> tuple[Array, Array]:
    lane = jnp.arange(rows, dtype=jnp.uint32)
    of_key = lane[:, None] * jnp.uint32(keys) + jnp.arange(keys, dtype=jnp.uint32)
    x, y = tokens(recipe, key, X, lane), tokens(recipe, key, Y, of_key)
    return x[: recipe.d_model].T, y[: recipe.d_model].transpose(1, 2, 0)


def _weights(
    recipe: WeightRecipe, rows: int, key: Key, numbers: WeightNumbers
) -> tuple[Array, Array]:
    """W_Q and W_K in their unit law, [rows, d_k, d_model]."""
    lane = jnp.arange(rows, dtype=jnp.uint32)
    d_k, total, pairs = recipe.d_k, recipe.d_model, recipe.pairs
    if recipe.sampler is None:
        basis = jnp.eye(2 * pairs, total, dtype=recipe.float_type)[..., None]

        def rows_of(role: int, r: Array) -> Array:
            return applied(recipe, key, numbers, role, r[None, None], basis)[..., 0]

        return lax.map(partial(rows_of, Q), lane), lax.map(partial(rows_of, K), lane)
    by_row = entries_by_row(recipe, key, numbers, Q, lane)
    halves = lax.map(by_row, jnp.arange(pairs, dtype=jnp.uint32))
    w_q = jnp.concatenate(halves)[:total].transpose(2, 1, 0)
    if recipe.tied:
        return w_q, w_q
    by_column = entries_by_column(recipe, key, numbers, lane)
    halves = lax.map(by_column, jnp.arange(-(-d_k // 2), dtype=jnp.uint32))
    return w_q, jnp.concatenate(halves)[:d_k, :total].transpose(2, 0, 1)
