"""Call an attention function that may want any axis order and any framework's arrays.

Arrays are NumPy's where the function takes them, else torch's or JAX's where these are already
loaded; nothing is imported. Of the layouts tried, one is right when the output has the shape of
the values and is not the values themselves: over the wrong axis each query meets one key only.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...stats.arrays import LAYOUTS, as_numpy, rounding_of
from ...stats.shown import error_said

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Attention = Callable[[Any, Any, Any], Any]
ToArray = Callable[[NDArray[np.float32]], Any]

LEAST_WIDTH = 16  # of the values, where d_k is less: keys that are seen in one call
_ECHO = 1e-3  # weights this near to 0 and 1 throughout are values that came back


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
    `tiled`, as far apart as there are key heads.
    """

    attention: Attention
    layout: str
    to_array: ToArray
    more: Mapping[str, Any] = field(default_factory=dict)
    inner: int = 0
    sharing: int = 1
    tiled: bool = False

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
        if "h" in self.layout and found.shape == (1, q.shape[1], heads * v.shape[2]):
            found = found[0].reshape(q.shape[1], heads, -1).swapaxes(0, 1)  # heads merged
        else:
            found = self._taken(found)
        if found.shape != (expected := (heads, q.shape[1], v.shape[2])):
            raise ProbeError(f"the output must be shaped {expected}, got {found.shape}")
        after_q, after_k = (self._taken(as_numpy(x)) for x in given[:2])
        kept = np.array_equal(after_q, saw_q) and np.array_equal(after_k, saw_k)
        rounding = max(rounding_of(given[0]), rounding_of(out))
        return Seen(found, saw_q, saw_k[self.key_heads(heads)], rounding, not kept)

    def call_two(self, q: Array, k: Array, v: Array) -> Array:
        """The outputs (batch, head, query, d) of a batch of two: (2, head, length, d) each."""
        pairs = ([self._placed(one) for one in x] for x in self.handed(q, k, v))
        out = self.attention(*(self.to_array(np.concatenate(p)) for p in pairs), **self.more)
        out = as_numpy(out[0] if isinstance(out, tuple | list) else out, "attention's output")
        return np.stack([self._taken(out[i : i + 1]) for i in (0, 1)])

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


def by_position(attention: Any) -> Any:
    """The function as one of (q, k, v), where it takes its first three arguments by name alone."""
    try:
        first = [*inspect.signature(attention).parameters.values()][:3]
    except Exception:  # a foreign object may raise anything when it is looked at
        return attention
    if len(first) < 3 or any(p.kind is not p.KEYWORD_ONLY for p in first):
        return attention

    @functools.wraps(attention)
    def called(q: Any, k: Any, v: Any, **more: Any) -> Any:
        return attention(**dict(zip((p.name for p in first), (q, k, v), strict=True)), **more)

    return called


def first_output(out: Any) -> Any:
    """The output of a call: the first of a tuple, a list or a dictionary, else the whole."""
    if isinstance(out, Mapping):
        out = tuple(out.values())
    return out[0] if isinstance(out, tuple | list) and out else out


def open_box(
    attention: Attention,
    q: Array,
    k: Array,
    layouts: Sequence[str],
    dtype: str,
    array: ToArray | None,
    complain: Callable[[Array], str] | None = None,
    sharing: int = 1,
) -> BlackBox:
    """The function with the first of the layouts and kinds of array that give weights over keys.

    `complain` says what is wrong with weights (head, query, key), "" if nothing; `sharing` heads
    share a key head. Raises ProbeError, with what each attempt met, where no layout and no kind of
    array will do.
    """
    tried: dict[str, str] = {}
    first: BaseException | None = None
    makers = {"given arrays": array} if array else dict(array_makers(dtype))
    for kind, to_array in makers.items():
        for name in layouts:
            box = BlackBox(attention, name, to_array, sharing=sharing)
            try:
                said = (complain or complaint)(box.weights(q, box.shared(k))[0])
            except (Exception, SystemExit) as error:
                # whatever it raises, the next layout or framework may be the one it wants
                first = first or error.__cause__ or error
                said = str(error) if isinstance(error, ProbeError) else error_said(error)
            if not said:
                return box
            tried[f"{name}, {kind}"] = said
    met = "".join(f"\n  {attempt}: {said}" for attempt, said in tried.items())
    raise ProbeError(
        f"attention(q, k, v) gave no weights over {k.shape[1]} keys; name its layout "
        f"({', '.join(LAYOUTS)}), or array= to make its arrays from NumPy's{met}"
    ) from first


def complaint(weights: Array) -> str:
    """What is wrong with weights (head, query, key), or ""."""
    finite = weights[np.isfinite(weights).all(-1)]
    if not finite.size:
        return "outputs are not finite"
    if finite.min() < -_ECHO or finite.sum(-1).max() > 1 + 10 * _ECHO:
        return "outputs are no weighted means of the values"
    if np.abs(weights - np.eye(weights.shape[1])).max() < _ECHO:
        return "the values came back: each query met one key only, so is this the axis of the keys?"
    return ""


def array_makers(dtype: str) -> Iterator[tuple[str, ToArray]]:
    """NumPy first, then what is loaded: a function that takes NumPy's arrays needs no other."""
    if dtype == "bfloat16":
        with suppress(ImportError):
            importlib.import_module("ml_dtypes")  # it comes with JAX, and names the type to NumPy
    if dtype != "bfloat16" or "ml_dtypes" in sys.modules:
        yield "NumPy arrays", lambda x: x.astype(np.dtype(dtype))
    if (torch := sys.modules.get("torch")) is not None:
        yield "torch tensors", lambda x: torch.from_numpy(x).to(getattr(torch, dtype))
    if (jnp := sys.modules.get("jax.numpy")) is not None:
        yield "JAX arrays", lambda x: jnp.asarray(x, dtype=dtype)
