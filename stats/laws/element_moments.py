"""Moments `E e^r` of the unit element laws: mean 0, standard deviation 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

Parameter = float | None


def even(moment: Callable[[int], float]) -> Callable[[int, Parameter], float]:
    """A symmetric law's moments: 0 for odd r."""
    return lambda r, parameter: 0.0 if r % 2 else moment(r)


def double_factorial(r: int) -> float:
    """`(r - 1)!!`, the r-th moment of a standard normal for even r."""
    return float(math.prod(range(1, r, 2)))


def given(parameter: Parameter) -> float:
    """The parameter of a law that has one."""
    if parameter is None:
        raise ValueError("the law needs its parameter, got None; take it from parse_elements")
    return parameter


def truncated_normal_raw(r: int, parameter: Parameter) -> float:
    """`E e^r = (r-1)!! P((r+1)/2, A^2/2) / P(1/2, A^2/2)`, P the regularised lower gamma."""
    from scipy.special import gammainc

    half = given(parameter) ** 2 / 2
    kept = float(gammainc((r + 1) / 2, half) / gammainc(0.5, half))
    return 0.0 if r % 2 else double_factorial(r) * kept


def truncated_normal(r: int, parameter: Parameter) -> float:
    """Moments of the truncated normal divided by its standard deviation."""
    return truncated_normal_raw(r, parameter) / math.pow(truncated_normal_raw(2, parameter), r / 2)


def student_t(r: int, parameter: Parameter) -> float:
    """`E e^r = (nu-2)^(r/2) Gamma((r+1)/2) Gamma((nu-r)/2) / (sqrt(pi) Gamma(nu/2))`."""
    nu = given(parameter)
    if r >= nu:
        return math.nan if r % 2 else math.inf
    # as the normal's moment times a product, which is exact at r = 0 and 2
    ratio = math.prod((nu - 2) / (nu - 2 * j) for j in range(1, r // 2 + 1))
    return 0.0 if r % 2 else double_factorial(r) * ratio


def exponential(r: int, parameter: Parameter) -> float:
    """`E (Exp(1) - 1)^r` counts the permutations of r things that move each."""
    count = 1
    for j in range(1, r + 1):
        count = j * count + (-1) ** j
    return float(count)


def logistic(r: int) -> float:
    """`E e^r = 2 r! eta(r) (sqrt(3)/pi)^r`, eta the alternating zeta function."""
    from scipy.special import zeta

    if r <= 2:
        return 1.0
    eta = (1 - 2.0 ** (1 - r)) * float(zeta(r))
    return 2 * math.factorial(r) * eta * (math.sqrt(3) / math.pi) ** r


def sparse(r: int, parameter: Parameter) -> float:
    """`E e^r = P^(1 - r/2) (r-1)!!` for even r >= 2."""
    share = given(parameter)
    return 1.0 if r == 0 else 0.0 if r % 2 else share ** (1 - r // 2) * double_factorial(r)


def lognormal(r: int, parameter: Parameter) -> float:
    """`sum_j C(r,j) (-1)^(r-j) w^(j(j-1)/2) / (w-1)^(r/2)` with `w = exp(S^2)`."""
    excess = Fraction(math.expm1(given(parameter) ** 2))
    w = 1 + excess  # rational arithmetic: in floats the sum cancels to nothing for a small S
    terms = (math.comb(r, j) * (-1) ** (r - j) * w ** (j * (j - 1) // 2) for j in range(r + 1))
    central = sum(terms, Fraction(0)) / excess ** (r // 2)
    return float(central) / (math.sqrt(excess) if r % 2 else 1.0)


def sphere(r: int, parameter: Parameter) -> float:
    """Refused: the law is of a whole vector."""
    raise ValueError("sphere is a law of a whole vector, got one element; see stats.logits")
