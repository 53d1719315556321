"""How logits answer to q.k: in proportion, capped by tanh, or clipped; with its parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_TOP = 1 - 1e-9  # of a cap: its inverse stays finite
Shape = Literal["linear", "softcap", "clip", "unknown"]


@dataclass(frozen=True, slots=True)
class Curve:
    """`factor x` for small products x; `bound` is C of `C tanh(factor x / C)`, or of a clip."""

    shape: Shape
    factor: float
    bound: float | None = None

    def slope(self, x: Array, y: Array) -> float:
        """The factor of x that logits y, below half the bound, show through this curve.

        Examples:
            >>> x = np.linspace(1, 10, 16)
            >>> round(Curve("softcap", 1.0, 20.0).slope(x, 20 * np.tanh(x / 8 / 20)), 9)
            0.125

        """
        return float(x @ self.unlinked(y) / (x @ x))

    def unlinked(self, y: Array) -> Array:
        """The logits before the cap; those cut off by a clip are lost."""
        if self.shape == "softcap" and self.bound is not None:
            capped: Array = self.bound * np.arctanh(np.clip(y / self.bound, -_TOP, _TOP))
            return capped
        return y


def curve_of(x: Array, y: Array, rounding: float) -> Curve:
    """The curve through logits y at products x of one sign, both growing in size, (0, 0) left out.

    `rounding` is the unit roundoff of the logits; 64 of it are allowed, relative to 1 + |y|.

    Examples:
        >>> x = -np.linspace(1, 60, 16)
        >>> curve = curve_of(x, 20 * np.tanh(x / 8 / 20), 2.0**-53)
        >>> curve.shape, round(curve.factor, 9), round(curve.bound, 9)
        ('softcap', 0.125, 20.0)
        >>> curve_of(x, np.clip(x / 8, -5, 5), 2.0**-53)
        Curve(shape='clip', factor=0.125, bound=5.0)
        >>> curve_of(x, x / 8, 2.0**-53).shape
        'linear'

    """
    allowed = 64 * rounding * (1 + np.abs(y))
    factor = float(x @ y / (x @ x))
    if (np.abs(y - factor * x) <= allowed).all():
        return Curve("linear", factor)
    return _clipped(x, y, allowed) or _capped(x, y, allowed) or Curve("unknown", float(y[0] / x[0]))


def _clipped(x: Array, y: Array, allowed: Array) -> Curve | None:
    bound = float(np.abs(y).max())
    flat = np.abs(y) >= bound - allowed
    if flat.all() or flat.sum() < 2:
        return None
    inside = ~flat
    factor = float(x[inside] @ y[inside] / (x[inside] @ x[inside]))
    fitted = np.clip(factor * x, -bound, bound)
    return Curve("clip", factor, bound) if (np.abs(y - fitted) <= allowed).all() else None


def _capped(x: Array, y: Array, allowed: Array) -> Curve | None:
    from scipy.optimize import least_squares

    def off(logs: Array) -> Array:
        factor, bound = np.exp(logs)
        off: Array = (bound * np.tanh(factor * x / bound) - np.abs(y) * np.sign(x)) / allowed
        return off

    sign = float(np.sign(x[0] * y[0]))
    for times in (1.1, 4.0, 32.0):  # caps that end the curve, bend it, or hardly bend it
        start = np.log([abs(y[0] / x[0]), times * np.abs(y).max()])
        best = least_squares(off, start, xtol=1e-15, ftol=1e-15, gtol=1e-15)
        if np.abs(best.fun).max() <= 1:
            factor, bound = np.exp(best.x)
            return Curve("softcap", sign * float(factor), float(bound))
    return None
