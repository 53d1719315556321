"""Characteristic functions and densities of the unit element laws, for quadrature.

What can go wrong: `1 - phi(u)` cancels for small u. Every law therefore gives that complement
itself, with full relative accuracy, from expm1, sines or its moments' series.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..elements import ELEMENTS
from .element_moments import Parameter, given

Array = NDArray[np.float64]
AnyArray = NDArray[np.float64] | NDArray[np.complex128]


@dataclass(frozen=True, slots=True)
class Spectrum:
    """What a quadrature needs to know of a unit law.

    `complement(u, parameter)` is `1 - E exp(i u e)`, real for a symmetric law. `support` bounds
    the density, or what is left of it above 1e-18; `atoms` are (place, probability);
    the density's edges or atoms turn the characteristic function at large u by `phase` radians
    per unit of u; 0 for a density that is smooth but at 0. Of two laws the one of lower `rank`
    gives the function, the other one the nodes. `edge` is where the density changes on a
    logarithmic scale.
    """

    rank: int
    complement: Callable[[Array, Parameter], AnyArray]
    density: Callable[[Array, Parameter], Array]
    support: Callable[[Parameter], tuple[float, float]]
    phase: Callable[[Parameter], float] = lambda parameter: 0.0
    symmetric: bool = True
    edge: Callable[[Parameter], float] = lambda parameter: -math.inf
    atoms: Callable[[Parameter], tuple[tuple[float, float], ...]] = lambda parameter: ()


def _with_series(
    name: str, direct: Callable[[Array, Parameter], AnyArray]
) -> Callable[[Array, Parameter], AnyArray]:
    """`direct`, and for |u| < 0.15 minus the sum of `E e^r (i u)^r / r!` from r = 2 to 20."""

    def complement(u: Array, parameter: Parameter) -> AnyArray:
        small = np.abs(u) < 0.15
        value = direct(np.where(small, 1.0, u), parameter)
        if small.any():
            moments = [ELEMENTS[name].moment(r, parameter) for r in range(2, 21)]
            terms = [-m * 1j**r / math.factorial(r) for r, m in enumerate(moments, start=2)]
            near = np.polyval([*reversed(terms), 0.0, 0.0], u[small])
            value[small] = near if np.iscomplexobj(value) else near.real
        return value

    return complement


def _truncated(u: Array, bound: float) -> Array:
    """`1 - [exp(-u^2/2) - Re exp(-A^2/2 - i A u) w((i A - u)/sqrt 2)] / erf(A/sqrt 2)`."""
    from scipy.special import wofz

    edge = np.exp(-(bound**2) / 2 - 1j * bound * u) * wofz((1j * bound - u) / math.sqrt(2))
    value: Array = 1 - (np.exp(-(u**2) / 2) - edge.real) / math.erf(bound / math.sqrt(2))
    return value


def _truncated_density(x: Array, bound: float) -> Array:
    return _normal_density(x, None) / math.erf(bound / math.sqrt(2))


def _truncated_sd(parameter: Parameter) -> float:
    return math.sqrt(ELEMENTS["truncated-normal-raw"].moment(2, parameter))


def _normal_density(x: Array, parameter: Parameter) -> Array:
    value: Array = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return value


def _student_complement(u: Array, parameter: Parameter) -> Array:
    """`1 - E exp(-u^2 V/2)` over the mixing variance `V = (nu-2) / chi^2_nu`, trapezoid in log."""
    from scipy.special import gammainccinv, gammaincinv, gammaln

    half = given(parameter) / 2
    low = math.log(float(gammaincinv(half, 1e-300))) if half > 30 else -46.0 / half - 3.0
    high = math.log(float(gammainccinv(half, 1e-20)))
    y = np.linspace(low, high, max(64, math.ceil((high - low) / min(0.2, 0.5 / math.sqrt(half)))))
    weights = np.exp(half * y - np.exp(y) - gammaln(half)) * (y[1] - y[0])
    rate = (given(parameter) - 2) / (4 * np.exp(y))
    value = np.zeros_like(u)
    for r, w in zip(rate, weights, strict=True):
        if w > 1e-25:
            value -= w * np.expm1(-(u**2) * r)
    return value


def _student_density(x: Array, parameter: Parameter) -> Array:
    from .dot_product import gamma_ratio

    nu = given(parameter)
    peak = gamma_ratio(nu / 2, 0.5) / math.sqrt((nu - 2) * math.pi)
    value: Array = peak * np.exp(-(nu + 1) / 2 * np.log1p(x**2 / (nu - 2)))
    return value


def _student_support(parameter: Parameter) -> tuple[float, float]:
    # the first moment beyond the bound is below 1e-14
    nu = given(parameter)
    bound = min(10.0 ** (14 / (nu - 1)) * math.sqrt(nu), 1e13) if nu < 100 else 12.0
    return -bound, bound


def _lognormal_shape(parameter: Parameter) -> tuple[float, float, float]:
    """S, mean and standard deviation of `exp(S Z)`."""
    s = given(parameter)
    mean = math.exp(s**2 / 2)
    return s, mean, mean * math.sqrt(math.expm1(s**2))


def _lognormal_complement(u: Array, parameter: Parameter) -> AnyArray:
    """Trapezoid in Z on a line turned into the half plane where `exp(i u e)` decays."""
    s, mean, sd = _lognormal_shape(parameter)
    turn = min(1.0, 2 * s) / s
    z = np.linspace(-9.5, 9.5, 96) + 1j * turn
    weights = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0]).real
    places = (np.exp(s * z) - mean) / sd
    value = np.zeros(u.shape, dtype=np.complex128)
    size = np.abs(u)
    for x, w in zip(places, weights, strict=True):
        value -= w * np.expm1(1j * size * x)
    return np.where(u < 0, value.conj(), value)


def _lognormal_density(x: Array, parameter: Parameter) -> Array:
    s, mean, sd = _lognormal_shape(parameter)
    w = np.maximum(mean + sd * x, 1e-300)
    return _normal_density(np.log(w) / s, None) * sd / (s * w)


def _lognormal_support(parameter: Parameter) -> tuple[float, float]:
    s, mean, sd = _lognormal_shape(parameter)
    return (math.exp(-9 * s) - mean) / sd, (math.exp(9 * s + s**2) - mean) / sd


def _lognormal_edge(parameter: Parameter) -> float:
    _, mean, sd = _lognormal_shape(parameter)
    return -mean / sd


def _logistic_density(x: Array, parameter: Parameter) -> Array:
    rate = math.pi / math.sqrt(3)
    value: Array = rate / (4 * np.cosh(rate * x / 2) ** 2)
    return value


def _sinc_complement(u: Array, parameter: Parameter) -> Array:
    value: Array = 1 - np.sinc(math.sqrt(3) / math.pi * u)
    return value


def _exponential(u: Array, parameter: Parameter) -> AnyArray:
    value: AnyArray = 1 - np.exp(-1j * u) / (1 - 1j * u)
    return value


def _logistic(u: Array, parameter: Parameter) -> Array:
    v = np.minimum(math.sqrt(3) * np.abs(u), 700.0)
    value: Array = 1 - v / np.sinh(v)
    return value


SPECTRA: dict[str, Spectrum] = {
    "normal": Spectrum(
        0, lambda u, p: -np.expm1(-(u**2) / 2), _normal_density, lambda p: (-9.5, 9.5)
    ),
    "sparse": Spectrum(
        1,
        lambda u, p: -given(p) * np.expm1(-(u**2) / (2 * given(p))),
        lambda x, p: given(p) ** 1.5 * _normal_density(x * math.sqrt(given(p)), None),
        lambda p: (-9.5 / math.sqrt(given(p)), 9.5 / math.sqrt(given(p))),
        atoms=lambda p: ((0.0, 1 - given(p)),) if given(p) < 1 else (),
    ),
    "laplace": Spectrum(
        2,
        lambda u, p: u**2 / (2 + u**2),
        lambda x, p: np.exp(-math.sqrt(2) * np.abs(x)) / math.sqrt(2),
        lambda p: (-32.0, 32.0),
    ),
    "logistic": Spectrum(
        3, _with_series("logistic", _logistic), _logistic_density, lambda p: (-26.0, 26.0)
    ),
    "student-t": Spectrum(4, _student_complement, _student_density, _student_support),
    "exponential": Spectrum(
        5,
        _with_series("exponential", _exponential),
        lambda x, p: np.exp(-(x + 1)),
        lambda p: (-1.0, 44.0),
        phase=lambda p: 1.0,
        symmetric=False,
    ),
    "uniform": Spectrum(
        6,
        _with_series("uniform", _sinc_complement),
        lambda x, p: np.full_like(x, 0.5 / math.sqrt(3)),
        lambda p: (-math.sqrt(3), math.sqrt(3)),
        phase=lambda p: math.sqrt(3),
    ),
    "truncated-normal-raw": Spectrum(
        7,
        _with_series("truncated-normal-raw", lambda u, p: _truncated(u, given(p))),
        lambda x, p: _truncated_density(x, given(p)),
        lambda p: (-min(given(p), 9.5), min(given(p), 9.5)),
        phase=lambda p: min(given(p), 9.5),
    ),
    "truncated-normal": Spectrum(
        8,
        _with_series("truncated-normal", lambda u, p: _truncated(u / _truncated_sd(p), given(p))),
        lambda x, p: _truncated_density(x * _truncated_sd(p), given(p)) * _truncated_sd(p),
        lambda p: (
            -min(given(p), 9.5) / _truncated_sd(p),
            min(given(p), 9.5) / _truncated_sd(p),
        ),
        phase=lambda p: min(given(p), 9.5) / _truncated_sd(p),
    ),
    "lognormal": Spectrum(
        9,
        _lognormal_complement,
        _lognormal_density,
        _lognormal_support,
        phase=lambda p: -_lognormal_edge(p),
        symmetric=False,
        edge=_lognormal_edge,
    ),
    "rademacher": Spectrum(
        10,
        lambda u, p: 2 * np.sin(u / 2) ** 2,
        lambda x, p: np.zeros_like(x),
        lambda p: (0.0, 0.0),
        phase=lambda p: 1.0,
        atoms=lambda p: ((-1.0, 0.5), (1.0, 0.5)),
    ),
}
