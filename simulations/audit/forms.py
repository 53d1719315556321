"""What form an attention's logits have: a multiple of q.k, of its cosine, capped, or unknown.

Each form reads the factor of q.k off the weights in its own way, so that a capped or normalised
attention can be held against a convention as well as a plain one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...stats.arrays import ROUNDING
from ...stats.audit.curves import Curve, curve_of
from .black_box import Array, BlackBox
from .responses import LARGEST, answers, response
from .rotation import read_rotated, same_position
from .seen_logits import SeenLogits, seen_in_range, seen_logits

_BELOW_CAP = 8.0  # logits that half precision shows too
Product = Callable[[Array, Array], Array]


def plain_product(q: Array, k: Array) -> Array:
    """The dot products (head, query, key)."""
    return q @ k.swapaxes(-1, -2)


@dataclass(frozen=True, slots=True)
class Form:
    """A form of logits: `link(factor product(q, k))`.

    `slug` names it, `said` says it in words, and `bound` is that of a cap. `heads` is how many
    heads the function makes of d_k by itself. Where `known` is false no factor can be read; where
    `per_head` is true each head has its own, and the first head's is read. `read` reads the factor
    of a form whose logits the product does not give.
    """

    slug: str
    said: str = ""
    known: bool = True
    product: Product = plain_product
    curve: Curve | None = None
    heads: int = 1
    per_head: bool = False
    read: Callable[[BlackBox, Array, Array], float] | None = None

    def factor(self, box: BlackBox, q: Array, k: Array) -> float:
        """The factor, read off the weights for q and k (head, length, d_k)."""
        if self.slug == "zero":
            return 0.0
        if self.read is not None:
            return self.read(box, q, k)
        seen = seen_in_range(box, q, k)
        if self.curve is not None and self.curve.bound is not None:
            largest = min(_BELOW_CAP, self.curve.bound / 2)
            x, y, _ = answers(box, q, _small(box, seen), largest)
            return self.curve.slope(x, y)
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


def find_form(box: BlackBox, q: Array, k: Array) -> Form:
    """The form of the logits of a black box, from calls at one d_k."""
    seen, d_k = seen_in_range(box, q, k), q.shape[-1]
    floor = floor_of(seen, d_k)
    again = seen_logits(box, seen.q, seen.k)
    if len(again.odd) != len(seen.odd) or np.abs(again.odd - seen.odd).max() > 10 * floor:
        return Form("random", "Its outputs are random: is dropout on?", known=False)
    factor, residual = seen.fitted()
    if residual <= 10 * floor:
        if np.abs(seen.odd).max() <= 10 * floor:
            return Form("zero")
        curve = response(box, q, factor, LARGEST if seen.rounding <= ROUNDING["float32"] else 8.0)
        return _bounded(curve) or _bent(curve) or Form("plain")
    return (
        _softmax_twice(box, seen, floor)
        or _normalised(box, seen, floor)
        or _bounded(response(box, q, _small(box, seen)))
        or _by_head(seen, floor)
        or _of_elements(seen, floor)
        or _rotated(box, seen, floor)
        or Form(
            "unknown",
            "Its logits are no multiple of q.k, capped, clipped, normalised or rotated: are "
            "products rounded more than their dtype (TF32)?",
            known=False,
        )
    )


def _rotated(box: BlackBox, seen: SeenLogits, floor: float) -> Form | None:
    """Queries and keys rotated by their positions."""
    if same_position(box, seen.q, seen.k)[1] > 10 * floor:
        return None
    said = "q and k are turned by their positions (RoPE); the factor is that of equal positions."
    return Form("rotated", said, read=read_rotated)


def _bent(curve: Curve) -> Form | None:
    """Small logits that are a multiple of q.k, and large ones that are not."""
    said = f"Logits as large as {LARGEST:g} are no multiple of q.k, though small ones are."
    return Form("bent", said) if curve.shape == "unknown" else None


def _by_head(seen: SeenLogits, floor: float) -> Form | None:
    """Heads that differ, each a multiple of q.k of its own."""
    each = [seen.of_head(head).fitted()[1] <= 10 * floor for head in range(len(seen.kept))]
    return Form("plain", per_head=True) if len(each) > 1 and all(each) else None


def _small(box: BlackBox, seen: SeenLogits) -> float:
    """The factor of small logits, where a cap does nothing yet."""
    return seen_logits(box, seen.q / 32, seen.k).fitted()[0] or 1.0


def _bounded(curve: Curve) -> Form | None:
    if curve.bound is None:
        return None
    said = {
        "softcap": f"Logits are capped as C tanh(x / C) with C = {curve.bound:.4g} (softcap).",
        "clip": f"Logits are cut off at +-{curve.bound:.6g} (clip).",
    }[curve.shape]
    return Form(curve.shape, said, curve=curve)


def unit(x: Array, centred: bool) -> Array:
    """Vectors with root mean square 1, centred first where a LayerNorm does."""
    x = x - x.mean(-1, keepdims=True) if centred else x
    square: Array = (x**2).mean(-1, keepdims=True)
    return x / np.sqrt(square)


def _normalised(box: BlackBox, seen: SeenLogits, floor: float) -> Form | None:
    """QK-norm: logits that do not grow with q, or with k."""
    factor = seen.fitted()[0]
    of_q = abs(seen_logits(box, seen.q / 4, seen.k).fitted()[0] / factor - 4) < 0.1
    of_k = abs(seen_logits(box, seen.q, seen.k / 4).fitted()[0] / factor - 4) < 0.1
    if not (of_q or of_k):
        return None
    what = "q and k are" if of_q and of_k else "q is" if of_q else "k is"
    slug = "qk-norm" if of_q and of_k else "q-norm" if of_q else "k-norm"
    for centred, kind in ((False, "RMS or L2 norm"), (True, "LayerNorm")):
        said = f"QK-norm: {what} normalised ({kind}), and the factor is that of unit-RMS vectors."
        form = Form(slug, said, product=_normalised_product(of_q, of_k, centred))
        if form.fitted(seen)[1] <= 10 * floor:
            return form
    return Form(slug, f"QK-norm: {what} normalised in a way that is not known.", known=False)


def _normalised_product(of_q: bool, of_k: bool, centred: bool) -> Product:
    def product(q: Array, k: Array) -> Array:
        q = unit(q, centred) if of_q else q
        k = unit(k, centred) if of_k else k
        return plain_product(q, k)

    return product


def _inner_product(heads: int) -> Product:
    """The product over the first of several heads that a function makes of d_k."""

    def product(q: Array, k: Array) -> Array:
        inner = q.shape[-1] // heads
        return plain_product(q[..., :inner], k[..., :inner])

    return product


def _of_elements(seen: SeenLogits, floor: float) -> Form | None:
    """Logits that weigh the products of single elements: a scale for each, or heads inside."""
    products = [
        seen.centred(seen.saw_q[..., [i]] @ seen.saw_k[..., [i]].swapaxes(-1, -2))
        for i in range(seen.q.shape[-1])
    ]
    table = np.stack(products, -1)
    if len(table) < 2 * table.shape[1]:
        return None
    weights, *_ = np.linalg.lstsq(table, seen.odd, rcond=None)
    if np.sqrt(np.mean((seen.odd - table @ weights) ** 2)) > 10 * floor:
        return None
    used = np.abs(weights) > 1e-3 * np.abs(weights).max()
    first = int(used.sum())
    if len(used) % first == 0 and first < len(used) and used[:first].all():
        heads = len(used) // first
        said = f"It makes {heads} heads of {first} of the last axis by itself."
        return Form("heads-inside", said, product=_inner_product(heads), heads=heads)
    low, high = weights.min(), weights.max()
    said = f"Each element of q.k has a factor of its own, from {low:.6g} to {high:.6g}."
    return Form("per-dimension", said, known=False)


def _softmax_twice(box: BlackBox, seen: SeenLogits, floor: float) -> Form | None:
    """Logits that are softmax weights themselves: for large q one is 1 and the others are 0."""
    logs = np.log(np.maximum(box.weights(seen.q, seen.k)[0], 1e-30))
    spread = logs - logs.min(-1, keepdims=True)
    within = (spread.sum(-1) < 1 + 100 * floor).all() and np.median(spread.max(-1)) > 0.9
    said = "Softmax is applied twice: its logits are weights, between 0 and 1."
    return Form("softmax-twice", said, known=False) if within else None
