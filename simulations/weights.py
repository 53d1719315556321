"""Logits x_j = (W_Q x).(W_K y_j) of drawn weights and tokens, every entry drawn honestly.

A block has the key threefry(cell key, block), and the counter inside is (lane, role and pair) as
for plain vectors; roles of their own keep weights and tokens apart. A lane is a replicate and the
row i of W_Q, or the replicate and the column j of W_K, so that each product is one fused loop
that keeps its totals in one array. The logit is y.z with z = W_K' (W_Q x): the keys of a row share
z, and weights are drawn once for all of them.

Arrays have their replicates last, and tokens an even number of elements: the last of an odd
d_model is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from ..stats.cases import Case
from ..stats.fixed_weights import Matrices
from ..stats.layers import layer_of
from .elements import SAMPLERS, Sampler, sampler_of
from .keys import block_words
from .random import random_words, to_bits
from .recipes import Key, block_key, cell_words, power_of_two_above, with_float64
from .reduce import tree_sum
from .reflections import reflected, reflected_back

_Q, _K, _X, _Y = 2, 3, 4, 5  # roles 0 and 1 are those of plain vectors
_LANES = (
    2**17
)  # entries drawn at once: large enough to keep the cores busy, small enough for caches
_FIXED_BLOCK = 2**64 - 1  # the block index whose key draws weights that stay


@dataclass(frozen=True, slots=True)
class WeightRecipe:
    """What is compiled: shapes, tokens and how weights are drawn (no sampler: orthonormal rows)."""

    sampler: Sampler | None
    d_model: int
    d_k: int
    tied: bool
    fixed: bool
    tokens: str
    diagonal: bool
    dtype: str

    packed = False

    @property
    def float_type(self) -> Any:
        """The type that is computed in."""
        return jnp.float64 if self.dtype == "float64" else jnp.float32

    @property
    def pairs(self) -> int:
        """Pairs of elements of a token."""
        return -(-self.d_model // 2)


class WeightNumbers(NamedTuple):
    """What is handed over at run time: the entries' sds multiplied, constants, fixed weights."""

    sigma: Any
    unit: Any
    constants: tuple[Any, ...]
    fixed: tuple[Any, ...]


def weight_recipe(case: Case, seed: int) -> tuple[WeightRecipe, WeightNumbers]:
    """What is compiled for a case with weights, and the numbers it runs with."""
    if case.dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be float32 or float64 with weights, got {case.dtype}")
    layer = layer_of(case)
    sampler, constants = (None, ()) if layer.law == "orthogonal" else sampler_of(layer.law)
    real: Any = np.float64 if case.dtype == "float64" else np.float32
    fixed = case.ensemble == "tokens"
    recipe = WeightRecipe(
        sampler, layer.d_model, layer.d_k, layer.tied, fixed, case.tokens,
        case.pair == "diagonal", case.dtype,
    )  # fmt: skip
    sd = (layer.variance_q * layer.variance_k) ** 0.5
    # E |x|^2 = D, and orthonormal entries have variance 1/D from the start
    size = (layer.d_k * (layer.d_k + 2 if layer.tied else 1)) ** 0.5 * layer.d_model * sd
    numbers = WeightNumbers(
        sigma=real(1.0 if fixed or sampler is None else sd),
        unit=real(power_of_two_above(size)),
        constants=tuple(real(c) for c in constants),
        fixed=tuple(real(w) for w in drawn_weights(case, seed)) if fixed else (),
    )
    return recipe, numbers


