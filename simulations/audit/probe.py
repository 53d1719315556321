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
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ...stats.arrays import LAYOUTS, ROUNDING
from ...stats.cases import Case
from ...stats.causes import factor_causes, written
from ...stats.checks import InputError, choice, count, magnitude, positive
from ...stats.conventions import scale_factor
from ...stats.failures import lines, suspects
from .black_box import Attention, ToArray, open_box
from .key_heads import in_its_order
from .seen_logits import seen_in_range, unlike

RELATIVE_ERROR = 1e-5  # of a float32 factor: a regression on hundreds of logits that err by 1e-7
COARSE_RELATIVE_ERROR = 1e-2  # of one in half precision, logits that err by 4e-3
_MOST_KEYS = 16
_AXES = {"b": "batch", "h": "heads", "l": "length", "d": "d_k"}


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
    q, k = rng.standard_normal((2, n_heads, min(max(d_k, 2), _MOST_KEYS), d_k))
    q *= 2.0 ** -round(math.log2(d_k) / 2)  # powers of two round nothing
    layouts = LAYOUTS if layout == "auto" else (layout,)
    sharing = n_heads // (few := n_heads if n_kv_heads is None else count("n_kv_heads", n_kv_heads))
    if few * sharing != n_heads:
        raise InputError(f"n_kv_heads must divide n_heads, got {few} with {n_heads}; for example 1")
    box = in_its_order(open_box(attention, q, k, layouts, dtype, array, sharing=sharing), q, k)
    k = box.shared(k)
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
        unlike(box, seen, floor) if residual > 10 * floor else "",
    )


def assert_logit_scale(
    attention: Attention,
    *,
    d_k: int | Iterable[int] = 64,
    expected: str | float = "sqrt-dk",
    layout: str = "auto",
    dtype: str = "float32",
    array: ToArray | None = None,
    n_heads: int = 2,
    n_kv_heads: int | None = None,
    rtol: float | None = None,
    seed: int = 0,
) -> tuple[Probe, ...]:
    """Assert that `attention(q, k, v)` is softmax attention whose logits are `factor q.k`.

    Args:
        attention: a function of q, k, v; see `probe_factor` for it and for layout, dtype, array,
            n_heads, n_kv_heads and seed.
        d_k: head dimension, or several: a constant 1/8 is right at 64 alone.
        expected: none, sqrt-dk, dk, constant:C, power:P, or the factor as a number.
        layout: order of the axes of q, k and v.
        dtype: of q, k and v.
        array: makes the arrays that the function gets.
        n_heads: heads in layouts that have them.
        n_kv_heads: heads of k and v where they are fewer (grouped-query attention).
        rtol: error allowed, of the factor (relative) and of the logits' residual (rms); by default
            what the precision allows, 1e-5 or 1e-2. Give 1e-2 where products are TF32.
        seed: of the queries and keys.

    Returns:
        A Probe for each d_k.

    Raises:
        AssertionError: with expected and measured factor, residual and likely cause. Nothing is
            drawn but the inputs, so that there is no false alarm to state: only rounding errs.
        ProbeError: where the outputs are no weighted means of the values, such as over a wrong
            axis; InconclusiveError: where too few logits can be seen. Both are AssertionErrors.
        InputError: for a wrong argument.

    What is added whatever the query (masks, biases, constants) passes, as do factors split
    between q and k.

    Examples:
        >>> def attention(q, k, v):
        ...     p = np.exp((q / 8) @ k.swapaxes(-1, -2))
        ...     return p / p.sum(-1, keepdims=True) @ v
        >>> assert_logit_scale(attention, d_k=64)[0].layout
        'bhld'

    """
    __tracebackhide__ = True  # pytest then shows the user's line
    sizes = list(d_k) if isinstance(d_k, Iterable) else [d_k]
    if not sizes:
        raise InputError("d_k needs at least one value, got none; for example 64")
    probes = tuple(
        probe_factor(
            attention,
            size,
            layout=layout,
            dtype=dtype,
            array=array,
            n_heads=n_heads,
            n_kv_heads=n_kv_heads,
            seed=seed,
        )
        for size in sizes
    )
    failed = filter(None, (_complaint(probe, expected, n_heads, rtol) for probe in probes))
    if message := "\n".join(failed):
        raise AssertionError(message)
    return probes


def _complaint(probe: Probe, expected: str | float, n_heads: int, rtol: float | None) -> str:
    """What is wrong with a probe's scale, or ""."""
    wanted, scale = _wanted(expected, probe.d_k)
    allowed = probe.rtol if rtol is None else positive("rtol", rtol)
    ratio = probe.factor / wanted
    if abs(ratio - 1) <= allowed and (not probe.unlike or probe.residual <= allowed):
        return ""
    if probe.unlike:
        said, cause = f"no plain scaled dot product at d_k = {probe.d_k}", probe.unlike
    else:
        said = f"measured factor {_shown(probe.factor)} where {_shown(wanted)} was expected "
        said += f"at d_k = {probe.d_k}"
        cause = suspects(factor_causes(ratio, probe.d_k, scale=scale, n_heads=n_heads))
    entries = {
        "expected": _shown(wanted) + (f" ({scale})" if scale else ""),
        "measured": f"{_shown(probe.factor)}, {ratio:.5g} times the expected one",
        "residual": f"{probe.residual:.2g} rms of {probe.n_points} logits "
        f"(rounding makes {probe.floor:.1g})",
        "z": f"none, nothing is random; relative error {abs(ratio - 1):.2g}, allowed {allowed:g}",
        "false alarm": "0: the inputs have a fixed seed, and only rounding errs",
        "layout": f"{probe.layout} ({', '.join(_AXES[axis] for axis in probe.layout)})",
    }
    return lines(f"{said}: {cause or 'is d_k the head dimension of this function?'}", entries)


def _wanted(expected: str | float, d_k: int) -> tuple[float, str | None]:
    """The expected factor, and the convention that names it."""
    if isinstance(expected, str):
        return scale_factor(Case(d_k, scale=expected)), expected
    return magnitude("expected", expected), None


def _shown(factor: float) -> str:
    form = written(factor)
    return f"{factor:.4g}" + (f" = {form}" if "/" in form else "")
