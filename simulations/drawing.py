"""What draws the logits of a case: plain vectors, or weights and tokens."""

from __future__ import annotations

from typing import Any

from jax import Array

from ..stats.cases import Case
from .recipes import Key, Recipe, recipe_of
from .vectors import draw_logits
from .weights import WeightRecipe, weight_logits, weight_recipe

Drawn = Recipe | WeightRecipe


def prepared(case: Case, seed: int) -> tuple[Drawn, Any]:
    """What is compiled for a case, and the numbers it runs with (fixed weights follow the seed)."""
    return recipe_of(case) if case.weights is None else weight_recipe(case, seed)


def drawn_logits(
    recipe: Drawn, key: Key, numbers: Any, rows: int, keys: int | None = None
) -> Array:
    """Logits [rows] of one pair a replicate, or [rows, keys] of one query with its keys."""
    if isinstance(recipe, WeightRecipe):
        return weight_logits(recipe, key, numbers, rows, keys)
    return draw_logits(recipe, key, numbers, rows, keys)
