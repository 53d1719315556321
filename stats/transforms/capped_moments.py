"""Absolute moments of a capped logit, given its scale: smooth and hard caps."""

from __future__ import annotations

import math

import numpy as np

from ..quadrature import Array, LegendrePanels
from ..rows.logit_laws import RowLaw, atoms, cosine_edge, on_lattice


def softcapped_moment(law: RowLaw, cap: float, r: int) -> float:
    """`E |C tanh(x / C)|^r` of an iid logit x."""
    x, w = _absolute_nodes(law, cap)
    return float(w @ (cap * np.tanh(x / cap)) ** r)


def _absolute_nodes(law: RowLaw, cap: float) -> tuple[Array, Array]:
    """Values of |x| and their weights; the half line, since odd powers of |x| have a kink at 0."""
    if on_lattice(law):
        x, w = atoms(law)
        return np.abs(x), w
    size = max(law.std if law.base == "normal" else law.reach, 1e-9)
    end = 14.0 if law.base == "normal" else cosine_edge(law.d)
    panels = LegendrePanels(np.linspace(0.0, end, 2 + int(end * max(1.0, 2.5 * size / cap))))
    z = panels.points
    log_w = -0.5 * z * z if law.base == "normal" else -(law.d - 1) * np.log(np.cosh(z))
    w = np.exp(log_w) * panels.weights
    return size * (z if law.base == "normal" else np.tanh(z)), w / w.sum()


def clipped_moment(law: RowLaw, cap: float, r: int) -> float:
    """`E min(|s z|, C)^r`: the part below C by the incomplete gamma function."""
    from scipy.special import erfc, gamma, gammainc

    edge = 0.5 * (cap / law.std) ** 2
    power = law.std**r * 2 ** (r / 2) * gamma((r + 1) / 2) / math.sqrt(math.pi)
    return float(power * gammainc((r + 1) / 2, edge) + cap**r * erfc(math.sqrt(edge)))
