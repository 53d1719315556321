"""Moments of the logit after each step of a transform, exactly, and why there are none otherwise.

What can go wrong: raw moments cancel where a bias is large; mixtures are therefore built about
their own mean. Only symmetric logits are capped, so that odd moments vanish exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .cases import Case, Kind
from .dot_product import absolute_moment, gamma_ratio, rope_kurtosis
from .elements import element_moment
from .logit_laws import RowLaw, atoms, cosine_edge, on_lattice
from .logit_moments import ORDER, LogitMoments, logit_moments
from .mean_absolute import AbsoluteLogit, absolute_logit
from .plain_equivalents import is_symmetric, logit_factor, norm_variance, plain_equivalent
from .quadrature import Array, LegendrePanels, scale_rule
from .row_laws import row_law
from .top_k import selected_moment
from .transforms import Stack, lengths

LOCAL = math.sqrt(2.0)
"""What a local key's logit is multiplied by: sqrt(d) over sqrt(d/2)."""


@dataclass(frozen=True, slots=True)
class Transformed:
    """Moments of the transformed logit, its mean absolute value where known, and their words."""

    moments: LogitMoments
    absolute: AbsoluteLogit | None
    kind: Kind
    formula: str


def transformed_moments(case: Case, stack: Stack) -> Transformed | str:
    """The exact moments of a transformed logit, or why there are none.

    Examples:
        >>> found = transformed_moments(Case(d_k=64, transform=("top-k:8:64",)), {"top-k": (8, 64)})
        >>> round(found.moments.std**2, 6)
        14.981134

    """
    found = _drawn(case, stack)
    n = int(next(iter(lengths(stack)), 1))
    for name, step in _STEPS.items():
        if name in stack and not isinstance(found, str):
            found = step(case, stack, n, found)
    if "causal" in stack and {"alibi", "locality", "top-k"} & set(stack):
        return "no exact law of the keys that a causal mask leaves"
    return found


def _drawn(case: Case, stack: Stack) -> Transformed | str:
    """After the scale."""
    factor = abs(logit_factor(case, stack))
    if "linear-attention" in stack:
        return _linear(case, int(stack["linear-attention"][0]), factor)
    plain = plain_equivalent(case, stack)
    if isinstance(plain, Case):
        m = logit_moments(plain)
        moments = replace(m, mean=m.mean * factor, std=m.std * factor)
        absolute = absolute_logit(plain).times(factor)
        known = None if absolute.kind == "none" else absolute
        return Transformed(moments, known, "closed form", "that of the plain logit")
    variance = norm_variance(case, stack)
    if variance is not None:
        words = "trace of the product of both covariances"
        return _partly(math.sqrt(variance) * factor, (1.0, 0.0, 1.0), words)
    if "rope" in stack and not {"qk-rmsnorm", "qk-layernorm", "l2norm"} & set(stack):
        return _rotated(case, stack["rope"][0], factor)
    return plain


def _partly(std: float, standardised: tuple[float, ...], formula: str) -> Transformed:
    return Transformed(LogitMoments(0.0, std, standardised), None, "closed form", formula)


def _rotated(case: Case, distance: float, factor: float) -> Transformed:
    """Iid elements of any law: variance, and kurtosis where signs are symmetric."""
    assert case.d_k is not None
    std = math.sqrt(case.d_k) * case.sigma_q * case.sigma_k * factor
    laws = (case.elements_q, case.elements_k)
    square, fourth = ([element_moment(law, r) for law in laws] for r in (2, 4))
    std *= math.sqrt(math.prod(square))
    known: tuple[float, ...] = (1.0, 0.0, 1.0)
    if any(map(is_symmetric, laws)) and all(map(math.isfinite, fourth)):
        kq, kk = (m4 / m2**2 for m4, m2 in zip(fourth, square, strict=True))
        known += (0.0, 3.0 + rope_kurtosis(case.d_k, distance, kq, kk))
    return _partly(std, known, "E y^4 by planes: stats.dot_product.rope_kurtosis")


