"""What is measured of a layer's logits, head by head, and what theory says of the same tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...stats.audit.initialisation import (
    Form,
    variance_from_scheme,
    variance_from_weights,
    variance_of_normed,
)
from .rows import Fit, Products, Rows, fitted
from .seen import Array, Index, Vectors

QUANTITIES = (
    *("mean", "variance", "dot_variance", "max_prob", "entropy", "entropy_share", "saturated"),
    *("jacobian_trace", "jacobian_frobenius_sq"),
)
_SATURATED = 0.99
_LAW = "factor^2 |W_q' W_k|_F^2 |x|^2 S^2 / D^2"


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One softmax in one draw of the weights.

    `measured` has [heads] for each of `QUANTITIES`, `variance` being that within rows, and
    `dot_variance` that of factor q.k alone, without what is added to it; `groups` [heads] are the
    key heads. `from_weights`, [heads], is the variance that the weights give, by
    the formula `law`, and `on_unit` what they give on uncorrelated tokens of unit variance; None
    where they were not found. `norms` and `scatter` [rows] are those of
    the tokens, `width` their D.
    """

    n_keys: int
    fit: Fit | None
    measured: Mapping[str, Array]
    groups: Index
    d_k: int | None = None
    width: int | None = None
    from_weights: Array | None = None
    on_unit: Array | None = None
    law: str = ""
    norms: Array | None = None
    scatter: Array | None = None
    rounding: float = 2.0**-24

    @property
    def fine(self) -> bool:
        """Whether the logits are at least float32."""
        return self.rounding <= 2.0**-24

    @property
    def signature(self) -> tuple[float, ...]:
        """What differs where the weights do."""
        return tuple(self.measured["variance"].tolist())

    def from_scheme(self, variance_q: float, variance_k: float) -> Array | None:
        """The variance within rows, [heads], of weights of these variances; None without tokens."""
        if self.fit is None or self.d_k is None or self.norms is None or self.scatter is None:
            return None
        of = self.d_k, self.fit.factor, self.norms, self.scatter
        return np.full(len(self.groups), variance_from_scheme(variance_q, variance_k, *of))


def layer_of(rows: Rows) -> Layer:
    """A layer's statistics, and what its weights say, from its rows."""
    head, groups = _heads(rows)
    fit, products = fitted(rows), rows.products
    statistics = _statistics(rows, fit)
    each = [head == h for h in range(len(groups))]
    measured = {name: np.array([v[of].mean() for of in each]) for name, v in statistics.items()}
    n_keys = int(rows.kept.sum(-1).max(initial=0))
    if fit is None or products is None:
        return Layer(n_keys, fit, measured, groups, rounding=rows.rounding)
    layer = Layer(n_keys, fit, measured, groups, products.d_k, rounding=rows.rounding)
    q, k = products.queries, products.keys
    if q.length is not None and k.length is not None:
        return _normed(layer, rows, products, each)
    if q.projection is None or k.projection is None or q.token is None or k.token is None:
        return layer
    return _weighted(layer, rows, products, each)


def _heads(rows: Rows) -> tuple[Index, Index]:
    """The head of every row, and the key head of every head, from the columns they use."""
    products = rows.products
    if products is None:
        return np.zeros(len(rows.logits), np.int64), np.zeros(1, np.int64)
    columns = [_first(side) for side in (products.queries, products.keys)]
    if columns[0] is None or columns[1] is None:
        return np.zeros(len(rows.logits), np.int64), np.zeros(1, np.int64)
    pairs = np.stack([columns[0][products.query], columns[1][products.key[:, 0]]], axis=1)
    heads, head = np.unique(pairs, axis=0, return_inverse=True)
    return head.ravel(), np.unique(heads[:, 1], return_inverse=True)[1].ravel()


def _first(side: Vectors) -> Index | None:
    return None if side.columns is None else side.columns.min(axis=1)


