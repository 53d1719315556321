"""Exact first three moments of the statistics of one softmax row, for one law of the logits."""

from __future__ import annotations

from functools import lru_cache
from math import log

import numpy as np

from ..quadrature import Array
from .logit_laws import RowLaw, fixed_scales
from .power_sums import Partition, centred_terms, raw_terms
from .tilting import Tilted, tilted

FIELDS = (
    "sum_p2", "sum_p3", "trace", "frobenius_sq", "frobenius_sq*trace", "entropy",
    "log_sum_exp", "spread", "spread^2", "spread^3", "frobenius", "frobenius^2", "frobenius^3",
    "deficit", "deficit^2", "deficit^3",
)  # fmt: skip
"""Means in `row_moments`, in order; the last nine are moments about the uniform row.

spread = sum p^2 - 1/n, frobenius = ||J||_F^2 - (n-1)/n^2, deficit = log n - H.
"""


@lru_cache(maxsize=4096)
def row_moments(law: RowLaw, n: int) -> dict[str, float]:
    """Means of the `FIELDS` over rows of n keys; the common scale is averaged by Gauss rule.

    Examples:
        >>> round(row_moments(RowLaw(1.0), 10)["trace"], 12)
        0.805312606305

    """
    if not law.chi:
        return _iid_moments(law, n)
    parts = [(w, row_moments(iid, n)) for w, iid in fixed_scales(law, n)]
    return {name: sum(w * part[name] for w, part in parts) for name in FIELDS}


def _iid_moments(law: RowLaw, n: int) -> dict[str, float]:
    guess = max(log(n) - 0.5 * law.std**2, 0.0)  # any constant is exact; a near one keeps digits
    grid = tilted(law, n, DIGAMMA_2 - guess)
    weight = grid.step * np.exp(n * grid.log_l)
    raw = _raw_means(grid, weight, n)
    out = {name: raw[name] for name in FIELDS[:5]}
    mean, variance, third = _deficit_cumulants(grid, weight, n, guess)
    if grid.central is None:
        out.update(_about(1.0 / n, "spread", "sum_p2", raw))
        out.update(_about((n - 1.0) / n**2, "frobenius", "frobenius_sq", raw))
    else:
        out.update(_central_means(grid.central, weight, n))
        out["sum_p2"] = 1.0 / n + out["spread"]
        first, second, cube = (out[f"deficit{power}"] for power in _POWERS)
        s = law.std
        # rounding, about 4e-15, against the three terms of the series
        if s < 3e-3:
            mean = first
        if s**8 < 4e-15 * n:
            variance = max(second - first**2, 0.0)
        if s**6 < 4e-13 * (2.0 * n) ** 1.5:
            third = cube - 3.0 * first * second + 2.0 * first**3
    out["deficit"] = mean
    out["deficit^2"] = variance + mean**2
    out["deficit^3"] = third + 3.0 * mean * variance + mean**3
    out["entropy"] = log(n) - mean
    log_t = (weight * grid.u) @ (n * grid.powers[1] + n * (n - 1.0) * grid.powers[0] ** 2)
    out["log_sum_exp"] = DIGAMMA_2 - float(log_t)
    return out


_POWERS = ("", "^2", "^3")


def _about(start: float, short: str, name: str, raw: dict[str, float]) -> dict[str, float]:
    """First three moments of a statistic about `start`."""
    one, two, three = (raw[name + power] for power in _POWERS)
    return {
        short: one - start,
        f"{short}^2": two - start * (2.0 * one - start),
        f"{short}^3": three - 3.0 * start * two + start**2 * (3.0 * one - start),
    }


_EULER_GAMMA = 0.5772156649015329
DIGAMMA_2 = 1.0 - _EULER_GAMMA
_DIGAMMA_3 = 1.5 - _EULER_GAMMA
TRIGAMMA_2 = np.pi**2 / 6.0 - 1.0
_TRIGAMMA_3 = np.pi**2 / 6.0 - 1.25
_TETRAGAMMA_3 = -2.0 * 1.2020569031595942 + 2.25


