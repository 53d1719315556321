"""A form of logits: what is made of q.k, and how its factor is read off the weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...stats.audit.curves import Curve
from .black_box import Array, BlackBox
from .responses import answers
from .seen_logits import SeenLogits, seen_in_range, seen_logits

_BELOW_CAP = 8.0  # logits that half precision shows too
Product = Callable[[Array, Array], Array]


def plain_product(q: Array, k: Array) -> Array:
    """The dot products (head, query, key)."""
    return q @ k.swapaxes(-1, -2)


@dataclass(frozen=True, slots=True)
class Form:
    """A form of logits: `link(factor product(q, k))`.

    `slug` names it, `said` says it in words, and `bound` is that of a cap. Where `known` is false
    no factor can be read, and where `wrong` is true no attention is meant to have this form; where
    `per_head` is true each head has its own factor, and the first head's is read. `read` reads the
    factor of a form whose product holds at one d_k alone. `grown` is what q and k are multiplied
    by first, so that the epsilon of a norm does not show.
    """

    slug: str
    said: str = ""
    known: bool = True
    wrong: bool = False
    product: Product = plain_product
    curve: Curve | None = None
    per_head: bool = False
    read: Callable[[BlackBox, Array, Array], float] | None = None
    grown: tuple[float, float] = (1.0, 1.0)

    def factor(self, box: BlackBox, q: Array, k: Array) -> float:
        """The factor, read off the weights for q and k (head, length, d_k)."""
        if self.slug == "zero":
            return 0.0
        q, k = self.grown[0] * q, self.grown[1] * k
        seen = seen_in_range(box, q, k)
        if self.curve is not None and self.curve.bound is not None:
            largest = min(_BELOW_CAP, self.curve.bound / 2)
            x, y, _ = answers(box, q, small_factor(box, seen), largest)
            return self.curve.slope(x, y)
        if self.read is not None:
            return self.read(box, q, k)
        return self.fitted(seen.of_head(0) if self.per_head else seen)[0]

    def fitted(self, seen: SeenLogits) -> tuple[float, float]:
        """The factor of the product by least squares, and the root mean square of what is left."""
        product = seen.centred(self.product(seen.saw_q, seen.saw_k))
        factor = float(product @ seen.odd / (product @ product))
        return factor, float(np.sqrt(np.mean((seen.odd - factor * product) ** 2)))

    def logits(self, factor: float, seen: SeenLogits) -> Array:
        """What the logits (head, query, key) should be."""
        x = factor * self.product(seen.saw_q, seen.saw_k)
        if self.curve is None or self.curve.bound is None:
            return x
        bound = self.curve.bound
        if self.curve.shape == "clip":
            return np.clip(x, -bound, bound)
        return bound * np.tanh(x / bound)


def floor_of(seen: SeenLogits, d_k: int) -> float:
    """What rounding makes of the residual: measured twice u at 64, growing as a sum."""
    return seen.rounding * (1 + math.sqrt(d_k) / 8)


def small_factor(box: BlackBox, seen: SeenLogits) -> float:
    """The factor of small logits, where a cap does nothing yet."""
    rough = seen_logits(box, seen.q / 32, seen.k).fitted()[0] or 1.0
    x, y, _ = answers(box, seen.q, rough, 0.5)  # rotations leave these as they are
    return float(x @ y / (x @ x)) or rough if len(x) else rough


def unit(x: Array, centred: bool) -> Array:
    """Vectors with root mean square 1, centred first where a LayerNorm does."""
    x = x - x.mean(-1, keepdims=True) if centred else x
    square: Array = (x**2).mean(-1, keepdims=True)
    return x / np.sqrt(square)
