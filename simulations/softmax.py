"""What is measured on softmax rows: probabilities of the leading keys, entropy, sum of squares.

What can go wrong: in a saturated row 1 - p_max, and everything built on it, drowns in rounding.
Every quantity is therefore made from the weights w_j = exp(x_j - x_max) of the keys beside the
largest. With W their sum, p_max = 1 / (1 + W) and p_j = w_j / (1 + W).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import jax
import jax.numpy as jnp

from .reduce import tree_max, tree_sum

SATURATED_ABOVE = 0.99


class Row:
    """Rows of logits relative to their largest one, and the sums that quantities share.

    The logits are multiplied by the factor in their own dtype. Sums are made when first asked for,
    so that a quantity that is not asked for costs nothing. Below, "others" are all keys but one
    that has the largest logit; in exact ties the others hold the rest of the largest.

    Args:
        logits: [rows, n_keys], float32 or float64; n_keys at least 1.
        factor: what the scale multiplies the logits by; may be traced.

    Attributes:
        gaps: x_max - x_j >= 0, [rows, n_keys].
        weights: w_j = exp(-gap_j), [rows, n_keys].

    Examples:
        >>> row = Row(jnp.array([[0.0, 4.0, 4.0]]), 2.0)
        >>> row.gaps.tolist(), row.ties.tolist(), round(row.others.item(), 6)
        ([[8.0, 0.0, 0.0]], [1.0], 1.000335)

    """

    def __init__(self, logits: jax.Array, factor: jax.Array | float) -> None:
        # The clip makes infinite logits finite, and keeps the compiler from contracting this
        # product and the difference below into one operation that rounds differently.
        half = jnp.finfo(logits.dtype).max / 2
        x = jnp.clip(logits * jnp.asarray(factor, logits.dtype), -half, half)
        largest = tree_max(x)[:, None]
        gaps = largest - x
        # The gap's rounding error (Knuth's two-sum), else 2e-6 of the weight at a gap of 50.
        back = gaps - largest
        error = (largest - (gaps - back)) - (x + back)
        error = jnp.clip(error, -0.5, 0.5)  # larger only where the weight is 0
        # A division last: XLA then keeps the weights instead of remaking them for every sum.
        self.gaps, self.weights = gaps, jnp.exp(-gaps) / (1 + error)

    def sum_below(self, terms: jax.Array) -> jax.Array:
        """Sum of terms [rows, n_keys] over the keys whose weight is below the largest, 1."""
        return tree_sum(jnp.where(self.weights < 1, terms, 0))

    @cached_property
    def ties(self) -> jax.Array:
        """Number of others that share the largest weight, [rows]."""
        return tree_sum((self.weights >= 1).astype(self.weights.dtype)) - 1

    @cached_property
    def others(self) -> jax.Array:
        """W, the sum of the others' weights, [rows]."""
        return self.ties + self.sum_below(self.weights)

    @cached_property
    def total(self) -> jax.Array:
        """1 + W, [rows]."""
        return 1 + self.others

    @cached_property
    def per_other(self) -> jax.Array:
        """1 / W, and 0 where W is 0, [rows]."""
        tiny = jnp.finfo(self.weights.dtype).tiny
        return (self.others > 0) / jnp.maximum(self.others, tiny)

    @cached_property
    def tied_squares(self) -> jax.Array:
        """Part of `relative_squares` that is due to ties, where 1 / W <= 1, [rows]."""
        return self.ties * jnp.minimum(self.per_other, 1) ** 2

    @cached_property
    def relative_squares(self) -> jax.Array:
        """The sum of (w_j / W)^2 over the others, [rows]: no underflow where W^2 does."""
        share = self.weights * self.per_other[:, None]
        return self.tied_squares + self.sum_below(share**2)

    @cached_property
    def squares(self) -> jax.Array:
        """The sum of w_j^2 over the others, [rows]."""
        return self.relative_squares * self.others**2

    @cached_property
    def next_below(self) -> jax.Array:
        """Largest weight below 1, 0 where there is none, [rows]."""
        return self.largest_below(jnp.ones_like(self.ties))

    @cached_property
    def second(self) -> jax.Array:
        """Largest weight of the others, 0 where there are none, [rows]."""
        return jnp.where(self.ties >= 1, 1, self.next_below)

    def largest_below(self, bound: jax.Array) -> jax.Array:
        """Largest weight below a bound [rows], 0 where there is none."""
        return tree_max(jnp.where(self.weights < bound[:, None], self.weights, 0))


def max_prob(row: Row) -> jax.Array:
    """p_(1) = 1 / (1 + W), [rows]."""
    return 1 / row.total


def second_prob(row: Row) -> jax.Array:
    """Second largest probability, 0 where n_keys < 2, [rows]."""
    return row.second / row.total


def third_prob(row: Row) -> jax.Array:
    """Third largest probability, 0 where n_keys < 3, [rows]."""
    below = row.next_below
    holders = tree_sum((row.weights == below[:, None]).astype(below.dtype))
    untied = jnp.where(holders >= 2, below, row.largest_below(below))
    third = jnp.where(row.ties >= 2, 1, jnp.where(row.ties >= 1, below, untied))
    return third / row.total


def entropy(row: Row) -> jax.Array:
    """H = ln(1 + W) + sum w_j g_j / (1 + W), in nats, [rows]: the sum of non-negative terms."""
    return jnp.log1p(row.others) + tree_sum(row.weights * row.gaps) / row.total


def sum_p2(row: Row) -> jax.Array:
    """Sum of p^2, (1 + sum w_j^2) / (1 + W)^2, the inverse of the participation ratio, [rows]."""
    return (1 + row.squares) / row.total**2


def saturated(row: Row) -> jax.Array:
    """1 where the largest probability exceeds 0.99, else 0, [rows]."""
    return (max_prob(row) > SATURATED_ABOVE).astype(row.weights.dtype)


ROW_STATISTICS: dict[str, Callable[[Row], jax.Array]] = {
    "max_prob": max_prob,
    "second_prob": second_prob,
    "third_prob": third_prob,
    "entropy": entropy,
    "sum_p2": sum_p2,
    "saturated": saturated,
}


@partial(jax.jit, static_argnames="quantities")
def row_statistics(
    logits: jax.Array,
    factor: jax.Array | float,
    quantities: tuple[str, ...] = tuple(ROW_STATISTICS),
) -> dict[str, jax.Array]:
    """Statistics of softmax(factor * logits), one number per row.

    In float32 each is within 1e-6 of its value for the same logits, up to 65536 keys and in
    saturated rows too; a weight below the smallest normal number counts as 0.

    Args:
        logits: [rows, n_keys], float32 or float64.
        factor: what the scale multiplies the logits by; traced, so one compilation serves all.
        quantities: names out of ROW_STATISTICS; only these are computed.

    Returns:
        Arrays [rows] by name, in the alphabetical order that jit gives a dict.

    Examples:
        >>> row = row_statistics(jnp.zeros((1, 4)), 1.0, ("max_prob", "sum_p2"))
        >>> round(row["max_prob"].item(), 6), round(row["sum_p2"].item(), 6)
        (0.25, 0.25)

    """
    row = Row(logits, factor)
    return {name: ROW_STATISTICS[name](row) for name in quantities}
