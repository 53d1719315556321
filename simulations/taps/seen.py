"""What a softmax got, and the products that it was made of, as NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Tokens [n, D] and the weights [D, out] that they met; element i is token i // out."""

    tokens: NDArray[Any]
    weight: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Queries or keys [n, d_k] before any factor, and where they came from.

    `columns` [n, d_k] are those of the projection's weights, `token` [n] its rows, `bias` [n, d_k]
    what was added; None where no projection is known.
    """

    values: Array
    projection: Projection | None = None
    columns: Index | None = None
    token: Index | None = None
    bias: Array | None = None

    @property
    def length(self) -> float | None:
        """The length of the vectors where all have the same one, as after a norm."""
        squares = (self.values**2).sum(-1)
        mean = float(squares.mean()) if squares.size > 1 else 0.0
        same = mean > 0 and float(np.ptp(squares)) <= _SAME_LENGTH * mean
        return mean**0.5 if same else None


_SAME_LENGTH = 1e-3  # relative spread of |x|^2 after a norm: its epsilon against x's variance


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """Products a.b of vectors in batches: element (n, i, j) of `values` is a[n, i].b[n, j].

    `values` are flat, before any factor.
    """

    a: Vectors
    b: Vectors
    batches: int
    values: NDArray[Any]

    def pairs(self, index: Index) -> tuple[Index, Index]:
        """The vectors of a and of b that elements are made of."""
        n_a, n_b = (len(side.values) // self.batches for side in (self.a, self.b))
        batch, within = np.divmod(index, n_a * n_b)
        return batch * n_a + within // n_b, batch * n_b + within % n_b


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The logits that one softmax got, [..., key], and the elements of q.k they are made of.

    `product` is None where the logits come from no product of two computed arrays; `rounding` is
    the unit roundoff of the logits' type.
    """

    logits: Array
    product: Product | None = None
    index: Index | None = None
    rounding: float = 2.0**-24

    def at(self, ids: Index) -> Seen:
        """The same, its elements in other places."""
        index = None if self.index is None else self.index.ravel()[ids]
        return replace(self, logits=self.logits.ravel()[ids], index=index)


def vectors(values: Array, factor: float, base: Any, index: Any, bias: Any) -> Vectors:
    """Vectors in the last axis of an array, with what is known of where they came from."""
    flat = values.reshape(-1, values.shape[-1]) / factor
    if not isinstance(base, Projection):
        return Vectors(flat)
    out = base.weight.shape[1]
    ids = np.asarray(index).reshape(flat.shape)
    added = None if bias is None else np.asarray(bias, np.float64).reshape(flat.shape)
    return Vectors(flat, base, ids % out, ids[:, 0] // out, added)
