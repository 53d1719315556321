"""Call an attention function that may want any axis order and any framework's arrays.

Arrays are NumPy's where the function takes them, else torch's or JAX's where these are already
loaded; nothing is imported. Of the layouts tried, one is right when the output has the shape of
the values and is not the values themselves: over the wrong axis each query meets one key only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...stats.arrays import LAYOUTS, as_numpy, rounding_of

Array = NDArray[np.float64]
Attention = Callable[[Any, Any, Any], Any]
ToArray = Callable[[NDArray[np.float32]], Any]

_ECHO = 1e-3  # weights this near to 0 and 1 throughout are values that came back


class ProbeError(AssertionError):
    """The function cannot be probed as attention: its outputs are no weighted means of values."""


@dataclass(frozen=True, slots=True)
class BlackBox:
    """An attention function with the layout and the arrays it takes."""

    attention: Attention
    layout: str
    to_array: ToArray

    def weights(self, q: Array, k: Array) -> tuple[Array, Array, Array, float]:
        """Weights (head, query, key), q and k as the function saw them, and its unit roundoff.

        q and k are (head, length, d_k); in layouts without heads only the first is handed over.
        """
        heads = len(q) if "h" in self.layout else 1
        values = _one_hot(heads, *k.shape[1:])
        given = [self.to_array(self._placed(x[:heads])) for x in (q, k, values)]
        out = self.attention(*given)
        out = out[0] if isinstance(out, tuple | list) else out
        seen = [self._taken(as_numpy(x, "attention's output")) for x in (given[0], given[1], out)]
        if seen[2].shape != values.shape:
            raise ProbeError(f"the output must be shaped {values.shape}, got {seen[2].shape}")
        rounding = max(rounding_of(given[0]), rounding_of(out))
        return seen[2][..., : k.shape[1]], seen[0], seen[1], rounding

    def _placed(self, x: Array) -> NDArray[np.float32]:
        x = x.swapaxes(0, 1) if self.layout == "blhd" else x
        placed = x[None] if "h" in self.layout else x[0] if self.layout == "ld" else x
        return np.ascontiguousarray(placed, dtype=np.float32)

    def _taken(self, x: Array) -> Array:
        if x.ndim != len(self.layout):
            raise ProbeError(f"the output must have {len(self.layout)} axes, got {x.ndim}")
        taken = x[0] if "h" in self.layout else x[None] if self.layout == "ld" else x
        return taken.swapaxes(0, 1) if self.layout == "blhd" else taken


def open_box(
    attention: Attention, q: Array, k: Array, layout: str, dtype: str, array: ToArray | None
) -> BlackBox:
    """The function with the first layout and kind of array that give weights over the keys.

    Raises ProbeError, with what each attempt met, where none does.
    """
    tried: dict[str, str] = {}
    first: Exception | None = None
    makers = {"given arrays": array} if array else dict(_makers(dtype))
    for kind, to_array in makers.items():
        for name in LAYOUTS if layout == "auto" else (layout,):
            box = BlackBox(attention, name, to_array)
            try:
                complaint = _complaint(box.weights(q, k)[0])
            except Exception as error:
                # whatever it raises, the next layout or framework may be the one it wants
                first = first or error
                complaint = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:100]}"
            if not complaint:
                return box
            tried[f"{name}, {kind}"] = complaint
    met = "".join(f"\n  {attempt}: {complaint}" for attempt, complaint in tried.items())
    raise ProbeError(
        f"attention(q, k, v) gave no weights over {k.shape[1]} keys; name its layout "
        f"({', '.join(LAYOUTS)}), or array= to make its arrays from NumPy's{met}"
    ) from first


def _complaint(weights: Array) -> str:
    """What is wrong with weights (head, query, key), or ""."""
    finite = weights[np.isfinite(weights).all(-1)]
    if not finite.size:
        return "outputs are not finite"
    if finite.min() < -_ECHO or finite.sum(-1).max() > 1 + 10 * _ECHO:
        return "outputs are no weighted means of the values"
    if np.abs(weights - np.eye(weights.shape[1])).max() < _ECHO:
        return "the values came back: each query met one key only, so is this the axis of the keys?"
    return ""


def _one_hot(heads: int, length: int, d_k: int) -> Array:
    """Values (head, key, max(d_k, length)): kernels want them as wide as the keys."""
    values = np.zeros((heads, length, max(d_k, length)))
    values[:, np.arange(length), np.arange(length)] = 1.0
    return values


def _makers(dtype: str) -> Iterator[tuple[str, ToArray]]:
    """NumPy first, then what is loaded: a function that takes NumPy's arrays needs no other."""
    if dtype != "bfloat16" or "ml_dtypes" in sys.modules:
        yield "NumPy arrays", lambda x: x.astype(np.dtype(dtype))
    if (torch := sys.modules.get("torch")) is not None:
        yield "torch tensors", lambda x: torch.from_numpy(x).to(getattr(torch, dtype))
    if (jnp := sys.modules.get("jax.numpy")) is not None:
        yield "JAX arrays", lambda x: jnp.asarray(x, dtype=dtype)
