"""The characteristic function of the logit, and the integrals over it.

`phi_x(t) = phi(t)^d_k` with `phi(t) = E exp(i t q k) = E phi_k(t q)`: the function of one law,
averaged over nodes of the other. What can go wrong: the average oscillates in q, so that the
nodes follow the largest t; `1 - phi` cancels for small t, so that it is summed itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..cases import Case
from ..checks import InputError
from ..elements import parse_elements
from .element_cfs import SPECTRA, Array, Spectrum
from .element_moments import Parameter

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
PHASE = 14.0  # radians across a panel: 16 points leave 7^32 / 32! / 2^31, below 1e-17
_BLOCK = 2**21


def panel_nodes(
    low: float, high: float, wide: Callable[[float, float], bool]
) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [low, high], halved until no panel is too `wide`.

    Examples:
        >>> x, w = panel_nodes(0.0, 2.0, lambda a, b: b - a > 0.6)
        >>> x.size, round(float(w @ x**2), 12)
        (64, 2.666666666667)

    """
    edges, todo = [low], [(low, high)]
    while todo:
        a, b = todo.pop()
        middle = (a + b) / 2
        if a < middle < b and wide(a, b):
            todo += [(middle, b), (a, middle)]
        else:
            edges.append(b)
    centres, halves = np.add(edges[1:], edges[:-1]) / 2, np.diff(edges) / 2
    nodes: Array = (centres[:, None] + halves[:, None] * _POINTS).ravel()
    return nodes, (halves[:, None] * _WEIGHTS).ravel()


@dataclass(frozen=True, slots=True)
class _Side:
    """One vector's element, in units of its sigma: `mean + e`."""

    spectrum: Spectrum
    parameter: Parameter
    mean: float

    @property
    def even(self) -> bool:
        return self.spectrum.symmetric and not self.mean

    @property
    def smooth(self) -> bool:
        """Whether the density of `mean + e` is smooth but at 0."""
        moved = self.mean and self.spectrum.atoms(self.parameter)
        return not self.spectrum.phase(self.parameter) and not moved

    @property
    def at_zero(self) -> float:
        """Probability of exactly 0."""
        atoms = self.spectrum.atoms(self.parameter)
        return sum(weight for place, weight in atoms if place + self.mean == 0)

    @property
    def density_at_zero(self) -> float:
        """Density of `mean + e` at 0, without its atoms."""
        low, high = self.spectrum.support(self.parameter)
        inside = low < -self.mean < high
        return float(self.spectrum.density(np.array([-self.mean]), self.parameter)[0]) * inside

    @property
    def radius(self) -> float:
        """Phase that the characteristic function turns through per unit of its argument."""
        return abs(self.mean) + self.spectrum.phase(self.parameter)

    def complement(self, u: Array) -> Array:
        """`1 - E exp(i u (mean + e))`."""
        value = self.spectrum.complement(u, self.parameter)
        if self.mean:
            turn = np.expm1(1j * self.mean * u)
            value = value * (1 + turn) - turn
        return value  # type: ignore[return-value]

    def absolute_mean(self) -> float:
        """`E |mean + e|`."""
        places, weights = self.nodes(1.0, 0.0)
        return float(weights @ np.abs(places))

    def nodes(self, t: float, radius: float) -> tuple[Array, Array]:
        """Places and weights of `mean + e` that integrate functions of `t (mean + e)`.

        Panels shrink towards 0, where such functions change fastest, and towards the edge of a
        lognormal law; they hold at most `PHASE` radians of a function that turns by `radius`.
        """
        atoms = self.spectrum.atoms(self.parameter)
        places = [np.array([place + self.mean for place, _ in atoms])]
        weights = [np.array([weight for _, weight in atoms])]
        low, high = self.spectrum.support(self.parameter)
        if low == high:
            return places[0], weights[0]
        edge, zero = self.spectrum.edge(self.parameter), -self.mean

        def wide(a: float, b: float) -> bool:
            near = min(abs(a - zero), abs(b - zero))
            width = b - a
            return (
                width > max(near, 0.25 / t)
                or width > max(0.75, max(abs(a), abs(b)) / 3)
                or width * t * radius > PHASE
                or width > a - edge
            )

        breaks = (
            {0.0, high} if self.even else {low, high, *(x for x in (0.0, zero) if low < x < high)}
        )
        for a, b in itertools.pairwise(sorted(breaks)):  # 0, for Laplace's kink
            x, w = panel_nodes(a, b, wide)
            double = 2.0 if self.even else 1.0
            places.append(x + self.mean)
            weights.append(double * w * self.spectrum.density(x, self.parameter))
        return np.concatenate(places), np.concatenate(weights)


