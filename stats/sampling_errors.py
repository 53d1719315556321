"""What a finite sample does to a variance and to a standard deviation."""

from __future__ import annotations

import math

from .checks import InputError


def sample_variance_sd(variance: float, excess_kurtosis: float, n: int) -> float:
    """`sd(S^2) = variance sqrt(2/(n-1) + excess_kurtosis/n)`, exact for n iid values.

    S^2 divides by n - 1. Cramer 1946, Mathematical Methods of Statistics, section 27.4.

    Examples:
        >>> sample_variance_sd(1.0, 0.0, 9)
        0.5

    """
    if n < 2:
        raise InputError(f"n must be an integer of at least 2, got {n}")
    return variance * math.sqrt(2 / (n - 1) + excess_kurtosis / n)


def sample_std_se(std: float, excess_kurtosis: float, n: int) -> float:
    """`SE(S) = std/2 sqrt(2/(n-1) + excess_kurtosis/n)`, to first order in 1/n.

    Examples:
        >>> round(sample_std_se(8.0, 6 / 64, 10_000), 6)
        0.057882

    """
    return sample_variance_sd(1.0, excess_kurtosis, n) * std / 2


def sample_std_bias(std: float, excess_kurtosis: float, n: int) -> float:
    """`E S - std = -std (excess_kurtosis + 2) / (8 n)`, to first order in 1/n.

    Examples:
        >>> sample_std_bias(8.0, 0.0, 1000)
        -0.002

    """
    return -std * (excess_kurtosis + 2) / (8 * n)


def sample_variance_skewness(k3: float, k4: float, k6: float, n: int) -> float:
    """Skewness of S^2 from standardised cumulants, to first order in 1/sqrt(n).

    `(k6 + 12 k4 + 4 k3^2 + 8) / (sqrt(n) (k4 + 2)^1.5)`: the third central moment of `z^2 - 1`,
    with the sample mean taken out, over the 1.5th power of its second.

    Examples:
        >>> round(sample_variance_skewness(0.0, 0.0, 0.0, 8), 12)
        1.0

    """
    return (k6 + 12 * k4 + 4 * k3**2 + 8) / (math.sqrt(n) * math.pow(k4 + 2, 1.5))


def design_effect(
    m: int, n: int, d_k: int, kurtosis_q: float = 3.0, kurtosis_k: float = 3.0
) -> float:
    """Variance of `mean x_ij^2` over an m x n matrix Q K' relative to m n independent logits.

    `1 + [(n-1) d (kq-1) + (m-1) d (kk-1)] / [d^2 (2 + (kq kk - 3)/d)]`, iid elements of mean 0:
    logits of a row share q, those of a column k. Normals: `1 + (m+n-2)/(d_k+3)`.

    Examples:
        >>> round(design_effect(512, 512, 64), 2)
        16.25

    """
    shared = (n - 1) * (kurtosis_q - 1) + (m - 1) * (kurtosis_k - 1)
    alone = 2 * d_k + kurtosis_q * kurtosis_k - 3
    if alone <= 0:
        raise InputError(f"x^2 must vary, got d_k {d_k} with kurtosis {kurtosis_q}, {kurtosis_k}")
    return 1 + shared / alone
