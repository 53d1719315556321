"""What form an attention's logits have: a multiple of q.k, of its cosine, capped, or unknown.

Each form reads the factor of q.k off the weights in its own way, so that a capped or normalised
attention can be held against a convention as well as a plain one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from ...stats.arrays import ROUNDING
from ...stats.audit.curves import Curve
from .black_box import Array, BlackBox
from .form import Form, Product, floor_of, plain_product, small_factor, unit
from .key_terms import key_term
from .places import Change, by_place
from .products import by_head, of_elements, other_product
from .responses import LARGEST, response
from .rotation import read_rotated, rotated_product
from .seen_logits import LEAST_WEIGHT, SeenLogits, seen_in_range, seen_logits


def find_form(box: BlackBox, q: Array, k: Array) -> Form:
    """The form of the logits of a black box, from calls at one d_k."""
    seen = seen_in_range(box, q, k)
    floor = floor_of(seen, q.shape[-1])
    form = _of_odd_part(box, q, seen, floor)
    return (form.known and key_term(box, form, seen, floor)) or form


def _of_odd_part(box: BlackBox, q: Array, seen: SeenLogits, floor: float) -> Form:
    """The form of that part of the logits which changes sign with q."""
    again = seen_logits(box, seen.q, seen.k)
    if len(again.odd) != len(seen.odd) or np.abs(again.odd - seen.odd).max() > 10 * floor:
        return Form("random", "Its outputs are random: is dropout on?", known=False)
    if (other := _softmax_twice(box, seen, floor) or _not_odd(box, seen, floor)) is not None:
        return other
    factor, residual = seen.fitted()
    if residual <= 10 * floor:
        if np.abs(seen.odd).max() <= 10 * floor:
            return Form("zero")
        curve = response(box, q, factor, LARGEST if seen.rounding <= ROUNDING["float32"] else 8.0)
        return _bounded(curve) or _bent(curve) or Form("plain")
    return (
        _normalised(box, seen, floor)
        or _of_curve(box, seen, floor)
        or by_head(seen, floor)
        or other_product(seen, floor)
        or _at_places(box, seen, floor)
        or of_elements(box, seen, floor)
        or _rotated(box, seen, floor)
        or _unknown(residual, seen)
    )


def _at_places(box: BlackBox, seen: SeenLogits, floor: float) -> Form | None:
    """A factor that depends on the places of the query and the key."""
    found = by_place(box, seen, floor)
    if found is None:
        return None
    if found.axis == "distance":
        said = (
            f"The factor depends on the places of query and key, from {found.low:.6g} to "
            f"{found.high:.6g}."
        )
        return Form("factor-by-distance", said, known=False)
    low, high = (f"{found.axis} {place}" for place in found.where)
    said = (
        f"The factor depends on the {found.axis}: {found.low:.6g} at {low}, {found.high:.6g} at "
        f"{high}."
    )
    return Form(f"factor-by-{found.axis}", said, known=False, wrong=True)


def _rotated(
    box: BlackBox,
    seen: SeenLogits,
    floor: float,
    slug: str = "rotated",
    first: str = "q and k are turned by their positions (RoPE)",
    prepared: Change = lambda x: x,
    curve: Curve | None = None,
) -> Form | None:
    """Queries and keys rotated by their positions, after `prepared` and before the curve."""
    unlinked = curve.unlinked if curve else lambda y: y
    is_one, product = rotated_product(box, seen, floor, prepared, unlinked)
    if not is_one:
        return None
    if product is None:
        said = (
            "Products with the key of the own place have one factor, and for other keys no "
            "rotation by the distance alone gives the logits (2-D RoPE, xPos?)."
        )
        return Form("places", said, known=False)

    def read(box: BlackBox, q: Array, k: Array) -> float:
        return read_rotated(box, q, k, prepared)

    return Form(slug, f"{first}.", product=product, curve=curve, read=read)


def _of_curve(box: BlackBox, seen: SeenLogits, floor: float) -> Form | None:
    """A cap or a clip of q.k, or of rotated queries and keys."""
    curve = response(box, seen.q, small_factor(box, seen))
    form = _bounded(curve)
    if form is None or curve.bound is None:
        return None
    wanted = seen.centred(form.logits(curve.factor, seen))
    if np.sqrt(np.mean((seen.odd - wanted) ** 2)) <= 100 * floor:
        return form
    if curve.bound < 8:  # logits below half of it
        seen = seen_logits(box, seen.q * 2.0 ** math.floor(math.log2(curve.bound / 8)), seen.k)
    first = f"q and k are turned by their positions (RoPE). {form.said[:-1]}"
    return _rotated(box, seen, floor, form.slug, first, curve=curve) or Form(
        "unknown", f"{form.said[:-1]}, and are no multiple of q.k below.", known=False
    )


def _bent(curve: Curve) -> Form | None:
    """Small logits that are a multiple of q.k, and large ones that are not."""
    said = f"Logits as large as {LARGEST:g} are no multiple of q.k, though small ones are."
    return Form("bent", said) if curve.shape == "unknown" else None


def _bounded(curve: Curve) -> Form | None:
    if curve.bound is None:
        return None
    said = {
        "softcap": f"Logits are capped as C tanh(x / C) with C = {curve.bound:.4g} (softcap).",
        "clip": f"Logits are cut off at +-{curve.bound:.6g} (clip).",
    }[curve.shape]
    return Form(curve.shape, said, curve=curve)


def _normalised(box: BlackBox, seen: SeenLogits, floor: float) -> Form | None:
    """QK-norm: logits that do not grow with q, or with k."""
    factor = seen.fitted()[0]
    of_q = abs(seen_logits(box, seen.q / 4, seen.k).fitted()[0] / factor - 4) < 0.1
    of_k = abs(seen_logits(box, seen.q, seen.k / 4).fitted()[0] / factor - 4) < 0.1
    if not (of_q or of_k):
        return None
    grown = 256.0 if of_q else 1.0, 32.0 if of_k else 1.0  # beside which an epsilon is nothing
    seen = seen_logits(box, grown[0] * seen.q, grown[1] * seen.k)
    what = "q and k are" if of_q and of_k else "q is" if of_q else "k is"
    slug = "qk-norm" if of_q and of_k else "q-norm" if of_q else "k-norm"
    for centred, kind in ((False, "RMS or L2 norm"), (True, "LayerNorm")):
        said = f"QK-norm: {what} normalised ({kind}), and the factor is that of unit-RMS vectors."
        form = Form(slug, said, product=_normalised_product(of_q, of_k, centred), grown=grown)
        if form.fitted(seen)[1] <= 10 * floor:
            return form
        if of_q and of_k:
            first = f"{said[:-1]}; then they are turned by their positions (RoPE)"
            turned = _rotated(box, seen, floor, slug, first, partial(unit, centred=centred))
            if turned is not None:
                return replace(turned, grown=grown)
    return Form(slug, f"QK-norm: {what} normalised in a way that is not known.", known=False)


def _normalised_product(of_q: bool, of_k: bool, centred: bool) -> Product:
    def product(q: Array, k: Array) -> Array:
        q = unit(q, centred) if of_q else q
        k = unit(k, centred) if of_k else k
        return plain_product(q, k)

    return product


def _softmax_twice(box: BlackBox, seen: SeenLogits, floor: float) -> Form | None:
    """Logits that are softmax weights themselves: for large q one is 1 and the others are 0."""
    logs = np.log(np.maximum(box.weights(seen.q, seen.k)[0], 1e-30))
    spread = logs - logs.min(-1, keepdims=True)
    within = (spread.sum(-1) < 1 + 100 * floor).all() and np.median(spread.max(-1)) > 0.9
    said = "Softmax is applied twice: its logits are weights, between 0 and 1."
    return Form("softmax-twice", said, known=False, wrong=True) if within else None


_COARSE = 2.0**-9  # of logits near 1: products in TF32 or bfloat16 leave less


def _unknown(residual: float, seen: SeenLogits) -> Form:
    said = "Its logits are no multiple of q.k, capped, clipped, normalised or rotated"
    if residual < _COARSE and seen.rounding <= ROUNDING["float32"]:
        return Form(
            "unknown", f"{said}: are products rounded more than their dtype (TF32)?", known=False
        )
    return Form("unknown", f"{said}.", known=False)


def _not_odd(box: BlackBox, seen: SeenLogits, floor: float) -> Form | None:
    """Weights that are no softmax of logits odd in q: what q and -q share depends on q."""
    even = [(_logs(box, q, seen.k) + _logs(box, -q, seen.k)) / 2 for q in (seen.q, seen.q[:, ::-1])]
    change = even[0] - even[1]
    change = (change - np.nanmean(change, -1, keepdims=True))[np.isfinite(change)]
    if not change.size or np.sqrt(np.mean(change**2)) <= 100 * floor:
        return None
    said = (
        "Its weights are no softmax of logits that turn over with q (sigmoid, |q.k|, a kernel?): "
        "no factor can be read."
    )
    return Form("not-odd", said, known=False)


def _logs(box: BlackBox, q: Array, k: Array) -> Array:
    weights = box.weights(q, k)[0]
    return np.where(weights >= LEAST_WEIGHT, np.log(weights), np.nan)
