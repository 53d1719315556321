"""Quadrature rules: Gauss rules of a tabulated law, Legendre panels with running integrals."""

from __future__ import annotations

from functools import lru_cache
from math import lgamma, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


def gauss_rule(points: Array, weights: Array, size: int) -> tuple[Array, Array]:
    """Gauss rule with `size` nodes of a discrete law, by Lanczos with full re-orthogonalisation.

    Exact for polynomials up to degree `2 size - 1` under the law. Shapes: (N,), (N,) -> (size,),
    (size,); the weights sum to 1. Source: Gautschi, Orthogonal Polynomials (2004), section 2.2.3.

    Examples:
        >>> nodes, w = gauss_rule(np.array([-1.0, 0.0, 1.0]), np.array([1.0, 2.0, 1.0]), 2)
        >>> float((w * nodes**2).sum().round(12))
        0.5

    """
    basis = np.zeros((size, points.size))
    basis[0] = np.sqrt(weights / weights.sum())
    jacobi = np.zeros((size, size))
    for k in range(size):
        v = points * basis[k]
        jacobi[k, k] = v @ basis[k]
        for _ in range(2):  # twice is enough (Kahan, Parlett)
            v -= basis[: k + 1].T @ (basis[: k + 1] @ v)
        if k + 1 < size:
            norm = float(np.linalg.norm(v))
            jacobi[k, k + 1] = jacobi[k + 1, k] = norm
            basis[k + 1] = v / norm
    nodes, vectors = np.linalg.eigh(jacobi)
    return nodes, vectors[0] ** 2


@lru_cache(maxsize=256)
def scale_rule(
    dimensions: tuple[int, ...], bend: float, size: int, shift: float = 0.0
) -> tuple[Array, Array]:
    """Gauss rule, nodes and weights of shape (size,), of a product of `chi_d / sqrt(d)`.

    One dimension is the norm of a standard normal query, |q| / sqrt(d), with the noncentrality
    `shift` = |mean|^2 where it has one; several are the norms in a product of Gaussian matrices.
    The rule is Gauss in r / (r + bend): a row statistic is smooth there from uniform rows
    (r << bend) to one-hot rows (r >> bend).

    Examples:
        >>> r, w = scale_rule((4,), 1.0, 32)
        >>> round(float(w @ r**2), 12)
        1.0

    """
    step = 0.1 / max(2.0, max(dimensions) + shift) ** 0.5
    density, start = np.ones(1), 0.0
    for d in dimensions:
        v, factor = _log_norm_law(d, shift, step)
        density, start = np.convolve(density, factor), start + v[0]
    v = start + step * np.arange(density.size)
    x, weights = gauss_rule(1.0 / (1.0 + bend * np.exp(-v)), density, size)
    return bend * x / (1.0 - x), weights


def _log_norm_law(d: int, shift: float, step: float) -> tuple[Array, Array]:
    """Grid and density of log(|q| / sqrt(d)): a Poisson(shift/2) mixture of central laws."""
    spread = 10.0 * (0.5 * shift) ** 0.5 + (40.0 if shift else 0.0)
    k = np.arange(max(0, int(0.5 * shift - spread)), int(0.5 * shift + spread) + 1)
    log_p = -0.5 * shift - np.array([lgamma(i + 1.0) for i in k])
    log_p += k * log(0.5 * shift) if shift else 0.0
    least, most = d + 2 * int(k[0]), d + 2 * int(k[-1])
    low = _log_chi_range(least)[0] + 0.5 * log(least / d)
    high = _log_chi_range(most)[1] + 0.5 * log(most / d)
    v = low + step * np.arange(int((high - low) / step) + 2)
    density = np.zeros_like(v)
    for i, p in zip(k.tolist(), np.exp(log_p).tolist(), strict=True):
        density += p * _log_chi_density(v - 0.5 * log((d + 2 * i) / d), d + 2 * i)
    return v, density


def _log_chi_density(v: Array, d: int) -> Array:
    """Density of v = log(chi_d / sqrt(d))."""
    constant = log(2.0) + 0.5 * d * log(0.5 * d) - lgamma(0.5 * d)
    density: Array = np.exp(constant + d * (v - 0.5 * np.exp(2.0 * v)))
    return density


def _log_chi_range(d: int) -> tuple[float, float]:
    """Where the density of log(chi_d / sqrt(d)) exceeds 1e-19 of its peak."""
    drop = 44.0
    low = -max(drop / d + 0.5, (2.0 * drop / d) ** 0.5)
    return low, min((drop / d) ** 0.5, 2.5)


@lru_cache(maxsize=8)
def _legendre(size: int = 16) -> tuple[Array, Array, Array]:
    """Gauss-Legendre nodes and weights on [0, 1] and the matrix of running integrals there."""
    x, w = np.polynomial.legendre.leggauss(size)
    vander = np.polynomial.legendre.legvander(x, size)
    k = np.arange(size)
    # integral of P_k from -1 to x is (P_{k+1} - P_{k-1}) / (2k + 1); coefficients by Gauss
    below = np.concatenate([-np.ones((size, 1)), vander[:, : size - 1]], axis=1)
    running = (vander[:, 1:] - below) / (2 * k + 1)
    coefficients = (2 * k + 1)[:, None] / 2 * vander[:, :size].T * w
    return (x + 1) / 2, w / 2, (running @ coefficients) / 2


class LegendrePanels:
    """Composite 16-point Gauss-Legendre rule on given edges, with running integrals.

    `points` and `weights` have shape (16 * panels,); `from_below(f)` maps samples of shape
    (rows, points) to the integrals from the first edge up to each point, `from_above` to those
    from each point to the last edge, both without cancellation for positive f.

    Examples:
        >>> panels = LegendrePanels(np.array([0.0, 1.0, 3.0]))
        >>> f = panels.points[None, :] ** 2
        >>> bool(np.allclose(panels.from_below(f), f * panels.points / 3))
        True

    """

    def __init__(self, edges: Array):
        x, w, self._running = _legendre()
        self.widths: Array = np.diff(edges)
        self.points: Array = (edges[:-1, None] + self.widths[:, None] * x).ravel()
        self.weights: Array = (self.widths[:, None] * w).ravel()
        self._w = w

    def from_below(self, f: Array) -> Array:
        """Integrals from the first edge to each point."""
        return self._cumulative(f, self._running, False)

    def from_above(self, f: Array) -> Array:
        """Integrals from each point to the last edge."""
        return self._cumulative(f, self._w - self._running, True)

    def _cumulative(self, f: Array, inside: Array, reverse: bool) -> Array:
        panelled = f.reshape(f.shape[0], self.widths.size, -1)
        totals = (panelled @ self._w) * self.widths
        if reverse:
            before = np.concatenate(
                [np.cumsum(totals[:, :0:-1], axis=1)[:, ::-1], np.zeros((f.shape[0], 1))], axis=1
            )
        else:
            before = np.concatenate(
                [np.zeros((f.shape[0], 1)), np.cumsum(totals[:, :-1], axis=1)], axis=1
            )
        out: Array = panelled @ inside.T * self.widths[:, None] + before[:, :, None]
        return out.reshape(f.shape)
