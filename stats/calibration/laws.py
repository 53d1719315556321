"""Laws of statistics of many p-values: Kolmogorov's distance, wrong on either side."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import kolmogi, kolmogorov

from ..laws.samples import distance_constant


@dataclass(frozen=True, slots=True)
class KolmogorovLaw:
    """`D = sup |F_n - F|` of n independent values with a continuous F, both of its tails.

    `P(sqrt(n) D + 1 / (6 sqrt(n)) <= x)` is Kolmogorov's limit law with an error of O(1/n)
    (Vrbik 2018, Pioneer Journal of Theoretical and Applied Statistics 15, 15). A distance that
    is too small is as telling as one too large: values more even than chance are no sample.

    Examples:
        >>> law = KolmogorovLaw(10_000)
        >>> [round(math.exp(tail), 4) for tail in law.log_tails(0.0082)]
        [0.4907, 0.5093]

    """

    draws: int

    def log_tails(self, value: float) -> tuple[float, float]:
        """Logs of the probabilities of a distance at most, and at least, as large."""
        root = math.sqrt(self.draws)
        x = root * max(value, 0.0) + 1 / (6 * root)
        above = float(kolmogorov(x))
        if x < 1:  # Jacobi's form of the same series, accurate where little lies below
            log_below = math.log(math.sqrt(2 * math.pi) / x) - math.pi**2 / (8 * x * x)
            rest = sum(math.exp(-(k * k - 1) * math.pi**2 / (8 * x * x)) for k in (3, 5, 7))
            log_below = min(log_below + math.log1p(rest), 0.0)
        else:
            log_below = math.log1p(-above)
        return log_below, math.log(above) if above > 0 else math.log(2) - 2 * x * x

    def interval(self, value: float, miss: float) -> tuple[float, float]:
        """`d -+` the distance that the sample's own F_n strays, by the triangle inequality."""
        band = float(kolmogi(2 * miss)) / math.sqrt(self.draws)
        return max(value - band, 0.0), value + band

    def detectable(self, tail: float, power: float) -> float:
        """A distance from F that is called at `tail` a side, with probability `power`."""
        return distance_constant(tail, power) / math.sqrt(self.draws)


def distance_from_uniform(p_values: ArrayLike) -> float:
    """`sup |F_n(p) - p|` of values in [0, 1].

    Examples:
        >>> distance_from_uniform([0.5])
        0.5
        >>> round(distance_from_uniform([0.1, 0.2, 0.3, 0.4]), 12)
        0.6

    """
    p = np.sort(np.asarray(p_values, np.float64))
    n = len(p)
    steps = np.arange(n + 1) / n
    return float(max((steps[1:] - p).max(), (p - steps[:-1]).max()))
