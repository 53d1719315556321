"""Call an attention function whose axis order and kind of arrays are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...stats.arrays import as_numpy, rounding_of
from ...stats.shown import error_said

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Attention = Callable[[Any, Any, Any], Any]
ToArray = Callable[[NDArray[np.float32]], Any]

LEAST_WIDTH = 16  # of the values, where d_k is less: keys that are seen in one call


class ProbeError(AssertionError):
    """The function cannot be probed as attention: its outputs are no weighted means of values."""


class FunctionError(ProbeError):
    """The function raised: its error is the cause, and what it says is the message."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One call: the output (head, query, d), q and k as they went in, the unit roundoff.

    `changed` says that the function wrote into them.
    """

    out: Array
    q: Array
    k: Array
    rounding: float
    changed: bool


@dataclass(frozen=True, slots=True)
class BlackBox:
    """An attention function with the layout and the arrays it takes.

    `more` are further arguments of every call, made from NumPy's arrays by `to_array`. `inner` is
    how many heads the function makes of its last axis by itself, 0 where it makes none: heads are
    then handed over side by side. `sharing` query heads share one key head, side by side or, where
    `tiled`, as far apart as there are key heads. Where `single` it gets one query at a time. `kind`
    is what its arrays are called.
    """

    attention: Attention
    layout: str = ""
    to_array: ToArray = np.asarray
    more: Mapping[str, Any] = field(default_factory=dict)
    inner: int = 0
    sharing: int = 1
    tiled: bool = False
    single: bool = False
    kind: str = ""

    def key_heads(self, heads: int) -> NDArray[np.int64]:
        """Of each query head, which key head it meets (grouped-query attention)."""
        own, fewer = np.arange(heads), max(heads // self.sharing, 1)
        return own % fewer if self.tiled else own // self.sharing

    def shared(self, x: Array) -> Array:
        """Keys or values (..., head, length, d) where heads that share a key head have the same."""
        same: Array = x[..., self.key_heads(x.shape[-3]), :, :]
        return same

    def handed(self, q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
        """What the function is given of arrays (..., head, length, d): each key head once."""
        heads = self.heads(q)
        once = np.unique(self.key_heads(heads), return_index=True)[1]
        return q[..., :heads, :, :], k[..., once, :, :], v[..., once, :, :]

    def heads(self, q: Array) -> int:
        """How many of the heads of q the function is given: one where its layout has none."""
        return q.shape[-3] if "h" in self.layout or self.inner else 1

    def call(self, q: Array, k: Array, v: Array) -> Seen:
        """Call it with q (head, query, d_k), k and v (head, key, d); what it saw and returned.

        In layouts without heads only the first is handed over.
        """
        if self.single and q.shape[1] > 1:
            each = [self.call(q[:, [i]], k, v) for i in range(q.shape[1])]
            out = np.concatenate([seen.out for seen in each], 1)
            saw_q = np.concatenate([seen.q for seen in each], 1)
            return replace(each[0], out=out, q=saw_q, changed=any(seen.changed for seen in each))
        heads = self.heads(q)
        given = [self.to_array(self._placed(x)) for x in self.handed(q, k, v)]
        # copied before the call: a function may scale q in place
        saw_q, saw_k = (self._taken(np.array(as_numpy(x))) for x in given[:2])
        try:
            out = self.attention(*given, **self.more)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # whatever ends a foreign function ends the call alone
            raise FunctionError(error_said(error)) from error
        out = first_output(out)
        found = as_numpy(out, "attention's output")
        found = self._result(found, heads, q.shape[1], v.shape[2])
        after_q, after_k = (self._taken(as_numpy(x)) for x in given[:2])
        kept = np.array_equal(after_q, saw_q) and np.array_equal(after_k, saw_k)
        rounding = max(rounding_of(given[0]), rounding_of(out))
        return Seen(found, saw_q, saw_k[self.key_heads(heads)], rounding, not kept)

    def call_two(self, q: Array, k: Array, v: Array) -> Array:
        """The outputs (batch, head, query, d) of a batch of two: (2, head, length, d) each."""
        heads, queries = self.heads(q), q.shape[-2]
        if self.single and queries > 1:
            each = [self.call_two(q[..., [i], :], k, v) for i in range(queries)]
            return np.concatenate(each, -2)
        pairs = ([self._placed(one) for one in x] for x in self.handed(q, k, v))
        out = self.attention(*(self.to_array(np.concatenate(p)) for p in pairs), **self.more)
        out = as_numpy(first_output(out), "attention's output")
        return np.stack([self._result(out[i : i + 1], heads, queries, v.shape[-1]) for i in (0, 1)])

    def _result(self, found: Array, heads: int, queries: int, width: int) -> Array:
        """An output as (head, query, width), whose heads may be merged."""
        if "h" in self.layout and found.shape == (1, queries, heads * width):
            merged: Array = found[0].reshape(queries, heads, -1).swapaxes(0, 1)
            return merged
        found = self._taken(found)
        if found.shape != (expected := (heads, queries, width)):
            raise ProbeError(f"the output must be shaped {expected}, got {found.shape}")
        return found

    def weights(self, q: Array, k: Array) -> tuple[Array, Array, Array, float]:
        """Weights (head, query, key), q and k as the function saw them, and its unit roundoff.

        Values are one-hot over as many keys at a time as kernels allow, which want them as wide
        as the keys.
        """
        keys, d_k = k.shape[1:]
        width = max(d_k, min(keys, LEAST_WIDTH))
        parts = []
        for first in range(0, keys, width):
            values = np.zeros((len(k), keys, width))
            shown = np.arange(first, min(first + width, keys))
            values[:, shown, shown - first] = 1.0
            seen = self.call(q, k, values)
            parts.append(seen.out[..., : len(shown)])
        return np.concatenate(parts, -1), seen.q, seen.k, seen.rounding

    def _placed(self, x: Array) -> NDArray[np.float32]:
        if self.inner:
            x = x.swapaxes(0, 1).reshape(1, x.shape[1], -1)
        x = x.swapaxes(0, 1) if self.layout == "blhd" else x
        placed = x[None] if "h" in self.layout else x[0] if self.layout == "ld" else x
        return np.ascontiguousarray(placed, dtype=np.float32)

    def _taken(self, x: Array) -> Array:
        if x.ndim != len(self.layout):
            raise ProbeError(f"the output must have {len(self.layout)} axes, got {x.ndim}")
        if self.layout in ("bhld", "blhd") and len(x) != 1:
            raise ProbeError(f"the output must have a batch of 1, got {len(x)}")
        taken = x[0] if "h" in self.layout else x[None] if self.layout == "ld" else x
        if self.inner:
            heads: Array = taken[0].reshape(x.shape[-2], self.inner, -1).swapaxes(0, 1)
            return heads
        return taken.swapaxes(0, 1) if self.layout == "blhd" else taken


def first_output(out: Any) -> Any:
    """The output of a call: the first of a tuple, a list or a dictionary, else the whole."""
    if isinstance(out, Mapping):
        out = tuple(out.values())
    return out[0] if isinstance(out, tuple | list) and out else out
