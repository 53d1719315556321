"""How often a number format overflows: the share of logits, and of softmax rows, that it breaks.

What can go wrong: at 5 standard deviations the normal tail is 5 times too small for the logit of
64 dimensions, so that tails are those of the exact law. A value rounds to infinity from half a
unit in the last place above the largest number on (65520 in float16, not 65504).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .cases import HALF, Case, Reference
from .checks import InputError
from .conventions import parse_scale, scale_factor
from .elements import element_moment
from .laws.distribution import logit_cdf, logit_sf
from .rows.laws import row_law

FORMATS = {"float16": (5, 11), "bfloat16": (8, 8), "float32": (8, 24), "float64": (11, 53)}
"""Bits of the exponent and of the significand (the implicit one counted)."""

_NEGLIGIBLE = 1e-9  # probability that an element overflows by itself, beyond which nothing is said


def overflow_threshold(dtype: str) -> float:
    """Where rounding to nearest gives infinity: `(2 - 2^-p) 2^emax` (IEEE 754-2019, 4.3.1).

    Examples:
        >>> overflow_threshold("float16"), overflow_threshold("bfloat16") < 3.4e38
        (65520.0, True)

    """
    exponent, p = FORMATS[dtype]
    if dtype == "float64":
        return math.inf  # one past the largest float64 cannot be written in it
    return math.ldexp(2.0 - 2.0**-p, 2 ** (exponent - 1) - 1)


def unit_roundoff(dtype: str) -> float:
    """Largest relative error of rounding: `2^-p`."""
    return math.ldexp(1.0, -FORMATS[dtype][1])


def overflow_of(case: Case, quantity: str) -> Reference:
    """The reference of `overflow` or `broken_rows`."""
    if quantity == "broken_rows":
        return broken_rows_reference(case)
    if case.weights is not None:
        return _measured_only("no exact tail through weights")
    return overflow_reference(case)


def overflow_reference(case: Case) -> Reference:
    """Share of logits that are inf or nan, `P(|x| >= T)` by the exact law of the logit.

    Scaled after the product, q.k itself is stored first and T applies to it, scaled before it, to
    the scaled product. Where the running sum is float16 too, the share lies between that of the
    last sum and twice that (Levy's inequality for sums of independent symmetric terms; the same
    reflection covers a product that overflows by itself), with room `(d + 1) 2^-p` for what d sums
    round. Kind none where elements overflow.

    Examples:
        >>> hot = Case(d_k=64, sigma_q=64.0, sigma_k=64.0, dtype="float16")
        >>> f"{overflow_reference(hot).value:.4f}"
        '0.0464'

    """
    factor = abs(scale_factor(case))
    before = parse_scale(case.scale)[0].place != "product"
    if _element_tail(case, factor if before else 1.0) > _NEGLIGIBLE:
        return _measured_only("elements overflow by themselves")
    stored = overflow_threshold(case.dtype)
    inner = min(overflow_threshold(d) for d in _inner(case))
    limit = min(stored, inner) / factor if before else min(stored, stored / factor, inner)
    coarse = [unit_roundoff(dtype) for dtype in _inner(case) if dtype in HALF]
    if not coarse:
        share = _tail(case, limit)
        return _share(share, share, "P(|x| >= T) = 2 E Q(T / (sigma_q sigma_k chi_d))")
    if not _symmetric(case):
        return _measured_only("partial sums of skewed or shifted products")
    room = ((case.d_k or 1) + 1) * max(coarse)
    low, high = _tail(case, limit * (1 + room)), _tail(case, limit * max(1 - room, 0.0))
    return _share(low, min(1.0, 2 * high), "P(|S_d| >= T) <= share <= 2 P(|S_d| >= T)")


def broken_rows_reference(case: Case) -> Reference:
    """Share of rows whose softmax is nan or sums to 0.

    Stable softmax breaks at a logit of +inf. Naive softmax breaks where the sum of `exp(x_j)`
    overflows or all of them vanish: between `P(max x >= ln T)` and `P(max x >= ln T - ln n)`, with
    room for the rounding of x. Given q the logits of a row are independent normals, whose scale is
    averaged over chi_d.

    Examples:
        >>> case = Case(d_k=None, logit_std=40.0, n_keys=10, softmax="naive")
        >>> [f"{share:.3f}" for share in broken_rows_reference(case).value]
        ['0.125', '0.143']

    """
    factor, n = abs(scale_factor(case)), case.n_keys
    if n is None:
        raise InputError("broken_rows is a statistic of rows and needs --n-keys")
    found = row_law(case, 1.0)
    if isinstance(found, str) or found[0].base != "normal" or len(found[0].chi) > 1:
        return _measured_only("no normal law of the logits given q")
    law, softmax = found[0], case.dtype_softmax or case.dtype
    if law.shift or any(dtype in HALF for dtype in _inner(case)):
        return _measured_only("partial sums, or queries with a mean")
    before = parse_scale(case.scale)[0].place != "product"
    stored = min(overflow_threshold(d) for d in {case.dtype, softmax})
    limit = stored / factor if before else min(stored, stored / factor)

    def beyond(t: float) -> float:
        return _row_share(law.std, law.chi, t, lambda q: -np.expm1(n * np.log1p(-q)))

    def all_below(t: float) -> float:
        return _row_share(law.std, law.chi, t, lambda q: q**n)

    if case.softmax == "stable":
        share = beyond(limit) + all_below(limit)
        crowded = n >= overflow_threshold(softmax)
        return _share(share, 1.0 if crowded else share, "1 - E Phi(T / s)^n + E Phi(-T / s)^n")
    room = 1 + 2 * (unit_roundoff(softmax) + (unit_roundoff(case.dtype) if case.rounds else 0))
    exponents, p = FORMATS[softmax]
    top = (2 ** (exponents - 1)) * math.log(2)
    vanish = (2 ** (exponents - 1) + p - 2) * math.log(2)
    low, high = top * room, (top - math.log(n)) / room
    least = beyond(min(limit, low / factor))
    most = beyond(min(limit, max(high, 0) / factor)) + all_below(vanish / room / factor)
    return _share(least, min(1.0, most), "P(max x >= ln T) <= share <= P(max x >= ln T - ln n)")


def _inner(case: Case) -> tuple[str, str]:
    """Precisions of the products and of their running sum."""
    implied = "float64" if case.dtype == "float64" else "float32"
    return case.dtype_products or implied, case.dtype_accumulate or implied


def _share(low: float, high: float, formula: str) -> Reference:
    widest = min(max(low, 0.5), high)
    sd = math.sqrt(widest * (1 - widest))
    if low == high:
        return Reference(low, 1.0, sd, None, "quadrature", formula)
    return Reference((low, high), 1.0, sd, None, "bracket", formula)


def _measured_only(why: str) -> Reference:
    return Reference(None, 1.0, None, None, "none", "", why)


def _tail(case: Case, limit: float) -> float:
    """`P(|x| >= limit)` of the logit before its scale; 0 where no logit comes near."""
    from .laws.logit_moments import logit_moments

    moments = logit_moments(case)
    if limit > abs(moments.mean) + 1e6 * moments.std:
        return 0.0
    below = limit * (1 - 1e-15)  # >= and not >, for laws with atoms
    share = float(logit_sf(case, below)) + float(logit_cdf(case, -below))
    return min(max(share, 0.0), 1.0)


def _element_tail(case: Case, factor: float) -> float:
    """Markov's bound on the probability that any of the 2 d_k elements overflows."""
    limit, bound = overflow_threshold(case.dtype), 0.0
    for law, sigma, mean in (
        (case.elements_q, case.sigma_q, case.mean_q),
        (case.elements_k, case.sigma_k, case.mean_k),
    ):
        orders = [r for r in (12, 8, 4) if math.isfinite(element_moment(law, r))]
        r = (orders or [2])[0]
        size = abs(mean) + sigma * element_moment(law, r) ** (1 / r)
        bound += (case.d_k or 1) * (max(1.0, factor) * size / limit) ** r
    return bound


