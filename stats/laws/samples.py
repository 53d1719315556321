"""Statistics of N draws whose own law is exact: the distance of a cdf, the extremes.

Each says how likely a value is when the theory holds, how wide its interval is and how small a
gap it can see. What can go wrong: a test of the whole distribution by an asymptotic law
(chi-square with cells of few or no counts) alarms too often, so that Massart's bound, which
holds for every N and every law, discrete ones too, decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from scipy.special import ndtri


class SampleLaw(Protocol):
    """The law of an estimate when the theory is exact."""

    def log_tails(self, value: float) -> tuple[float, float]:
        """Log of the probabilities of an estimate at most, and at least, as large as this."""
        ...

    def interval(self, value: float, miss: float) -> tuple[float, float]:
        """Confidence limits of what is estimated, each side missing with `miss` at most."""
        ...

    def detectable(self, tail: float, power: float) -> float:
        """Smallest gap that is called at `tail` a side, with probability `power`."""
        ...


@dataclass(frozen=True, slots=True)
class DistanceLaw:
    """`D = sup |F_N - F|` over the edges of cells, F known: `P(D >= d) <= 2 exp(-2 N d^2)`.

    The bound of Dvoretzky, Kiefer and Wolfowitz with the constant of Massart 1990 (Annals of
    Probability 18, 1269) holds for every N and F; fewer edges only make it safer. Where the true
    cdf is off by delta at an edge, F_N there is a binomial share, of standard deviation at most
    `1 / (2 sqrt(N))`.

    Examples:
        >>> law = DistanceLaw(10_000)
        >>> round(2 * math.exp(law.log_tails(0.02)[1]), 6), round(law.detectable(5e-7, 0.999), 4)
        (0.000671, 0.0424)

    """

    draws: int

    def log_tails(self, value: float) -> tuple[float, float]:
        """`(0, -2 N d^2)`: half of Massart's bound a side, and no distance is too small."""
        return 0.0, -2.0 * self.draws * max(value, 0.0) ** 2

    def interval(self, value: float, miss: float) -> tuple[float, float]:
        """`d -+ sqrt(ln(2 / miss) / (2 N))`: the band about F_N, by the triangle inequality."""
        band = math.sqrt(math.log(2 / miss) / (2 * self.draws))
        return max(value - band, 0.0), value + band

    def detectable(self, tail: float, power: float) -> float:
        """`(sqrt(ln(1 / tail) / 2) + z_power / 2) / sqrt(N)`."""
        return distance_constant(tail, power) / math.sqrt(self.draws)


def distance_constant(tail: float, power: float) -> float:
    """A gap of this over sqrt(N) in the cdf is called, two-sided at `2 tail`, with `power`."""
    return math.sqrt(math.log(1 / tail) / 2) + float(ndtri(power)) / 2


@dataclass(frozen=True, slots=True)
class ExtremeLaw:
    """The largest of N draws, `P(max <= x) = F(x)^N`; the smallest is that of -X, on side -1.

    `beyond(x)` bounds the probabilities of a draw beyond x and of one at x or beyond, both seen
    from the middle; they differ for lattices and where F is not known to the last digit.

    Examples:
        >>> law = ExtremeLaw(1000, 1, lambda x: (math.exp(-x),) * 2, 0.0, 1.0)
        >>> round(law.quantile(0.5), 3), round(math.exp(law.log_tails(law.quantile(0.5))[0]), 6)
        (7.275, 0.5)

    """

    draws: int
    side: int
    beyond: Callable[[float], tuple[float, float]]
    start: float
    step: float

    def log_tails(self, value: float) -> tuple[float, float]:
        """From F^N, as the estimate has its sign: at most is at least for the smallest."""
        inner, outer = self.seen(self.side * value)
        return (inner, outer) if self.side > 0 else (outer, inner)

    def seen(self, x: float) -> tuple[float, float]:
        """Logs of the probabilities of an extreme up to x, and from x on, outwards."""
        beyond, from_here = self.beyond(x)
        at_most = self.draws * math.log1p(-beyond) if beyond < 1 else -math.inf
        missed = self.draws * math.log1p(-from_here) if from_here < 1 else -math.inf
        at_least = -math.expm1(missed)
        return at_most, math.log(at_least) if at_least > 0 else -math.inf

    def quantile(self, p: float) -> float:
        """The x, seen from the middle, that the extreme does not exceed with probability p."""
        return _quantile(self, p)

    def interval(self, value: float, miss: float) -> tuple[float, float]:
        """The value moved by what the extreme itself strays from its median."""
        low, middle, high = (self.quantile(p) for p in (miss, 0.5, 1 - miss))
        ends = (value - self.side * (high - middle), value + self.side * (middle - low))
        return min(ends), max(ends)

    def detectable(self, tail: float, power: float) -> float:
        """Smallest shift of the extreme that is called, outwards or inwards."""
        wanted = math.log(tail)
        reached = _first(self, lambda x: self.seen(x)[1] <= wanted)
        outwards = reached - self.quantile(1 - power)
        inwards = self.quantile(power) - self.quantile(tail)
        return max(outwards, inwards)


@lru_cache(maxsize=256)
def _quantile(law: ExtremeLaw, p: float) -> float:
    wanted = math.log(p)
    return _first(law, lambda x: law.seen(x)[0] >= wanted)


def _first(law: ExtremeLaw, holds: Callable[[float], bool]) -> float:
    """Where a monotone condition begins to hold, by doubling and halving."""
    low, high = law.start, law.start + law.step
    while not holds(high) and high - law.start < 1e12 * law.step:
        low, high = high, high + 2 * (high - low)
    for _ in range(45):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
