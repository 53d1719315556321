"""The exact law of the logit `x = sum_i q_i k_i`: density, distribution function, quantiles.

What can go wrong: the closed form of the variance-gamma distribution function (Bessel and Struve
functions) overflows beyond x of about 20, and `1 - cdf` loses the tail. Both tails are therefore
the scale mixture `P(X > x) = E Q(x / chi_d)`, a sum of positive terms.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cases import Case
from ..checks import InputError
from .logit_moments import check_logit_case

Array = NDArray[np.float64]


def logit_sf(case: Case, x: ArrayLike) -> Array:
    """`P(X > x)`, of the shape of x. Normal elements: relatively accurate in the tail too.

    Examples:
        >>> f"{float(logit_sf(Case(d_k=64), 80.0)):.6e}"
        '3.227401e-17'

    """
    return _tails(case, x)[1]


def logit_cdf(case: Case, x: ArrayLike) -> Array:
    """`P(X <= x)`, of the shape of x.

    Normal elements: `E Phi(x / chi_d)`. One vector on the sphere: normal, or `(1 + cos)/2 ~
    Beta((d-1)/2, (d-1)/2)` for two. Rademacher elements: `2 Bin(d, 1/2) - d`. Other iid elements:
    Gil-Pelaez 1951 (Biometrika 38, 481), absolute accuracy 1e-12.

    Examples:
        >>> round(float(logit_cdf(Case(d_k=64), 24.0)), 12)
        0.998347878838

    """
    return _tails(case, x)[0]


def logit_pdf(case: Case, x: ArrayLike) -> Array:
    """Density of the logit of normal elements, `E phi(x / chi_d) / chi_d`, or of given normals.

    It is `|x|^v K_v(|x|) / (sqrt(pi) 2^v Gamma(d/2))` with v = (d-1)/2, the symmetric
    variance-gamma law; at d_k = 1 and x = 0 it is infinite.

    Examples:
        >>> round(float(logit_pdf(Case(d_k=2), 1.0)), 9)  # Laplace: exp(-|x|) / 2
        0.183939721

    """
    scale, d_k = _normal_scale(case)
    if scale is None:
        raise InputError(f"elements must be normal for the density, got {case.elements}")
    y = np.asarray(x, dtype=np.float64) / scale
    if d_k is None:
        return np.asarray(np.exp(-(y**2) / 2) / math.sqrt(2 * math.pi) / scale)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where((y == 0) & (d_k == 1), np.inf, _mixture(y, d_k, "pdf")) / scale)


def logit_quantile(case: Case, p: float) -> float:
    """The x with `P(X <= x) = p`, for continuous laws; the least such x for Rademacher elements.

    Examples:
        >>> round(logit_quantile(Case(d_k=32), 0.975), 9)
        11.162532961

    """
    if not 0 < p < 1:
        raise InputError(f"p must be a number between 0 and 1, got {p}")
    from scipy.optimize import brentq

    from .logit_moments import logit_moments

    moments = logit_moments(case)

    def gap(x: float) -> float:
        below, above = _tails(case, x)
        return float(below) - p if p <= 0.5 else (1 - p) - float(above)

    low, high = moments.mean - moments.std, moments.mean + moments.std
    while gap(low) >= 0:
        low -= 2 * (high - low)
    while gap(high) < 0:
        high += 2 * (high - low)
    root = float(brentq(gap, low, high, xtol=1e-14 * moments.std, rtol=1e-14))
    return _on_lattice(case, root) if _discrete(case) else root


def _tails(case: Case, x: ArrayLike) -> tuple[Array, Array]:
    """`P(X <= x)` and `P(X > x)`, each relatively accurate where the law allows it."""
    from scipy.special import bdtr, bdtrc, betainc, ndtr

    if case.weights is not None:
        raise InputError(f"no exact law of logits through weights is known, got {case.weights}")
    points = np.asarray(x, dtype=np.float64)
    scale, mixed = _normal_scale(case)
    if scale is not None:
        y = points / scale
        if mixed is None:
            return ndtr(y), ndtr(-y)
        return _mixture(-y, mixed, "sf"), _mixture(y, mixed, "sf")
    d_k, y = check_logit_case(case), points / (case.sigma_q * case.sigma_k)
    if _discrete(case):
        count = np.floor((y + d_k) / 2 + 1e-9)
        inside = np.clip(count, 0, d_k)
        below = np.where(count < 0, 0.0, bdtr(inside, d_k, 0.5))
        return below, np.where(count < 0, 1.0, bdtrc(inside, d_k, 0.5))
    if case.elements == "sphere":
        share, half = np.clip((1 + y / d_k) / 2, 0, 1), (d_k - 1) / 2
        return betainc(half, half, share), betainc(half, half, 1 - share)
    from .logit_integrals import distribution_function

    below = distribution_function(case, np.atleast_1d(points)).reshape(points.shape)
    return below, 1 - below


def _normal_scale(case: Case) -> tuple[float | None, int | None]:
    """Scale of a law that is normal, or normal times chi_d (then d is given too)."""
    if case.logit_std is not None:
        return case.logit_std, None
    d_k = check_logit_case(case)
    laws = {case.elements_q, case.elements_k}
    if case.mean_q or case.mean_k or case.correlation:
        return None, None
    sigma = case.sigma_q * case.sigma_k
    if laws == {"normal"}:
        return sigma, d_k
    # |k| is constant for Rademacher elements and on the sphere, and q.k then normal
    if "normal" in laws and laws <= {"normal", "sphere", "rademacher"}:
        return sigma * math.sqrt(d_k), None
    return None, None


def _discrete(case: Case) -> bool:
    """Both vectors made of signs: Rademacher elements, or a sphere of one dimension."""
    signs = ("rademacher", "sphere") if case.d_k == 1 else ("rademacher",)
    means = case.mean_q or case.mean_k
    return case.elements_q in signs and case.elements_k in signs and not means


def law_words(case: Case) -> tuple[str, str] | None:
    """How P(X <= x) is computed where both tails are relatively accurate: kind and formula.

    None where it is inverted from the characteristic function, to 1e-12 absolute.

    Examples:
        >>> law_words(Case(d_k=64))
        ('quadrature', 'P(X > x) = E Q(x / (sq sk chi_d))')

    """
    scale, mixed = _normal_scale(case)
    if mixed is not None:
        return "quadrature", "P(X > x) = E Q(x / (sq sk chi_d))"
    if scale is not None:
        return "closed form", "P(X > x) = Q(x / sd)"
    if _discrete(case):
        return "closed form", "(x / (sq sk) + d) / 2 ~ Bin(d, 1/2)"
    if case.elements == "sphere":
        return "closed form", "(1 + x / (sq sk d)) / 2 ~ Beta((d-1)/2, (d-1)/2)"
    return None


def lattice_points(case: Case) -> tuple[float, float] | None:
    """First value and step of a logit of signs, None where the logit is no lattice.

    Examples:
        >>> signs = Case(d_k=4, elements_q="rademacher", elements_k="rademacher")
        >>> lattice_points(signs), lattice_points(Case())
        ((-4.0, 2.0), None)

    """
    if case.weights is not None or case.d_k is None or not _discrete(case):
        return None
    sigma = case.sigma_q * case.sigma_k
    return -case.d_k * sigma, 2 * sigma


def _on_lattice(case: Case, x: float) -> float:
    sigma, d_k = case.sigma_q * case.sigma_k, case.d_k or 0
    return float(2 * round((x / sigma + d_k) / 2) - d_k) * sigma


def _mixture(y: Array, d_k: int, what: str) -> Array:
    """`E Q(y/R)` or `E phi(y/R)/R` with R = chi_d: trapezoid in log R.

    The integrand has the width `1/sqrt(2d)` in log R, and `1/sqrt(4|y|)` about sqrt(|y|) in the
    tail; a step of half the width leaves exp(-8 pi^2), which is 1e-34.
    """
    from scipy.special import ndtr

    far = min(float(np.abs(y).max(initial=0.0)), 1e4)  # beyond it the tail underflows
    step = 0.5 / math.sqrt(2 * d_k + 4 * far + 8)
    low = math.log(d_k) / 2 - 42 / d_k - 9 / math.sqrt(2 * d_k)
    high = math.log(math.sqrt(d_k) + 10 + math.sqrt(far))
    log_r = np.arange(low, high, step)
    r = np.exp(log_r)
    log_weight = d_k * log_r - r**2 / 2 - (d_k / 2 - 1) * math.log(2) - math.lgamma(d_k / 2)
    weight = np.exp(log_weight) * step
    weight /= weight.sum()  # mends the rounding of lgamma at large d
    ratio = y[..., None] / r
    if what == "pdf":
        return np.asarray(np.exp(-(ratio**2) / 2) / math.sqrt(2 * math.pi) @ (weight / r))
    return np.asarray(ndtr(-ratio) @ weight)
