"""The law of the logits of one softmax row that comes out of fresh weights.

One query token x and n independent key tokens y_j meet the same weights: x_j = z.y_j with
z = W_K' W_Q x, so that given |z| the logits are independent. The query is not among the keys.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from ..cases import Case
from ..rows.logit_laws import RowLaw
from .layers import layer_of
from .tokens import free_dimensions


def weight_row_law(case: Case, factor: float) -> tuple[RowLaw, str] | str:
    """The exact law of a case's rows over weights and tokens, or why there is none.

    Normal weights: `|z|^2 = vq vk |x|^2 chi2_d chi2_n` in the n free dimensions of the keys, with
    `|x|^2 ~ chi2_D` for normal tokens and D for normed ones; given |z| the logits are normal for
    normal keys, and sqrt(D) |z| times the cosine to a uniform direction for normed ones.
    Orthonormal rows and normal tokens: |z| ~ chi_d.

    Examples:
        >>> case = Case(d_k=4, n_keys=10, weights="lecun-normal", d_model=9, tokens="normal")
        >>> weight_row_law(case, 0.5)[0]
        RowLaw(std=1.0, chi=(9, 4, 9), base='normal', d=0, shift=0.0)
        >>> weight_row_law(replace(case, tokens="layernorm"), 0.5)[0]
        RowLaw(std=1.0, chi=(4, 8), base='sphere', d=8, shift=0.0)

    """
    layer = layer_of(case)
    d, total = layer.d_k, layer.d_model
    if case.ensemble == "tokens":
        return "rows through one drawn pair of weights: |z| is a weighted chi without closed form"
    if layer.tied:
        return "no exact law of the logits of a row with W_K = W_Q"
    std = abs(factor) * total * sqrt(d * layer.variance_q * layer.variance_k)
    if layer.law == "orthogonal" and case.tokens == "normal":
        return RowLaw(std, (d,)), "W_Q x standard normal; keys iid given |W_K' W_Q x|"
    if not layer.gaussian:
        return f"no exact law of the logits of a row through {case.weights} and {case.tokens}"
    if case.tokens == "normal":
        return RowLaw(std, (total, d, total)), "normal tokens; keys iid given |W_K' W_Q x|"
    n = free_dimensions(case.tokens, total)
    return RowLaw(std, (d, n), "sphere", n), "normed tokens; keys iid given |W_K' W_Q x|"


def normal_counterpart(case: Case) -> Case:
    """Independent normal entries and tokens of the same logit variance, for an approximation."""
    layer = layer_of(case)
    sd = sqrt(sqrt(layer.variance_q * layer.variance_k))
    return replace(case, weights=f"normal:{sd!r}", tokens="normal", ensemble="weights")
