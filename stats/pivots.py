"""Pivots: statistics whose law is known when the theory is exact, each with its p-value.

z is always the signed normal equivalent of the p-value, so that the two agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.special import (
    betainc,
    betaincc,
    betaincinv,
    chdtr,
    chdtrc,
    log_ndtr,
    ndtr,
    ndtri,
    stdtr,
)

from .cases import Reference
from .quantities import JUDGED, Estimate

CONSTANT_ROUNDING = 1e-6  # float32 sums of a constant, with a margin of 10
_Z_OF_NOTHING = 38.5  # above the largest deviate whose tail probability float64 can hold
_EXACT_TAIL = 1e-280  # below it the chi-square tail is taken from its saddlepoint expansion
_LARGE_NU = 1e6  # above it too: chdtr's series ends too early (z = -5 at nu = 1e10 reads -5.37)


@dataclass(frozen=True, slots=True)
class Pivot:
    """A gap on the judged scale, its signed normal deviate and its two-sided p-value."""

    gap: float
    z: float
    p_value: float


def bounds(reference: Reference) -> tuple[float, float]:
    """The reference's value as an interval: a point is an interval of no width."""
    value = reference.value
    if value is None:
        raise ValueError("a reference of kind none has no value to compare with")
    return value if isinstance(value, tuple) else (value, value)


def judge(quantity: str, estimate: Estimate, reference: Reference, slack: float) -> Pivot:
    """The pivot of an estimate against `[low - slack unit, high + slack unit]`.

    Inside that interval the gap's test says nothing against the theory: z = 0, p = 1 (for a
    bracket or with `--within`); for a point without slack it is the ordinary two-sided test.
    """
    low, high = bounds(reference)
    gap = _outside(estimate.value, low, high) / reference.unit
    low, high = low - slack * reference.unit, high + slack * reference.unit
    nearest = min(max(estimate.value, low), high)
    if low < high and nearest == estimate.value:
        return Pivot(gap, 0.0, 1.0)
    test = JUDGED[quantity].test
    if test == "share":
        z = share_z(estimate.value, estimate.draws, nearest)
    elif reference.sample_law is not None:
        allowed = nearest - bounds(reference)[0]  # what --within forgives
        z = z_of_log_tails(*reference.sample_law.log_tails(estimate.value - allowed))
    elif reference.replicate_sd == 0.0:
        z = constant_z(quantity, estimate, nearest)
    elif test == "chi-square" and reference.replicate_sd is not None:
        power = 1 if quantity == "variance" else 2
        relative_sd = reference.replicate_sd / bounds(reference)[0] * power
        ratio = (estimate.value / nearest) ** power
        z = chi_square_z(ratio, estimate.draws, relative_sd, estimate.logits_per_draw)
    elif reference.replicate_sd is not None:
        z = (estimate.value - nearest) * math.sqrt(estimate.draws) / reference.replicate_sd
    else:
        z = student_z(estimate, nearest)
    return Pivot(gap, z, two_sided(z))


def two_sided(z: float) -> float:
    """Two-sided p-value of a normal deviate."""
    return float(min(1.0, 2.0 * ndtr(-abs(z))))


def z_of_log_tails(at_most: float, at_least: float) -> float:
    """Normal deviate of an estimate whose exact tails are given by their logarithms.

    Examples:
        >>> round(z_of_log_tails(0.0, math.log(0.025)), 3)
        1.96

    """
    log_tail = min(at_most, at_least)
    if log_tail >= math.log(0.5):
        return 0.0
    z = _z_of_log_tail(log_tail) if math.isfinite(log_tail) else math.inf
    return z if at_least < at_most else -z


def student_z(estimate: Estimate, value: float) -> float:
    """Normal deviate of Student's t where only the sample knows its own spread."""
    off = estimate.value - value
    if estimate.sd == 0:
        same = abs(off) <= CONSTANT_ROUNDING * abs(value)
        return 0.0 if same else math.copysign(math.inf, off)
    t = off * math.sqrt(estimate.draws) / estimate.sd
    tail = float(stdtr(max(estimate.draws - 1, 1), -abs(t)))
    return math.copysign(float(-ndtri(tail)) if tail > 0 else _Z_OF_NOTHING, t)


