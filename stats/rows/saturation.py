"""The share of saturated rows, P(max p > c) with c above one half.

The events p_i > c exclude each other, so that with W the log-sum-exp of the other n - 1 logits

    P(max p > c) = n P(X - W > log(c/(1-c))).

For normal logits the law of X - W is known through its moment generating function
e^{s^2 v^2/2} E e^{-vW}, and 1/Gamma(1+v) int e^{uv} (n-1) M_1 L^{n-2} du = E e^{-vW} (the main
formula with A = v). The inversion runs along a vertical line through the saddle point, where all
terms are of the size of the result.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .logit_laws import RowLaw, atoms, fixed_scales, on_lattice
from .tilting import tilted

ComplexArray = NDArray[np.complexfloating[Any, Any]]


@lru_cache(maxsize=512)
def saturated_share(law: RowLaw, n: int, threshold: float = 0.99) -> tuple[float, float]:
    """P(max p > threshold) over rows of n >= 2 keys, as (low, high).

    Equal ends for normal logits and for n = 2; else the share of rows whose gap g between the two
    largest logits decides: 1/(1 + (n-1) e^-g) <= max p <= 1/(1 + e^-g).

    Examples:
        >>> low, high = saturated_share(RowLaw(4.0), 10)
        >>> low == high, round(low, 6)
        (True, 0.079579)

    """
    log_odds = log(threshold / (1.0 - threshold))
    ends = [(w, _iid_share(iid, n, log_odds)) for w, iid in fixed_scales(law, n)]
    low, high = (min(max(sum(w * end[k] for w, end in ends), 0.0), 1.0) for k in (0, 1))
    return low, high


def _iid_share(law: RowLaw, n: int, log_odds: float) -> tuple[float, float]:
    if law.std * sqrt(2.0) * 12.0 < log_odds and law.base == "normal":
        return 0.0, 0.0  # at most n P(X_1 - X_2 > log_odds), below n 2e-33
    if law.base == "normal":
        share = _normal_share(law, n, log_odds)
        return share, share
    return _gap_share(law, n, log_odds + log(n - 1.0)), _gap_share(law, n, log_odds)


def _normal_share(law: RowLaw, n: int, log_odds: float) -> float:
    from scipy.special import loggamma

    s = law.std
    m = n - 1
    grid = tilted(law, m, 0.0, lowest=37.0)
    # density of log T - W for T ~ Gamma(1)
    density = grid.step * m * grid.powers[0] * np.exp(m * grid.log_l)

    def log_transform(v: ComplexArray) -> ComplexArray:
        top = float((v.real.max() * grid.u + np.log(np.maximum(density, 1e-300))).max())
        moments = np.exp(np.outer(v, grid.u) - top) @ density
        out: ComplexArray = 0.5 * s * s * v * v - log_odds * v - loggamma(1.0 + v)
        out += np.log(moments) + top
        return out

    real = np.geomspace(0.3, 14.0, 30) / s
    saddle = float(real[np.argmin([log_transform(t[None] + 0j).real[0] for t in real])])
    period = 60.0 / saddle + 12.0 * s
    omega = 2.0 * pi / period * np.arange(int(9.0 / s * period / (2.0 * pi)) + 1)
    v = saddle + 1j * omega
    terms = (np.exp(log_transform(v)) / v).real
    return n * float(terms.sum() - 0.5 * terms[0]) * 2.0 / period


def _gap_share(law: RowLaw, n: int, gap: float) -> float:
    """P(x_(1) - x_(2) > gap) = n E F(x - gap)^(n-1), gap > 0."""
    if on_lattice(law):
        x, w = atoms(law)
        below = np.concatenate([[0.0], np.cumsum(w)])
        cdf = below[np.searchsorted(x, x - gap - 1e-9 * law.std, side="left")]
        return float(n * (w @ np.minimum(cdf, 1.0) ** (n - 1)))
    share = _capped_gap_share if law.base == "capped" else _sphere_gap_share
    return share(law, n, gap)


def _capped_gap_share(law: RowLaw, n: int, gap: float) -> float:
    """The same for x = cap tanh(s z / cap) of a standard normal z."""
    from scipy.special import ndtr

    x, w = atoms(law)
    lower = np.maximum((x - gap) / law.cap, -1.0)
    with np.errstate(divide="ignore"):
        below = ndtr(law.cap / law.std * np.arctanh(lower))
    return float(n * (w @ below ** (n - 1)))


def _sphere_gap_share(law: RowLaw, n: int, gap: float) -> float:
    """The same for x = reach * cosine, (1 + cosine)/2 ~ Beta(a, a), a = (d-1)/2."""
    from scipy.special import betainc, betaln

    a, reach = (law.d - 1) / 2.0, law.std * sqrt(law.d)
    if gap >= 2.0 * reach:
        return 0.0
    # tanh takes the powers at both ends of gap - reach < x < reach
    step = 0.1 / sqrt(law.d)
    t = step * np.arange(-ceil(22.0 / step), ceil(22.0 / step) + 1)
    width = 1.0 - gap / (2.0 * reach)
    from_top, from_bottom = width / (1.0 + np.exp(2 * t)), width / (1.0 + np.exp(-2 * t))
    top_half = 1.0 - from_top  # (1 + cosine) / 2 of the largest logit
    log_density = (a - 1.0) * np.log(from_top * top_half) - betaln(a, a)
    jacobian = width * step / (2.0 * np.cosh(t) ** 2)
    cdf = betainc(a, a, from_bottom)
    return float(n * (np.exp(log_density) * jacobian) @ cdf ** (n - 1))
