"""Tokens, normed or not, and sums over their elements.

Tokens are arrays [2 pairs, ...]: an even number of elements, the last of an odd d_model 0. What
can go wrong: XLA makes what is cheap anew for everything that reads it, a whole token for each of
its own elements. What is drawn or summed here comes out of a loop, which is done once.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from .elements import SAMPLERS, Sampler
from .layers import WeightRecipe
from .random import random_words, to_bits
from .recipes import Key
from .reduce import tree_sum

_LANES = 2**14  # normals drawn in one step
_TERMS = 8  # added up in one step


def unit_pair(
    recipe: WeightRecipe, sampler: Sampler, key: Key, lane: Array, role: int, pair: Array, c: Any
) -> tuple[Array, Array]:
    """Two elements of a unit law for every lane and pair (which broadcast)."""
    per_uniform = 2 if recipe.dtype == "float64" else 1
    words = random_words(key, lane, role, pair, sampler.uniforms * per_uniform)
    return sampler.draw(to_bits(words, per_uniform), c)


def upright(values: Array, like: Array) -> Array:
    """Values as a column in front of the axes of `like`."""
    return values.reshape(-1, *[1] * like.ndim)


def normals(recipe: WeightRecipe, key: Key, role: int, lane: Array) -> Array:
    """Standard normals [2 pairs, *lane], 0 beyond d_model."""
    group = max(1, min(_LANES // lane.size, recipe.pairs))
    steps = -(-recipe.pairs // group)

    def some(step: Array) -> tuple[Array, Array]:
        pair = step * jnp.uint32(group) + jnp.arange(group, dtype=jnp.uint32)
        return unit_pair(recipe, SAMPLERS["normal"], key, lane, role, upright(pair, lane), ())

    both = lax.map(some, jnp.arange(steps, dtype=jnp.uint32))
    halves = [half.reshape(-1, *lane.shape)[: recipe.pairs] for half in both]
    return within(recipe, jnp.concatenate(halves), lane)


def within(recipe: WeightRecipe, x: Array, lane: Array) -> Array:
    """The values with 0 where a token of odd d_model has no element."""
    inside = jnp.arange(2 * recipe.pairs) < recipe.d_model
    return jnp.where(upright(inside, lane), x, 0)


def tokens(recipe: WeightRecipe, key: Key, role: int, lane: Array) -> Array:
    """Tokens [2 pairs, *lane]."""
    x = normals(recipe, key, role, lane)
    if recipe.tokens == "normal":
        return x
    if recipe.tokens == "layernorm":
        x = within(recipe, x - dot(x, jnp.ones_like(x)) / recipe.d_model, lane)
    return x * jnp.sqrt(recipe.d_model / dot(x, x))


def dot(a: Array, b: Array) -> Array:
    """`sum_i a_i b_i` over the first axis of two arrays that broadcast."""
    missing = -a.shape[0] % _TERMS
    a, b = (jnp.pad(v, ((0, missing), *[(0, 0)] * (v.ndim - 1))) for v in (a, b))
    shape = jnp.broadcast_shapes(a.shape[1:], b.shape[1:])

    def add(i: Array, total: Array) -> Array:
        some = [lax.dynamic_slice_in_dim(v, i * _TERMS, _TERMS, 0) for v in (a, b)]
        return total + tree_sum(some[0] * some[1], 0)

    total: Array = lax.fori_loop(0, a.shape[0] // _TERMS, add, jnp.zeros(shape, a.dtype))
    return total
