"""From what a softmax got to its rows, the vectors of each, and the factor of q.k."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...stats.audit.initialisation import softcap_of
from .seen import Array, Index, Seen, Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """q.k before any factor, [row, key], and the vectors that it is of.

    Row i is of query `query[i]` and key j of it is `key[i, j]`: indices into `queries`, `keys`.
    """

    values: Array
    queries: Vectors
    keys: Vectors
    query: Index
    key: Index

    @property
    def d_k(self) -> int:
        """Length of the vectors."""
        return int(self.queries.values.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Logits [row, key], which keys have a weight at all, and the products they are made of.

    Rows of masked keys alone but one say nothing of a variance and are left out; `batch` is the
    number of sequences whose rows follow one another, 1 where that is not known.
    """

    logits: Array
    kept: NDArray[np.bool_]
    products: Products | None = None
    batch: int = 1
    rounding: float = 2.0**-24

    @property
    def allowed(self) -> float:
        """Root mean square of what rounding leaves of logits, relative to theirs."""
        return 20 * self.rounding

    def centred(self, values: Array) -> Array:
        """Values minus their mean over the row's keys; 0 where a key is masked."""
        return _centred(np.where(self.kept, values, 0.0), self.kept)


def _centred(values: Array, kept: NDArray[np.bool_]) -> Array:
    mean = values.sum(-1, keepdims=True) / kept.sum(-1, keepdims=True)
    return np.where(kept, values - mean, 0.0)


def rows_of(seen: Seen, batch: int = 1) -> Rows:
    """The rows of a softmax; a key is masked whose weight is 0 in float64."""
    top = seen.logits.max(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        kept = np.exp(seen.logits - top) > 0
    several = kept.sum(-1) > 1
    alike = len(several) % batch == 0 and bool(
        (kept.reshape(batch, -1) == kept[: len(kept) // batch].ravel()).all()
    )
    logits, kept = seen.logits[several], kept[several]
    rows = Rows(logits, kept, None, batch if alike else 1, seen.rounding)
    if seen.product is None or seen.index is None or not len(logits):
        return rows
    a, b = seen.product.pairs(seen.index[several])
    q, k = seen.product.a, seen.product.b
    if not _constant(a, kept) and _constant(b, kept):
        a, b, q, k = b, a, k, q
    values = seen.product.values[seen.index[several]]
    return replace(rows, products=Products(values, q, k, a[:, 0], b))


def _constant(index: Index, kept: NDArray[np.bool_]) -> bool:
    return bool((index == index[:, :1])[kept].all())


@dataclass(frozen=True, slots=True)
class Fit:
    """`logits = factor q.k + what does not depend on the tokens`.

    `residual` is the root mean square of what that leaves, over that of the logits; `softcap` the
    cap of a tanh that explains it, None where none does.
    """

    factor: float
    residual: float
    softcap: float | None = None


def fitted(rows: Rows) -> Fit | None:
    """The factor of q.k by least squares, None where the logits come from no product.

    What is the same for every sequence of the batch (position biases) is taken out first where
    rows alone do not fit.
    """
    if rows.products is None or not rows.kept.any():
        return None
    if not np.ptp(rows.logits[rows.kept]):
        return Fit(0.0, 0.0)
    logits, products = rows.centred(rows.logits), rows.centred(rows.products.values)
    fit = _fit(logits, products)
    if fit.residual > rows.allowed and rows.batch > 1:
        apart = [x.reshape(rows.batch, -1, x.shape[-1]) for x in (logits, products)]
        biased = _fit(*(x - x.mean(0) for x in apart))
        if biased.residual < rows.allowed:
            return biased
    return fit if fit.residual <= rows.allowed else _capped(rows, logits, products) or fit


def _fit(logits: Array, products: Array) -> Fit:
    slope = float((logits * products).sum() / (products**2).sum())
    left, whole = ((logits - slope * products) ** 2).sum(), (logits**2).sum()
    return Fit(slope, float(np.sqrt(left / whole)))


def _capped(rows: Rows, logits: Array, products: Array) -> Fit | None:
    """The fit of a soft cap: q.k with its third and fifth power."""
    assert rows.products is not None
    unit = float(np.sqrt((products**2).mean()))
    raw = rows.products.values / unit
    terms = np.stack([rows.centred(raw**power).ravel() for power in (1, 3, 5)], axis=1)
    weights = np.linalg.lstsq(terms, logits.ravel(), rcond=None)[0]
    slope, cubic, _ = map(float, weights)
    left = logits.ravel() - terms @ weights
    cap = softcap_of(slope, cubic)
    residual = float(np.sqrt((left**2).sum() / (logits**2).sum()))
    return None if cap is None or residual > 10 * rows.allowed else Fit(slope / unit, residual, cap)
