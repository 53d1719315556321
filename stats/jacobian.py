"""What the softmax Jacobian J = diag(p) - p p^T should show: exact means, and brackets.

tr J and ||J||_F^2 are polynomials in p and exact. ||J||_F and the spectral norm lambda are exact
for two and three keys and bracketed for more, with

    p_1 (1 - p_1) n/(n-1),  (p_1 + p_2 - (p_1 - p_2)^2)/2  <=  lambda  <=  p_1 (1 - p_1 + p_2):

Rayleigh quotients of e_1 - 1/n and e_1 - e_2 below; above, the secular equation
p_1/(p_1 - lambda) = sum_{i>1} p_i/(lambda - p_i) with x/(lambda - x) <= (x/p_2) p_2/(lambda - p_2).
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import NamedTuple

import numpy as np

from .quadrature import Array, LegendrePanels
from .rows.logit_laws import RowLaw, fixed_scales
from .rows.moments import row_moments
from .rows.order_statistics import order_moments
from .softmax import normal_row


class Bracket(NamedTuple):
    """An interval that holds a mean, and an upper bound of the mean square."""

    low: float
    high: float
    mean_square: float


def expected_jacobian_trace(n: int, s: float) -> float:
    """E tr J = E(1 - sum p^2) = n (n-1) int M_1^2 L^(n-2) du, without cancellation.

    Examples:
        >>> round(expected_jacobian_trace(10, 1.0), 12)
        0.805312606305

    """
    law = normal_row(n, s)
    return row_moments(law, n)["trace"] if n > 1 else 0.0


def expected_jacobian_frobenius_sq(n: int, s: float) -> float:
    """E ||J||_F^2 = 2 n (n-1) E p1^2 p2^2 + n (n-1) (n-2) E p1^2 p2 p3, all terms positive.

    Examples:
        >>> round(expected_jacobian_frobenius_sq(2, 1.0), 12)
        0.148106448343

    """
    law = normal_row(n, s)
    return row_moments(law, n)["frobenius_sq"] if n > 1 else 0.0


def jacobian_spectral_bracket(law: RowLaw, n: int) -> Bracket:
    """Bracket of E lambda for n > 2: the best of the means of several bounds.

    Those above, and lambda >= p_2, lambda >= ||J||_F^2 / tr J, lambda <= tr J, lambda <= ||J||_F.

    Examples:
        >>> low, high, _ = jacobian_spectral_bracket(RowLaw(1.0), 10)
        >>> round(low, 4), round(high, 4)
        (0.2343, 0.2633)

    """
    m, p = row_moments(law, n), order_moments(law, n)
    low = max(
        (p[1,] - p[2,]) * n / (n - 1.0),
        _rayleigh(p),
        p[0, 1],
        m["frobenius_sq"] ** 2 / m["frobenius_sq*trace"],  # Cauchy-Schwarz
    )
    high = min(p[1,] - p[2,] + p[1, 1], m["trace"], sqrt(m["frobenius_sq"]))
    square = p[2,] - 2.0 * p[3,] + p[4,] + 2.0 * (p[2, 1] - p[3, 1]) + p[2, 2]
    return Bracket(min(low, high), high, min(square, m["frobenius_sq"], 0.5 * high))


def jacobian_frobenius_bracket(law: RowLaw, n: int) -> Bracket:
    """Bracket of E ||J||_F for n > 2, each bound averaged over the common scale.

    With Y = ||J||_F^2: (E Y)^1.5 / (E Y^2)^0.5 <= E sqrt(Y) <= sqrt(E Y) (Hoelder, Jensen); lambda
    is a lower bound, sqrt(E lambda E tr J) and tr J are upper ones, since Y <= lambda tr J.

    Examples:
        >>> low, high, _ = jacobian_frobenius_bracket(RowLaw(1.0), 10)
        >>> round(low, 4), round(high, 4)
        (0.3461, 0.3483)

    """
    lows, highs, mean_square = np.zeros(2), np.zeros(3), 0.0
    for w, iid in fixed_scales(law, n):
        m, p = row_moments(iid, n), order_moments(iid, n)
        y, start = m["frobenius_sq"], (n - 1.0) / n**2
        y2 = m["frobenius^2"] + start * (2.0 * y - start)
        spectral = p[1,] - p[2,] + p[1, 1]
        lows += w * np.array([y**1.5 / sqrt(y2), _rayleigh(p)])
        highs += w * np.array([sqrt(y), sqrt(spectral * m["trace"]), m["trace"]])
        mean_square += w * y
    low, high = float(lows.max()), float(highs.min())
    return Bracket(min(low, high), high, mean_square)


def _rayleigh(p: dict[tuple[int, ...], float]) -> float:
    """E (p_1 + p_2 - (p_1 - p_2)^2)/2."""
    return 0.5 * (p[1,] + p[0, 1] - p[2,] - p[0, 2]) + p[1, 1]


@lru_cache(maxsize=1024)
def three_key_moments(law: RowLaw) -> tuple[tuple[float, float, float], ...]:
    """First three moments of ||J||_F and of lambda for three keys of normal logits.

    With e_2 = p1p2 + p1p3 + p2p3 and e_3 = p1p2p3, lambda = e_2 + sqrt(e_2^2 - 3 e_3) and
    ||J||_F^2 = 4 e_2^2 - 6 e_3; the gaps a, b >= 0 of the ordered logits have the density
    sqrt(3)/(pi s^2) exp(-(a^2 + a b + b^2)/(3 s^2)).

    Examples:
        >>> (frobenius, *_), (spectral, *_) = three_key_moments(RowLaw(1.0))
        >>> round(frobenius, 6), round(spectral, 6)
        (0.40061, 0.363808)

    """
    out = np.zeros((2, 3))
    for w, iid in fixed_scales(law, 3):
        out += w * _iid_three_keys(iid.std)
    return tuple((float(a), float(b), float(c)) for a, b, c in out)


def _iid_three_keys(s: float) -> Array:
    if s == 0.0:
        return np.array([[2.0**0.5 / 3.0, 2.0 / 9.0, 2.0**1.5 / 27.0], [1 / 3, 1 / 9, 1 / 27]])
    # lambda has a cone at equal logits, where the panels shrink; beyond 40 only p_1 is left
    unit, reach = min(s, 1.2), 13.0 * s
    steps = np.arange(unit, min(reach, 40.0), 2.5 * unit)
    far = np.linspace(steps[-1], reach, 2 + int(steps[-1] < reach - 2.5 * unit) * 9)
    cone = unit * 4.0 ** np.arange(-7.0, 0.0)
    panels = LegendrePanels(np.concatenate([[0.0], cone, steps, far[1:]]))
    a, b = panels.points[:, None], panels.points[None, :]
    weight = np.exp(-(a * a + a * b + b * b) / (3.0 * s * s)) * sqrt(3.0) / (np.pi * s * s)
    weight *= panels.weights[:, None] * panels.weights
    first, second = np.exp(-a), np.exp(-a - b)
    square = (1.0 + first + second) ** 2
    pairs = (first / square, second / square, first * second / square)  # p_i p_j
    e2 = pairs[0] + pairs[1] + pairs[2]
    # e_2^2 - 3 e_3 as a sum of squares
    spread = 0.5 * sum((pairs[i] - pairs[j]) ** 2 for i, j in ((0, 1), (0, 2), (1, 2)))
    spectral = e2 + np.sqrt(spread)
    frobenius = np.sqrt(2.0 * (e2 * e2 + spread))
    values = (frobenius, spectral)
    return np.array([[float((weight * v**k).sum()) for k in (1, 2, 3)] for v in values])
