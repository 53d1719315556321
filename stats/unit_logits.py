"""The variance of all logits of given queries and keys, with a distribution-free standard error.

`V = mean (x_ij - mean x)^2` is a two-sample U-statistic of queries and keys: its error is that of
the row means plus that of the column means (Hoeffding 1948). Both follow from the second moments
`S_k = k'k / m` of the keys and `S_q` of the queries, so that no matrix of logits is made.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .cases import Case, Reference
from .checks import InputError, magnitude
from .decision import Row
from .quantities import Estimate

Array = NDArray[np.float64]


def unit_row(q: Array, k: Array, factor: float | None) -> tuple[Row, float]:
    """The row of `Var(factor q.k) = 1` with its estimate, and the factor in use.

    q is (..., n, d_k), k (..., m, d_k). The row at place i of every leading index is one replicate.
    Its error bar is `sd(rows)/sqrt(n) + sd(columns)/sqrt(m)`, which is not exceeded whatever the
    dependence between queries and keys; each sd counts the pairs' own noise besides.

    Examples:
        >>> q = np.eye(2)[:, :, None] * 2
        >>> unit_row(q, q, 1.0)[0].estimate.value
        3.0

    """
    _check_shapes(q, k)
    n, d_k = q.shape[-2:]
    m = k.shape[-2]
    used = 1 / math.sqrt(d_k) if factor is None else magnitude("factor", factor)
    q, k = q.reshape(-1, n, d_k), k.reshape(-1, m, d_k)
    mean = float((q.mean(1) * k.mean(1)).sum(-1).mean())
    rows = _squares(q, k, mean) * used**2
    columns = _squares(k, q, mean) * used**2
    error = rows.std(ddof=1) / math.sqrt(n) + columns.std(ddof=1) / math.sqrt(m)
    draws = min(n, m)
    value = float(rows.mean())
    estimate = Estimate(draws, value, float(error) * math.sqrt(draws))
    formula = "unit logits: Var(factor q.k) = 1"
    reference = Reference(1.0, unit_of(value), None, None, "closed form", formula)
    return Row(Case(d_k, scale="sqrt-dk"), "variance", reference, estimate), used


def unit_of(variance: float) -> float:
    """Unit of a variance's gap from 1: 2, so that it is judged as its std, or the variance itself.

    The error of a variance grows with it: in units of 2, one of 64 could not be told from 1.

    Examples:
        >>> unit_of(0.5), unit_of(64.0)
        (2.0, 64.0)

    """
    return max(2.0, variance)


def _squares(one: Array, other: Array, mean: float) -> Array:
    """Mean of `(x - mean)^2` over all of `other`, for each row of `one`, over leading axes."""
    second = other.swapaxes(1, 2) @ other / other.shape[1]
    square = ((one @ second) * one).sum(-1)
    linear = (one * other.mean(1, keepdims=True)).sum(-1)
    return np.asarray((square - 2 * mean * linear + mean**2).mean(0))


def _check_shapes(q: Array, k: Array) -> None:
    flat = q.ndim < 2 or k.ndim < 2
    if flat or q.shape[:-2] != k.shape[:-2] or q.shape[-1] != k.shape[-1]:
        raise InputError(
            "q and k must be (..., n, d_k) and (..., m, d_k) with the same leading axes and d_k, "
            f"got {q.shape} and {k.shape}; repeat shared heads, move the head axis before the rows"
        )
    if min(q.shape[-2], k.shape[-2]) < 2 or not q.size:
        raise InputError(f"q and k need 2 rows at least, got {q.shape} and {k.shape}; give more")
    for name, array in (("q", q), ("k", k)):
        if not np.isfinite(array).all():
            raise InputError(f"{name} must be finite, got nan or inf; clean it")
