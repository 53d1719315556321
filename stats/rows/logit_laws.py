"""The laws of the logits of one softmax row: iid, given a common random scale."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, exp, log, sqrt
from typing import Literal

import numpy as np

from ..quadrature import Array, scale_rule

STEP = 0.2
"""Step of the trapezoid rules, in the logarithm of a scaled weight."""

ORDERS = 12
"""Highest moment of the scaled weights that is asked for."""


@dataclass(frozen=True, slots=True)
class RowLaw:
    """Law of a row of logits: iid given a common random scale.

    Logit = `std * prod_d (chi_d / sqrt(d)) * x` with x of variance 1: standard `normal`,
    `rademacher` (sum of `d` signs over sqrt(d)) or `sphere` (sqrt(d) times the cosine to a uniform
    direction in `d` dimensions); one independent chi per entry of `chi`, common to the row. `shift`
    is the noncentrality of the chi of a query that has a mean. A `capped` logit is
    `cap tanh(x / cap)` of a normal x of standard deviation `std`.

    Examples:
        >>> RowLaw(1.0, chi=(64,))  # q and k_j standard normal, 1/sqrt(d_k)
        RowLaw(std=1.0, chi=(64,), base='normal', d=0, shift=0.0)

    """

    std: float
    chi: tuple[int, ...] = ()
    base: Literal["normal", "rademacher", "sphere", "capped"] = "normal"
    d: int = 0
    shift: float = 0.0
    cap: float = field(default=0.0, repr=False)  # of few laws only

    @property
    def reach(self) -> float:
        """The largest logit of a bounded law."""
        return self.cap if self.base == "capped" else self.std * sqrt(self.d)

    def at(self, std: float) -> RowLaw:
        """The iid law with the common scale fixed."""
        return RowLaw(std, (), self.base, self.d, cap=self.cap)


def fixed_scales(law: RowLaw, n: int) -> list[tuple[float, RowLaw]]:
    """Weights and iid laws whose weighted sum averages over the common scale, to 1e-12.

    Row statistics turn from uniform to one-hot near sqrt(2 log n); few dimensions need more nodes.
    """
    if not law.chi:
        return [(1.0, law)]
    d = min(law.chi)
    size = 12 if d >= 64 else 16 if d >= 32 else 24 if d >= 8 else 32
    if n > 10_000 and d < 32:
        size += 16
    if not law.std:
        return [(1.0, law.at(0.0))]
    r, w = scale_rule(law.chi, sqrt(log(n)) / law.std, size, law.shift)
    return [(float(wi), law.at(law.std * float(ri))) for ri, wi in zip(r, w, strict=True)]


@lru_cache(maxsize=64)
def atoms(law: RowLaw) -> tuple[Array, Array]:
    """Values and probabilities of the logit, or nodes that integrate to full accuracy."""
    if law.base == "normal":
        step = STEP * min(2.0, 1.0 / law.std) if law.std else 2.0 * STEP
        z = step * np.arange(-ceil(9.0 / step), ceil((9.0 + ORDERS * law.std) / step) + 1)
        return law.std * z, step / sqrt(2.0 * np.pi) * np.exp(-0.5 * z * z)
    if law.base == "capped":
        return _capped(law)
    if on_lattice(law):
        return _sign_sum(law)
    return _cosine(law)


def _capped(law: RowLaw) -> tuple[Array, Array]:
    """Trapezoid rule in the normal; tanh has poles at distance `pi cap / (2 std)`."""
    s = law.std
    step = min(0.4, 0.15 / s, 0.12 * law.cap / s) if s else 0.4
    z = step * np.arange(-ceil(10.0 / step), ceil(10.0 / step) + 1)
    w = step / sqrt(2.0 * np.pi) * np.exp(-0.5 * z * z)
    return law.cap * np.tanh(s * z / law.cap), w


def _sign_sum(law: RowLaw) -> tuple[Array, Array]:
    from scipy.special import gammaln

    k = np.arange(law.d + 1.0)
    log_w = gammaln(law.d + 1.0) - gammaln(k + 1) - gammaln(law.d - k + 1) - law.d * log(2.0)
    kept = log_w > -50.0 + min(0.0, float(log_w.max()))
    x = law.std * (2.0 * k - law.d) / sqrt(law.d)
    w = np.exp(log_w[kept])
    return x[kept], w / w.sum()


def _cosine(law: RowLaw) -> tuple[Array, Array]:
    """Trapezoid rule in v, cosine = tanh v, of the density (1 - cosine^2)^((d-3)/2)."""
    reach = law.std * sqrt(law.d)
    step = min(0.4 / sqrt(law.d), STEP / reach if reach else 1.0)
    edge = cosine_edge(law.d)
    v = step * np.arange(-ceil(edge / step), ceil(edge / step) + 1)
    w = np.exp(-(law.d - 1) * np.log(np.cosh(v)))
    return reach * np.tanh(v), w / w.sum()


def cosine_edge(d: int) -> float:
    """Where cosh(v)^-(d-1), the density of v = artanh(cosine), falls to 1e-19."""
    return float(np.arccosh(exp(44.0 / (d - 1))))


def on_lattice(law: RowLaw) -> bool:
    """Whether two logits of a row can tie."""
    return law.base == "rademacher" or (law.base == "sphere" and law.d == 1)
