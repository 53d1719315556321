"""The logits that a selection of the k largest of n keeps: their moments, exactly."""

from __future__ import annotations

import math

import numpy as np

from ..checks import InputError
from ..laws.dot_product import mean_chi


def selected_moment(n: int, k: int, r: int) -> float:
    """`E z^r` of a value drawn from the k largest of n standard normals.

    `(n/k) int z^r phi(z) P(Bin(n-1, Q(z)) <= k-1) dz`: a value is kept where at most k - 1 of the
    others exceed it. Trapezoid rule with step 1/64 on [-12, 12].

    Examples:
        >>> round(selected_moment(2, 1, 1) * math.sqrt(math.pi), 12)  # E max of two normals
        1.0

    """
    from scipy.special import bdtr, ndtr

    if not 1 <= k <= n:
        raise InputError(f"k must be from 1 to n = {n}, got {k}")
    z = np.arange(-12.0, 12.0, 1 / 64)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    kept = bdtr(k - 1, n - 1, ndtr(-z)) if k < n else np.ones_like(z)
    return float((z**r * density * kept).sum()) / 64 * n / k


def top_k_variance(n: int, k: int, d_k: int) -> float:
    """Variance of a logit drawn from the k largest of a row of n, q and k_j standard normal.

    Given q the row is iid normal with standard deviation |q|: `d m_2 - (E|q| m_1)^2` with m_r the
    moments of the selected normals.

    Examples:
        >>> round(top_k_variance(8, 8, 64), 9)
        64.0

    """
    first, second = (selected_moment(n, k, r) for r in (1, 2))
    return d_k * second - (mean_chi(d_k) * first) ** 2
