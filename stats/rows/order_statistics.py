"""Exact moments of the largest probabilities of one softmax row, `p_(1) >= p_(2) >= p_(3)`.

Under the tilted law (see `tilting`) y_i = T p_i are iid. Let f(y) dy be its unnormalised density,
L(y) and U(y) its mass below and above y. The j-th largest has j - 1 keys above it:

    E p_(j)^a = n C(n-1, j-1) / Gamma(a) iint f(y) y^a U(y)^(j-1) L(y)^(n-j) dy du,
    E p_(1)^a p_(2)^b = n (n-1) / Gamma(a+b) iint f(y) y^b U_a(y) L(y)^(n-2) dy du,

U_a(y) = int_y^inf y'^a f(y') dy'. Where logits tie, the exact tie probabilities take their place.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, comb, factorial, log, sqrt

import numpy as np

from ..quadrature import Array, LegendrePanels
from .logit_laws import RowLaw, atoms, cosine_edge, fixed_scales, on_lattice
from .tilting import capped, u_grid

SINGLE = ((1,), (2,), (3,), (4,), (0, 1), (0, 2), (0, 3), (0, 0, 1), (0, 0, 2), (0, 0, 3))
JOINT = ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1))

Exponents = tuple[int, ...]


@lru_cache(maxsize=4096)
def order_moments(law: RowLaw, n: int) -> dict[Exponents, float]:
    """Moments of the ordered probabilities of rows of n >= 2 keys, by exponents.

    `(a,)`, `(0, a)` and `(0, 0, a)` hold `E p_(j)^a` for j = 1, 2, 3; `(a, b)` holds
    `E p_(1)^a p_(2)^b`. Ranks above n are zero.

    Examples:
        >>> p = order_moments(RowLaw(1.0), 2)
        >>> round(p[1,], 12), round(p[1,] + p[0, 1], 12)
        (0.725213454422, 1.0)

    """
    if not law.chi:
        return _iid_moments(law, n)
    parts = [(w, order_moments(iid, n)) for w, iid in fixed_scales(law, n)]
    return {key: sum(w * part[key] for w, part in parts) for key in (*SINGLE, *JOINT)}


def _iid_moments(law: RowLaw, n: int) -> dict[Exponents, float]:
    u, step = u_grid(law, n, lowest=37.0)
    sums = (_sums_with_ties if on_lattice(law) else _sums_without_ties)(law, n, u)
    return {key: step * total / factorial(sum(key) - 1) for key, total in sums.items()}


def _sums_without_ties(law: RowLaw, n: int, u: Array) -> dict[Exponents, float]:
    panels, y, density, log_below = _tilted_density(law, n, u)
    powers = [y**a for a in range(5)]
    above = panels.from_above(density)
    density_dy = density * panels.weights
    out = dict.fromkeys((*SINGLE, *JOINT), 0.0)
    for j in range(1, min(n, 3) + 1):
        ranked = density_dy * np.exp((n - j) * log_below)
        ranked *= n * comb(n - 1, j - 1) * above ** (j - 1)
        for key in SINGLE:
            if len(key) == j:
                out[key] = float((ranked * powers[key[-1]]).sum())
    second = density_dy * np.exp((n - 2) * log_below)
    for a in (1, 2, 3):
        second_and_top = second * panels.from_above(density * powers[a])
        for key in JOINT:
            if key[0] == a:
                out[key] = n * (n - 1) * float((second_and_top * powers[key[1]]).sum())
    return out


def _tilted_density(law: RowLaw, n: int, u: Array) -> tuple[LegendrePanels, Array, Array, Array]:
    """Panels, y, density of the tilted law (U, P) and log of its mass below each point.

    The mass below is 1 - (untilted tail + loss by the tilt), so that its powers keep their digits.
    """
    wide = law.base == "normal" and law.std >= 1.5
    untilted = _over_log_y(law, n, u) if wide else _over_logit(law, u)
    panels, y, free, tail, start = untilted
    density = free * np.exp(-y)
    missing = tail + panels.from_below(free * -np.expm1(-y))
    below = start + panels.from_below(density)
    near = missing < 0.5
    log_below = np.where(
        near, np.log1p(-np.where(near, missing, 0.5)), np.log(np.maximum(below, 1e-300))
    )
    return panels, y, density, log_below


_Untilted = tuple[LegendrePanels, Array, Array, Array, Array]
"""Panels, y, density, mass above each point and mass below the first."""


def _over_log_y(law: RowLaw, n: int, u: Array) -> _Untilted:
    """Wide normal logits: the panels cover the log y that matter."""
    from scipy.special import ndtr

    low, column = -37.0 - log(n), u[:, None]
    panels = _panels(low, 4.4, 1.3)
    t = (panels.points - column) / law.std
    free = np.exp(-0.5 * t * t) / (law.std * sqrt(2.0 * np.pi))
    return panels, np.exp(panels.points)[None, :], free, ndtr(-t), ndtr((low - column) / law.std)


def _over_logit(law: RowLaw, u: Array) -> _Untilted:
    """Other densities: panels in the standard normal, or in artanh of the cosine."""
    unit = law.std if law.base in ("normal", "capped") else law.reach
    width = 1.6 / max(unit, 1e-9)
    if law.base == "capped":
        width = min(width, 1.2 * law.cap / max(law.std, 1e-9))
        panels = _panels(-10.0, 10.0, min(1.2, width))
        x = law.cap / unit * np.tanh(unit / law.cap * panels.points)
        free = np.exp(-0.5 * panels.points**2)[None, :] / sqrt(2.0 * np.pi)
    elif law.base == "normal":
        panels = _panels(-9.0, 9.0 + 4.0 * law.std, min(1.2, width))
        x = panels.points
        free = np.exp(-0.5 * x * x)[None, :] / sqrt(2.0 * np.pi)
    else:
        edge = cosine_edge(law.d)
        panels = _panels(-edge, edge, min(1.2 / sqrt(law.d), width))
        x = np.tanh(panels.points)
        free = np.exp(-(law.d - 1) * np.log(np.cosh(panels.points)))[None, :]
        free /= free @ panels.weights
    y = np.exp(capped(u[:, None] + unit * x))
    return panels, y, free, panels.from_above(free), np.zeros(1)


def _panels(low: float, high: float, width: float) -> LegendrePanels:
    return LegendrePanels(np.linspace(low, high, ceil((high - low) / width) + 1))


def _sums_with_ties(law: RowLaw, n: int, u: Array) -> dict[Exponents, float]:
    """The same sums for logits on a lattice: P(x_(j) = v) counts the ways of being level."""
    from scipy.special import bdtrc

    x, w = atoms(law)
    y = np.exp(capped(u[:, None] + x))
    mass = np.exp(-y) * w
    up_to = np.maximum(np.cumsum(mass, axis=1), 1e-300)
    above = _after(mass)
    missing = np.cumsum((w * -np.expm1(-y)), axis=1) + _after(w)
    log_up_to = np.where(missing < 0.5, np.log1p(-np.minimum(missing, 0.5)), np.log(up_to))
    tops = {a: _after(mass * y**a) for a in (1, 2, 3)}
    # elsewhere the product of level and y^a vanishes
    live = (y < 90.0) & (y > 1e-22 / n) & (n * log_up_to > -100.0)
    y, above, log_up_to = y[live], above[live], log_up_to[live]
    share = np.minimum(mass[live] / up_to[live], 1.0)
    out = dict.fromkeys((*SINGLE, *JOINT), 0.0)
    for j in range(1, min(n, 3) + 1):
        level = np.zeros_like(y)
        for i in range(j):  # i keys above, at least j - i level
            at_least = np.exp((n - i) * log_up_to) * bdtrc(j - i - 1, n - i, share)
            level += comb(n, i) * above**i * at_least
        for key in SINGLE:
            if len(key) == j:
                out[key] = float(level @ y ** key[-1])
    both = np.exp(n * log_up_to) * bdtrc(1, n, share)
    second = n * np.exp((n - 1) * log_up_to) * bdtrc(0, n - 1, share)
    for a, b in JOINT:
        out[a, b] = float(both @ y ** (a + b) + (second * tops[a][live]) @ y**b)
    return out


def _after(f: Array) -> Array:
    """Sums over the entries after each one, along the last axis."""
    out = np.zeros_like(f)
    out[..., :-1] = np.cumsum(f[..., :0:-1], axis=-1)[..., ::-1]
    return out
