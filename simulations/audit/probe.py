"""Probe an attention function as a black box for the factor that multiplies q.k.

With values that are one-hot over the keys the outputs are the attention weights p, and
`log p_s - log p_t = factor q.(k_s - k_t)` whatever the normaliser. Calling it with q and -q splits
that into an odd part, the logits, and an even part, what is added whatever the query (masks,
position biases). NumPy alone.

What can go wrong: with one key every weight is 1; large logits lose points, so q is shrunk until
they are below 3; what is no scaled dot product has a residual, and its factor means nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...stats.arrays import LAYOUTS, ROUNDING
from ...stats.checks import InputError, choice, count
from .black_box import Attention, BlackBox, ToArray
from .key_heads import in_its_order
from .opening import array_makers, open_box
from .seen_logits import seen_in_range, unlike

RELATIVE_ERROR = 1e-5  # of a float32 factor: a regression on hundreds of logits that err by 1e-7
COARSE_RELATIVE_ERROR = 1e-2  # of one in half precision, logits that err by 4e-3
MOST_KEYS = 16


_TILED = "key heads are tiled over query heads, where neighbours should share one"


@dataclass(frozen=True, slots=True)
class Probe:
    """What an attention function does to q.k.

    `factor` multiplies q.k. `residual` is the root mean square of the logits that the factor does
    not explain and `floor` what rounding makes of it; `intercept` is the root mean square of what
    is added whatever the query; `mass` is the mean sum of a row's weights (below 1 with a sink).
    `n_points` logits were seen. `rtol` is the relative error of the factor that the precision
    allows, and `unlike` says in words what the function does besides, "" if nothing.
    """

    d_k: int
    layout: str
    factor: float
    residual: float
    intercept: float
    mass: float
    n_points: int
    floor: float
    rtol: float
    unlike: str = ""


def probe_factor(
    attention: Attention,
    d_k: int,
    *,
    layout: str = "auto",
    dtype: str = "float32",
    array: ToArray | None = None,
    n_heads: int = 2,
    n_kv_heads: int | None = None,
    seed: int = 0,
) -> Probe:
    """Measure the factor of `softmax(factor q.k) v` in a function of (q, k, v).

    Args:
        attention: gets q, k, v of one batch and returns the output, or a tuple that begins with it.
        d_k: head dimension of the arrays it gets.
        layout: order of its axes, bhld, blhd, bld or ld; auto takes the first that works.
        dtype: float32, float64, float16 or bfloat16.
        array: makes its arrays from NumPy's; else NumPy's, or loaded torch's or JAX's.
        n_heads: heads in layouts that have them.
        n_kv_heads: heads of k and v, where several heads of q share one; else as many as of q.
        seed: of the queries and keys.

    Raises:
        ProbeError: where the outputs are no weighted means of the values.
        InconclusiveError: where fewer than 4 logits can be seen.
        InputError: for a wrong argument.

    Examples:
        >>> def attention(q, k, v):
        ...     p = np.exp(q @ k.swapaxes(-1, -2) / 8)
        ...     return p / p.sum(-1, keepdims=True) @ v
        >>> round(probe_factor(attention, 64).factor, 6)
        0.125

    """
    d_k, n_heads = count("d_k", d_k), count("n_heads", n_heads)
    choice("dtype", dtype, ROUNDING)
    choice("layout", layout, ("auto", *LAYOUTS))
    rng = np.random.default_rng(count("seed", seed, least=0))
    q, k = rng.standard_normal((2, n_heads, min(max(d_k, 2), MOST_KEYS), d_k))
    q *= 2.0 ** -round(math.log2(d_k) / 2)  # powers of two round nothing
    layouts: tuple[str, ...] = LAYOUTS if layout == "auto" else (layout,)
    sharing = n_heads // (few := n_heads if n_kv_heads is None else count("n_kv_heads", n_kv_heads))
    if few * sharing != n_heads:
        raise InputError(f"n_kv_heads must divide n_heads, got {few} with {n_heads}; for example 1")
    if sharing > 1 and layout in ("bld", "ld"):
        raise InputError(f"n_kv_heads needs a layout with heads, bhld or blhd, got {layout}")
    makers = [("given arrays", array)] if array else array_makers(dtype)
    if sharing > 1:
        layouts = tuple(name for name in layouts if "h" in name)
    box = open_box(BlackBox(attention, sharing=sharing), q, k, layouts, makers)
    tiled, k = in_its_order(box, q, k).tiled, box.shared(k)
    seen = seen_in_range(box, q, k)
    floor = seen.rounding * (1 + math.sqrt(d_k) / 8)  # measured: twice u at 64, growing as a sum
    coarse = seen.rounding > ROUNDING["float32"]
    factor, residual = seen.fitted()
    if abs(seen.odd).max() <= 10 * floor:
        factor = 0.0  # rounding alone
    return Probe(
        d_k,
        box.layout,
        factor,
        residual,
        seen.intercept,
        seen.mass,
        seen.points,
        floor,
        COARSE_RELATIVE_ERROR if coarse else RELATIVE_ERROR,
        (_TILED if tiled else unlike(box, seen, floor)) if residual > 10 * floor else "",
    )
