"""Call an attention function that may want any axis order and any framework's arrays.

Arrays are NumPy's where the function takes them, else torch's or JAX's where these are already
loaded; nothing is imported. Of the layouts tried, one is right when the output has the shape of
the values and is not the values themselves: over the wrong axis each query meets one key only.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...stats.arrays import LAYOUTS, as_numpy, rounding_of

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Attention = Callable[[Any, Any, Any], Any]
ToArray = Callable[[NDArray[np.float32]], Any]

LEAST_WIDTH = 16  # of the values, where d_k is less: keys that are seen in one call
_ECHO = 1e-3  # weights this near to 0 and 1 throughout are values that came back


class ProbeError(AssertionError):
    """The function cannot be probed as attention: its outputs are no weighted means of values."""


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

    `more` are further arguments of every call, made from NumPy's arrays by `to_array`. `inside` is
    how many heads it makes of the last axis by itself: only the values of the first are looked at.
    """

    attention: Attention
    layout: str
    to_array: ToArray
    more: Mapping[str, Any] = field(default_factory=dict)
    inside: int = 1

    def heads(self, q: Array) -> int:
        """How many of the heads of q the function is given: one where its layout has none."""
        return len(q) if "h" in self.layout else 1

    def call(self, q: Array, k: Array, v: Array) -> Seen:
        """Call it with q (head, query, d_k), k and v (head, key, d); what it saw and returned.

        In layouts without heads only the first is handed over.
        """
        heads = self.heads(q)
        given = [self.to_array(self._placed(x[:heads])) for x in (q, k, v)]
        # copied before the call: a function may scale q in place
        saw_q, saw_k = (self._taken(np.array(as_numpy(x))) for x in given[:2])
        out = self.attention(*given, **self.more)
        out = out[0] if isinstance(out, tuple | list) else out
        found = self._taken(as_numpy(out, "attention's output"))
        if found.shape != (expected := (heads, q.shape[1], v.shape[2])):
            raise ProbeError(f"the output must be shaped {expected}, got {found.shape}")
        after_q, after_k = (self._taken(as_numpy(x)) for x in given[:2])
        kept = np.array_equal(after_q, saw_q) and np.array_equal(after_k, saw_k)
        return Seen(found, saw_q, saw_k, max(rounding_of(given[0]), rounding_of(out)), not kept)

    def weights(self, q: Array, k: Array) -> tuple[Array, Array, Array, float]:
        """Weights (head, query, key), q and k as the function saw them, and its unit roundoff.

        Values are one-hot over as many keys at a time as kernels allow, which want them as wide
        as the keys.
        """
        keys, d_k = k.shape[1:]
        width = max(d_k, min(keys, LEAST_WIDTH))
        parts = []
        step = max(width // self.inside, 1)
        for first in range(0, keys, step):
            values = np.zeros((len(k), keys, width))
            shown = np.arange(first, min(first + step, keys))
            values[:, shown, shown - first] = 1.0
            seen = self.call(q, k, values)
            parts.append(seen.out[..., : len(shown)])
        return np.concatenate(parts, -1), seen.q, seen.k, seen.rounding

    def _placed(self, x: Array) -> NDArray[np.float32]:
        x = x.swapaxes(0, 1) if self.layout == "blhd" else x
        placed = x[None] if "h" in self.layout else x[0] if self.layout == "ld" else x
        return np.ascontiguousarray(placed, dtype=np.float32)

    def _taken(self, x: Array) -> Array:
        if x.ndim != len(self.layout):
            raise ProbeError(f"the output must have {len(self.layout)} axes, got {x.ndim}")
        if self.layout in ("bhld", "blhd") and len(x) != 1:
            raise ProbeError(f"the output must have a batch of 1, got {len(x)}")
        taken = x[0] if "h" in self.layout else x[None] if self.layout == "ld" else x
        return taken.swapaxes(0, 1) if self.layout == "blhd" else taken


def open_box(
    attention: Attention,
    q: Array,
    k: Array,
    layout: str,
    dtype: str,
    array: ToArray | None,
    complain: Callable[[Array], str] | None = None,
) -> BlackBox:
    """The function with the first layout and kind of array that give weights over the keys.

    `complain` says what is wrong with weights (head, query, key), "" if nothing. Raises ProbeError,
    with what each attempt met, where no layout and no kind of array will do.
    """
    tried: dict[str, str] = {}
    first: BaseException | None = None
    makers = {"given arrays": array} if array else dict(array_makers(dtype))
    for kind, to_array in makers.items():
        for name in LAYOUTS if layout == "auto" else (layout,):
            box = BlackBox(attention, name, to_array)
            try:
                said = (complain or complaint)(box.weights(q, k)[0])
            except (Exception, SystemExit) as error:
                # whatever it raises, the next layout or framework may be the one it wants
                first = first or error
                said = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:100]}"
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
