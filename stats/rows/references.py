"""References of row statistics for a known law of the logits: value, unit, replicate_sd, skew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log, sqrt

from ..cases import Reference
from ..jacobian import (
    Bracket,
    jacobian_frobenius_bracket,
    jacobian_spectral_bracket,
    three_key_moments,
)
from .logit_laws import RowLaw
from .moments import row_moments
from .order_statistics import order_moments
from .saturation import saturated_share

Powers = tuple[float, float, float]
"""First three moments of a statistic about some constant."""

_SMALLEST = 1e-4
"""Below this std the variance of an order statistic is scaled from here, to 1e-4 relative."""


def _quadrature(
    value: float, unit: float, powers: Powers, formula: str, sign: float = 1.0
) -> Reference:
    one, two, three = powers
    variance = max(two - one**2, 0.0)
    sd = sqrt(variance)
    third = three - 3.0 * one * two + 2.0 * one**3
    skew = sign * third / sd**3 if sd else None
    return Reference(value, unit, sd, skew, "quadrature", formula)


def _bracketed(bracket: Bracket, formula: str) -> Reference:
    low, high, square = bracket
    sd = sqrt(max(square - low**2, 0.0))  # Var <= E X^2 - low^2
    return Reference((low, high), sqrt(low * high), sd, None, "bracket", formula)


def _powers(law: RowLaw, n: int, name: str) -> Powers:
    m = row_moments(law, n)
    return m[name], m[f"{name}^2"], m[f"{name}^3"]


def sum_p2_reference(law: RowLaw, n: int) -> Reference:
    """Sum of squared probabilities.

    Examples:
        >>> r = sum_p2_reference(RowLaw(1.0), 2)
        >>> round(r.value, 12), round(r.replicate_sd, 12)
        (0.636838153968, 0.1273574573)

    """
    value = row_moments(law, n)["sum_p2"]
    formula = "n/Gamma(2) int M_2 L^(n-1) du"
    return _quadrature(value, value, _powers(law, n, "spread"), formula)


def trace_reference(law: RowLaw, n: int) -> Reference:
    """Trace of the Jacobian, 1 - sum p^2."""
    value = row_moments(law, n)["trace"]
    formula = "n (n-1) int M_1^2 L^(n-2) du"
    return _quadrature(value, value, _powers(law, n, "spread"), formula, -1.0)


def entropy_reference(law: RowLaw, n: int) -> Reference:
    """Entropy in nats, judged in units of log n."""
    value = row_moments(law, n)["entropy"]
    formula = "psi(2) - int E[sum y log y sum y] L^n du"
    return _quadrature(value, log(n), _powers(law, n, "deficit"), formula, -1.0)


def frobenius_sq_reference(law: RowLaw, n: int) -> Reference:
    """Squared Frobenius norm of the Jacobian."""
    value = row_moments(law, n)["frobenius_sq"]
    formula = "n (n-1)/Gamma(4) int (2 M_2^2 L + (n-2) M_2 M_1^2) L^(n-3) du"
    return _quadrature(value, value, _powers(law, n, "frobenius"), formula)


def order_reference(rank: int) -> Callable[[RowLaw, int], Reference]:
    """Reference maker of the probability of the rank-th largest key."""

    def reference(law: RowLaw, n: int) -> Reference:
        value = order_moments(law, n)[(0,) * (rank - 1) + (1,)]
        shown = law if law.std >= _SMALLEST else replace(law, std=_SMALLEST)
        m, c = order_moments(shown, n), 1.0 / n
        one, two, three = (m[(0,) * (rank - 1) + (a,)] for a in (1, 2, 3))
        r = law.std / shown.std
        powers = (
            r * (one - c),
            r**2 * (two - c * (2.0 * one - c)),
            r**3 * (three - 3.0 * c * two + c * c * (3.0 * one - c)),
        )
        formula = f"n C(n-1,{rank - 1}) iint f(y) y U^{rank - 1} L^(n-{rank}) dy du"
        return _quadrature(value, value, powers, formula)

    return reference


def saturated_reference(law: RowLaw, n: int) -> Reference:
    """Share of rows with max p > 0.99; no skew, since a share is decided by binomial tails."""
    low, high = saturated_share(law, n)
    if low == high:
        formula = "n P(x_1 - log sum_{j>1} e^{x_j} > log 99)"
        sd = sqrt(low * (1.0 - low))
        return Reference(low, 1.0, sd, None, "quadrature", formula)
    widest = min(max(low, 0.5), high)
    formula = "P(gap > log(99 (n-1))) <= share <= P(gap > log 99)"
    sd = sqrt(widest * (1.0 - widest))
    return Reference((low, high), 1.0, sd, None, "bracket", formula)


def frobenius_reference(law: RowLaw, n: int) -> Reference:
    """Frobenius norm of the Jacobian."""
    if n == 2:
        return replace(trace_reference(law, n), formula="||J||_F = 2 p1 p2 = tr J for n = 2")
    if n == 3 and law.base == "normal":
        powers = three_key_moments(law)[0]
        return _quadrature(powers[0], powers[0], powers, "E sqrt(4 e2^2 - 6 e3) over both gaps")
    formula = "max{E[Y]^1.5 E[Y^2]^-0.5, lambda} <= E sqrt(Y) <= E[Y]^0.5, Y = ||J||_F^2"
    return _bracketed(jacobian_frobenius_bracket(law, n), formula)


def spectral_reference(law: RowLaw, n: int) -> Reference:
    """Spectral norm of the Jacobian."""
    if n == 2:
        return replace(trace_reference(law, n), formula="lambda = 2 p1 p2 = tr J for n = 2")
    if n == 3 and law.base == "normal":
        powers = three_key_moments(law)[1]
        return _quadrature(powers[0], powers[0], powers, "E[e2 + sqrt(e2^2 - 3 e3)] over both gaps")
    formula = "E (p1 + p2 - (p1-p2)^2)/2 <= E lambda <= E p1 (1 - p1 + p2)"
    return _bracketed(jacobian_spectral_bracket(law, n), formula)


ROW_STATISTICS: dict[str, Callable[[RowLaw, int], Reference]] = {
    "max_prob": order_reference(1),
    "second_prob": order_reference(2),
    "third_prob": order_reference(3),
    "entropy": entropy_reference,
    "sum_p2": sum_p2_reference,
    "saturated": saturated_reference,
    "jacobian_trace": trace_reference,
    "jacobian_frobenius_sq": frobenius_sq_reference,
    "jacobian_frobenius": frobenius_reference,
    "jacobian_spectral": spectral_reference,
}
"""Reference by quantity, for rows of n >= 2 keys."""
