"""Transformed logits: drawn, then taken through each step of the case's stack in its order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..stats.cases import Case
from ..stats.transforms.catalogue import TRANSFORMS
from ..stats.transforms.plain_equivalents import logit_factor
from ..stats.transforms.stacks import Stack, draw_shape, lengths, stack_of
from . import transforms as act
from .random import box_muller, random_words, to_bits
from .recipes import Key, Recipe, power_of_two_above, recipe_of
from .reduce import tree_sum
from .vectors import draw_logits, lanes_of

_ROLE_VALUE, _ROLE_POSITION, _ROLE_PICK = 2, 3, 4
_NORMS = ("qk-rmsnorm", "qk-layernorm", "l2norm")
_MOST_LOGITS = 2**22  # of a block of rows from which one key is picked


@dataclass(frozen=True, slots=True)
class VariantRecipe:
    """What is compiled: the laws (None for given logits), the steps' names and the shapes.

    A replicate is `queries` x `keys` logits; `length` is that of the row before a mask. With `row`
    they are the replicate's result, otherwise one of them (`picked`) or the only one is.
    """

    laws: Recipe | None
    names: tuple[str, ...]
    queries: int
    keys: int
    length: int
    kept: int
    row: bool
    picked: bool
    dtype: str

    @property
    def float_type(self) -> Any:
        """The type that is computed in."""
        return jnp.float64 if self.dtype == "float64" else jnp.float32


class VariantNumbers(NamedTuple):
    """What is handed over at run time: the laws' numbers, the scale's factor, the parameters."""

    laws: Any
    factor: Any
    parameters: tuple[Any, ...]
    unit: Any


def variant_recipe(case: Case) -> tuple[VariantRecipe, VariantNumbers]:
    """What is compiled for a transformed case, and the numbers it runs with."""
    queries, keys = draw_shape(case)
    stack = _acting(case)
    real: Any = np.float64 if case.dtype == "float64" else np.float32
    laws, numbers = (None, real(case.logit_std)) if case.logit_std is not None else recipe_of(case)
    length = case.n_keys or int(max(lengths(stack), default=1))
    grouped = "gqa" in stack or "queries" in stack
    row = case.n_keys is not None or grouped
    recipe = VariantRecipe(
        laws,
        tuple(stack),
        queries if grouped else 0,
        keys,
        length,
        int(stack["top-k"][0]) if "top-k" in stack else 0,
        row,
        not row and any(TRANSFORMS[name].of_row for name in stack),
        case.dtype,
    )
    first = tuple(real(values[0] if values else math.nan) for values in stack.values())
    unit = real(power_of_two_above(_size(case, stack)))
    return recipe, VariantNumbers(numbers, real(logit_factor(case, stack_of(case))), first, unit)


def _acting(case: Case) -> Stack:
    """The steps that change what is drawn: a logit alone knows no mask and no softmax."""
    stack = stack_of(case)
    alone = case.n_keys is None and not any(TRANSFORMS[name].of_row for name in stack)
    idle = {"v-compensation", *(("causal", "top-k-position", "softmax1") if alone else ())}
    return {name: values for name, values in stack.items() if name not in idle}


def _size(case: Case, stack: Stack) -> float:
    """Root mean square of the logit, roughly: the unit in which eighth powers are summed."""
    sigma = math.hypot(case.sigma_q, case.mean_q) * math.hypot(case.sigma_k, case.mean_k)
    size = math.sqrt(case.d_k or 1) * (1.0 if set(_NORMS) & set(stack) else sigma)
    if "l2norm" in stack:
        size = stack["l2norm"][0] / math.sqrt(case.d_k or 1)
    size *= abs(logit_factor(case, stack_of(case)))
    if "score-layernorm" in stack:
        size = 1.0
    for name in ("softcap", "clip"):
        if name in stack:
            size = min(size, stack[name][0])
    if "alibi" in stack:
        size = math.hypot(size, stack["alibi"][0] * max(lengths(stack), default=1) / math.sqrt(12))
    return size * math.sqrt(stack["linear-attention"][0]) if "linear-attention" in stack else size


def replicates_of_pairs(case: Case, most: int) -> int:
    """Replicates of a block of pairs: fewer where each picks its logit from a row."""
    queries, keys = draw_shape(case)
    return min(most, 1 << max((_MOST_LOGITS // (queries * keys)).bit_length() - 1, 0))


def variant_logits(recipe: VariantRecipe, key: Key, numbers: VariantNumbers, rows: int) -> Array:
    """Logits [rows], [rows, keys], or [rows, queries, keys] of a group, after all steps."""
    values = dict(zip(recipe.names, numbers.parameters, strict=True))
    lane_q, lane_k = _lanes(recipe, rows)
    x = _drawn(recipe, key, numbers, rows, (lane_q, lane_k), values) * numbers.factor
    of_row = recipe.row or recipe.picked
    last = _last_position(recipe, key, lane_q) if "causal" in values and of_row else None
    x = _scored(x, values)
    if last is not None:
        x = act.causally_masked(x, last)
    if "top-k" in values:
        x = act.largest(x, recipe.kept)
    if "linear-attention" in values:
        per_uniform = 2 if recipe.float_type == jnp.float64 else 1
        words = random_words(key, lane_k, _ROLE_VALUE, jnp.uint32(0), 2 * per_uniform)
        v, _ = box_muller(*to_bits(words, per_uniform))
        return tree_sum(x * v)
    if recipe.picked:
        return _picked(recipe, key, x, last, rows)
    return act.with_sink(x) if "softmax1" in values and recipe.row else x


def _scored(x: Array, values: dict[str, Any]) -> Array:
    """From the scaled product to what is masked."""
    if "locality" in values:
        x = act.local_scaled(x, values["locality"])
    if "score-layernorm" in values:
        x = act.layer_normalised(x)
    if "softcap" in values:
        x = act.soft_capped(x, values["softcap"])
    if "clip" in values:
        x = act.clipped(x, values["clip"])
    if "alibi" in values:
        x = act.distance_biased(x, values["alibi"])
    if "row-constant" in values:
        x = x + values["row-constant"]
    return x


def _lanes(recipe: VariantRecipe, rows: int) -> tuple[Array, Array]:
    if not recipe.queries:
        return lanes_of(rows, recipe.keys if recipe.row or recipe.picked else None)
    row = jnp.arange(rows, dtype=jnp.uint32)[:, None]
    query, key = (jnp.arange(n, dtype=jnp.uint32) for n in (recipe.queries, recipe.keys))
    return (row * recipe.queries + query)[:, :, None], (row * recipe.keys + key)[:, None, :]


def _drawn(
    recipe: VariantRecipe,
    key: Key,
    numbers: VariantNumbers,
    rows: int,
    lanes: tuple[Array, Array],
    values: dict[str, Any],
) -> Array:
    """The product q.k of vectors, normalised and turned."""
    if recipe.laws is None:
        from .rows import given_logits

        return given_logits(key, numbers.laws, rows, recipe.keys)
    norm = next((name for name in _NORMS if name in values), None)
    distance = None
    if "rope" in values:
        distance = values["rope"]
        if recipe.row or recipe.picked:
            distance = distance + jnp.arange(recipe.keys, dtype=recipe.float_type)
    if norm is None and distance is None and not recipe.queries:
        of_row = recipe.row or recipe.picked
        return draw_logits(recipe.laws, key, numbers.laws, rows, recipe.keys if of_row else None)
    x = act.vector_logits(recipe.laws, key, numbers.laws, lanes, norm, distance)
    return x * values["l2norm"] if norm == "l2norm" else x


def _last_position(recipe: VariantRecipe, key: Key, lane_q: Array) -> Array:
    """The last key that each query sees, uniform on 0 ... length - 1."""
    word = random_words(key, lane_q[..., 0], _ROLE_POSITION, jnp.uint32(0), 2)[0]
    last: Array = word % jnp.uint32(recipe.length)
    return last


def _picked(recipe: VariantRecipe, key: Key, x: Array, last: Array | None, rows: int) -> Array:
    """One logit of each row, each with the same probability (to 2^-32 of the number of keys)."""
    lane = jnp.arange(rows, dtype=jnp.uint32)
    word = random_words(key, lane, _ROLE_PICK, jnp.uint32(0), 2)[0]
    n = jnp.uint32(x.shape[-1])
    seen = n if last is None else jnp.minimum(n, last + 1)
    return jnp.take_along_axis(x, (word % seen)[:, None].astype(jnp.int32), axis=-1)[:, 0]