def _statistics(rows: Rows, fit: Fit | None) -> dict[str, Array]:
    """Each of `QUANTITIES` by row."""
    kept, count = rows.kept, rows.kept.sum(-1)
    x = np.where(kept, rows.logits, -np.inf)
    weights = np.exp(x - x.max(-1, keepdims=True))
    p = weights / weights.sum(-1, keepdims=True)
    logs = np.log(np.where(p > 0, p, 1.0))
    squares = (p**2).sum(-1)
    entropy = -(p * logs).sum(-1)
    logits = rows.logits
    dots = logits if fit is None or rows.products is None else fit.factor * rows.products.values
    variance, dot_variance = (
        (rows.centred(values) ** 2).sum(-1) / (count - 1) for values in (logits, dots)
    )
    return {
        "mean": np.where(kept, rows.logits, 0.0).sum(-1) / count,
        "variance": variance,
        "dot_variance": dot_variance,
        "max_prob": p.max(-1),
        "entropy": entropy,
        "entropy_share": entropy / np.log(count),
        "saturated": (p.max(-1) > _SATURATED).astype(np.float64),
        "jacobian_trace": 1 - squares,
        "jacobian_frobenius_sq": squares - 2 * (p**3).sum(-1) + squares**2,
    }


def _scatter(values: NDArray[np.floating], rows: NDArray[np.bool_], ids: Index) -> Array:
    """`sum_j |y_j - mean y|^2 / (m - 1)` over the keys kept of each row."""
    found = np.empty(len(ids))
    for i, (kept, of) in enumerate(zip(rows, ids, strict=True)):
        y = values[of[kept]].astype(np.float64)
        found[i] = ((y - y.mean(0)) ** 2).sum() / (len(y) - 1)
    return found


def _weighted(layer: Layer, rows: Rows, products: Products, each: list[NDArray[np.bool_]]) -> Layer:
    """The layer with what its projections say: their weights, and the tokens they were given."""
    q, k, fit = products.queries, products.keys, layer.fit
    assert q.projection is not None
    assert k.projection is not None
    assert q.token is not None
    assert k.token is not None
    assert fit is not None
    token = q.token[products.query]
    _, first, back = np.unique(token, return_index=True, return_inverse=True)
    keys = k.token[products.key[first]]
    scatter = _scatter(k.projection.tokens, rows.kept[first], keys)[back.ravel()]
    squares = (q.projection.tokens.astype(np.float64) ** 2).sum(-1)
    norms = squares[token]
    width = q.projection.weight.shape[0]
    unit = np.full(1, float(width))
    found, on_unit = [], []
    for of in each:
        row = int(np.flatnonzero(of)[0])
        w_q, b_q = _head_weights(q, int(products.query[row]))
        w_k, _ = _head_weights(k, int(products.key[row, 0]))
        form = Form.of(w_q, w_k, b_q)
        found.append(variance_from_weights(form, fit.factor, norms[of], scatter[of]))
        on_unit.append(variance_from_weights(form, fit.factor, unit, unit))
    layer = replace(layer, norms=norms, scatter=scatter, width=width, law=_LAW)
    return replace(layer, from_weights=np.array(found), on_unit=np.array(on_unit))


def _head_weights(side: Vectors, vector: int) -> tuple[Array, Array]:
    """Weights [d_k, D] and bias [d_k] of the head that a vector is of."""
    assert side.projection is not None
    assert side.columns is not None
    weight = side.projection.weight.T[side.columns[vector]].astype(np.float64)
    bias = np.zeros(len(weight)) if side.bias is None else side.bias[vector]
    return weight, bias


def _normed(layer: Layer, rows: Rows, products: Products, each: list[NDArray[np.bool_]]) -> Layer:
    """The layer with what follows where queries and keys have one length each."""
    q, k, fit = products.queries, products.keys, layer.fit
    assert q.length is not None
    assert fit is not None
    free = products.d_k - int(abs(q.values.mean(-1)).max() < 1e-4 * q.length / products.d_k**0.5)
    scatter = _scatter(k.values, rows.kept, products.key)
    found = [variance_of_normed(fit.factor, q.length, free, scatter[of]) for of in each]
    law = "factor^2 |q|^2 / d S_k^2, q and k normed"
    return replace(layer, from_weights=np.array(found), law=law)