def replicates_in_block(case: Case) -> int:
    """Replicates of a block: a power of two with about 2^17 rows or columns of weights.

    Examples:
        >>> replicates_in_block(Case(d_k=64, weights="lecun-normal", d_model=512))
        256

    """
    assert case.d_model is not None
    widest = max(case.d_model, case.d_k or 1)
    return 1 << max((_LANES // widest).bit_length() - 1, 0)


def weight_logits(
    recipe: WeightRecipe, key: Key, numbers: WeightNumbers, rows: int, keys: int | None = None
) -> Array:
    """Logits `[rows]` of a query and a key, or `[rows, keys]` of one query with its keys."""
    lane = jnp.arange(rows, dtype=jnp.uint32)
    x = _tokens(recipe, key, _X, lane)
    q = _applied(recipe, key, numbers, _Q, lane, x)
    if recipe.tied:
        meet = lambda y: tree_sum(q * _applied(recipe, key, numbers, _Q, lane, y), 0)  # noqa: E731
    else:
        z = _back(recipe, key, numbers, lane, q)
        meet = lambda y: tree_sum(z * y, 0)  # noqa: E731
    if recipe.diagonal:
        return numbers.sigma * meet(x)
    each = jnp.uint32(keys or 1)

    def logit(j: Array) -> Array:
        return meet(_tokens(recipe, key, _Y, lane * each + j))

    x_j = lax.map(logit, jnp.arange(keys or 1, dtype=jnp.uint32))
    logits: Array = numbers.sigma * (x_j[0] if keys is None else x_j.T)
    return logits


def _unit_pair(
    recipe: WeightRecipe, sampler: Sampler, key: Key, lane: Array, role: int, pair: Array, c: Any
) -> tuple[Array, Array]:
    per_uniform = 2 if recipe.dtype == "float64" else 1
    words = random_words(key, lane, role, pair, sampler.uniforms * per_uniform)
    return sampler.draw(to_bits(words, per_uniform), c)


def _normals(recipe: WeightRecipe, key: Key, role: int, lane: Array, first: Array | int) -> Array:
    """Standard normals [2 pairs, lanes], 0 beyond d_model; `first` is the first pair's number."""
    pair = first + jnp.arange(recipe.pairs, dtype=jnp.uint32)[:, None]
    both = _unit_pair(recipe, SAMPLERS["normal"], key, lane, role, pair, ())
    drawn = jnp.concatenate(both)
    return drawn * (jnp.arange(2 * recipe.pairs) < recipe.d_model)[:, None]


def _tokens(recipe: WeightRecipe, key: Key, role: int, lane: Array) -> Array:
    """Tokens [2 pairs, lanes]."""
    x = _normals(recipe, key, role, lane, 0)
    if recipe.tokens == "normal":
        return x
    if recipe.tokens == "layernorm":
        inside = (jnp.arange(2 * recipe.pairs) < recipe.d_model)[:, None]
        x = jnp.where(inside, x - tree_sum(x, 0) / recipe.d_model, 0)
    return x * jnp.sqrt(recipe.d_model / tree_sum(x * x, 0))


def _entries_by_row(recipe: WeightRecipe, key: Key, role: int, lane: Array, c: Any) -> Any:
    """`pair -> (W[i, pair], W[i, P + pair])` for all rows i, each [d_k, lanes]."""
    assert recipe.sampler is not None
    row = lane * jnp.uint32(recipe.d_k) + jnp.arange(recipe.d_k, dtype=jnp.uint32)[:, None]
    return lambda pair: _unit_pair(recipe, recipe.sampler, key, row, role, pair, c)  # type: ignore[arg-type]


def _entries_by_column(recipe: WeightRecipe, key: Key, lane: Array, c: Any) -> Any:
    """`pair -> (W[pair, j], W[h + pair, j])` for all columns j, h half of d_k rounded up."""
    assert recipe.sampler is not None
    width = 2 * recipe.pairs
    column = lane * jnp.uint32(width) + jnp.arange(width, dtype=jnp.uint32)[:, None]
    return lambda pair: _unit_pair(recipe, recipe.sampler, key, column, _K, pair, c)  # type: ignore[arg-type]


def _halves(matrix: Array) -> Callable[[Array], tuple[Array, Array]]:
    """The same of a matrix that is there: its columns `pair` and `half + pair`, each [rows, 1]."""
    half = -(-matrix.shape[1] // 2)
    padded = jnp.pad(matrix, ((0, 0), (0, 2 * half - matrix.shape[1])))
    return lambda pair: (
        lax.dynamic_slice_in_dim(padded, pair, 1, 1),
        lax.dynamic_slice_in_dim(padded, half + pair, 1, 1),
    )


def _product(entries: Any, vectors: Array, rows: int) -> Array:
    """`sum_j W[:, j] v_j` [rows, lanes], two columns a step."""
    half = vectors.shape[0] // 2

    def add(pair: Array, total: Array) -> Array:
        first, second = entries(pair)
        v = [lax.dynamic_slice_in_dim(vectors, start, 1, 0) for start in (pair, half + pair)]
        return total + first * v[0] + second * v[1]

    total: Array = lax.fori_loop(0, half, add, jnp.zeros((rows, vectors.shape[1]), vectors.dtype))
    return total


def _applied(
    recipe: WeightRecipe, key: Key, numbers: WeightNumbers, role: int, lane: Array, x: Array
) -> Array:
    """`W x` [d_k, lanes] without the sd of the entries."""
    if recipe.fixed:
        return _product(_halves(numbers.fixed[0]), x, recipe.d_k)
    if recipe.sampler is None:
        return reflected(_directions(recipe, key, role, lane), recipe.d_k, x)
    entries = _entries_by_row(recipe, key, role, lane, numbers.constants)
    return _product(entries, x, recipe.d_k)


def _back(recipe: WeightRecipe, key: Key, numbers: WeightNumbers, lane: Array, q: Array) -> Array:
    """`W_K' q` [2 pairs, lanes] without the sd of the entries."""
    if recipe.sampler is None and not recipe.fixed:
        return reflected_back(_directions(recipe, key, _K, lane), q, 2 * recipe.pairs)
    even = jnp.pad(q, ((0, recipe.d_k % 2), (0, 0)))
    if recipe.fixed:
        padded = jnp.pad(numbers.fixed[1], ((0, 0), (0, recipe.d_model % 2)))
        return _product(_halves(padded.T), even, 2 * recipe.pairs)
    entries = _entries_by_column(recipe, key, lane, numbers.constants)
    return _product(entries, even, 2 * recipe.pairs)


def _directions(recipe: WeightRecipe, key: Key, role: int, lane: Array) -> Callable[[Array], Array]:
    """Step i -> the normal vectors that the i-th reflections are made of."""
    d_k = jnp.uint32(recipe.d_k)
    return lambda i: _normals(recipe, key, role, lane * d_k + i.astype(jnp.uint32), 0)


def drawn_weights(case: Case, seed: int) -> Matrices:
    """The one pair W_Q, W_K of a cell whose replicates are fresh tokens, both [d_k, d_model]."""
    w_q, w_k, _, _ = draw_weights(case, seed, _FIXED_BLOCK, 1)
    return w_q[0], w_k[0]


def draw_weights(
    case: Case, seed: int, block: int, rows: int, keys: int = 1
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """What the first `rows` replicates of a block multiply: W_Q, W_K, x and y as arrays.

    Shapes [rows, d_k, d_model] (twice), [rows, d_model] and [rows, keys, d_model]. Slow and plain.
    """
    from dataclasses import replace

    fresh = replace(case, ensemble="weights")
    recipe, numbers = weight_recipe(fresh, seed)
    index = [np.uint32(word) for word in block_words(block)]
    key = jax.jit(block_key)(cell_words(case, seed), *index)
    with with_float64(case.dtype):
        arrays = jax.jit(partial(_plain, recipe, rows, keys))(key, numbers)
        w_q, w_k, x, y = (np.asarray(array) for array in arrays)
    layer = layer_of(case)
    one = recipe.sampler is None
    w_q = w_q * w_q.dtype.type(1.0 if one else layer.variance_q**0.5)
    w_k = w_q if recipe.tied else w_k * w_k.dtype.type(1.0 if one else layer.variance_k**0.5)
    return w_q, w_k, x, y


def _plain(
    recipe: WeightRecipe, rows: int, keys: int, key: Key, numbers: WeightNumbers
) -> tuple[Array, Array, Array, Array]:
    lane = jnp.arange(rows, dtype=jnp.uint32)
    d_k, total = recipe.d_k, recipe.d_model

    def tokens(role: int, of: Array) -> Array:
        return _tokens(recipe, key, role, of)[:total].T

    each = lane * jnp.uint32(keys)
    y = jnp.stack([tokens(_Y, each + jnp.uint32(j)) for j in range(keys)], 1)
    x = tokens(_X, lane)
    if recipe.sampler is None:
        basis = jnp.eye(2 * recipe.pairs, total, dtype=recipe.float_type)
        w_q, w_k = (
            lax.map(lambda r, role=role: _applied(recipe, key, numbers, role, r[None], basis), lane)
            for role in (_Q, _K)
        )
        return w_q, w_k, x, y
    pairs = jnp.arange(recipe.pairs, dtype=jnp.uint32)
    by_row = _entries_by_row(recipe, key, _Q, lane, numbers.constants)
    w_q = jnp.concatenate(lax.map(by_row, pairs))[:total].transpose(2, 1, 0)
    halves = jnp.arange(-(-d_k // 2), dtype=jnp.uint32)
    by_column = _entries_by_column(recipe, key, lane, numbers.constants)
    w_k = jnp.concatenate(lax.map(by_column, halves))[:d_k, :total].transpose(2, 0, 1)
    return w_q, w_k, x, y
