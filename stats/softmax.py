"""What softmax rows of iid normal logits should show, exactly; and their two limits.

All expectations are over rows p = softmax(x), x_1..x_n iid N(0, s^2); n = 1 gives p = 1. They are
quadratures (see `tilting`, `order_statistics`, `saturation`) with relative errors below 1e-12,
checked by halving the step for n from 2 to 1e6 and s from 0 to 5e3.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from .checks import MAX_N_KEYS, InputError
from .rows.logit_laws import RowLaw
from .rows.moments import row_moments
from .rows.order_statistics import order_moments
from .rows.saturation import saturated_share

MAX_LOGIT_STD = 1e4


def normal_row(n: int, s: float) -> RowLaw:
    """The law of a row of iid normal logits, its arguments checked."""
    if isinstance(n, bool) or n != int(n) or not 1 <= n <= MAX_N_KEYS:
        raise InputError(f"n must be an integer from 1 to {MAX_N_KEYS}, got {n}")
    if not 0.0 <= s <= MAX_LOGIT_STD:
        raise InputError(
            f"s must be from 0 to {MAX_LOGIT_STD:g}, where the quadrature is checked, got {s}; "
            "beyond it the row is one-hot"
        )
    return RowLaw(float(s))


def _mean(n: int, s: float, name: str, alone: float) -> float:
    law = normal_row(n, s)
    return row_moments(law, n)[name] if n > 1 else alone


def expected_sum_p2(n: int, s: float) -> float:
    """E sum p^2 = n/Gamma(2) int M_2 L^(n-1) du, the inverse participation ratio.

    Examples:
        >>> round(expected_sum_p2(2, 1.0), 12)
        0.636838153968

    """
    return _mean(n, s, "sum_p2", 1.0)


def expected_sum_p3(n: int, s: float) -> float:
    """E sum p^3 = n/Gamma(3) int M_3 L^(n-1) du.

    Examples:
        >>> round(expected_sum_p3(10, 1.0), 13)
        0.0580595114736

    """
    return _mean(n, s, "sum_p3", 1.0)


def expected_entropy(n: int, s: float) -> float:
    """E H in nats, H = -sum p log p, from n E[y log y] L^(n-1) and its pair term.

    Gaussian integration by parts ties it to two others: E H = E log S - s^2 (1 - E sum p^2).

    Examples:
        >>> round(expected_entropy(2, 1.0), 12)
        0.539500061688

    """
    return _mean(n, s, "entropy", 0.0)


def expected_log_sum_exp(n: int, s: float) -> float:
    """E log sum_i e^{x_i}; 0 for n = 1, the mean of one logit.

    Examples:
        >>> round(expected_log_sum_exp(100, 2.0), 11)
        6.48868121103

    """
    return _mean(n, s, "log_sum_exp", 0.0)


def order_probability(n: int, s: float, rank: int, power: int = 1) -> float:
    """E p_(rank)^power, the rank-th largest probability; ranks 1 to 3, powers 1 to 3.

    A rank above n is 0: the row has no such key.

    Examples:
        >>> round(order_probability(10, 1.0, 3), 12)
        0.130268401177

    """
    law = normal_row(n, s)
    if rank not in (1, 2, 3):
        raise InputError(f"rank must be 1, 2 or 3, got {rank}")
    if power not in (1, 2, 3):
        raise InputError(f"power must be 1, 2 or 3, got {power}")
    if n == 1:
        return 1.0 if rank == 1 else 0.0
    return order_moments(law, n)[(0,) * (rank - 1) + (power,)]


def expected_max_prob(n: int, s: float) -> float:
    """E max p.

    Examples:
        >>> round(expected_max_prob(2, 1.0), 12)
        0.725213454422

    """
    return order_probability(n, s, 1)


def expected_saturated(n: int, s: float) -> float:
    """P(max p > 0.99).

    Examples:
        >>> round(expected_saturated(2, 4.0), 12)  # 2 Q(log(99) / (s sqrt 2))
        0.416613715638

    """
    law = normal_row(n, s)
    return saturated_share(law, n)[0] if n > 1 else 1.0


def top_gap_density(n: int) -> float:
    """Density at 0 of the gap between the two largest of n N(0, 1): n (n-1) int phi^2 Phi^(n-2).

    As s -> inf: tr J ~ g0/s, H ~ g0 pi^2/(6 s), ||J||_F^2 ~ g0/(3 s), 1 - max p ~ g0 log 2 / s.

    Examples:
        >>> round(top_gap_density(10), 12)
        1.538752730835

    """
    from scipy.special import log_ndtr

    z = 0.05 * np.arange(-240, 241)
    integrand = np.exp(-z * z + (n - 2) * log_ndtr(z)) / (2.0 * np.pi)
    return float(n * (n - 1) * 0.05 * integrand.sum())


def condensation_std(n: int) -> float:
    """s_c = sqrt(2 log n), where the random energy model condenses.

    Above it the ordered p tend to Poisson-Dirichlet(s_c/s, 0), below it H ~ log n - s^2/2. The
    corrections are O(1/log n), so that this is a trend and never a reference. Source: Derrida 1981.

    Examples:
        >>> round(condensation_std(1000), 3)
        3.717

    """
    return sqrt(2.0 * log(n))


def poisson_dirichlet_sum_p2(alpha: float) -> float:
    """E sum V^2 = 1 - alpha of Poisson-Dirichlet(alpha, 0), 0 < alpha < 1."""
    return 1.0 - alpha


def poisson_dirichlet_entropy(alpha: float) -> float:
    """E H = psi(1) - psi(1 - alpha) of Poisson-Dirichlet(alpha, 0), 0 < alpha < 1.

    Examples:
        >>> bool(np.isclose(poisson_dirichlet_entropy(0.5), 2 * np.log(2), rtol=1e-14))
        True

    """
    from scipy.special import digamma

    return float(digamma(1.0) - digamma(1.0 - alpha))


def poisson_dirichlet_max(alpha: float) -> float:
    """E V_(1) = int_0^inf e^-t / 1F1(-alpha; 1-alpha; -t) dt of Poisson-Dirichlet(alpha, 0).

    Source: Pitman and Yor 1997, proposition 17: E e^(-t/V_(1)) is the integrand.

    Examples:
        >>> round(poisson_dirichlet_max(0.5), 10)
        0.6265075988

    """
    from scipy.special import hyp1f1

    v = 0.05 * np.arange(-820, 75)
    t = np.exp(v)
    return float(0.05 * (t * np.exp(-t) / hyp1f1(-alpha, 1.0 - alpha, -t)).sum())
