"""Moments of the logit `x = sum_i q_i k_i` to order 12, exactly, from those of the elements.

What can go wrong: raw moments cancel when the means are large. The products are therefore
centred before they are multiplied out, in units of sigma, so that laws that give a constant
`x^2` (Rademacher at d_k = 1, the sphere) give it to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..cases import Case
from ..checks import InputError
from ..elements import ELEMENTS, element_moment, finite_moments_below, parse_elements

ORDER = 12  # the skewness of the kurtosis' influence function needs the 12th moment


@dataclass(frozen=True, slots=True)
class LogitMoments:
    """Mean, standard deviation and standardised moments of the logit before its scale.

    `standardised[r]` is `E ((x - mean) / std)^r` for r = 0 ... 12; where the elements' moments
    do not exist it is inf (even r) or nan (odd r). It ends sooner where moments exist but are not
    known (see `weight_moments`).
    """

    mean: float
    std: float
    standardised: tuple[float, ...]


def logit_moments(case: Case) -> LogitMoments:
    """Moments of `sum_i q_i k_i` for any two element laws of the catalogue.

    Independent elements: `kappa_r(x) = d_k kappa_r(q k)`. A vector on the sphere turns the other
    one into `|k| u_1` with u uniform on the unit sphere. Correlated normals: a quadratic form.

    Examples:
        >>> moments = logit_moments(Case(d_k=64))
        >>> moments.std, moments.standardised[4] - 3
        (8.0, 0.09375)

    """
    if case.weights is not None:
        from ..weights.moments import weight_logit_moments

        return weight_logit_moments(case)
    if case.logit_std is not None:
        normal = tuple(ELEMENTS["normal"].moment(r, None) for r in range(ORDER + 1))
        return LogitMoments(0.0, case.logit_std, normal)
    d_k = check_logit_case(case)
    sigma = case.sigma_q * case.sigma_k
    mu_q, mu_k = case.mean_q / case.sigma_q, case.mean_k / case.sigma_k
    if "sphere" in (case.elements_q, case.elements_k):
        on_sphere = case.elements_q == "sphere"
        other, mu = (case.elements_k, mu_k) if on_sphere else (case.elements_q, mu_q)
        variance, standardised = _sphere(d_k, other, mu)
        return LogitMoments(0.0, sigma * math.sqrt(d_k * variance), standardised)
    if case.correlation:
        cumulants = _correlated_cumulants(case.correlation, mu_q, mu_k)
    else:
        central = _product_central_moments(case.elements_q, case.elements_k, mu_q, mu_k)
        cumulants = cumulants_from_central(central)
    mean = d_k * sigma * (case.correlation + mu_q * mu_k)
    variance = cumulants[2]
    scaled = [k / variance ** (r / 2) / d_k ** (r / 2 - 1) for r, k in enumerate(cumulants)]
    return LogitMoments(mean, sigma * math.sqrt(d_k * variance), central_from_cumulants(scaled))


def check_logit_case(case: Case) -> int:
    """`d_k` of a case whose elements can be drawn; otherwise an InputError."""
    if case.d_k is None or case.d_k < 1:
        raise InputError(f"d_k must be a positive integer, got {case.d_k}; give d_k, or logit_std")
    for side, law, sigma, mean in (
        ("q", case.elements_q, case.sigma_q, case.mean_q),
        ("k", case.elements_k, case.sigma_k, case.mean_k),
    ):
        name, _ = parse_elements(law)
        if not sigma > 0:
            raise InputError(f"sigma_{side} must be a positive number, got {sigma}")
        if name == "sphere" and mean:
            raise InputError(f"mean_{side} must be 0 for sphere, got {mean}; use another law")
    rho = case.correlation
    if not abs(rho) <= 1:
        raise InputError(f"correlation must be between -1 and 1, got {rho}")
    if rho and not case.elements_q == case.elements_k == "normal":
        raise InputError(f"correlation must be 0 unless both laws are normal, got {case.elements}")
    return case.d_k


def missing_moment(r: int) -> float:
    """What stands where a moment of order r does not exist: inf for even r, nan for odd."""
    return math.nan if r % 2 else math.inf


def cumulants_from_central(central: Sequence[float]) -> list[float]:
    """Cumulants `kappa_n = m_n - sum_j C(n-1, j-1) kappa_j m_(n-j)` of a variable with mean 0."""
    kappa = [0.0, 0.0]
    for n in range(2, len(central)):
        lower = (math.comb(n - 1, j - 1) * kappa[j] * central[n - j] for j in range(2, n - 1))
        kappa.append(central[n] - sum(lower) if math.isfinite(central[n]) else central[n])
    return kappa


def central_from_cumulants(kappa: Sequence[float]) -> tuple[float, ...]:
    """Central moments, the inverse of `cumulants_from_central`."""
    central = [1.0, 0.0]
    for n in range(2, len(kappa)):
        lower = (math.comb(n - 1, j - 1) * kappa[j] * central[n - j] for j in range(2, n - 1))
        central.append(kappa[n] + sum(lower) if math.isfinite(kappa[n]) else kappa[n])
    return tuple(central)


def _product_central_moments(law_q: str, law_k: str, mu_q: float, mu_k: float) -> list[float]:
    """`E (ab + mu_k a + mu_q b)^r` for independent unit elements a, b: the product, centred."""
    a = [element_moment(law_q, r) for r in range(ORDER + 1)]
    b = [element_moment(law_k, r) for r in range(ORDER + 1)]
    below = min(finite_moments_below(law_q), finite_moments_below(law_k))

    def moment(r: int) -> float:
        return sum(
            math.comb(r, i) * math.comb(r - i, j) * mu_k**i * mu_q**j * a[r - j] * b[r - i]
            for i in range(r + 1 if mu_k else 1)
            for j in range(r - i + 1 if mu_q else 1)
        )

    return [moment(r) if r < below else missing_moment(r) for r in range(ORDER + 1)]


def _correlated_cumulants(rho: float, mu_q: float, mu_k: float) -> list[float]:
    """Cumulants of `(a + mu_q)(b + mu_k)`, normals with correlation rho.

    `a b = ((1+rho) u^2 - (1-rho) v^2) / 2` with independent standard normals u, v, and
    `lam u^2 + alpha u` has `kappa_r = 2^(r-1) (r-1)! lam^r + 2^(r-3) r! alpha^2 lam^(r-2)`.
    """
    parts = (
        ((1 + rho) / 2, (1 + rho) / 2 * (mu_q + mu_k) ** 2),
        (-(1 - rho) / 2, (1 - rho) / 2 * (mu_k - mu_q) ** 2),
    )
    return [0.0, 0.0] + [
        sum(
            math.factorial(r - 1) * (2 * lam) ** (r - 2) * (2 * lam**2 + r * alpha_sq / 2)
            for lam, alpha_sq in parts
        )
        for r in range(2, ORDER + 1)
    ]


def _sphere(d_k: int, other: str, mu: float) -> tuple[float, tuple[float, ...]]:
    """`E k^2` and the standardised moments of `sqrt(d_k) |k| u_1`.

    `E x^2m = (2m-1)!! d^m E |k|^2m / (d (d+2) ... (d+2m-2))`, with the moments of
    `|k|^2 / (d E k^2)` from the cumulants of one `k^2` (a constant for two spheres).
    """
    square, norms = 1.0, [1.0] * (ORDER // 2 + 1)
    if other != "sphere":
        square, norms = _norm_moments(d_k, other, mu)
    standardised = [1.0]
    for m in range(1, ORDER // 2 + 1):
        direction = math.prod((2 * j - 1) * (d_k / (d_k + 2 * j - 2)) for j in range(1, m + 1))
        odd = 0.0 if math.isfinite(norms[m]) else math.nan
        standardised += [odd, norms[m] * direction]
    return square, tuple(standardised)


def _norm_moments(d_k: int, law: str, mu: float) -> tuple[float, list[float]]:
    """`E k^2` and `E (|k|^2 / (d E k^2))^m` for m = 0 ... 6."""
    below = finite_moments_below(law)
    b = [element_moment(law, r) for r in range(ORDER + 1)]

    def raw(r: int) -> float:
        return sum(math.comb(r, j) * mu ** (r - j) * b[j] for j in range(r + 1))

    orders = [m for m in range(ORDER // 2 + 1) if 2 * m < below]
    square = raw(2)
    ratio = [raw(2 * m) / square**m for m in orders]
    central = [sum(math.comb(m, j) * (-1) ** (m - j) * ratio[j] for j in orders[: m + 1])
               for m in orders]  # fmt: skip
    kappa = cumulants_from_central(central)
    of_mean = central_from_cumulants([k / d_k ** (m - 1) for m, k in enumerate(kappa)])
    norms = [sum(math.comb(m, j) * of_mean[j] for j in range(m + 1)) for m in orders]
    return square, norms + [math.inf] * (ORDER // 2 + 1 - len(orders))
