"""The tokens that weights are applied to, and the moments of their norms and elements.

A normed token is uniform on the sphere of radius sqrt(D): of all D dimensions for `rmsnorm`, of
the D - 1 dimensions whose elements sum to 0 for `layernorm`. All tokens have E |x|^2 = D.
"""

from __future__ import annotations

import math
from fractions import Fraction

TOKENS = {
    "layernorm": ("|x|^2 = D and sum x_i = 0, uniform", "Ba et al. 2016; normal rows, normed"),
    "rmsnorm": ("|x|^2 = D, uniform", "Zhang and Sennrich 2019; normal rows, normed"),
    "normal": ("x_i ~ N(0, 1), independent", "tokens without a norm"),
}


def rising(d: int, m: int) -> int:
    """`d (d + 2) ... (d + 2m - 2)`, the m-th moment of chi-square with d degrees of freedom.

    Examples:
        >>> rising(3, 2)
        15

    """
    return math.prod(range(d, d + 2 * m, 2))


def free_dimensions(tokens: str, d_model: int) -> int:
    """Dimensions in which a token's direction is uniform: D, or D - 1 for layernorm."""
    return d_model - 1 if tokens == "layernorm" else d_model


def norm_moment(tokens: str, d_model: int, m: int) -> int:
    """`E |x|^(2m)`: D^m for normed tokens.

    Examples:
        >>> norm_moment("normal", 4, 2), norm_moment("rmsnorm", 4, 2)
        (24, 16)

    """
    return rising(d_model, m) if tokens == "normal" else d_model**m


def fourth_powers(tokens: str, d_model: int) -> tuple[Fraction, Fraction, Fraction]:
    """`E s, E |x|^4 s, E s^2` of `s = sum x_i^4`.

    The direction is independent of the norm, so that each is a normal vector's moment times a
    ratio of norms. Two elements of a centred normal vector have correlation -1/(D - 1), and
    `E a^4 b^4 = 9 + 72 rho^2 + 24 rho^4` in units of their variance.

    Examples:
        >>> [float(moment) for moment in fourth_powers("normal", 1)]  # E x^4, E x^8, E x^8
        [3.0, 105.0, 105.0]

    """
    n = free_dimensions(tokens, d_model)
    share = Fraction(n, d_model)  # variance of an element of the normal vector
    rho = Fraction(-1, n) if tokens == "layernorm" else Fraction(0)
    once = 3 * d_model * share**2 / rising(n, 2)
    cross = 9 + 72 * rho**2 + 24 * rho**4
    twice = share**4 * d_model * (105 + (d_model - 1) * cross) / rising(n, 4)
    fourth, eighth = (Fraction(norm_moment(tokens, d_model, m)) for m in (2, 4))
    return fourth * once, eighth * once, eighth * twice


def squared_product(tokens: str, d_model: int) -> Fraction:
    """`E (x.y)^2` of two independent tokens: D^2 over the free dimensions.

    Examples:
        >>> float(squared_product("rmsnorm", 8)), float(squared_product("layernorm", 9))
        (8.0, 10.125)

    """
    return Fraction(d_model**2, free_dimensions(tokens, d_model))
