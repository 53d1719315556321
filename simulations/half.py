"""Logits in half precision: every step is rounded where the case says.

The products q_i k_i go into one running sum, dimension by dimension, and the logit is stored. The
scale multiplies q (or q and k) before the products, or the stored logit after them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..stats.cases import Case
from ..stats.conventions import parse_scale, scale_factor
from .recipes import Key, Numbers, Recipe, recipe_of
from .rounding import rounded
from .vectors import draw_pair, lanes_of


@dataclass(frozen=True, slots=True)
class HalfRecipe:
    """What is compiled: the laws and the precisions of products, running sum and stored logit."""

    laws: Recipe
    products: str
    accumulate: str
    before: bool

    packed = False

    @property
    def stored(self) -> str:
        """Precision of the elements and of the stored logit."""
        return self.laws.dtype

    @property
    def float_type(self) -> Any:
        """The type that is computed in."""
        return jnp.float32


class HalfNumbers(NamedTuple):
    """What is handed over at run time: the laws' numbers and what multiplies q, k and the logit."""

    laws: Numbers
    of_q: Any
    of_k: Any
    after: Any
    unit: Any


def half_recipe(case: Case) -> tuple[HalfRecipe, HalfNumbers]:
    """What is compiled for a case that rounds, and the numbers it runs with."""
    laws, numbers = recipe_of(case)
    factor, place = scale_factor(case), parse_scale(case.scale)[0].place
    of_q, of_k, after = {
        "product": (1.0, 1.0, factor),
        "query": (factor, 1.0, 1.0),
        "both": (math.sqrt(factor), math.sqrt(factor), 1.0),
    }[place]
    recipe = HalfRecipe(
        laws,
        case.dtype_products or "float32",
        case.dtype_accumulate or "float32",
        place != "product",
    )
    unit = float(numbers.unit) * math.ldexp(1.0, math.frexp(factor)[1])
    scales = (np.float32(x) for x in (of_q, of_k, after, unit))
    return recipe, HalfNumbers(numbers, *scales)


def half_logits(
    recipe: HalfRecipe, key: Key, numbers: HalfNumbers, rows: int, keys: int | None = None
) -> Array:
    """Scaled logits [rows] or [rows, keys] as the precisions of the recipe give them."""
    lane_q, lane_k = lanes_of(rows, keys)
    d_k = numbers.laws.d_k

    def before(x: Array, factor: Array) -> Array:
        return rounded(x * factor, recipe.stored) if recipe.before else x

    def add(i: Array, total: Array) -> Array:
        q, k = draw_pair(recipe.laws, key, numbers.laws, lane_q, lane_k, i)
        for j in (0, 1):
            of_q, of_k = before(q[j], numbers.of_q), before(k[j], numbers.of_k)
            following = rounded(total + rounded(of_q * of_k, recipe.products), recipe.accumulate)
            total = jnp.where(2 * i + j < d_k, following, total)
        return total

    total = lax.fori_loop(0, (d_k + 1) // 2, add, jnp.zeros(lane_k.shape, jnp.float32))
    return rounded(rounded(total, recipe.stored) * numbers.after, recipe.stored)
