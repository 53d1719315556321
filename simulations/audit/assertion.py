"""Assert that an attention function applies the right scale: what a test calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...stats.cases import Case
from ...stats.causes import factor_causes, written
from ...stats.checks import InputError, positive
from ...stats.conventions import expected_number, scale_factor
from ...stats.failures import lines, suspects
from .black_box import Attention, ToArray
from .probe import MOST_KEYS, Probe, probe_factor

_AXES = {"b": "batch", "h": "heads", "l": "length", "d": "d_k"}


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
        >>> import numpy as np
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
    wrong = [probe for probe in probes if not _right(probe, expected, rtol)]
    if wrong:
        law = _law(probes, n_heads)
        said = (_complaint(probe, expected, n_heads, rtol, law) for probe in wrong)
        raise AssertionError("\n".join(said))
    return probes


def _law(probes: Sequence[Probe], n_heads: int) -> str:
    """What the factors of several d_k are together, "" where there is one, or no known formula."""
    from ...stats.audit.factors import named_factor  # with SciPy: not where all is right
    from ...stats.audit.known import Point

    points = [Point(p.d_k, n_heads, min(max(p.d_k, 2), MOST_KEYS), p.factor) for p in probes]
    if len({point.d_k for point in points}) < 2 or any(probe.unlike for probe in probes):
        return ""
    known = named_factor(points, 2 * max(probe.rtol for probe in probes))
    return "; or ".join(f"{one.formula}, {one.met}" for one in known[:2])


def _right(probe: Probe, expected: str | float, rtol: float | None) -> bool:
    """Whether a probe's factor is the expected one, and explains all that was seen."""
    allowed = probe.rtol if rtol is None else positive("rtol", rtol)
    ratio = probe.factor / _wanted(expected, probe.d_k)[0]
    return abs(ratio - 1) <= allowed and (not probe.unlike or probe.residual <= allowed)


def _complaint(
    probe: Probe, expected: str | float, n_heads: int, rtol: float | None, law: str
) -> str:
    """What is wrong with a probe's scale; `law` is what the factors of all are together."""
    wanted, scale = _wanted(expected, probe.d_k)
    allowed, ratio = rtol or probe.rtol, probe.factor / wanted
    measured, expects = _apart(probe.factor, wanted)
    if probe.unlike:
        said, cause = f"no plain scaled dot product at d_k = {probe.d_k}", probe.unlike
    else:
        said = f"measured factor {measured} where {expects} was expected at d_k = {probe.d_k}"
        cause = law or suspects(factor_causes(ratio, probe.d_k, scale=scale, n_heads=n_heads))
    entries = {
        "expected": expects + (f" ({scale})" if scale else ""),
        "measured": f"{measured}, {ratio:.7g} times the expected one",
        "residual": f"{probe.residual:.2g} rms of {probe.n_points} logits "
        f"(rounding makes {probe.floor:.1g})",
        "z": f"none, nothing is random; relative error {abs(ratio - 1):.2g}, allowed {allowed:g}",
        "false alarm": "0: the inputs have a fixed seed, and only rounding errs",
        "layout": f"{probe.layout} ({', '.join(_AXES[axis] for axis in probe.layout)})",
    }
    return lines(f"{said}: {cause or 'is d_k the head dimension of this function?'}", entries)


def _wanted(expected: str | float, d_k: int) -> tuple[float, str | None]:
    """The expected factor, and the convention that names it."""
    number = expected_number(expected)
    if number is None:
        return scale_factor(Case(d_k, scale=str(expected))), str(expected)
    return number, None


def _apart(*factors: float) -> list[str]:
    """Factors in as many digits as tell them apart, four at least."""
    digits = next((n for n in (4, 6, 9) if len({f"{x:.{n}g}" for x in factors}) > 1), 4)
    forms = [written(factor) for factor in factors]
    return [
        f"{factor:.{digits}g}" + (f" = {form}" if "/" in form else "")
        for factor, form in zip(factors, forms, strict=True)
    ]
