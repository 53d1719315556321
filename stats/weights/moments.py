"""Exact moments of the logit x = (W_Q x).(W_K y) over draws of the weights and their tokens.

Given the tokens, the d_k products q_i k_i are independent and alike. Normal weights give the law
of a dot product of normal vectors times |x| |y|, orthonormal rows one whose norms are shorter by
a beta law; both have all moments as rational numbers. Other entries have them to order 4, from
`E q_i^4 = vq^2 (3 |x|^4 + (kappa - 3) sum x_j^4)`; what is not known is left out, not
approximated.

What can go wrong: raw moments cancel where the mean is large (tied weights on the diagonal), so
everything up to the last division is done in integers and fractions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from ..cases import Case
from ..checks import InputError
from ..elements import element_moment
from ..laws.dot_product import absolute_moment, gamma_ratio
from ..laws.element_moments import double_factorial
from ..laws.logit_moments import ORDER, LogitMoments
from ..laws.mean_absolute import AbsoluteLogit
from .layers import Layer, layer_of
from .tokens import fourth_powers, free_dimensions, norm_moment, rising, squared_product


def weight_logit_moments(case: Case) -> LogitMoments:
    """Mean, standard deviation and standardised moments of the logit over fresh weights.

    `standardised` ends where moments are not known exactly. Raises InputError for the ensemble of
    fixed weights, whose moments depend on the drawn matrices (see `fixed_weights`).

    Examples:
        >>> case = Case(d_k=64, weights="lecun-normal", d_model=512)
        >>> weight_logit_moments(case).std
        8.0

    """
    if case.ensemble == "tokens":
        raise InputError(
            "moments over fresh tokens depend on the drawn weights, which only run draws; "
            "use run, or --ensemble weights"
        )
    layer = layer_of(case)
    diagonal = case.pair == "diagonal"
    raw = _tied(case, layer, diagonal) if layer.tied else _untied(case, layer, diagonal)
    mean, square = raw[1], raw[2] - raw[1] ** 2
    unit = math.sqrt(layer.variance_q * layer.variance_k)
    std = math.sqrt(square)
    return LogitMoments(float(mean) * unit, std * unit, _standardised(raw, mean, square))


def _standardised(raw: Sequence[Fraction], mean: Fraction, square: Fraction) -> tuple[float, ...]:
    """Moments of `(x - mean) / sd`, divided as fractions before they become floats."""
    out = []
    for r in range(len(raw)):
        terms = (math.comb(r, j) * (-mean) ** (r - j) * raw[j] for j in range(r + 1))
        central = sum(terms, Fraction(0)) / square ** (r // 2)
        out.append(float(central) / (math.sqrt(square) if r % 2 else 1.0))
    return tuple(out)


def _untied(case: Case, layer: Layer, diagonal: bool) -> list[Fraction]:
    """Raw moments in units of sqrt(vq vk); odd ones are 0, since -W_Q is as likely as W_Q."""
    d, total = layer.d_k, layer.d_model
    if layer.law not in ("normal", "orthogonal"):
        second = Fraction(d * _norms(case, total, diagonal, 1))
        return [Fraction(1), Fraction(0), second, Fraction(0), _fourth(case, layer, diagonal)]
    raw = [Fraction(1)]
    for m in range(1, ORDER // 2 + 1):
        dot = int(double_factorial(2 * m)) * rising(d, m)
        shorter = Fraction(total**m, rising(total, m)) if layer.law == "orthogonal" else 1
        raw += [Fraction(0), dot * _norms(case, total, diagonal, m) * shorter**2 * Fraction(1)]
    return raw


def _norms(case: Case, total: int, diagonal: bool, m: int) -> int:
    """`E (|x| |y|)^(2m)`."""
    if diagonal:
        return norm_moment(case.tokens, total, 2 * m)
    return norm_moment(case.tokens, total, m) ** 2


def _fourth(case: Case, layer: Layer, diagonal: bool) -> Fraction:
    """`3 d (d-1) E |x|^4 |y|^4 + d E (3|x|^4 + e s_x)(3|y|^4 + e s_y)`, e the excess kurtosis.

    s is the sum of the fourth powers of a token.
    """
    d, total = layer.d_k, layer.d_model
    excess = Fraction(element_moment(layer.law, 4)) - 3
    once, with_norm, twice = fourth_powers(case.tokens, total)
    norms = _norms(case, total, diagonal, 2)
    if diagonal:
        alone = 9 * norms + 6 * excess * with_norm + excess**2 * twice
    else:
        alone = (3 * norm_moment(case.tokens, total, 2) + excess * once) ** 2
    return 3 * d * (d - 1) * norms + d * alone


def _tied(case: Case, layer: Layer, diagonal: bool) -> list[Fraction]:
    """Raw moments in units of v; beyond the second for normal entries only.

    The logit of one token is |x|^2 times a chi-square; that of two is symmetric.
    """
    d, total = layer.d_k, layer.d_model
    if layer.gaussian and diagonal:
        return [
            Fraction(norm_moment(case.tokens, total, r) * rising(d, r)) for r in range(ORDER + 1)
        ]
    if layer.gaussian:
        return _tied_pair(case, layer)
    excess = Fraction(element_moment(layer.law, 4)) - 3
    norms = _norms(case, total, diagonal, 1)
    once = fourth_powers(case.tokens, total)[0] if diagonal else Fraction(total)
    dots = Fraction(norms) if diagonal else squared_product(case.tokens, total)
    second = d * (norms + dots + excess * once) + d**2 * dots
    return [Fraction(1), Fraction(d * total if diagonal else 0), second] + (
        [] if diagonal else [Fraction(0)]
    )


def _tied_pair(case: Case, layer: Layer) -> list[Fraction]:
    """Raw moments of `sum_i (w_i.x)(w_i.y)` for two tokens whose cosine is rho.

    Given rho the cumulants are those of correlated normals, `d (r-1)! sum_i C(r,i) rho^i` over
    i of r's parity; `E rho^2m = (2m-1)!! / (n (n+2) ... (n+2m-2))` in n free dimensions.
    """
    d, total = layer.d_k, layer.d_model
    n = free_dimensions(case.tokens, total)
    kappa = [
        [d * math.factorial(r - 1) * math.comb(r, i) * ((r - i) % 2 == 0) for i in range(r + 1)]
        for r in range(1, ORDER + 1)
    ]
    moments: list[list[int]] = [[1]]
    for r in range(1, ORDER + 1):
        terms = [0] * (r + 1)
        for j in range(1, r + 1):
            chosen = math.comb(r - 1, j - 1)
            for a, x in enumerate(kappa[j - 1]):
                for b, y in enumerate(moments[r - j]):
                    terms[a + b] += chosen * x * y
        moments.append(terms)
    cosine = [Fraction(int(double_factorial(i)), rising(n, i // 2)) for i in range(ORDER + 1)]
    return [
        Fraction(0)
        if r % 2
        else _norms(case, total, False, r // 2)
        * sum((c * cosine[i] for i, c in enumerate(terms) if i % 2 == 0), Fraction(0))
        for r, terms in enumerate(moments)
    ]


def weight_absolute_logit(case: Case) -> AbsoluteLogit:
    """`E |x|` over fresh weights: E|x||y| times that of a normal dot product, where it is exact.

    Normal and orthogonal weights have it, and tied weights on the diagonal, where the logit is
    |W x|^2 and never negative; for others nothing is known (kind none).

    Examples:
        >>> case = Case(d_k=64, weights="lecun-normal", d_model=512)
        >>> round(weight_absolute_logit(case).first, 10)
        6.3581922399

    """
    layer = layer_of(case)
    diagonal = case.pair == "diagonal"
    unit = math.sqrt(layer.variance_q * layer.variance_k)
    if case.ensemble == "weights" and layer.tied and diagonal:
        raw = _tied(case, layer, diagonal)
        third = float(raw[3]) if len(raw) > 3 else None
        return AbsoluteLogit(float(raw[1]), third, "closed form", "d v D").times(unit)
    if case.ensemble != "weights" or layer.tied or layer.law not in ("normal", "orthogonal"):
        return AbsoluteLogit(math.nan, None, "none", "no closed form")
    first, third = (_absolute(case, layer, diagonal, r) for r in (1, 3))
    formula = "sqrt(vq vk) E|x||y| 2 Gamma((d+1)/2) / (sqrt(pi) Gamma(d/2))"
    if layer.law == "orthogonal":
        formula += " D / E[chi_D]^2"
    return AbsoluteLogit(first, third, "closed form", formula).times(unit)


def _absolute(case: Case, layer: Layer, diagonal: bool, r: int) -> float:
    """`E |x|^r` in units of sqrt(vq vk), r odd."""
    total = layer.d_model
    # E chi_D^r / D^(r/2)
    chi: float = math.pow(2.0 / total, r / 2) * gamma_ratio(total / 2, r / 2)
    if diagonal:
        norms = norm_moment(case.tokens, total, r) / math.pow(total, r)
    else:
        norms = chi**2 if case.tokens == "normal" else 1.0
    shorter = 1.0 / chi**2 if layer.law == "orthogonal" else 1.0
    return math.pow(total, r) * norms * shorter * absolute_moment(layer.d_k, r)
