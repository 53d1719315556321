"""Tap a torch module: a dispatch mode that sees every operation, inside composites too.

Softmaxes whose weights meet their values in a matrix product are attention; of fused kernels the
logits are made again from q, k, scale and mask.

What can go wrong: compiled graphs run without dispatch, and nothing is found in them; the fused
fast path of torch's own layers is switched off while a module is tapped, and on again after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ...stats.arrays import rounding_of
from .origins import (
    EXPONENTIALS,
    LEAF,
    UNKNOWN,
    Origin,
    bent,
    joined,
    linear,
    projected,
    reshaped,
    scaled,
    uniform,
)
from .seen import Product, Projection, Seen
from .tensors import biased, product, raw, shaped, softmaxed, turned

_VIEWS = {"view", "_unsafe_view", "_reshape_alias", "reshape"}
_SHAPES = _VIEWS | {
    *("permute", "transpose", "t", "expand", "unsqueeze", "squeeze", "slice", "select"),
    *("split", "split_with_sizes", "unbind", "repeat", "flip", "narrow"),
}
_SAME = {"clone", "_to_copy", "detach", "alias", "lift_fresh", "contiguous"}
_LINEAR = {"add", "sub", "rsub", "neg", "where", "masked_fill", "mul", "div", "native_dropout"}
_MATRIX = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2)}
_SOFTMAX = {"_softmax", "_safe_softmax"}
_FUSED = "_scaled_dot_product_"


def tapped_torch(module: Callable[..., Any], *inputs: Any, **named: Any) -> list[Seen]:
    """What every attention softmax in `module(*inputs)` gets, in the order of use.

    The module is put into eval mode (no dropout) and back.

    Examples:
        >>> attend = torch.nn.functional.scaled_dot_product_attention
        >>> seen, = tapped_torch(attend, *torch.ones(3, 1, 2, 5, 64))
        >>> seen.logits.shape, float(seen.logits[0, 0])
        ((10, 5), 8.0)

    """
    tap = _Tap()
    with _quiet(module), torch.no_grad(), tap:
        module(*inputs, **named)
    return tap.found


@contextmanager
def _quiet(module: Any) -> Iterator[None]:
    """Eval mode and no fast path, put back as they were."""
    parts = list(module.modules()) if isinstance(module, torch.nn.Module) else []
    training = [part.training for part in parts]
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        for part in parts:
            part.training = False
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for part, was in zip(parts, training, strict=True):
            part.training = was


class _Tap(TorchDispatchMode):
    """Origins by the identity of tensors, which are held so that none is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Seen] = []
        self._origins: dict[int, tuple[Any, Origin]] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        out = function(*args, **named)
        name = function.overloadpacket.__name__
        name = name if name in _SOFTMAX else name.rstrip("_")
        if name.startswith(_FUSED):
            self._fused(function, args, named)
        elif name in _SHAPES:
            self._reshaped(name, function, args, named, out)
        else:
            origin = self._origin(name, args, named, out)
            for result in out if isinstance(out, tuple | list) else (out,):
                if isinstance(result, torch.Tensor):
                    self._note(result, origin)
        return out

    def _of(self, value: Any) -> Origin:
        if isinstance(value, torch.nn.Parameter):
            return LEAF
        held = self._origins.get(id(value))
        return held[1] if held else UNKNOWN

    def _note(self, tensor: Any, origin: Origin) -> None:
        self._origins[id(tensor)] = (tensor, origin)

    def _reshaped(self, name: str, function: Any, args: Any, named: Any, out: Any) -> None:
        origin = self._of(args[0])

        def again(x: Any) -> Any:
            made = x.reshape(args[1]) if name in _VIEWS else function(x, *args[1:], **named)
            return list(made) if isinstance(out, tuple | list) else [made]

        pieces = out if isinstance(out, tuple | list) else [out]
        for i, piece in enumerate(pieces):
            self._note(piece, reshaped(origin, lambda x, i=i: again(x)[i]))

    def _origin(self, name: str, args: Any, named: Any, out: Any) -> Origin:
        tensors = [x for x in tree_leaves((args, named)) if isinstance(x, torch.Tensor)]
        origins = [self._of(tensor) for tensor in tensors]
        if not origins:
            return UNKNOWN
        first = origins[0]
        if name in _SAME:
            return replace(first, before=None)
        if name in _MATRIX:
            return self._matrix(name, args, named, out)
        if name in _SOFTMAX:
            return softmaxed(first, tensors[0], int(args[1]))
        if name in EXPONENTIALS and (first.before is not None or isinstance(first.base, Product)):
            logits = tensors[0] if first.before is None else first.before
            logits = logits if logits.shape == tensors[0].shape else tensors[0]
            return softmaxed(first, logits * EXPONENTIALS[name], -1)
        if name == "cat":
            parts = [self._of(x) for x in args[0] if x.numel()]  # caches begin empty
            return joined(parts, lambda ids: torch.cat(ids, *args[1:], **named))
        if name in ("mul", "div"):
            for index in (1, 0) if name == "mul" else (1,):
                number, other = uniform(raw(args[index])), self._of(args[1 - index])
                if number is not None and not other.leaf:
                    inverse = 1 / number if number else math.inf
                    return shaped(scaled(other, number if name == "mul" else inverse), out)
            if name == "div" and self._of(args[1]).factor != 1.0:
                return shaped(bent(origins), out)
        made = linear(origins) if name in _LINEAR else bent(origins)
        if isinstance(made.base, Seen) and name not in _LINEAR:
            return UNKNOWN
        made = shaped(made, out)
        if name in ("add", "sub") and isinstance(made.base, Projection):
            made = biased(made, tensors, origins, out)
        return replace(made, before=args[0]) if name == "sub" else made

    def _matrix(self, name: str, args: Any, named: Any, out: Any) -> Origin:
        first, second = (args[i] for i in _MATRIX[name])
        a, b = self._of(first), self._of(second)
        if isinstance(a.base, Seen):
            self._met(a, first)
            return UNKNOWN
        if b.leaf and not a.leaf and second.ndim - second.shape[:-2].count(1) == 2:
            rows, weight = (x.reshape(-1, x.shape[-1]) for x in (first, second))  # einsum: 3 axes
            made = projected(raw(rows), raw(weight), tuple(out.shape), turned=False)
            made = replace(made, index=torch.from_numpy(made.index))
            bias = args[0] if name == "addmm" else None
            return made if bias is None else replace(made, bias=bias.detach().expand(out.shape))
        if a.leaf or b.leaf:
            return UNKNOWN
        keys = second.transpose(-1, -2)
        back = replace(b, index=turned(b.index), bias=turned(b.bias))
        factor = a.factor * b.factor * float(named.get("alpha", 1.0))
        whole = torch.matmul(first, second) if name == "baddbmm" else out
        return replace(product(first, a, keys, back, whole), factor=factor)

    def _fused(self, function: Any, args: Any, named: Any) -> None:
        """Logits of a fused kernel, made again from what it was given."""
        names = [argument.name for argument in function._schema.arguments]
        given = dict(zip(names, args, strict=False)) | named
        q, k = given["query"], given["key"]
        a, b = self._of(q), self._of(k)
        if q.shape[-3] != k.shape[-3]:
            groups = q.shape[-3] // k.shape[-3]
            k = k.repeat_interleave(groups, -3)
            b = reshaped(b, lambda x: x.repeat_interleave(groups, -3))
        scale = given.get("scale")
        dots = q.double() @ k.double().transpose(-1, -2)
        logits = dots.numpy() * (q.shape[-1] ** -0.5 if scale is None else scale)
        mask = given.get("attn_mask", given.get("attn_bias"))
        if mask is not None:
            logits = logits + raw(mask)
        if given.get("is_causal"):
            logits = np.where(np.tri(*logits.shape[-2:]) > 0, logits, -np.inf)
        origin = product(q, a, k, b, dots)
        assert isinstance(origin.base, Product)
        seen = Seen(logits, origin.base, origin.index.numpy(), rounding_of(q))
        self.found.append(seen.at(np.arange(logits.size).reshape(-1, logits.shape[-1])))

    def _met(self, origin: Origin, weights: Any) -> None:
        """The softmax of weights that met their values: their last axis is that of the keys."""
        seen, ids = origin.base, origin.index.reshape(-1, weights.shape[-1]).numpy()
        assert isinstance(seen, Seen)
        self.found.append(seen.at(ids))