def _raw_means(grid: Tilted, weight: Array, n: int) -> dict[str, float]:
    names: tuple[str, ...] = ("sum_p2", "sum_p3", "trace", "frobenius_sq", "frobenius_sq*trace")
    if grid.central is None:
        names += ("sum_p2^2", "sum_p2^3", "frobenius_sq^2", "frobenius_sq^3")
    logs = np.log(np.maximum(grid.powers, 1e-300))
    out = {}
    for name in names:
        coefficients, exponents = _exponents(name, n)
        out[name] = float(coefficients @ (np.exp(exponents @ logs) @ weight))
    return out


@lru_cache(maxsize=256)
def _exponents(name: str, n: int) -> tuple[Array, Array]:
    """Coefficients (terms,) and how often each order occurs (terms, 12)."""
    terms = raw_terms(name, n)
    exponents = np.zeros((len(terms), 12))
    for row, (_, parts) in zip(exponents, terms, strict=True):
        for a in parts:
            row[a - 1] += 1.0
    return np.array([c for c, _ in terms]), exponents


def _central_means(central: Array, weight: Array, n: int) -> dict[str, float]:
    """Moments about the uniform row from those of S_k = sum (p - 1/n)^k.

    sum p^2 - 1/n = S_2 and ||J||_F^2 - (n-1)/n^2 = (1 - 4/n) S_2 - 2 S_3 + S_2^2, both exact;
    log n - H = n S_2 / 2 - n^2 S_3 / 6 + n^3 S_4 / 12 - ... is cut there.
    """
    means: dict[tuple[int, int, int], float] = {}

    def mean(powers: tuple[int, int, int]) -> float:
        if powers not in means:
            terms = centred_terms(*powers, n)
            means[powers] = sum(c * float(_product(central, parts) @ weight) for c, parts in terms)
        return means[powers]

    forms = {
        "spread": {(1, 0, 0): 1.0},
        "frobenius": {(1, 0, 0): 1.0 - 4.0 / n, (0, 1, 0): -2.0, (2, 0, 0): 1.0},
        "deficit": {(1, 0, 0): n / 2.0, (0, 1, 0): -(n**2) / 6.0, (0, 0, 1): n**3 / 12.0},
    }
    out = {}
    for name, form in forms.items():
        square = _multiply(form, form)
        for key, power in (("", form), ("^2", square), ("^3", _multiply(square, form))):
            out[name + key] = sum(c * mean(powers) for powers, c in power.items())
    return out


_Form = dict[tuple[int, int, int], float]
"""A polynomial in S_2, S_3 and S_4: coefficients by powers."""


def _multiply(f: _Form, g: _Form) -> _Form:
    out: _Form = {}
    for (a, b, c), x in f.items():
        for (d, e, h), y in g.items():
            key = (a + d, b + e, c + h)
            out[key] = out.get(key, 0.0) + x * y
    return out


def _product(central: Array, parts: Partition) -> Array:
    out = np.ones(central.shape[1])
    for a in parts:
        out = out * central[a - 1]
    return out


def _deficit_cumulants(
    grid: Tilted, weight: Array, n: int, guess: float
) -> tuple[float, float, float]:
    """Cumulants of log n - H from moments of sum y log(y/c) = T (log T - log c - H), T ~ Gamma(A).

    A is 2 for the mean and the variance and 3 for the third cumulant; c is such that the mean of
    the bracket is `guess - E H`.
    """
    m1 = grid.powers[0]
    first, mixed, second, third = grid.logs
    pairs, triples = n * (n - 1.0), n * (n - 1.0) * (n - 2.0)
    one = float(weight @ (n * mixed + pairs * first * m1))
    two = float(weight @ (n * second + pairs * first**2))
    three = float(weight @ (n * third + 3.0 * pairs * second * first + triples * first**3))
    variance = two - one**2 - TRIGAMMA_2
    shift = one + _DIGAMMA_3 - DIGAMMA_2
    centred = three / 2.0 - 3.0 * shift * (variance + _TRIGAMMA_3) - shift**3
    return log(n) - guess + one, variance, centred - _TETRAGAMMA_3
