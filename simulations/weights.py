"""Logits x_j = (W_Q x).(W_K y_j) of drawn weights and tokens, every entry drawn honestly.

A block has the key threefry(cell key, block), and the counter inside is (lane, role and pair) as
for plain vectors; roles of their own keep weights and tokens apart. A lane is a replicate and the
row i of W_Q, or the replicate and the column j of W_K, so that each product is one fused loop
that keeps its totals in one array. The logit is y.z with z = W_K' (W_Q x): the keys of a row share
z, and weights are drawn once for all of them. Arrays are [elements, keys at a time, replicates].
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array, lax

from .layers import WeightNumbers, WeightRecipe
from .recipes import Key
from .reflections import reflected, reflected_back
from .tokens import dot, normals, tokens, unit_pair, upright

Q, K, X, Y = 2, 3, 4, 5  # roles; 0 and 1 are those of plain vectors
_KEY_LANES = 2**13  # tokens of keys at a time

Entries = Callable[[Array], tuple[Array, Array]]
"""Pair -> the two columns of a matrix with that number, each [rows, ...]."""


def weight_logits(
    recipe: WeightRecipe, key: Key, numbers: WeightNumbers, rows: int, keys: int | None = None
) -> Array:
    """Logits `[rows]` of a query and a key, or `[rows, keys]` of one query with its keys."""
    lane = jnp.arange(rows, dtype=jnp.uint32)[None]
    x = tokens(recipe, key, X, lane)
    q = applied(recipe, key, numbers, Q, lane, x)
    z = q if recipe.tied else _back(recipe, key, numbers, lane, q)

    def meet(y: Array) -> Array:
        k = applied(recipe, key, numbers, Q, lane, y) if recipe.tied else y
        product: Array = numbers.sigma * dot(z, k)
        return product

    if recipe.diagonal:
        return meet(x)[0]
    n_keys = keys or 1
    at_a_time = min(n_keys, max(1, _KEY_LANES // rows))

    def some(first: Array) -> Array:
        number = first + jnp.arange(at_a_time, dtype=jnp.uint32)[:, None]
        return meet(tokens(recipe, key, Y, lane * jnp.uint32(n_keys) + number))

    parts = lax.map(some, jnp.arange(0, n_keys, at_a_time, dtype=jnp.uint32))
    logits: Array = parts.reshape(-1, rows)[:n_keys]
    return logits[0] if keys is None else logits.T


def entries_by_row(
    recipe: WeightRecipe, key: Key, numbers: WeightNumbers, role: int, lane: Array
) -> Entries:
    """`pair -> (W[:, pair], W[:, P + pair])`, each [d_k, *lane], P the pairs of a token."""
    sampler = recipe.sampler
    assert sampler is not None
    row = upright(jnp.arange(recipe.d_k, dtype=jnp.uint32), lane) + lane * jnp.uint32(recipe.d_k)
    return lambda pair: unit_pair(recipe, sampler, key, row, role, pair, numbers.constants)


def entries_by_column(
    recipe: WeightRecipe, key: Key, numbers: WeightNumbers, lane: Array
) -> Entries:
    """`pair -> (W_K[pair, :], W_K[h + pair, :])`, each [2 pairs, *lane], h half of d_k or more."""
    sampler = recipe.sampler
    assert sampler is not None
    width = 2 * recipe.pairs
    column = upright(jnp.arange(width, dtype=jnp.uint32), lane) + lane * jnp.uint32(width)
    return lambda pair: unit_pair(recipe, sampler, key, column, K, pair, numbers.constants)


def _columns_of(matrix: Array) -> Entries:
    """The same of a matrix [rows, even] that is there."""
    half = matrix.shape[1] // 2

    def column(number: Array) -> Array:
        at: Array = lax.dynamic_index_in_dim(matrix, number, 1, False)
        return at[:, None, None]

    return lambda pair: (column(pair), column(half + pair))


def _product(entries: Entries, vectors: Array, rows: int) -> Array:
    """`sum_j W[:, j] v_j` [rows, ...], two columns a step."""
    half = vectors.shape[0] // 2

    def add(pair: Array, total: Array) -> Array:
        first, second = entries(pair)
        v = [lax.dynamic_slice_in_dim(vectors, start, 1, 0) for start in (pair, half + pair)]
        return total + first * v[0] + second * v[1]

    nothing = jnp.zeros((rows, *vectors.shape[1:]), vectors.dtype)
    total: Array = lax.fori_loop(0, half, add, nothing)
    return total


def applied(
    recipe: WeightRecipe, key: Key, numbers: WeightNumbers, role: int, lane: Array, x: Array
) -> Array:
    """`W x` [d_k, ...] without the sd of the entries."""
    if recipe.fixed:
        return _product(_columns_of(_even(numbers.fixed[0], 1)), x, recipe.d_k)
    if recipe.sampler is None:
        return reflected(_directions(recipe, key, role, lane), recipe.d_k, x)
    return _product(entries_by_row(recipe, key, numbers, role, lane), x, recipe.d_k)


def _back(recipe: WeightRecipe, key: Key, numbers: WeightNumbers, lane: Array, q: Array) -> Array:
    """`W_K' q` [2 pairs, ...] without the sd of the entries."""
    if recipe.fixed:
        both = _even(_even(numbers.fixed[1], 0), 1)
        return _product(_columns_of(both.T), _even(q, 0), 2 * recipe.pairs)
    if recipe.sampler is None:
        return reflected_back(_directions(recipe, key, K, lane), q, 2 * recipe.pairs)
    entries = entries_by_column(recipe, key, numbers, lane)
    return _product(entries, _even(q, 0), 2 * recipe.pairs)


def _even(x: Array, axis: int) -> Array:
    """The array with a 0 after an axis of odd length."""
    widths = [(0, x.shape[i] % 2 if i == axis else 0) for i in range(x.ndim)]
    return jnp.pad(x, widths)


def _directions(recipe: WeightRecipe, key: Key, role: int, lane: Array) -> Callable[[Array], Array]:
    """Step i -> the normal vectors that the i-th reflections are made of."""
    rows = lane * jnp.uint32(recipe.d_k)
    return lambda i: normals(recipe, key, role, rows + i.astype(jnp.uint32))
