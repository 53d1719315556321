"""Origins of tensors: products, softmaxes, biases, and their indices as tensors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ...stats.arrays import rounding_of
from .origins import Origin
from .seen import Product, Seen, vectors


def product(q: Any, a: Origin, k: Any, b: Origin, out: Any) -> Origin:
    """The origin of `out` = q.k, both [..., vector, d_k]."""
    sides = [
        vectors(
            raw(x).astype(np.float64), origin.factor, origin.base, origin.index,
            None if origin.bias is None else raw(origin.bias.broadcast_to(x.shape)),
        )
        for x, origin in ((q, a), (k, b))
    ]  # fmt: skip
    values = raw(out).astype(np.float64).ravel() / (a.factor * b.factor)
    dots = Product(sides[0], sides[1], math.prod(out.shape[:-2]), values)
    return Origin(base=dots, index=torch.arange(out.numel()).reshape(out.shape))


def softmaxed(origin: Origin, logits: Any, axis: int) -> Origin:
    """Weights over an axis of the logits."""
    dots = origin.base if isinstance(origin.base, Product) else None
    index = None if dots is None else origin.index.numpy()
    seen = Seen(raw(logits).astype(np.float64), dots, index, rounding_of(logits))
    return Origin(base=seen, index=torch.arange(logits.numel()).reshape(logits.shape))


def biased(made: Origin, tensors: list[Any], origins: list[Origin], out: Any) -> Origin:
    """A projection to which a parameter was added."""
    leaf = next((t for t, o in zip(tensors, origins, strict=True) if o.leaf), None)
    if leaf is None:
        return made
    bias = leaf.detach().expand(out.shape)
    return replace(made, bias=bias if made.bias is None else made.bias + bias)


def shaped(origin: Origin, out: Any) -> Origin:
    """The origin with its index as large as the result; without, where it is no such thing."""
    if origin.index is None or not isinstance(out, torch.Tensor) or origin.index.shape == out.shape:
        return origin
    try:
        return replace(origin, index=origin.index.broadcast_to(out.shape), bias=None)
    except RuntimeError:
        return replace(origin, base=None, index=None, bias=None)


def turned(array: Any) -> Any:
    """An array with its last two axes exchanged; None stays None."""
    return None if array is None else array.transpose(-1, -2)


def raw(value: Any) -> Any:
    """A tensor as NumPy's array, without a copy where NumPy has its type."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
