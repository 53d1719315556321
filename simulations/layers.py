"""What is compiled for a case with weights, and the numbers it runs with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..stats.cases import Case
from ..stats.weights.fixed import Matrices
from ..stats.weights.layers import layer_of
from .elements import Sampler, sampler_of
from .recipes import power_of_two_above

_LANES = 2**17  # rows or columns at once: enough to keep the cores busy, few enough for caches


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


def weight_recipe(case: Case, fixed: Matrices | None) -> tuple[WeightRecipe, WeightNumbers]:
    """What is compiled for a case, and its numbers; `fixed` where only tokens are fresh."""
    if case.dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be float32 or float64 with weights, got {case.dtype}")
    layer = layer_of(case)
    orthonormal = layer.law == "orthogonal"
    sampler, constants = (None, ()) if orthonormal else sampler_of(layer.law)
    real: Any = np.float64 if case.dtype == "float64" else np.float32
    recipe = WeightRecipe(
        sampler,
        layer.d_model,
        layer.d_k,
        layer.tied,
        fixed is not None,
        case.tokens,
        case.pair == "diagonal",
        case.dtype,
    )
    sd = (layer.variance_q * layer.variance_k) ** 0.5
    # root mean square of the logit, within a factor: E |x|^2 = D
    size = (layer.d_k * (layer.d_k + 2 if layer.tied else 1)) ** 0.5 * layer.d_model * sd
    numbers = WeightNumbers(
        sigma=real(1.0 if orthonormal or fixed is not None else sd),
        unit=real(power_of_two_above(size)),
        constants=tuple(real(c) for c in constants),
        fixed=() if fixed is None else tuple(np.asarray(w, real) for w in fixed),
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
