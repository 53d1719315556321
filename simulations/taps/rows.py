"""From what a softmax got to its rows, the vectors of each, and the factor of q.k."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...stats.audit.initialisation import softcap_of
from .seen import Array, Index, Seen, Vectors

_ROUNDINGS = 20  # unit roundoffs that a logit may err by: sums of d_k products, and scaling


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

    `residual` is the root mean square of what that leaves, over that of the logits, and `floor`
    what rounding may leave; `softcap` the cap of a tanh that explains it, None where none does.
    """

    factor: float
    residual: float
    floor: float = math.inf
    softcap: float | None = None

    @property
    def plain(self) -> bool:
        """Whether the logits are explained, by a factor or by a factor and a cap."""
        return self.softcap is not None or self.residual <= self.floor


def fitted(rows: Rows) -> Fit | None:
    """The factor of q.k by least squares, None where the logits come from no product.

    What is the same for every sequence of the batch (position biases) is taken out first where
    rows alone do not fit.
    """
    if rows.products is None or not rows.kept.any():
        return None
    if not np.ptp(rows.products.values[rows.kept]):
        return None  # q or k is 0, so that any factor is as good
    if not np.ptp(rows.logits[rows.kept]):
        return Fit(0.0, 0.0)
    logits, products = rows.centred(rows.logits), rows.centred(rows.products.values)
    size = _rms(rows.logits[rows.kept]) * _ROUNDINGS * rows.rounding
    fit = _fit(logits, products, size)
    if fit.plain:
        return fit
    if rows.batch > 1:
        apart = [x.reshape(rows.batch, -1, x.shape[-1]) for x in (logits, products)]
        x, y = (each - each.mean(0) for each in apart)
        biased = _fit(x, y, size)
        if biased.plain:
            return biased
    return _capped(rows, logits, products, size) or fit


def _rms(values: Array) -> float:
    return float(np.sqrt((values**2).mean()))


def _fit(logits: Array, products: Array, size: float) -> Fit:
    """A factor by least squares, where rounding may leave `size`."""
    slope = float((logits * products).sum() / (products**2).sum())
    whole = _rms(logits)
    return Fit(slope, _rms(logits - slope * products) / whole, size / whole)


def _capped(rows: Rows, logits: Array, products: Array, size: float) -> Fit | None:
    """The fit of a soft cap: q.k with its third and fifth power."""
    assert rows.products is not None
    unit = _rms(products)
    raw = rows.products.values / unit
    terms = np.stack([rows.centred(raw**power).ravel() for power in (1, 3, 5)], axis=1)
    weights = np.linalg.lstsq(terms, logits.ravel(), rcond=None)[0]
    slope, cubic, _ = map(float, weights)
    residual = _rms(logits.ravel() - terms @ weights) / _rms(logits)
    cap, floor = softcap_of(slope, cubic), 10 * size / _rms(logits)
    return None if cap is None or residual > floor else Fit(slope / unit, residual, floor, cap)
