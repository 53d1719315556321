"""A case made ready to draw: what is compiled, what is handed over at run time, and the keys."""

from __future__ import annotations

import importlib
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..stats.cases import Case
from .elements import Sampler, sampler_of
from .keys import cell_key
from .random import threefry_2x32


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is compiled: the two laws, whether they are correlated, the elements' float type."""

    q: Sampler
    k: Sampler
    correlated: bool
    dtype: str

    @property
    def float_type(self) -> Any:
        """The type that is computed in: float64 for float64, else float32."""
        return jnp.float64 if self.dtype == "float64" else jnp.float32

    @property
    def packed(self) -> bool:
        """Whether both vectors are signs, which meet by counting bits."""
        return self.q.packed and self.k.packed and self.dtype in ("float32", "float64")


class Numbers(NamedTuple):
    """What is handed over at run time."""

    d_k: Any
    sigma_q: Any
    sigma_k: Any
    mean_q: Any
    mean_k: Any
    correlation: Any
    unit: Any
    constants_q: tuple[Any, ...]
    constants_k: tuple[Any, ...]


Key = tuple[Array, Array]


def with_float64(dtype: str) -> AbstractContextManager[object]:
    """Context in which a float64 case may compute; nothing global is touched."""
    if dtype != "float64":
        return nullcontext()
    enable: Any = getattr(jax, "enable_x64", None)
    if enable is None:  # its place before jax 0.8
        enable = importlib.import_module("jax.experimental").enable_x64
    context: AbstractContextManager[object] = enable(True)
    return context


def recipe_of(case: Case) -> tuple[Recipe, Numbers]:
    """What is compiled for a case, and the numbers it runs with."""
    if case.d_k is None:
        raise ValueError("d_k must be given to draw q and k, got None")
    q, constants_q = sampler_of(case.elements_q)
    k, constants_k = sampler_of(case.elements_k)
    for side, law, mean in (("q", q, case.mean_q), ("k", k, case.mean_k)):
        if law.normalised and mean:
            raise ValueError(f"mean_{side} must be 0 for a normalised law, got {mean}")
        if law.normalised and case.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64 on a sphere, got {case.dtype}")
    recipe = Recipe(q, k, case.correlation != 0, case.dtype)
    real: Any = np.float64 if case.dtype == "float64" else np.float32
    numbers = Numbers(
        d_k=np.int32(case.d_k),
        sigma_q=real(case.sigma_q),
        sigma_k=real(case.sigma_k),
        mean_q=real(case.mean_q),
        mean_k=real(case.mean_k),
        correlation=real(case.correlation),
        unit=real(unit_of(case)),
        constants_q=tuple(real(c) for c in constants_q),
        constants_k=tuple(real(c) for c in constants_k),
    )
    return recipe, numbers


def unit_of(case: Case) -> float:
    """The power of two above the logit's root mean square `sqrt(d (s_q^2+m_q^2)(s_k^2+m_k^2))`.

    In its units eighth powers neither overflow nor vanish, and taking it out again is exact.

    Examples:
        >>> unit_of(Case(d_k=60))
        8.0

    """
    size_q = math.hypot(case.sigma_q, case.mean_q)
    size_k = math.hypot(case.sigma_k, case.mean_k)
    return power_of_two_above(math.sqrt(case.d_k or 1) * size_q * size_k)


def power_of_two_above(size: float) -> float:
    """The power of two above a positive size, within what float32 holds with its inverse."""
    exponent = math.frexp(size)[1] if size > 0 else 0
    return math.ldexp(1.0, min(max(exponent, -100), 100))


def cell_words(case: Case, seed: int) -> tuple[np.uint32, np.uint32]:
    """The key of the case's cell, for `block_key`."""
    first, second = cell_key(seed, case.cell().canonical())
    return np.uint32(first), np.uint32(second)


def block_key(cell: tuple[Any, Any], high: Any, low: Any) -> Key:
    """The key of a block from its index' two words: a bijection, so no two blocks share one."""
    return threefry_2x32(cell[0], cell[1], high, low)
