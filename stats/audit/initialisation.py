"""What the variance of logits within a row should be at initialisation, given the tokens.

With q_i = W_q x_i + b_q and k_j = W_k y_j + b_k, the bias of the keys adds the same to a whole row
and drops out. S_i^2 = sum_j |y_j - mean y|^2 / (m - 1) is the scatter of the m tokens that row i
attends to. W_q and W_k have independent entries of mean 0, so that given the tokens, whatever
their law, masks and rotations of q and k (RoPE), the variance within row i has the mean

    factor^2 d_k v_q v_k |x_i|^2 S_i^2

On normed or unit tokens that are uncorrelated |x|^2 = S^2 = D. Tokens that share a part (an
embedding added to all) have a smaller scatter, and their logits a smaller variance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Form(NamedTuple):
    """|W_q' W_k|_F^2, |W_k' b_q|^2 and the width D of one head."""

    square: float
    shift: float
    width: int

    @classmethod
    def of(cls, w_q: Array, w_k: Array, b_q: Array) -> Form:
        """From weights [d_k, D] and the queries' bias [d_k].

        Examples:
            >>> Form.of(np.eye(2), np.eye(2), np.ones(2))
            Form(square=2.0, shift=2.0, width=2)

        """
        square = float(((w_q @ w_q.T) * (w_k @ w_k.T)).sum())  # the trace of two small products
        return cls(square, float(((b_q @ w_k) ** 2).sum()), w_q.shape[1])


def variance_from_weights(form: Form, factor: float, norms: Array, scatter: Array) -> float:
    """Mean variance within rows, from the weights of one head.

    `factor^2 S^2/D (|x|^2/D |W_q' W_k|_F^2 + |W_k' b_q|^2)`, averaged over rows: for independent
    tokens with covariance I it is the variance of q.k, and over draws of the weights its mean is
    that of the variance measured, whatever the tokens.

    Args:
        form: of the head's weights.
        factor: what multiplies q.k.
        norms: [rows], |x_i|^2 of the query's token.
        scatter: [rows], S_i^2.

    Examples:
        >>> two = np.full(1, 2.0)
        >>> variance_from_weights(Form(2.0, 0.0, 2), 1.0, two, two)
        2.0

    """
    each = scatter * (norms / form.width * form.square + form.shift)
    return factor**2 / form.width * float(each.mean())


def variance_from_scheme(
    variance_q: float, variance_k: float, d_k: int, factor: float, norms: Array, scatter: Array
) -> float:
    """Mean variance within rows, `factor^2 d_k v_q v_k |x|^2 S^2`, from the entries' variances.

    Examples:
        >>> eight = np.full(1, 768.0)
        >>> round(variance_from_scheme(4e-4, 4e-4, 64, 1 / 8, eight, eight), 4)  # GPT-2
        0.0944

    """
    return factor**2 * d_k * variance_q * variance_k * float((norms * scatter).mean())


def variance_of_normed(factor: float, length_q: float, d_q: int, scatter: Array) -> float:
    """Mean variance within rows where queries have one length, as after a norm.

    `factor^2 |q|^2/d S_k^2` with S_k^2 the scatter of the row's keys: the direction of q is
    as likely any of its d free dimensions (d_k, one less after a layer norm).

    Examples:
        >>> variance_of_normed(1 / 8, 8.0, 64, np.full(3, 64.0))  # QK-RMSNorm
        1.0

    """
    return factor**2 * length_q**2 / d_q * float(scatter.mean())


def softcap_of(slope: float, cubic: float) -> float | None:
    """The cap C of `C tanh(a x / C) = a x - (a x)^3 / (3 C^2) + ...`, None where there is none.

    Examples:
        >>> softcap_of(1.0, -1 / 7500)
        50.0

    """
    return math.sqrt(slope**3 / (-3 * cubic)) if slope > 0 > cubic else None