def _linear(case: Case, n: int, factor: float) -> Transformed:
    """`sum_j (q.k_j) v_j = q.h` is `chi_d chi_N` times a normal, if q and k are normal."""
    assert case.d_k is not None
    d = case.d_k
    std = math.sqrt(n * d) * case.sigma_q * case.sigma_k * factor
    formula = "sqrt(N d) s; chi_d chi_N times a normal"
    if (case.elements_q, case.elements_k) != ("normal", "normal"):
        squares = (element_moment(law, 2) for law in (case.elements_q, case.elements_k))
        return _partly(std * math.sqrt(math.prod(squares)), (1.0, 0.0, 1.0), formula)
    standardised = [1.0]
    for m in range(1, ORDER // 2 + 1):
        even = standardised[-1] * (2 * m - 1) * (1 + 2 * (m - 1) / d) * (1 + 2 * (m - 1) / n)
        standardised += [0.0, even]
    size = std / math.sqrt(n * d)
    first, third = (
        absolute_moment(d, r) * 2 ** (r / 2) * gamma_ratio(n / 2, r / 2) * size**r for r in (1, 3)
    )
    absolute = AbsoluteLogit(first, third, "closed form", "E chi_d E chi_N sqrt(2/pi) s")
    moments = LogitMoments(0.0, std, tuple(standardised))
    return Transformed(moments, absolute, "closed form", formula)


def _normalised(case: Case, stack: Stack, n: int, before: Transformed) -> Transformed | str:
    """A row of iid normals about its mean is uniform on a sphere of n - 1 dimensions."""
    if not _normal_rows(case, stack):
        return "no exact law of normalised scores unless keys are normal given q"
    sphere = Case(d_k=max(n - 1, 1), elements_q="sphere", elements_k="sphere")
    size = 1 / math.sqrt(sphere.d_k or 1)
    m = logit_moments(sphere)
    absolute = absolute_logit(sphere).times(size)
    moments = replace(m, std=m.std * size)
    return Transformed(moments, absolute, "closed form", "sqrt(n-1) u_1, u on a sphere")


def _normal_rows(case: Case, stack: Stack) -> bool:
    found = _law(case, stack, 1)
    return not isinstance(found, str) and found.base == "normal"


def _law(case: Case, stack: Stack, n: int) -> RowLaw | str:
    """The law of a row of n keys as far as the scale."""
    of_row = replace(case, n_keys=n)
    plain = plain_equivalent(of_row, stack)
    if isinstance(plain, str):
        return plain
    found = row_law(plain, logit_factor(of_row, stack))
    return found if isinstance(found, str) else found[0]


def _capped(case: Case, stack: Stack, n: int, before: Transformed) -> Transformed | str:
    """`E g(x)^r` of an odd bounded g, given the scale and then over it."""
    if case.mean_q or case.mean_k or case.correlation or "score-layernorm" in stack:
        return "no exact moments of capped logits that are not symmetric products"
    law = _law(case, stack, 1)
    if isinstance(law, str):
        return law
    name = "softcap" if "softcap" in stack else "clip"
    cap = stack[name][0]
    if name == "clip" and law.base != "normal":
        return "no exact moments of clipped logits unless one vector is normal"
    moment = _softcapped if name == "softcap" else _clipped
    scales = [(1.0, law)]
    if law.chi:
        nodes = zip(*scale_rule(law.chi, cap / law.std, 64), strict=True)
        scales = [(float(w), law.at(law.std * float(r))) for r, w in nodes]
    return _from_raw(lambda r: sum(w * moment(iid, cap, r) for w, iid in scales))


def _softcapped(law: RowLaw, cap: float, r: int) -> float:
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


def _clipped(law: RowLaw, cap: float, r: int) -> float:
    """`E min(|s z|, C)^r`: the part below C by the incomplete gamma function."""
    from scipy.special import erfc, gamma, gammainc

    edge = 0.5 * (cap / law.std) ** 2
    power = law.std**r * 2 ** (r / 2) * gamma((r + 1) / 2) / math.sqrt(math.pi)
    return float(power * gammainc((r + 1) / 2, edge) + cap**r * erfc(math.sqrt(edge)))


def _from_raw(absolute: Callable[[int], float]) -> Transformed:
    """A symmetric logit from E |x|^r."""
    raw = [absolute(r) for r in range(ORDER + 1)]
    std = math.sqrt(raw[2])
    standardised = tuple(0.0 if r % 2 else raw[r] / std**r for r in range(ORDER + 1))
    known = AbsoluteLogit(raw[1], raw[3], "quadrature", "E |g(x)|")
    return Transformed(LogitMoments(0.0, std, standardised), known, "quadrature", "E g(x)^2")


def _mixed(case: Case, stack: Stack, n: int, before: Transformed) -> Transformed | str:
    """A key drawn from the row: `f_j x + b_j` for j = 0 ... n-1, about its own mean."""
    if "top-k" in stack:
        return "no exact law of the largest of unlike keys"
    m = before.moments
    if len(m.standardised) <= ORDER:
        return "the higher moments of the logit before the bias are not known"
    factors, biases = key_terms(stack, n)
    mean = float((factors * m.mean + biases).mean())
    shift = factors * m.mean + biases - mean
    raw = [
        float(sum(math.comb(r, i) * m.standardised[i] * ((factors * m.std) ** i * shift ** (r - i))
                  for i in range(r + 1)).mean())  # type: ignore[union-attr]
        for r in range(ORDER + 1)
    ]  # fmt: skip
    std = math.sqrt(raw[2])
    standardised = tuple(value / std**r for r, value in enumerate(raw))
    absolute = None
    if before.absolute is not None and not shift.any() and not mean:
        first, third = (float((factors**r).mean()) for r in (1, 3))
        old = before.absolute
        known = None if old.third is None else old.third * third
        absolute = replace(old, first=old.first * first, third=known)
    return Transformed(
        LogitMoments(mean, std, standardised),
        absolute,
        before.kind,
        "moments of f_j x + b_j over j",
    )


def key_terms(stack: Stack, n: int) -> tuple[Array, Array]:
    """Factor f_j and bias b_j of the keys of a row, from the nearest on.

    Examples:
        >>> [terms.tolist() for terms in key_terms({"alibi": (0.5, 3)}, 3)]
        [[1.0, 1.0, 1.0], [-0.0, -0.5, -1.0]]

    """
    if "top-k-position" in stack:
        n = min(n, int(stack["top-k-position"][0]))
    j = np.arange(n, dtype=float)
    local = j < stack["locality"][0] if "locality" in stack else np.zeros(n, bool)
    slope = stack["alibi"][0] if "alibi" in stack else 0.0
    return np.where(local, LOCAL, 1.0), -slope * j


def _shifted(case: Case, stack: Stack, n: int, before: Transformed) -> Transformed:
    m = before.moments
    moments = replace(m, mean=m.mean + stack["row-constant"][0])
    return replace(before, moments=moments, absolute=None)


def _selected(case: Case, stack: Stack, n: int, before: Transformed) -> Transformed | str:
    """One of the K largest of N: `E x^r = E |q|^r m_r` with m_r those of the selected normals."""
    if {"score-layernorm", "softcap", "clip"} & set(stack):
        return "no exact moments of the largest of capped or normalised logits"
    law = _law(case, stack, n)
    if isinstance(law, str):
        return law
    if law.base != "normal" or law.shift or len(law.chi) > 1:
        return "no exact moments of the largest unless keys are normal given q"
    if case.mean_k:
        return "no exact moments of the largest of keys that share a mean"
    kept = int(stack["top-k"][0])
    if "top-k-position" in stack:
        n = int(stack["top-k-position"][0])
    raw = [law.std**r * _norm_moment(law.chi, r) * selected_moment(n, kept, r)
           for r in range(ORDER + 1)]  # fmt: skip
    shift = stack["row-constant"][0] if "row-constant" in stack else 0.0
    central = _central(raw)
    std = math.sqrt(central[2])
    standardised = tuple(c / std**r for r, c in enumerate(central))
    formula = "d m_2 - (E|q| m_1)^2, m_r = (n/k) int z^r phi(z) P(Bin(n-1, Q(z)) < k) dz"
    return Transformed(LogitMoments(raw[1] + shift, std, standardised), None, "quadrature", formula)


def _norm_moment(chi: Sequence[int], r: int) -> float:
    """`E (chi_d / sqrt(d))^r`."""
    moments = [(2 / d) ** (r / 2) * gamma_ratio(d / 2, r / 2) for d in chi]
    return float(math.prod(moments))


def _central(raw: Sequence[float]) -> list[float]:
    return [
        math.fsum(math.comb(r, i) * raw[i] * (-raw[1]) ** (r - i) for i in range(r + 1))
        for r in range(len(raw))
    ]


_STEPS = {
    "score-layernorm": _normalised,
    "softcap": _capped,
    "clip": _capped,
    "locality": _mixed,
    "alibi": lambda case, stack, n, found: found if "locality" in stack
    else _mixed(case, stack, n, found),
    "row-constant": _shifted,
    "top-k": _selected,
}  # fmt: skip
"""The steps that change the law of one logit, in order; `locality` and `alibi` mix at once."""
