"""References of row statistics of transformed logits, and the reason where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log, sqrt

import numpy as np

from ..cases import Case, Kind, Reference
from ..rows.laws import row_law, row_reference
from ..rows.logit_laws import RowLaw, fixed_scales
from ..rows.references import ROW_STATISTICS
from ..rows.unlike_keys import MOST_CELLS, Keys, cells, key_terms, unlike_moments
from .plain_equivalents import logit_factor, plain_equivalent
from .stacks import Stack

MOST_POSITIONS = 64
"""Keys up to which a causal mask's rows are all computed."""

_UNLIKE = ("sum_p2", "jacobian_trace", "jacobian_frobenius_sq", "entropy")


def transformed_row_reference(case: Case, quantity: str, stack: Stack) -> Reference:
    """The reference of a row statistic after all transforms.

    Examples:
        >>> case = Case(d_k=64, n_keys=64, scale="sqrt-dk", transform=("top-k-position:10",))
        >>> round(transformed_row_reference(case, "sum_p2", {"top-k-position": (10,)}).value, 12)
        0.194414517802

    """
    assert case.n_keys is not None
    n = case.n_keys
    if "top-k-position" in stack:
        n = int(stack["top-k-position"][0])
    if "causal" in stack:
        reference = _causal(case, quantity, stack, case.n_keys, n)
    else:
        reference = _of_keys(case, quantity, stack, n)
    grouped = "gqa" in stack or "queries" in stack
    return replace(reference, replicate_sd=None, replicate_skew=None) if grouped else reference


def _none(why: str) -> Reference:
    return Reference(None, 1.0, None, None, "none", "", why)


def _of_keys(case: Case, quantity: str, stack: Stack, n: int) -> Reference:
    """Rows of n keys."""
    plain = plain_equivalent(case, stack)
    if isinstance(plain, str):
        return _none(plain)
    plain = replace(plain, n_keys=n)
    factor = logit_factor(case, stack)
    if "top-k" in stack and stack["top-k"][0] < n:
        return _none("no formula for the rows of the largest logits")
    if "score-layernorm" in stack:
        return _none("no formula for rows on a sphere of n - 1 dimensions")
    if "clip" in stack:
        return _none("no formula for clipped logits, which tie")
    unlike = {"alibi", "locality", "softmax1"} & set(stack)
    if "softcap" in stack:
        if unlike:
            return _none("no formula for capped logits of unlike keys")
        return _capped(plain, quantity, factor, stack["softcap"][0])
    if unlike:
        return _unlike(plain, quantity, factor, stack)
    return row_reference(plain, quantity, factor)


def _law(plain: Case, factor: float) -> tuple[RowLaw, str] | str:
    found = row_law(plain, factor)
    if isinstance(found, str):
        return found
    return found if found[0].base == "normal" else "no formula unless keys are normal given q"


def _capped(plain: Case, quantity: str, factor: float, cap: float) -> Reference:
    """Iid keys of another law."""
    n = plain.n_keys or 1
    found = _law(plain, factor)
    if isinstance(found, str):
        return _none(found)
    if n == 1 or quantity not in ROW_STATISTICS or (n == 2 and quantity == "third_prob"):
        return row_reference(plain, quantity, factor)
    law, words = found
    if law.std > 100 * cap:
        return _none("the cap is below a hundredth of the logits' standard deviation")
    reference = ROW_STATISTICS[quantity](replace(law, base="capped", cap=cap), n)
    return replace(reference, assumptions=words)


def _unlike(plain: Case, quantity: str, factor: float, stack: Stack) -> Reference:
    """Independent keys of unlike laws, with or without a sink."""
    n = plain.n_keys or 1
    if quantity not in _UNLIKE:
        return _none("no formula for the ordered probabilities of unlike keys")
    found = _law(plain, factor)
    if isinstance(found, str):
        return _none(found)
    law, words = found
    if "softmax1" in stack and plain.mean_k:
        return _none("a mean of the keys moves them against the one more key")
    factors, biases = key_terms(stack, n)
    slope = stack["alibi"][0] if "alibi" in stack else 0.0
    shift = stack["row-constant"][0] if "row-constant" in stack else 0.0
    if shift and "softmax1" in stack:
        return _none("a constant moves the keys against the one more key")
    keys = Keys(factors, biases, slope, "softmax1" in stack)
    if keys.count == 1:
        return row_reference(plain, quantity, factor)
    if cells(law.std, keys) > MOST_CELLS or n * law.std > 1e8:
        return _none("too many unlike keys to sum over")
    parts = [(w, unlike_moments(iid, keys)) for w, iid in fixed_scales(law, keys.count)]
    means = {name: sum(w * part[name] for w, part in parts) for name in parts[0][1]}
    return _from_means(means, quantity, keys.count, words)


def _from_means(means: dict[str, float], quantity: str, n: int, words: str) -> Reference:
    value = means[quantity]
    unit = log(n) if quantity == "entropy" else value
    sd: float | None = None
    skew: float | None = None
    if quantity == "entropy":
        sd = sqrt(max(means["entropy^2"] - value**2, 0.0))
    elif quantity in ("sum_p2", "jacobian_trace"):
        one, two, three = (means["sum_p2" + power] for power in ("", "^2", "^3"))
        sd = sqrt(max(two - one**2, 0.0))
        third = three - 3 * one * two + 2 * one**3
        skew = third / sd**3 * (1 if quantity == "sum_p2" else -1) if sd else None
    formula = "1/Gamma(A) int prod_j L_j(u) E_u[Q(y)] du, keys of unlike laws"
    return Reference(value, unit, sd, skew, "quadrature", formula, words)


def _causal(case: Case, quantity: str, stack: Stack, n: int, most: int) -> Reference:
    """A query at a uniform position t of n sees min(t, K) keys: the mean over positions."""
    if n > MOST_POSITIONS:
        return _none(f"rows of 1 to {n} keys; theory sums over at most {MOST_POSITIONS}")
    if "top-k" in stack:
        return _none("no formula for the rows of the largest logits")
    if "score-layernorm" in stack:
        return _none("no formula for rows on a sphere of n - 1 dimensions")
    others = {name: values for name, values in stack.items() if name != "causal"}
    parts: list[Reference] = []
    for t in range(1, n + 1):
        part = _of_keys(case, quantity, others, t) if t <= most else parts[-1]
        if part.kind == "none":
            return part
        parts.append(part)
    return _averaged(parts, quantity, n)


def _averaged(parts: Sequence[Reference], quantity: str, n: int) -> Reference:
    """Mean and spread of a mixture in equal parts."""
    ends = np.array([p.value if isinstance(p.value, tuple) else (p.value,) * 2 for p in parts])
    low, high = (float(end) for end in ends.mean(axis=0))
    bracket = any(part.kind == "bracket" for part in parts)
    known = all(part.replicate_sd is not None for part in parts)
    sd = None
    if known:
        squares = [(p.replicate_sd or 0.0) ** 2 + low_t**2
                   for p, (low_t, _) in zip(parts, ends, strict=True)]  # fmt: skip
        sd = sqrt(max(float(np.mean(squares)) - low**2, 0.0))
    if quantity == "saturated" and not bracket:
        sd = sqrt(low * (1 - low))
    value = (low, high) if bracket else low
    unit = {"entropy": log(max(n, 2)), "saturated": 1.0}.get(quantity, sqrt(low * high) or 1.0)
    kind: Kind = "bracket" if bracket else "quadrature"
    return Reference(value, unit, sd, None, kind, f"mean over rows of 1 ... {n} keys",
                     parts[-1].assumptions)  # fmt: skip
