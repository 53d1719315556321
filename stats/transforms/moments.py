"""Moments of the logit after each step of a transform, exactly, and why there are none otherwise.

What can go wrong: raw moments cancel where a bias is large; mixtures are therefore built about
their own mean. Only symmetric logits are capped, so that odd moments vanish exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..cases import Case
from ..laws.dot_product import gamma_ratio
from ..laws.logit_moments import ORDER, LogitMoments, logit_moments
from ..laws.mean_absolute import AbsoluteLogit, absolute_logit
from ..laws.vector_moments import Transformed, drawn_moments
from ..quadrature import scale_rule
from ..rows.laws import row_law
from ..rows.logit_laws import RowLaw
from ..rows.unlike_keys import key_terms
from .capped_moments import clipped_moment, softcapped_moment
from .plain_equivalents import logit_factor, plain_equivalent
from .stacks import Stack, lengths
from .top_k import selected_moment


def transformed_moments(case: Case, stack: Stack) -> Transformed | str:
    """The exact moments of a transformed logit, or why there are none.

    Examples:
        >>> found = transformed_moments(Case(d_k=64, transform=("top-k:8:64",)), {"top-k": (8, 64)})
        >>> round(found.moments.std**2, 6)
        14.981134

    """
    found = drawn_moments(case, stack)
    n = int(next(iter(lengths(stack)), 1))
    for name, step in _STEPS.items():
        if name in stack and not isinstance(found, str):
            found = step(case, stack, n, found)
    if "causal" in stack and {"alibi", "locality", "top-k"} & set(stack):
        return "no exact law of the keys that a causal mask leaves"
    return found


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
    moment = softcapped_moment if name == "softcap" else clipped_moment
    scales = [(1.0, law)]
    if law.chi:
        nodes = zip(*scale_rule(law.chi, cap / law.std, 64), strict=True)
        scales = [(float(w), law.at(law.std * float(r))) for r, w in nodes]
    return _from_raw(lambda r: sum(w * moment(iid, cap, r) for w, iid in scales))


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
