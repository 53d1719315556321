"""What draws the logits of a case: plain vectors, or weights and tokens."""

from __future__ import annotations

from typing import Any

from jax import Array

from ..stats.cases import Case
from .half import HalfRecipe, half_logits, half_recipe
from .layers import WeightRecipe, weight_recipe
from .matrices import drawn_weights
from .recipes import Key, Recipe, recipe_of
from .variants import VariantRecipe, variant_logits, variant_recipe
from .vectors import draw_logits
from .weights import weight_logits

Drawn = Recipe | HalfRecipe | WeightRecipe | VariantRecipe


def prepared(case: Case, seed: int) -> tuple[Drawn, Any]:
    """What is compiled for a case, and the numbers it runs with (fixed weights follow the seed)."""
    if case.transform:
        return variant_recipe(case)
    if case.weights is None:
        return half_recipe(case) if case.rounds else recipe_of(case)
    return weight_recipe(case, drawn_weights(case, seed) if case.ensemble == "tokens" else None)


def drawn_logits(
    recipe: Drawn, key: Key, numbers: Any, rows: int, keys: int | None = None
) -> Array:
    """Logits [rows] of one pair a replicate, or [rows, keys] of one query with its keys."""
    if isinstance(recipe, VariantRecipe):
        return variant_logits(recipe, key, numbers, rows)
    if isinstance(recipe, HalfRecipe):
        return half_logits(recipe, key, numbers, rows, keys)
    if isinstance(recipe, WeightRecipe):
        return weight_logits(recipe, key, numbers, rows, keys)
    return draw_logits(recipe, key, numbers, rows, keys)
