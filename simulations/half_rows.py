"""Softmax rows in half precision, or made naively: they can break, and are then left out."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from ..stats.cases import Case
from .jacobian import JACOBIAN_STATISTICS
from .reduce import bin_counts, row_moments, tree_max, tree_sum
from .rounding import rounded
from .softmax import ROW_STATISTICS, Row

COUNTED, BROKEN = "jacobian_frobenius_median", "broken_rows"
Form = tuple[str, bool]


def softmax_form(case: Case, names: tuple[str, ...]) -> Form | None:
    """Precision of softmax and whether it is naive; None for the plain one, which cannot break."""
    plain = not case.rounds_rows and names != (BROKEN,)
    return None if plain else (case.dtype_softmax or case.dtype, case.softmax == "naive")


class HalfRow(Row):
    """Rows of softmax with its logits, exponentials and their sum rounded to a precision.

    Naive softmax is exp(x) over its sum, stable softmax subtracts the largest logit first. A row is
    `whole` [rows] if that sum is a positive number: then p = w / sum w, and statistics are made
    from p in float32. In other rows they mean nothing.
    """

    def __init__(self, logits: Array, factor: Array | float, dtype: str, naive: bool) -> None:
        x = rounded(logits * jnp.asarray(factor, logits.dtype), dtype)
        if naive:
            terms = rounded(jnp.exp(x), dtype)
            total = rounded(tree_sum(terms), dtype)
        else:
            terms = rounded(jnp.exp(rounded(x - tree_max(x)[:, None], dtype)), dtype)
            total = rounded(tree_sum(terms), dtype)
        self.whole = jnp.isfinite(total) & (total > 0)
        kept = jnp.where(self.whole[:, None], terms, 1)
        largest = tree_max(kept)[:, None]  # of weight 1 also where division is by a reciprocal
        self.weights = jnp.where(kept == largest, 1, kept / largest)
        self.gaps = jnp.where(self.weights > 0, -jnp.log(self.weights), 0)


def sums_of_whole(
    names: tuple[str, ...], form: Form, logits: Array, factor: Array, blocks: Array
) -> Array:
    """One device's sums [1, statistics, 5] of its whole rows, behind their number.

    Whole rows are moved before the others. Counts are [1, 1, bins], as of plain rows.
    """
    row = HalfRow(logits, factor, *form)
    drawn = jnp.arange(logits.shape[0]) < blocks[0, 2]
    if names == (BROKEN,):
        statistics, count = {BROKEN: 1.0 - row.whole.astype(logits.dtype)}, blocks[0, 2]
    else:
        order = jnp.argsort(~(row.whole & drawn), stable=True)
        count = (row.whole & drawn).sum(dtype=jnp.uint32)
        wanted = ("jacobian_frobenius",) if names == (COUNTED,) else names
        catalogue = ROW_STATISTICS | JACOBIAN_STATISTICS
        statistics = {name: catalogue[name](row)[order] for name in wanted}
    if names == (COUNTED,):
        return bin_counts(statistics["jacobian_frobenius"], count)[None, None]
    sums = row_moments(statistics, jnp.maximum(count, 1))
    counted = count.astype(logits.dtype)[None]
    return jnp.stack([jnp.concatenate([counted, sums[name]]) for name in names])[None]
