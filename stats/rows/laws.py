"""From a case to the law of its rows, and from there to the reference of any row statistic."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Literal

from ..cases import Case, Reference
from ..checks import InputError, choice
from ..softmax import MAX_LOGIT_STD, normal_row
from ..weights.rows import normal_counterpart, weight_row_law
from .logit_laws import RowLaw, atoms
from .references import ROW_STATISTICS
from .tilting import u_grid

MAX_CELLS = 20_000_000
"""Products of distinct logits and points in u that are summed: about a second."""

NO_VALUE = ("jacobian_frobenius_median",)
"""Row quantities that are only ever measured."""


def row_law(case: Case, factor: float) -> tuple[RowLaw, str] | str:
    """The exact law of a case's rows with its assumptions in words, or why there is none.

    Softmax ignores what the keys of a row have in common: a mean of k, and the part of correlated
    keys along q. Given q the rest is iid where k is normal (any |q|), where k is uniform on a
    sphere, and where k and q are signs.

    Examples:
        >>> row_law(Case(d_k=64, n_keys=10), 0.125)[0]
        RowLaw(std=1.0, chi=(64,), base='normal', d=0, shift=0.0)
        >>> row_law(Case(d_k=64, n_keys=10, elements_k="laplace"), 0.125)
        'no exact law of the logits of a row with q normal and k laplace'

    """
    if case.weights is not None:
        return weight_row_law(case, factor)
    if case.logit_std is not None:
        return RowLaw(abs(factor) * case.logit_std), "iid normal logits"
    d = case.d_k
    if d is None:
        raise InputError("a row without d_k needs logit_std; give --dk or --logit-std")
    q, k, mean = case.elements_q, case.elements_k, case.mean_q
    constant_norm = q in ("rademacher", "sphere") and not mean
    iid = (k in ("normal", "sphere") and (q == "normal" or constant_norm)) or (
        q == k == "rademacher" and constant_norm
    )
    if not iid:
        with_mean = " with a mean" if mean else ""
        return f"no exact law of the logits of a row with q {q}{with_mean} and k {k}"
    if case.correlation and (q, k) != ("normal", "normal"):
        return f"no exact law of the logits of a row with correlated q {q} and k {k}"
    shift = d * (mean / case.sigma_q) ** 2
    if shift > 1e6:
        return f"|q| is a noncentral chi whose noncentrality exceeds 1e6, got {shift:g}"
    std = abs(factor) * sqrt(d) * case.sigma_q * case.sigma_k
    std *= sqrt((1.0 - case.correlation) * (1.0 + case.correlation))
    chi = (d,) if q == "normal" else ()
    law = RowLaw(std, chi, _BASES[k], 0 if k == "normal" else d, shift)
    words = ["keys iid given q", "|q| ~ chi" if chi else "|q| constant"]
    words += ["every key correlated with q"] if case.correlation else []
    return law, "; ".join(words)


_BASES: dict[str, Literal["normal", "rademacher", "sphere"]] = {
    "normal": "normal",
    "rademacher": "rademacher",
    "sphere": "sphere",
}


def row_reference(case: Case, quantity: str, factor: float) -> Reference:
    """Reference of a row statistic: value, unit, replicate_sd and how it was found.

    One replicate is one query with its keys. `factor` multiplies q.k. The unit is the value (of a
    bracket: the geometric mean of its ends), log n for the entropy and 1 for the saturated share.
    The replicate_sd of a bracket is an upper bound. n_keys = 1 is decided: p = 1 and J = 0;
    probabilities of ranks above n_keys are 0.

    Examples:
        >>> r = row_reference(Case(d_k=64, n_keys=10), "sum_p2", 0.125)
        >>> round(r.value, 12), r.kind
        (0.194414517802, 'quadrature')

    """
    choice("quantity", quantity, (*ROW_STATISTICS, *NO_VALUE))
    if case.n_keys is None:
        raise InputError(f"{quantity} is a statistic of rows and needs --n-keys")
    n = case.n_keys
    normal_row(n, 0.0)  # checks n
    if quantity in NO_VALUE:
        return _none("no formula for the median")
    if n == 1 or (n == 2 and quantity == "third_prob"):
        return _decided(quantity, n)
    found = row_law(case, factor)
    if isinstance(found, str):
        return _approximate(case, quantity, factor, found)
    law, assumptions = found
    if law.std > MAX_LOGIT_STD:
        return _none(f"logit std {law.std:g} is above {MAX_LOGIT_STD:g}, rows are one-hot")
    if law.base != "normal" and u_grid(law, n)[0].size * atoms(law)[0].size > MAX_CELLS:
        return _approximate(case, quantity, factor, "too many distinct logits to sum over")
    return replace(ROW_STATISTICS[quantity](law, n), assumptions=assumptions)


def _decided(quantity: str, n: int) -> Reference:
    """A row of one key has p = 1, and a key that is not there has probability 0."""
    value = 1.0 if quantity in ("max_prob", "sum_p2", "saturated") else 0.0
    formula, words = ("p = 1", "one key") if n == 1 else ("p_(3) = 0", "two keys")
    return Reference(value, 1.0, 0.0, None, "closed form", formula, words)


def _none(why: str) -> Reference:
    return Reference(None, 1.0, None, None, "none", "", why)


def _approximate(case: Case, quantity: str, factor: float, why: str) -> Reference:
    """No value, and beside it that of a normal case with the same logit variance."""
    normal = replace(case, elements_q="normal", elements_k="normal")
    found = row_law(normal if case.weights is None else normal_counterpart(case), factor)
    if isinstance(found, str) or found[0].std > MAX_LOGIT_STD:
        return _none(why)
    value = ROW_STATISTICS[quantity](found[0], case.n_keys or 1).value
    return replace(_none(why), approximation=value if isinstance(value, float) else None)