class ProductLaw:
    """The law of one product `q_i k_i` in units of sigma_q sigma_k.

    `at_zero` is its probability of exactly 0 and `slope` the limit of `t (phi(t) - at_zero)`.

    Examples:
        >>> real, imaginary = ProductLaw(Case()).log_cf(np.array([1.0]))
        >>> round(float(np.exp(2 * real[0])), 12)  # phi(t) = (1 + t^2)^(-1/2) for normals
        0.5

    """

    def __init__(self, case: Case) -> None:
        if "sphere" in (case.elements_q, case.elements_k):
            raise InputError("elements must be independent, got sphere; it has its own formulas")
        self.rho = case.correlation
        q = _side(case.elements_q, case.mean_q / case.sigma_q)
        k = _side(case.elements_k, case.mean_k / case.sigma_k)
        self.inner, self.outer = sorted((q, k), key=lambda side: side.spectrum.rank)
        self.even = (q.even or k.even) and not self.rho
        self.smooth = bool(self.rho) or q.smooth or k.smooth
        self.at_zero = 1 - (1 - q.at_zero) * (1 - k.at_zero)
        self.slope = 2 * math.pi * q.density_at_zero * k.density_at_zero
        if abs(self.rho) == 1:
            self.slope = 0.0
        elif self.rho:
            mu, nu = q.mean, k.mean
            far = (mu**2 + nu**2 - 2 * self.rho * mu * nu) / (2 * (1 - self.rho**2))
            self.slope = math.exp(-far) / math.sqrt(1 - self.rho**2)

    def log_cf(self, t: Array) -> tuple[Array, Array]:
        """Real and imaginary part of `log phi(t)`, t > 0; the first relatively accurate."""
        if self.rho:
            return self._correlated(t)
        complement = np.zeros(t.shape, dtype=np.complex128)
        order = np.argsort(t)
        # nodes that suffice for the largest t of a group, not of all
        for group in np.array_split(order, min(8, t.size)):
            nodes, weights = self.outer.nodes(float(t[group[-1]]), self.inner.radius)
            step = max(1, _BLOCK // nodes.size)
            for some in np.split(group, range(step, group.size, step)):
                terms = self.inner.complement(np.outer(t[some], nodes).ravel())
                complement[some] = terms.reshape(-1, nodes.size) @ weights
        a, b = complement.real, complement.imag * (not self.even)
        square = (1 - a) ** 2 + b**2
        near = np.maximum(a**2 + b**2 - 2 * a, -0.9)
        real = np.where(square < 0.5, np.log(np.maximum(square, 1e-300)), np.log1p(near)) / 2
        return real, np.arctan2(-b, 1 - a)

    def _correlated(self, t: Array) -> tuple[Array, Array]:
        """Normal pairs: `lam u^2 + alpha u` for both terms of the quadratic form."""
        rho, mu, nu = self.rho, self.inner.mean, self.outer.mean
        real, imaginary = np.zeros_like(t), mu * nu * t
        for lam, alpha_sq in (
            ((1 + rho) / 2, (1 + rho) / 2 * (mu + nu) ** 2),
            (-(1 - rho) / 2, (1 - rho) / 2 * (mu - nu) ** 2),
        ):
            size = 1 + (2 * lam * t) ** 2
            real -= np.log1p((2 * lam * t) ** 2) / 4 + alpha_sq * t**2 / (2 * size)
            imaginary += np.arctan(2 * lam * t) / 2 - alpha_sq * lam * t**3 / size
        return real, imaginary


def _side(text: str, mean: float) -> _Side:
    name, parameter = parse_elements(text)
    if name not in SPECTRA:
        raise InputError(f"no characteristic function of {text} is known; its cdf is not either")
    return _Side(SPECTRA[name], parameter, mean)
