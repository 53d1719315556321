"""Moments of the logit as far as the scale: vectors normalised, turned, or summed over values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..cases import Case, Kind
from ..elements import element_moment
from ..transforms.plain_equivalents import (
    is_symmetric,
    logit_factor,
    norm_variance,
    plain_equivalent,
)
from ..transforms.stacks import Stack
from .dot_product import absolute_moment, gamma_ratio, rope_kurtosis
from .logit_moments import ORDER, LogitMoments, logit_moments
from .mean_absolute import AbsoluteLogit, absolute_logit


@dataclass(frozen=True, slots=True)
class Transformed:
    """Moments of the transformed logit, its mean absolute value where known, and their words."""

    moments: LogitMoments
    absolute: AbsoluteLogit | None
    kind: Kind
    formula: str


def drawn_moments(case: Case, stack: Stack) -> Transformed | str:
    """The moments after the scale: of normalised, turned or plain vectors."""
    factor = abs(logit_factor(case, stack))
    if "linear-attention" in stack:
        return _linear(case, int(stack["linear-attention"][0]), factor)
    plain = plain_equivalent(case, stack)
    if isinstance(plain, Case):
        m = logit_moments(plain)
        moments = replace(m, mean=m.mean * factor, std=m.std * factor)
        absolute = absolute_logit(plain).times(factor)
        known = None if absolute.kind == "none" else absolute
        return Transformed(moments, known, "closed form", "that of the plain logit")
    variance = norm_variance(case, stack)
    if variance is not None:
        words = "trace of the product of both covariances"
        return _partly(math.sqrt(variance) * factor, (1.0, 0.0, 1.0), words)
    if "rope" in stack and not {"qk-rmsnorm", "qk-layernorm", "l2norm"} & set(stack):
        return _rotated(case, stack["rope"][0], factor)
    return plain


def _partly(std: float, standardised: tuple[float, ...], formula: str) -> Transformed:
    return Transformed(LogitMoments(0.0, std, standardised), None, "closed form", formula)


def _rotated(case: Case, distance: float, factor: float) -> Transformed:
    """Iid elements of any law: variance, and kurtosis where signs are symmetric."""
    assert case.d_k is not None
    std = math.sqrt(case.d_k) * case.sigma_q * case.sigma_k * factor
    laws = (case.elements_q, case.elements_k)
    square, fourth = ([element_moment(law, r) for law in laws] for r in (2, 4))
    std *= math.sqrt(math.prod(square))
    known: tuple[float, ...] = (1.0, 0.0, 1.0)
    if any(map(is_symmetric, laws)) and all(map(math.isfinite, fourth)):
        kq, kk = (m4 / m2**2 for m4, m2 in zip(fourth, square, strict=True))
        known += (0.0, 3.0 + rope_kurtosis(case.d_k, distance, kq, kk))
    return _partly(std, known, "E y^4 by planes: stats.laws.dot_product.rope_kurtosis")


def _linear(case: Case, n: int, factor: float) -> Transformed:
    """`sum_j (q.k_j) v_j = q.h` is `chi_d chi_N` times a normal, if q and k are normal."""
    assert case.d_k is not None
    d = case.d_k
    std = math.sqrt(n * d) * case.sigma_q * case.sigma_k * factor
    formula = "sqrt(N d) s; chi_d chi_N times a normal"
    if (case.elements_q, case.elements_k) != ("normal", "normal"):
        squares = (element_moment(law, 2) for law in (case.elements_q, case.elements_k))
        return _partly(std * math.sqrt(math.prod(squares)), (1.0, 0.0, 1.0), formula)
    standardised = [1.0]
    for m in range(1, ORDER // 2 + 1):
        even = standardised[-1] * (2 * m - 1) * (1 + 2 * (m - 1) / d) * (1 + 2 * (m - 1) / n)
        standardised += [0.0, even]
    size = std / math.sqrt(n * d)
    first, third = (
        absolute_moment(d, r) * 2 ** (r / 2) * gamma_ratio(n / 2, r / 2) * size**r for r in (1, 3)
    )
    absolute = AbsoluteLogit(first, third, "closed form", "E chi_d E chi_N sqrt(2/pi) s")
    moments = LogitMoments(0.0, std, tuple(standardised))
    return Transformed(moments, absolute, "closed form", formula)
