"""The actual false-alarm rate of the chi-square test of a variance: computed, not simulated.

Satterthwaite's law matches mean and variance of `S^2`, not its third moment, so that what it
calls 1e-6 is something else. For normal q and k the law of `S^2` is known through its
characteristic function, and Gil-Pelaez inversion gives its tails, with an absolute error of about
1e-16 N: rounding of the logarithm that is raised to the power N.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln

from ..checks import count
from ..pivots import chi_square_z, two_sided

_STEP, _STEPS = 0.05, 400  # of the inversion: 2 pi / 0.05 standard deviations hold all of the law
_HERMITE = 16  # nodes over the sample mean, whose effect is one part in N
Deviate = Callable[[float, int, float], float]


def norm_squared(d_k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of chi^2 with d_k degrees: the trapezoid rule in its logarithm.

    Examples:
        >>> nodes, weights = norm_squared(16)
        >>> round(float(weights @ nodes), 10), round(float(weights @ nodes**2), 9)
        (16.0, 288.0)

    """
    v = np.arange(-84.0 / d_k - 4, math.log(d_k + 60 + 14 * math.sqrt(d_k)) + 1, 0.02)
    nodes = np.exp(v)
    weights = np.exp(0.5 * d_k * (v - math.log(2)) - nodes / 2 - gammaln(d_k / 2))
    return nodes, weights / weights.sum()


class SampleVarianceLaw:
    """The law of `S^2 / sigma^2` of N logits over d_k normal elements.

    Given `R = |q|^2` a logit is normal with variance R, so that x^2 has the characteristic
    function `E (1 - 2 i t R)^(-1/2)`. With `about_mean` the sample mean is taken out: with
    `s = sum x`, `exp(-i t s^2 / N)` is the mean of `exp(sqrt(-2 i t / N) g s)` over a normal g,
    which leaves a product over the draws again,
    `E_g [E_R (1 - 2 i t R)^(-1/2) exp(-i t g^2 R / (N (1 - 2 i t R)))]^N`.
    Otherwise the mean is known, and the law is that of `mean x^2`.

    Gil-Pelaez 1951, Biometrika 38, 481. The midpoint rule errs by the law's mass beyond
    `2 pi / step` standard deviations.

    Args:
        d_k: head dimension, at least 1.
        draws: N, at least 2.
        about_mean: whether `S^2` is about the sample mean, as a run estimates it.

    Examples:
        A skewed law has less than half of itself above its mean:

        >>> round(SampleVarianceLaw(16, 10_000).upper_tail(1.0), 4)
        0.4976

    """

    def __init__(self, d_k: int, draws: int, *, about_mean: bool = True) -> None:
        self.d_k, self.draws = count("d_k", d_k), count("draws", draws, least=2)
        self.relative_sd = math.sqrt(2 + 6 / d_k)
        nodes, weights = norm_squared(d_k)
        self.u = _STEP * (np.arange(_STEPS) + 0.5)
        # of the sum over sigma^2, whose standard deviation is sqrt(N) relative_sd
        it = 1j * self.u[:, None] / (d_k * self.relative_sd * math.sqrt(draws))
        alone = -0.5 * np.log1p(-2 * it * nodes)
        places, parts = np.zeros(1), np.ones(1)
        if about_mean:
            places, parts = np.polynomial.hermite_e.hermegauss(_HERMITE)
            parts, places = parts[places > 0] * 2 / parts.sum(), places[places > 0]
        shared = -it * nodes / (draws * (1 - 2 * it * nodes)) if about_mean else np.zeros(1)
        total = np.zeros(_STEPS, np.complex128)
        for place, part in zip(places, parts, strict=True):
            # 1 - E, small, keeps its digits; log E = log1p(-(1 - E))
            complement = -np.expm1(alone + place**2 * shared) @ weights
            total += part * np.exp(draws * np.log1p(-complement))
        self.cf = total
        self._divisor = draws - 1 if about_mean else draws

    def upper_tail(self, ratio: float) -> float:
        """`P(S^2 / sigma^2 > ratio)`."""
        y = ratio * self._divisor / (math.sqrt(self.draws) * self.relative_sd)
        inverted = (self.cf * np.exp(-1j * self.u * y)).imag / self.u
        return float(0.5 + _STEP / math.pi * inverted.sum())

    def rejected(self, z: float, scale: float = 1.0, deviate: Deviate = chi_square_z) -> float:
        """`P(|deviate(S^2 / sigma^2, N, relative_sd)| > z)` where each x is `scale` times theory.

        With scale 1 this is the false-alarm rate at the threshold z, else the power.
        """
        width = 30 * self.relative_sd / math.sqrt(self.draws)

        def threshold(side: int, *ends: float) -> float:
            def off(ratio: float) -> float:
                return deviate(ratio, self.draws, self.relative_sd) - side * z

            return float(brentq(off, *ends, xtol=1e-14))

        low, high = threshold(-1, max(1 - width, 1e-9), 1.0), threshold(1, 1.0, 1 + width)
        return self.upper_tail(high / scale**2) + 1 - self.upper_tail(low / scale**2)


@lru_cache(maxsize=64)
def false_alarm_ratio(d_k: int, draws: int, z: float) -> float:
    """Actual over nominal false-alarm rate of a run's test of a variance, normal q and k.

    Nominal is `2 Phi(-z)`. `S^2` is about the sample mean, as in a run.

    Examples:
        At the default threshold of a table of four rows:

        >>> round(false_alarm_ratio(16, 10_000, 5.158), 2)
        1.01

    """
    return SampleVarianceLaw(d_k, draws).rejected(z) / two_sided(z)
