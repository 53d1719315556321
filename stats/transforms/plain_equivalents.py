"""The plain case whose logits have the law of a transformed one, where there is such a case.

Normal vectors are isotropic: turning them changes nothing, and normalised they are uniform on a
sphere (for LayerNorm in the d - 1 dimensions whose elements sum to 0). One isotropic vector is
enough for a pair; the rows of one query need isotropic keys.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..cases import Case
from ..conventions import scale_factor
from ..elements import parse_elements
from .stacks import Stack

ISOTROPIC = ("normal", "sphere")
_SKEWED = ("exponential", "lognormal")


def logit_factor(case: Case, stack: Stack) -> float:
    """The factor of q.k: 1 where the scale is given to the values."""
    return 1.0 if "v-compensation" in stack else scale_factor(case)


def is_symmetric(law: str) -> bool:
    """Whether an element and its negative have one law."""
    return parse_elements(law)[0] not in _SKEWED


def plain_equivalent(case: Case, stack: Stack) -> Case | str:
    """A case without vector transforms whose q.k has the same law, or why there is none.

    Examples:
        >>> case = plain_equivalent(Case(d_k=64), {"qk-layernorm": ()})
        >>> case.d_k, case.elements_q, round(case.sigma_q**2, 6)
        (63, 'sphere', 1.015873)
        >>> plain_equivalent(Case(elements_q="laplace", elements_k="laplace"), {"rope": (1,)})
        'no exact law of rotated or normalised vectors with q laplace and k laplace'

    """
    plain = replace(case, transform=(), scale="none")
    norm = next((n for n in ("qk-rmsnorm", "qk-layernorm", "l2norm") if n in stack), None)
    if norm is None and "rope" not in stack:
        return plain
    laws = (case.elements_k,) if case.n_keys is not None else (case.elements_q, case.elements_k)
    if not set(laws) & set(ISOTROPIC):
        what = f"q {case.elements_q} and k {case.elements_k}"
        return f"no exact law of rotated or normalised vectors with {what}"
    if norm is None:
        return plain
    if set(laws) - {"normal", "sphere"} and _may_vanish(case, norm):
        return "a vector may vanish before it is normalised"
    if norm == "qk-layernorm" and "rope" in stack:
        return "turned vectors with mean 0 no longer fill one space"
    return _on_sphere(plain, norm, stack)


def _on_sphere(plain: Case, norm: str, stack: Stack) -> Case:
    assert plain.d_k is not None
    d, sigma = plain.d_k, 1.0
    if norm == "qk-layernorm":
        d, sigma = plain.d_k - 1, math.sqrt(plain.d_k / (plain.d_k - 1))
    elif norm == "l2norm":
        sigma = math.sqrt(stack["l2norm"][0] / d)
    return replace(
        plain, d_k=d, elements_q="sphere", elements_k="sphere", sigma_q=sigma, sigma_k=sigma
    )


def _may_vanish(case: Case, norm: str) -> bool:
    """Whether a vector has no direction with positive probability: a norm of 0."""
    names = {parse_elements(law)[0] for law in (case.elements_q, case.elements_k)}
    return "sparse" in names or (norm == "qk-layernorm" and "rademacher" in names)


def norm_variance(case: Case, stack: Stack) -> float | None:
    """Variance of q.k of normalised vectors of any law, None where it depends on the law.

    The elements are exchangeable, so that E q_i^2 = 1, and E q_i q_j is 0 where signs are
    symmetric and -1/(d-1) where the elements sum to 0: `d` and `d + d/(d-1) = d^2/(d-1)`.

    Examples:
        >>> case = Case(d_k=4, elements_q="uniform", elements_k="laplace")
        >>> norm_variance(case, {"qk-rmsnorm": ()}), norm_variance(case, {"l2norm": (10.0,)})
        (4.0, 25.0)

    """
    norm = next((n for n in ("qk-rmsnorm", "qk-layernorm", "l2norm") if n in stack), None)
    if norm is None or case.d_k is None or _may_vanish(case, norm):
        return None
    if norm == "qk-layernorm":
        return None if "rope" in stack else case.d_k**2 / (case.d_k - 1)
    if not (is_symmetric(case.elements_q) or is_symmetric(case.elements_k)):
        return None
    return float(case.d_k) if norm == "qk-rmsnorm" else stack["l2norm"][0] ** 2 / case.d_k
