"""`E |x|` and the distribution function of the logit from its characteristic function.

What can go wrong: with few elements the characteristic function decays slowly, so that the
integral must go far or its tail be known. The tail of `E |x|` is added in closed form from
`phi(t) = at_zero + slope / t + ...`, and the end T is moved until what this leaves is below 1e-12
(smooth laws) or 1e-11 (laws with edges or atoms) of the standard deviation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..cases import Case
from ..checks import InputError
from ..elements import finite_moments_below
from .characteristic import PHASE, ProductLaw, panel_nodes
from .element_cfs import Array
from .logit_moments import check_logit_case, logit_moments


class NoDecayError(ArithmeticError):
    """The characteristic function falls too slowly for an integral of seconds."""


_FARTHEST = 1000.0  # in units of 1 / sd: laws that decay at all have done so by 300
_FARTHEST_CHEAPLY = 10_000.0  # signs, whose sums are short, and correlated normals: a closed cf


def absolute_mean(case: Case) -> float:
    """`E |x| = (2/pi) int_0^inf (1 - Re phi(t)^d_k) / t^2 dt`, any independent elements.

    von Bahr 1965, Annals of Mathematical Statistics 36, eq. for r = 1. Relative accuracy 1e-10,
    mostly 1e-13. With d_k = 1 it is `E |q| E |k|`. Not for two discrete laws, nor the sphere.
    Raises NoDecayError where the integral has no end.

    Examples:
        >>> round(absolute_mean(Case(d_k=64, elements_q="uniform", elements_k="uniform")), 9)
        6.382053395

    """
    d_k, law = check_logit_case(case), ProductLaw(case)
    sigma = case.sigma_q * case.sigma_k
    if d_k == 1 and not case.correlation:
        return sigma * law.inner.absolute_mean() * law.outer.absolute_mean()
    moments = logit_moments(case)
    mean, std = abs(moments.mean) / sigma, moments.std / sigma
    cheap = "rademacher" in (case.elements_q, case.elements_k) or case.correlation != 0
    end, slope = _end(law, d_k, std, _FARTHEST_CHEAPLY if cheap else _FARTHEST)
    t, weights = panel_nodes(0.0, end, _panel_rule(case, law, mean, std))
    real, imaginary = (d_k * part for part in law.log_cf(t))
    missing = 2 * np.sin(imaginary / 2) ** 2 - np.expm1(real) * np.cos(imaginary)
    body = float(weights @ (missing / t**2))
    return sigma * 2 / math.pi * (body + _tail(law.at_zero, slope, d_k, end))


def _panel_rule(
    case: Case, law: ProductLaw, mean: float, std: float
) -> Callable[[float, float], bool]:
    """Panels that resolve exp(itx) within 8 sd, grow in a smooth tail and shrink towards 0."""
    below = min(finite_moments_below(text) for text in (case.elements_q, case.elements_k))
    # the integrand is |t|^(nu-2) at 0: a panel from 0 to b leaves (b sd)^(nu-1)
    first = min(1e-7, 10.0 ** (-13 / (below - 1))) / std
    base = PHASE / (mean + 8 * std)

    def wide(a: float, b: float) -> bool:
        far = (a - 8 / std) / 4 if law.smooth else 0.0
        return b - a > max(base, far) or (b - a > a and b > first)

    return wide


def _end(law: ProductLaw, d_k: int, std: float, farthest: float) -> tuple[float, float]:
    """Where the integral may end, and the slope of the tail beyond (0: the tail is nothing)."""
    end = 8.8 / std
    while True:
        t = end * np.linspace(0.8, 1, 9)
        real, imaginary = (d_k * part for part in law.log_cf(t))
        value = np.exp(real) * np.cos(imaginary)
        for slope in (0.0, law.slope):
            left = np.abs(value - np.minimum(1, law.at_zero + slope / t) ** d_k).max()
            # what oscillates integrates to less by 1/t; a smooth rest has two powers of t to lose
            limit = 1e-12 if law.smooth else 1e-11 * max(1.0, end if slope else 1.0)
            if left < limit * std * end:
                return end, slope
        end *= 1.3
        if end * std > farthest:
            raise NoDecayError("phi^d has no tail that is known; draw instead")


def _tail(at_zero: float, slope: float, d_k: int, end: float) -> float:
    """`int_end^inf (1 - (at_zero + slope/t)^d) / t^2 dt`."""
    if not slope:
        return (1 - at_zero**d_k) / end
    power = d_k + 1
    return 1 / end - ((at_zero + slope / end) ** power - at_zero**power) / (slope * power)


def distribution_function(case: Case, x: Array) -> Array:
    """`P(X <= x) = 1/2 - (1/pi) int Im(exp(-itx) phi(t)^d_k) / t dt` (Gil-Pelaez 1951).

    Absolute accuracy 1e-12. With few elements, or atoms, phi^d decays too slowly: refused.

    Examples:
        >>> case = Case(d_k=16, elements_q="uniform", elements_k="uniform")
        >>> round(float(distribution_function(case, np.array([6.0]))[0]), 9)
        0.933270572

    """
    d_k, law = check_logit_case(case), ProductLaw(case)
    moments = logit_moments(case)
    sigma = case.sigma_q * case.sigma_k
    y, std = np.asarray(x, dtype=np.float64) / sigma, moments.std / sigma
    end = _end_of_cf(law, d_k, std)
    reach = float(np.abs(y).max()) + abs(moments.mean) / sigma + 8 * std
    first = 1e-7 / std
    t, weights = panel_nodes(
        0.0, end, lambda a, b: b - a > PHASE / reach or (b - a > a and b > first)
    )
    real, imaginary = (d_k * part for part in law.log_cf(t))
    angle = imaginary - np.multiply.outer(y, t)
    below: Array = 0.5 - np.exp(real) * np.sin(angle) @ (weights / t) / math.pi
    return below


def _end_of_cf(law: ProductLaw, d_k: int, std: float) -> float:
    end = 8.8 / std
    while end * std < 2000:
        size, _ = law.log_cf(end * np.linspace(0.8, 1, 9))
        if d_k * size.max() < math.log(1e-13):
            return end
        end *= 1.3
    raise InputError(f"d_k must be larger to invert this law's phi(t)^d, got {d_k}; double it")
