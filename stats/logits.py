"""What should come out for the logit: the exact reference of each of its quantities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .cases import Case, Reference
from .checks import InputError, choice
from .elements import finite_moments_below
from .laws.logit_moments import LogitMoments, logit_moments
from .laws.mean_absolute import absolute_logit

if TYPE_CHECKING:
    from .weights.fixed import Matrices

# order r of the moment that a quantity is a function of; a verdict needs the 4r-th of the elements
_ORDERS = {"variance": 2, "std": 2, "mean": 1, "skewness": 3, "kurtosis": 4, "mean_abs": 1}

# some hundred roundings: a difference below this share of what cancelled is a zero
_ROUNDING = 128 * 2.0**-53

_FORMULAS = {
    "variance": "d (sq^2 sk^2 + mq^2 sk^2 + mk^2 sq^2)",
    "std": "sqrt(d (sq^2 sk^2 + mq^2 sk^2 + mk^2 sq^2))",
    "mean": "d mq mk",
    "skewness": "kappa_3(qk) / (kappa_2(qk)^(3/2) sqrt(d))",
    "kurtosis": "kappa_4(qk) / (kappa_2(qk)^2 d)",
}


def logit_reference(
    case: Case, quantity: str, factor: float = 1.0, matrices: Matrices | None = None
) -> Reference:
    """The exact value of a quantity of `factor * sum_i q_i k_i`, with its replicate_sd and skew.

    Quantities: variance, std, mean, skewness, kurtosis (excess) and mean_abs. The unit is the
    value, but the std for the mean, twice the value for the variance, and 1 for skewness and
    kurtosis. Where the elements lack the moments, replicate_sd or replicate_skew is None. The
    ensemble of fixed weights takes its W_Q and W_K, both [d_k, d_model].

    Raises InputError for an unknown quantity, for elements that cannot be drawn, and where the
    value itself does not exist (skewness and kurtosis of heavy-tailed elements).

    Examples:
        >>> reference = logit_reference(Case(d_k=64), "variance")
        >>> reference.value, reference.unit, round(reference.replicate_sd, 6)
        (64.0, 128.0, 92.606695)

    """
    choice("quantity", quantity, _ORDERS)
    check_finite(case, quantity)
    if matrices is None:
        moments = logit_moments(case)
    else:
        from .weights.fixed import fixed_logit_moments

        moments = fixed_logit_moments(case, matrices)
    if quantity == "mean_abs":
        return _mean_abs_reference(case, moments, factor)
    assumptions, formula = _wording(case, quantity)
    reference = moments_reference(moments, quantity, factor)
    if reference.kind == "none":
        return reference
    return replace(reference, formula=formula, assumptions=assumptions)


def moments_reference(moments: LogitMoments, quantity: str, factor: float = 1.0) -> Reference:
    """The reference of a function of the logit's moments: mean, variance, std, skewness, kurtosis.

    Examples:
        >>> moments_reference(LogitMoments(0.0, 2.0, (1.0, 0.0, 1.0, 0.0, 3.0)), "std").replicate_sd
        1.4142135623730951

    """
    std = moments.std * abs(factor)
    if len(moments.standardised) <= _ORDERS[quantity]:
        return Reference(None, 1.0, None, None, "none", "", "the moment is not known exactly")
    third, fourth = (*moments.standardised[3:5], math.nan, math.nan)[:2]
    value, scale, unit = {
        "mean": (moments.mean * factor, std, std),
        "variance": (std**2, std**2, 2 * std**2),
        "std": (std, std / 2, std),
        "skewness": (third, 1.0, 1.0),
        "kurtosis": (fourth - 3, 1.0, 1.0),
    }[quantity]
    sd, skew = spread(influence(quantity, third, fourth), moments.standardised)
    sd = None if sd is None else sd * scale
    return Reference(value, unit, sd, skew, "closed form", "")


def influence(quantity: str, skewness: float, kurtosis: float) -> tuple[float, ...]:
    """Coefficients c_0, c_1, ... of the influence function in the standardised logit z.

    mean z; variance and std z^2 - 1; skewness `z^3 - 3z - g - (3/2) g (z^2 - 1)`; kurtosis
    `z^4 - 4 g z - 2 K (z^2 - 1) - K` with K the fourth standardised moment. The terms in z come
    from the sample mean that is taken out of central moments (Cramer 1946, section 27.5).

    Examples:
        >>> influence("kurtosis", 0.0, 3.0)
        (3.0, -0.0, -6.0, 0.0, 1.0)

    """
    return {
        "mean": (0.0, 1.0),
        "variance": (-1.0, 0.0, 1.0),
        "std": (-1.0, 0.0, 1.0),
        "skewness": (skewness / 2, -3.0, -1.5 * skewness, 1.0),
        "kurtosis": (kurtosis, -4 * skewness, -2 * kurtosis, 0.0, 1.0),
    }[quantity]


def spread(
    polynomial: Sequence[float], standardised: Sequence[float]
) -> tuple[float | None, float | None]:
    """Standard deviation and skewness of a polynomial in z with mean 0, from moments of z.

    None where the moments are infinite; a constant has standard deviation and skewness 0.

    Examples:
        >>> spread((-1.0, 0.0, 1.0), (1, 0, 1, 0, 1, 0, 1))
        (0.0, 0.0)

    """
    square = _product(polynomial, polynomial)
    second = _mean_of(square, standardised)
    third = _mean_of(_product(square, polynomial), standardised)
    if second is None:
        return None, None
    # a constant leaves rounding errors only, relative to the terms that cancelled
    if second <= _ROUNDING * sum(abs(c * m) for c, m in zip(square, standardised, strict=False)):
        return 0.0, 0.0
    return math.sqrt(second), None if third is None else third / second**1.5


def _product(a: Sequence[float], b: Sequence[float]) -> list[float]:
    product = [0.0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    return product


def _mean_of(polynomial: Sequence[float], standardised: Sequence[float]) -> float | None:
    terms = [c * m for c, m in zip(polynomial, standardised, strict=False) if c]
    known = len(polynomial) <= len(standardised) and all(map(math.isfinite, terms))
    return math.fsum(terms) if known else None


def _mean_abs_reference(case: Case, moments: LogitMoments, factor: float) -> Reference:
    """The influence function of E|x| is `|x| - E|x|`."""
    absolute = absolute_logit(case)
    if absolute.kind == "none":
        return Reference(None, moments.std * abs(factor), None, None, "none", absolute.formula)
    square = moments.std**2 + moments.mean**2
    variance = square - absolute.first**2
    sd: float = 0.0
    skew: float | None = 0.0
    if variance > _ROUNDING * square:
        sd, skew = math.sqrt(variance), None
        if absolute.third is not None:
            central = absolute.third - 3 * absolute.first * square + 2 * absolute.first**3
            skew = central / sd**3
    value, scaled = absolute.first * abs(factor), sd * abs(factor)
    assumptions, _ = _wording(case, "mean_abs")
    return Reference(value, value, scaled, skew, absolute.kind, absolute.formula, assumptions)


def check_moments_exist(case: Case, quantity: str) -> None:
    """Refuse a verdict on a quantity whose error bar needs moments that the elements lack.

    A function of the r-th moment needs finite 4r-th moments of the elements: mean and mean_abs
    the 4th, variance and std the 8th, skewness the 12th, kurtosis the 16th.

    Examples:
        >>> check_moments_exist(Case(elements_q="student-t:9"), "variance")

    """
    choice("quantity", quantity, _ORDERS)
    needed = 4 * _ORDERS[quantity]
    for law in () if case.logit_std is not None else (case.elements_q, case.elements_k):
        if finite_moments_below(law) <= needed:
            raise InputError(
                f"a verdict on the {quantity} needs finite moments of order {needed}, got {law}; "
                f"take a nu above {needed}, or {_testable(case)}"
            )


def check_finite(case: Case, quantity: str) -> None:
    """Refuse a quantity that is infinite for want of moments of the elements."""
    if case.weights is None and case.logit_std is None:
        below = min(finite_moments_below(law) for law in (case.elements_q, case.elements_k))
        if below <= _ORDERS[quantity]:
            raise InputError(f"{quantity} is infinite for {case.elements}; {_testable(case)}")


def _testable(case: Case) -> str:
    below = min(finite_moments_below(law) for law in (case.elements_q, case.elements_k))
    names = [name for name, order in _ORDERS.items() if 4 * order < below]
    bounded = "" if names else ", or statistics of rows, which are bounded"
    return f"test {' or '.join([*names, 'law'])}{bounded}"


def _wording(case: Case, quantity: str) -> tuple[str, str]:
    """Assumptions and formula in words."""
    formula = _FORMULAS.get(quantity, "")
    if case.weights is not None:
        from .weights.layers import described

        return described(case, quantity)
    if case.logit_std is not None:
        return "iid normal logits", f"{quantity} of N(0, logit_std^2)"
    if "sphere" in (case.elements_q, case.elements_k):
        return "q, k independent, one of them isotropic", f"{quantity} of |q| |k| u_1"
    if case.correlation:
        return "iid pairs of correlated normals", f"{quantity} from kappa_r of a quadratic form"
    centred = not (case.mean_q or case.mean_k)
    if centred and quantity == "kurtosis":
        formula = "(kq kk - 3) / d"
    return "iid elements, q independent of k", formula