def chi_square_z(ratio: float, draws: int, relative_sd: float, logits_per_draw: int = 1) -> float:
    """Normal deviate of `S^2 / sigma^2 = ratio` under Satterthwaite's chi-square law.

    `relative_sd` is the standard deviation of a replicate's `(x - mu)^2` over sigma^2, so that
    `relative_sd^2 = k + 2` for one logit of excess kurtosis k. Then exactly
    `Var(S^2) = sigma^4 (2/(N-1) + k/N) = sigma^4 (relative_sd^2 / N + 2 / (N (N-1)))`, and
    `nu = 2 sigma^4 / Var(S^2)` degrees of freedom match mean and variance (Satterthwaite 1946).
    The last term is the sample mean's; for matrices N in it is the number of logits.

    Examples:
        >>> round(chi_square_z(1.01, 100_000, 2.09375**0.5), 3)
        2.18

    """
    logits = draws * logits_per_draw
    nu = 2.0 / (relative_sd**2 / draws + 2.0 / (logits * (logits - 1.0)))
    lower, upper = chdtr(nu, nu * ratio), chdtrc(nu, nu * ratio)
    wald = math.sqrt(nu / 2.0) * (ratio - 1.0)
    series = nu > _LARGE_NU and abs(wald) > 4.0
    if min(lower, upper) > _EXACT_TAIL and not series:
        return float(ndtri(lower) if lower < upper else -ndtri(upper))
    if ratio <= 0:
        return -math.inf
    # Barndorff-Nielsen's r* for the gamma law: relative error O(1/nu) at any distance
    off = ratio - 1.0
    log_ratio = math.log1p(off) if abs(off) < 0.5 else math.log(ratio)  # 1e-20 - 1 is -1
    signed = math.copysign(math.sqrt(nu * (off - log_ratio)), off)
    return signed + math.log(wald / signed) / signed


def share_z(share: float, draws: int, p: float) -> float:
    """Normal deviate of a binomial share, from the exact tail on its own side."""
    successes = round(share * draws)
    if p <= 0.0 or p >= 1.0:
        return 0.0 if share == p else math.copysign(math.inf, share - p)
    if share >= p:
        # not by bdtrc and bdtr, which take counts as 32-bit numbers
        tail = float(betainc(successes, draws - successes + 1, p)) if successes else 1.0
    else:
        tail = float(betaincc(successes + 1, draws - successes, p))
    if tail >= 0.5:
        return 0.0
    if tail > 0.0:
        return math.copysign(float(-ndtri(tail)), share - p)
    return math.copysign(_z_of_log_tail(_log_binomial_tail(share, draws, p)), share - p)


def clopper_pearson(share: float, draws: int, miss: float) -> tuple[float, float]:
    """Clopper-Pearson interval of a share, each side missing with probability `miss` at most."""
    successes = round(share * draws)
    low = float(betaincinv(successes, draws - successes + 1, miss)) if successes else 0.0
    high = (
        float(betaincinv(successes + 1, draws - successes, 1 - miss)) if successes < draws else 1.0
    )
    return low, high


def _outside(value: float, low: float, high: float) -> float:
    return value - min(max(value, low), high)


def constant_z(quantity: str, estimate: Estimate, value: float) -> float:
    """Deviate where the influence function vanishes: x = mu +- sigma, as at rademacher d_k = 1.

    What is left is the sample mean's own error, N mean^2 / sigma^2 ~ chi^2_1: `S^2` falls short by
    it, `N - (N-1) S^2 / sigma^2`, and with `m = mean / sigma` the kurtosis exceeds its value by
    `4 m^2 / (1 - m^2)`. Any other constant is right (to rounding) or wrong.
    """
    n, side = estimate.draws, -1.0
    if quantity in ("variance", "std"):
        ratio = (estimate.value / value) ** (1 if quantity == "variance" else 2)
        chi_square = n - (n - 1) * ratio
    elif quantity == "kurtosis":
        excess, side = estimate.value - value, 1.0
        chi_square = n * excess / max(4.0 + excess, 1.0)
    else:
        off = estimate.value - value
        return 0.0 if abs(off) <= CONSTANT_ROUNDING * abs(value) else math.copysign(math.inf, off)
    if chi_square < -CONSTANT_ROUNDING * n:
        return -side * math.inf  # no sample of such a constant lies on this side
    return side * math.sqrt(max(chi_square, 0.0))


def share_detectable(low: float, high: float, draws: int, tail: float, power: float) -> float:
    """Smallest gap of a share that its binomial test calls with probability `power`.

    From the smallest count whose upper tail at `high` is at most `tail`, and the largest whose
    lower tail at `low` is; a share too small for any count to be too few can only be missed whole.

    Examples:
        >>> round(share_detectable(0.0, 1e-9, 10_000, 5e-7, 0.999), 6)
        0.000923

    """
    too_many = _first(lambda c: bool(betainc(c, draws - c + 1, high) <= tail), 1, draws)
    above = float(betaincinv(too_many, draws - too_many + 1, power)) - high
    if (1 - low) ** draws > tail:
        return max(above, low)
    allowed = _first(lambda c: bool(betaincc(c + 1, draws - c, low) > tail), 1, draws)
    below = low - float(betaincinv(allowed, draws - allowed + 1, 1 - power))
    return max(above, below)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Smallest whole number in [low, high] from which a monotone condition holds."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _log_binomial_tail(share: float, draws: int, p: float) -> float:
    """Chernoff's bound `-N KL(share || p)` on the log of the tail: an upper bound, so z is not."""
    terms = [(share, p), (1 - share, 1 - p)]
    return -draws * sum(a * math.log(a / b) for a, b in terms if a > 0)


def _z_of_log_tail(log_tail: float) -> float:
    """The z with `log Q(z) = log_tail`, by bisection on scipy's log_ndtr."""
    low, high = 0.0, math.sqrt(-2.0 * log_tail) + 1.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_ndtr(-middle) > log_tail else (low, middle)
    return low
