"""Closed forms for the dot product `x = q.k` and for what a sample of it tells.

kurtosis_q and kurtosis_k are the elements' fourth standardised moments (normal 3, uniform 1.8,
Rademacher 1, Laplace 6); a returned kurtosis is the excess, 0 for the normal law.
"""

from __future__ import annotations

import math
from typing import Literal

from ..checks import InputError

Norm = Literal["rms", "layer"]


def dot_product_mean(d_k: int, mean_q: float = 0.0, mean_k: float = 0.0) -> float:
    """`E x = d_k mean_q mean_k`, q independent of k, any laws.

    Examples:
        >>> dot_product_mean(12, 0.5, -2.0)
        -12.0

    """
    return d_k * mean_q * mean_k


def dot_product_variance(
    d_k: int,
    sigma_q: float = 1.0,
    sigma_k: float = 1.0,
    mean_q: float = 0.0,
    mean_k: float = 0.0,
) -> float:
    """`Var x = d_k (sigma_q^2 sigma_k^2 + mean_q^2 sigma_k^2 + mean_k^2 sigma_q^2)`.

    Uncorrelated elements of any law, q independent of k; Vaswani et al. 2017 (1706.03762),
    footnote 4, for means of 0.

    Examples:
        >>> dot_product_variance(64)
        64.0

    """
    of_products = (sigma_q * sigma_k) ** 2 + (mean_q * sigma_k) ** 2 + (mean_k * sigma_q) ** 2
    return d_k * of_products


def dot_product_skewness(d_k: int, skewness_q: float = 0.0, skewness_k: float = 0.0) -> float:
    """`skewness_q skewness_k / sqrt(d_k)`: iid elements with mean 0 (`kappa_3` is additive).

    Examples:
        >>> dot_product_skewness(16, 2.0, 2.0)
        1.0

    """
    return skewness_q * skewness_k / math.sqrt(d_k)


def dot_product_kurtosis(d_k: int, kurtosis_q: float = 3.0, kurtosis_k: float = 3.0) -> float:
    """`(kurtosis_q kurtosis_k - 3) / d_k`: iid elements with mean 0 (`kappa_4` is additive).

    Examples:
        >>> dot_product_kurtosis(16), dot_product_kurtosis(16, 1.0, 1.0)
        (0.375, -0.125)

    """
    return (kurtosis_q * kurtosis_k - 3) / d_k


def gamma_ratio(a: float, b: float) -> float:
    """`Gamma(a + b) / Gamma(a)` for a > 0, b >= 0, without the cancellation of two log-gammas.

    Large a: the difference of Stirling's series (Abramowitz and Stegun 6.1.40), whose first term
    left out is 1/(1188 a^9), below 1e-15 from a = 16 on.

    Examples:
        >>> gamma_ratio(1e6, 1.0)
        1000000.0

    """
    if b == int(b):
        return math.prod(a + j for j in range(int(b)))
    if a < 16:
        return gamma_ratio(a + 16, b) / math.prod((a + b + j) / (a + j) for j in range(16))

    def stirling(z: float) -> float:
        w = 1 / z**2
        return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w / 1680))) / z

    growth = (a + b - 0.5) * math.log1p(b / a) - b
    return math.pow(a, b) * math.exp(growth + stirling(a + b) - stirling(a))


def absolute_moment(d_k: int, r: float = 1.0) -> float:
    """`E |x|^r = 2^r Gamma((r+1)/2) Gamma((d_k+r)/2) / (sqrt(pi) Gamma(d_k/2))`, normal q and k.

    `x = |q| z` with z standard normal and |q| chi-distributed with d_k degrees of freedom.

    Examples:
        >>> round(absolute_moment(64, 2), 9)
        64.0

    """
    half = math.pow(2.0, r) * math.gamma((r + 1) / 2) / math.sqrt(math.pi)
    return half * gamma_ratio(d_k / 2, r / 2)


def mean_absolute_dot_product(d_k: int) -> float:
    """`E |x| = 2 Gamma((d_k+1)/2) / (sqrt(pi) Gamma(d_k/2))`, standard normal q and k.

    The same number for Rademacher elements and an even d_k.

    Examples:
        >>> round(mean_absolute_dot_product(64), 10)
        6.3581922399

    """
    return absolute_moment(d_k, 1.0)


