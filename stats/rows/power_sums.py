"""Symmetric polynomials of a softmax row, expanded exactly in sums over distinct keys.

With `e_k = sum_i y_i^k` every statistic used here is a polynomial in the e_k. Its expansion in the
augmented monomials `sum over distinct i, j, ... of y_i^a y_j^b ...` has integer coefficients, and
for iid y each such sum has mean `n (n-1) ... E y^a E y^b ...`. The non-negative statistics have
non-negative coefficients only, so that nothing cancels.
"""

from __future__ import annotations

from functools import lru_cache
from math import factorial, perm

Partition = tuple[int, ...]
Polynomial = dict[Partition, int]
"""Coefficient of the augmented monomial with these exponents, largest first."""

Expression = tuple[tuple[int, Partition], ...]
"""A polynomial in power sums: `((2, (3, 1)),)` is `2 e_3 e_1`."""

SUM_P2: Expression = ((1, (2,)),)
SUM_P3: Expression = ((1, (3,)),)
TRACE: Expression = ((1, (1, 1)), (-1, (2,)))
FROBENIUS_SQ: Expression = ((1, (2, 1, 1)), (-2, (3, 1)), (1, (2, 2)))


def expand(*factors: Expression) -> Polynomial:
    """Product of expressions in power sums, in augmented monomials.

    Merging one more power sum `e_k` into `sum y_i^a y_j^b ...` either meets a new key or one of
    those already there: this sums over all set partitions.

    Examples:
        >>> expand(SUM_P2, SUM_P2) == {(4,): 1, (2, 2): 1}
        True
        >>> expand(FROBENIUS_SQ) == {(2, 2): 2, (2, 1, 1): 1}
        True

    """
    total: Polynomial = {(): 1}
    for factor in factors:
        product: Polynomial = {}
        for coefficient, powers in factor:
            term = total
            for k in powers:
                term = _times_power_sum(term, k)
            for parts, c in term.items():
                product[parts] = product.get(parts, 0) + coefficient * c
        total = {parts: c for parts, c in product.items() if c}
    return total


def _times_power_sum(polynomial: Polynomial, k: int) -> Polynomial:
    out: Polynomial = {}
    for parts, c in polynomial.items():
        grown = [(*parts, k)]
        grown += [(*parts[:i], a + k, *parts[i + 1 :]) for i, a in enumerate(parts)]
        for new in grown:
            key = tuple(sorted(new, reverse=True))
            out[key] = out.get(key, 0) + c
    return out


@lru_cache(maxsize=64)
def raw_terms(name: str, n: int) -> tuple[tuple[float, Partition], ...]:
    """Coefficients of `prod E y^a` in the mean of a named product, over `Gamma(degree)`.

    `name` is one of `RAW`; the mean of the statistic of p is the integral over u of
    `L^n sum coefficient prod m_a`.
    """
    return _with_keys(expand(*RAW[name]), n, 1)


RAW: dict[str, tuple[Expression, ...]] = {
    "sum_p2": (SUM_P2,),
    "sum_p2^2": (SUM_P2,) * 2,
    "sum_p2^3": (SUM_P2,) * 3,
    "sum_p3": (SUM_P3,),
    "trace": (TRACE,),
    "frobenius_sq": (FROBENIUS_SQ,),
    "frobenius_sq^2": (FROBENIUS_SQ,) * 2,
    "frobenius_sq^3": (FROBENIUS_SQ,) * 3,
    "frobenius_sq*trace": (FROBENIUS_SQ, TRACE),
}


@lru_cache(maxsize=512)
def centred_terms(a: int, b: int, c: int, n: int) -> tuple[tuple[float, Partition], ...]:
    """Terms of `E S_2^a S_3^b S_4^c`, `S_k = sum_i (p_i - 1/n)^k`, in central moments of y.

    Parts of size one vanish with the mean, so that small logits lose no digits.
    """
    s2: Expression = ((n, (2,)), (-1, (1, 1)))
    s3: Expression = ((n**2, (3,)), (-3 * n, (2, 1)), (2, (1, 1, 1)))
    s4: Expression = ((n**3, (4,)), (-4 * n**2, (3, 1)), (6 * n, (2, 1, 1)), (-3, (1, 1, 1, 1)))
    polynomial = expand(*(s2,) * a, *(s3,) * b, *(s4,) * c)
    kept = {parts: k for parts, k in polynomial.items() if 1 not in parts}
    return _with_keys(kept, n, n ** (a + 2 * b + 3 * c))


def _with_keys(polynomial: Polynomial, n: int, divisor: int) -> tuple[tuple[float, Partition], ...]:
    """Coefficients times the ordered choices of distinct keys, over Gamma(degree) and `divisor`."""
    terms = []
    for parts, c in polynomial.items():
        choices = perm(n, len(parts))
        if choices:
            terms.append((c * choices / (factorial(sum(parts) - 1) * divisor), parts))
    return tuple(terms)