def _symmetric(case: Case) -> bool:
    """Whether one vector's elements are as likely as their negatives, so that products are."""
    if case.correlation:
        return False
    return any(
        mean == 0 and element_moment(law, 3) == 0
        for law, mean in ((case.elements_q, case.mean_q), (case.elements_k, case.mean_k))
    )


def _row_share(
    std: float,
    chi: tuple[int, ...],
    limit: float,
    of_tail: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> float:
    """`E f(Q(limit / s))` over the common scale `s = std chi_d / sqrt(d)`: trapezoid in log chi."""
    from scipy.special import ndtr

    if math.isinf(limit):
        return 0.0
    if not chi:
        return float(of_tail(np.asarray(ndtr(-limit / std))))
    d = chi[0]
    far = min(abs(limit) / std * math.sqrt(d), 1e4)
    low = math.log(d) / 2 - 42 / d - 9 / math.sqrt(2 * d)
    high = math.log(math.sqrt(d) + 10 + math.sqrt(far))
    log_r = np.arange(low, high, 0.25 / math.sqrt(2 * d + 4 * far + 8))
    weight = np.exp(d * log_r - np.exp(2 * log_r) / 2 - d * math.log(d) / 2 + d / 2)
    tails = of_tail(ndtr(-limit * math.sqrt(d) / (std * np.exp(log_r))))
    return float((weight * tails).sum() / weight.sum())
