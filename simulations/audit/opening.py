"""Find how an attention function wants to be called: its axis order and its kind of arrays.

Arrays are NumPy's where the function takes them, else torch's or JAX's where these are already
loaded; nothing is imported. Of the layouts tried, one is right when the output has the shape of
the values and is not the values themselves: over the wrong axis each query meets one key only.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ...stats.arrays import LAYOUTS
from ...stats.shown import error_said
from .black_box import Array, BlackBox, ProbeError, ToArray

_ECHO = 1e-3  # weights this near to 0 and 1 throughout are values that came back


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


def open_box(
    box: BlackBox,
    q: Array,
    k: Array,
    layouts: Sequence[str],
    makers: Sequence[tuple[str, ToArray]],
    complain: Callable[[Array], str] | None = None,
) -> BlackBox:
    """The box with the first of the layouts and kinds of array that give weights over the keys.

    `makers` are names of kinds with what makes such arrays from NumPy's; `complain` says what is
    wrong with weights (head, query, key), "" if nothing. Raises ProbeError, with what each attempt
    met, where no layout and no kind of array will do.
    """
    tried: dict[str, str] = {}
    first: BaseException | None = None
    for kind, to_array in makers:
        for name in layouts:
            opened = replace(box, layout=name, to_array=to_array, kind=kind)
            try:
                said = (complain or complaint)(opened.weights(q, opened.shared(k))[0])
            except (Exception, SystemExit) as error:
                # whatever it raises, the next layout or framework may be the one it wants
                first = first or error.__cause__ or error
                said = str(error) if isinstance(error, ProbeError) else error_said(error)
            if not said:
                return opened
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


def array_makers(dtype: str, kind: str = "") -> list[tuple[str, ToArray]]:
    """NumPy first, then what is loaded: a function that takes NumPy's arrays needs no other.

    Before both comes what is known of the function: that it takes arrays of a kind.
    """
    return sorted(_makers(dtype), key=lambda maker: maker[0] != kind)


def _makers(dtype: str) -> Iterator[tuple[str, ToArray]]:
    if dtype == "bfloat16":
        with suppress(ImportError):
            importlib.import_module("ml_dtypes")  # it comes with JAX, and names the type to NumPy
    if dtype != "bfloat16" or "ml_dtypes" in sys.modules:
        yield "NumPy arrays", lambda x: x.astype(np.dtype(dtype))
    if (torch := sys.modules.get("torch")) is not None:
        yield "torch tensors", lambda x: torch.from_numpy(x).to(getattr(torch, dtype))
    if (jnp := sys.modules.get("jax.numpy")) is not None:
        yield "JAX arrays", lambda x: jnp.asarray(x, dtype=dtype)