def mean_chi(d_k: int) -> float:
    """`E |q| = sqrt(2) Gamma((d_k+1)/2) / Gamma(d_k/2)`, standard normal q.

    Examples:
        >>> round(mean_chi(2) ** 2 / math.pi * 2, 12)
        1.0

    """
    return math.sqrt(2) * gamma_ratio(d_k / 2, 0.5)


def correlated_cumulant(d_k: int, rho: float, r: int) -> float:
    """`kappa_r = d_k (r-1)! 2^(r-1) [((1+rho)/2)^r + (-(1-rho)/2)^r]`, standard normal pairs.

    rho is the correlation of q_i and k_i: mean `d_k rho`, variance `d_k (1 + rho^2)`. From
    `q_i k_i = ((1+rho) u^2 - (1-rho) v^2) / 2` with independent standard normals u and v.

    Examples:
        >>> correlated_cumulant(64, 0.25, 2)
        68.0

    """
    chi_squares = ((1 + rho) / 2) ** r + (-(1 - rho) / 2) ** r
    return d_k * math.factorial(r - 1) * 2.0 ** (r - 1) * chi_squares


def rope_kurtosis(
    d_k: int,
    position: float,
    kurtosis_q: float = 3.0,
    kurtosis_k: float = 3.0,
    base: float = 10_000.0,
) -> float:
    """Excess kurtosis of the logit under rotary embedding at a relative position.

    Plane i turns by `position base^(-2i/d_k)`; with c, s its cosine and sine and iid elements of
    mean 0 and standard deviation 1, `E y^4 = 2 (kurtosis_q - 3) [(c^4 + s^4) kurtosis_k +
    6 c^2 s^2] + 3 (2 kurtosis_k + 2)` and `kappa_4 = sum (E y^4 - 12)`. Mean and variance do not
    change, and with normal elements nothing does. Su et al. 2021 (2104.09864), eq. 15, rotates.

    Examples:
        >>> round(rope_kurtosis(64, 13, 1.8, 1.8), 9), round(rope_kurtosis(64, 0, 1.8, 1.8), 9)
        (0.000602353, 0.00375)

    """
    if d_k % 2:
        raise InputError(f"d_k must be even for rotary planes, got {d_k}")
    fourth = 0.0
    for i in range(d_k // 2):
        c2 = math.cos(position * base ** (-2 * i / d_k)) ** 2
        s2 = 1 - c2
        mixed = (c2**2 + s2**2) * kurtosis_k + 6 * c2 * s2
        fourth += 2 * (kurtosis_q - 3) * mixed + 3 * (2 * kurtosis_k + 2) - 12
    return fourth / d_k**2


def qk_norm_variance(d_k: int, norm: Norm = "rms") -> float:
    """Variance of `q.k` when both are normalised to length sqrt(d_k): `d_k`, isotropic q or k.

    Layer normalisation also takes the mean out and leaves d_k - 1 dimensions: `d_k^2/(d_k - 1)`.
    Henry et al. 2020 (2010.04245) normalise queries and keys.

    Examples:
        >>> qk_norm_variance(64), qk_norm_variance(5, "layer")
        (64.0, 6.25)

    """
    return d_k**2 / _directions(d_k, norm)


def qk_norm_kurtosis(d_k: int, norm: Norm = "rms") -> float:
    """Excess kurtosis `-6/(n+2)` of the same logit, n = d_k for rms and d_k - 1 for layer.

    `(1 + cos)/2` of the angle is `Beta((n-1)/2, (n-1)/2)`.

    Examples:
        >>> qk_norm_kurtosis(4), qk_norm_kurtosis(5, "layer")
        (-1.0, -1.0)

    """
    return -6 / (_directions(d_k, norm) + 2)


def _directions(d_k: int, norm: str) -> int:
    if norm not in ("rms", "layer"):
        raise InputError(f"norm must be rms or layer, got {norm!r}")
    if d_k < 2:
        raise InputError(f"d_k must be at least 2 for a normalised vector, got {d_k}")
    return d_k if norm == "rms" else d_k - 1
