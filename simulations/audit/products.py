"""Products other than q.k of a head with itself: heads apart, shared, made inside, mixed up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .black_box import Array, BlackBox
from .form import Form, Product, plain_product
from .seen_logits import SeenLogits


def by_head(seen: SeenLogits, floor: float) -> Form | None:
    """Heads that differ, each a multiple of q.k of its own."""
    each = [seen.of_head(head).fitted()[1] <= 10 * floor for head in range(len(seen.kept))]
    return Form("plain", per_head=True) if len(each) > 1 and all(each) else None


def other_product(seen: SeenLogits, floor: float) -> Form | None:
    """Keys shared by several heads, or q and k that have changed places."""
    heads = len(seen.saw_k)
    forms = [
        Form("shared-keys", said, known=False, product=product) for said, product in _shared(heads)
    ]
    swapped = "q and k have changed places: the logit of query i and key j is k_i.q_j."
    forms.append(
        Form("swapped", swapped, wrong=True, known=False, product=lambda q, k: plain_product(k, q))
    )
    return next((form for form in forms if form.fitted(seen)[1] <= 10 * floor), None)


def _shared(heads: int) -> Iterator[tuple[str, Product]]:
    for groups in (groups for groups in range(1, heads) if heads % groups == 0):
        said = f"Only {groups} of {heads} heads of k are used: is it made for fewer of them (GQA)?"
        for of_head in (np.arange(heads) // (heads // groups), np.arange(heads) % groups):
            yield said, partial(_shared_product, of_head=of_head)


def _shared_product(q: Array, k: Array, of_head: NDArray[np.int64]) -> Array:
    """The products where head h meets the keys of head of_head[h], for fewer heads the first."""
    return plain_product(q, k[of_head[: len(q)]])


def of_elements(box: BlackBox, seen: SeenLogits, floor: float) -> Form | None:
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
    if first < len(used) and _same_for_all_values(box, seen):
        said = f"Only {first} of the {len(used)} elements of q and k enter the product."
        return Form("elements-dropped", said, known=False, wrong=True)
    if first < len(used):
        said = "It makes heads of the last axis by itself: audit it in a layout without heads, bld."
        return Form("heads-inside", said, known=False)
    low, high = weights.min(), weights.max()
    said = f"Each element of q.k has a factor of its own, from {low:.6g} to {high:.6g}."
    return Form("per-dimension", said, known=False)


def _same_for_all_values(box: BlackBox, seen: SeenLogits) -> bool:
    """Whether the first and the last elements of the values meet the same weights."""
    heads, keys, d_k = seen.q.shape
    width = max(2 * keys, d_k)
    values = np.zeros((heads, keys, width))
    values[..., :keys] = values[..., -keys:] = np.eye(keys)
    out = box.call(seen.q, seen.k, values).out
    return bool(np.abs(out[..., :keys] - out[..., -keys:]).max() <= 100 * seen.rounding)
