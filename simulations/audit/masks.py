"""Masks and biases: added to the logits as they are, after the scale and after a cap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from ...stats.audit.findings import Finding, judged
from ...stats.audit.known import Point
from .black_box import Array, Mask
from .compared import about_means
from .subject import N_KEYS, Subject
from .tried import NotFiniteError, weights_with
from .windows import not_renormalised

_FAR = -1e9  # what masks add where they do not add -inf
_SEEN = 1e-6
_LEAST = 1e-30


def _shaped(subject: Subject, x: Any) -> Iterator[tuple[Any, Any]]:
    """A mask or bias (query, key) in the shapes that functions want, with what each says of a pair.

    The last shapes are those of one sequence's keys (batch, key), alike for every query.
    """
    heads = subject.options.heads
    for shape in ((1, 1, *x.shape), x.shape, (1, *x.shape), (1, heads, *x.shape)):
        yield np.broadcast_to(x, shape), x
    for shape in ((1, N_KEYS), (N_KEYS,)):
        yield x[-1].reshape(shape), np.broadcast_to(x[-1], x.shape)


def _weights(subject: Subject, name: str, mask: Array | Mask) -> tuple[Array, Any]:
    """Weights under a mask or bias in the first shape that the function takes, and that mask.

    A boolean one is tried as booleans, then as the numbers 1 and 0.
    """
    first: Exception | None = None
    for kind in (mask, mask.astype(np.float64)) if mask.dtype == np.bool_ else (mask,):
        for given, acts in _shaped(subject, kind):
            try:
                weights = weights_with(subject, name, _array(subject, given))
            except Exception as error:  # another shape may be the one that it wants
                first = first if first and not isinstance(error, NotFiniteError) else error
                continue
            return weights, acts.astype(mask.dtype)
    assert first is not None
    raise first


def _array(subject: Subject, x: Array | Mask) -> Any:
    """An array of the function's framework; a boolean one stays boolean."""
    made = subject.box.to_array(np.ascontiguousarray(x, dtype=np.float32))
    return made > 0 if x.dtype == np.bool_ else made


def bias_finding(subject: Subject, name: str, base: Point) -> Finding:
    """A bias must shift the log odds of a key by its own value, whatever the scale."""
    rng = np.random.default_rng((subject.options.chosen_seed, 2))
    bias = rng.standard_normal((N_KEYS, N_KEYS))
    plain = subject.box.weights(*subject.draw(subject.d_k))[0]
    with_bias, acts = _weights(subject, name, bias)
    kept = (plain > _SEEN) & (with_bias > _SEEN)
    shift = np.log(np.where(kept, with_bias, 1.0)) - np.log(np.where(kept, plain, 1.0))
    slope, left = _line(acts, shift, kept)
    allowed = 10 * subject.rtol
    right = abs(slope - 1) <= allowed and left <= 10 * allowed
    cause, said = ("", "") if right else _wrong_bias(name, slope, left, base, subject.rtol)
    turned = _line(acts.T, shift, kept)
    if not right and abs(turned[0] - 1) <= allowed and turned[1] <= 10 * allowed:
        cause = "bias-transposed"
        said = f"The argument {name}= is transposed: what it says of (query, key) acts on the pair "
        said += "(key, query)."
    numbers = {"expected": 1.0, "measured": slope, "allowed": allowed}
    return judged("argument", f"{name}=", right, said, cause, **numbers)


def _line(x: Array, y: Array, kept: Mask) -> tuple[float, float]:
    """The slope of y on x, both about row means over the points kept, and the rms of the rest."""
    x, y = (about_means(array, kept) for array in (np.broadcast_to(x, y.shape), y))
    slope = float((x * y).sum() / (x * x).sum())
    return slope, float(np.sqrt(np.mean((y - slope * x) ** 2)))


def _wrong_bias(name: str, slope: float, left: float, base: Point, rtol: float) -> tuple[str, str]:
    if abs(slope) < 10 * rtol and left < 10 * rtol:
        return "argument-ignored", f"The argument {name}= is accepted and ignored."
    if left > 100 * rtol:
        said = f"The argument {name}= does not shift the log odds of a key by a multiple of itself."
        return "bias-misused", said
    if base.factor and abs(slope / base.factor - 1) < 100 * rtol:
        said = (
            f"The argument {name}= is multiplied by the scale: -10 acts as {-10 * slope:.4g}; "
            "it should be added after q.k is scaled."
        )
        return "bias-scaled", said
    said = f"The argument {name}= shifts the log odds by {slope:.6g} times its value."
    return "bias-misused", said


def mask_findings(subject: Subject, name: str, base: Point) -> Iterator[Finding]:
    """Masked keys must get no weight at all; rows without any key are reported, not judged."""
    rng = np.random.default_rng((subject.options.chosen_seed, 3))
    keep = rng.random((N_KEYS, N_KEYS)) < 0.6
    keep[:, 0], keep[:, 1] = True, False
    plain = subject.box.weights(*subject.draw(subject.d_k))[0]
    effect = _effect(subject, name, keep, plain)
    if effect is None:  # numbers to add
        finding = bias_finding(subject, name, base)
        if finding.verdict == "mismatch":
            yield finding
            return
        weights, acts = _weights(subject, name, np.where(keep, 0.0, _FAR))
        keep = acts >= 0
    else:
        yield from _scaled_as_numbers(subject, name, base)
        weights, acts = _weights(subject, name, keep if effect else ~keep)
        keep = acts if effect else ~acts
    yield _hidden(subject, name, plain, weights, keep)
    yield _masked_row(subject, name, effect)


def _hidden(subject: Subject, name: str, plain: Array, weights: Array, keep: Mask) -> Finding:
    """Whether the keys that are masked are hidden, and the others share all the weight.

    Rows that a window or a causal mask of the function's own leaves without any key are left out.
    """
    there = (np.where(keep, plain, 0.0).sum(-1) > _SEEN)[..., None]
    plain, weights = (np.where(there, x, 0.0) for x in (plain, weights))
    numbers = {"expected": 0.0, "measured": _most(weights, ~keep), "allowed": _SEEN}
    right, said, cause = numbers["measured"] <= _SEEN, "", ""
    if not right and _most(weights, ~keep.T) <= _SEEN:
        said = f"The argument {name}= is transposed: what it says of (query, key) acts on the pair "
        said, cause = f"{said}(key, query).", "mask-transposed"
    elif not right:
        why = _leak(plain, weights, keep)
        said = f"Masked keys have weights up to {numbers['measured']:.3g}: {why}"
        cause = "mask-leaks"
    elif said := not_renormalised(subject, name, plain, weights):
        sums = weights.sum(-1)[there[..., 0]]
        right, cause = False, "mask-after-softmax"
        numbers = {
            "expected": 1.0,
            "measured": float(np.nanmin(sums)),
            "allowed": 10 * subject.rtol,
        }
    return judged("argument", f"{name}=", right, said, cause, **numbers)


def _most(weights: Array, where: Mask) -> float:
    return float(np.nan_to_num(weights)[:, where].max(initial=0.0))


def _leak(plain: Array, weights: Array, keep: Mask) -> str:
    """Why masked keys have weight: a finite number is added to their logits, or replaces them."""
    both = (plain > _SEEN) & (weights > 0)
    logs, before = (np.log(np.where(both, x, 1.0)) for x in (weights, plain))
    kept, dropped = both & keep, both & ~keep
    means = [np.where(kept, logs - before, 0.0).sum(-1, keepdims=True)]
    shift = (logs - before - means[0] / np.maximum(kept.sum(-1, keepdims=True), 1))[dropped]
    if shift.size and np.ptp(shift) < 1e-2 * max(1.0, abs(float(shift.mean()))):
        return f"their logits are changed by {shift.mean():.4g}, where -inf or -1e9 hides them."
    alike = [
        np.ptp(row[where]) for row, where in zip(logs[0], dropped[0], strict=True) if where.any()
    ]
    if alike and max(alike) < 1e-2:
        return "one finite number takes the place of their logits: -inf or -1e9 hides them."
    return "is a cap applied after the mask?"


def _scaled_as_numbers(subject: Subject, name: str, base: Point) -> Iterator[Finding]:
    """The finding of a mask that may be given as numbers too, where these are scaled."""
    with suppress(Exception):  # it may want booleans alone, or take any number for True
        finding = bias_finding(subject, name, base)
        if finding.cause == "bias-scaled":
            yield finding


def _effect(subject: Subject, name: str, keep: Mask, plain: Array) -> bool | None:
    """Whether True keeps a key or drops it; None where a boolean mask is none of both.

    A boolean that is added to the logits shifts them by 1 alone; one that acts transposed is told
    by its transpose.
    """
    try:
        weights, acts = _weights(subject, name, keep)
    except Exception:  # it may want numbers to add
        return None
    there = (plain > _SEEN) & np.isfinite(weights)
    logs = np.log(np.maximum(np.where(there, weights, 1.0), _LEAST))
    logs -= np.log(np.where(there, plain, 1.0))
    gaps = [
        float(logs[there & side].mean() - logs[there & ~side].mean())
        for side in (acts, acts.T)
        if (there & side).any() and (there & ~side).any()
    ]
    gap = max(gaps, key=abs)
    return None if abs(gap) < 2 else gap > 0


def _masked_row(subject: Subject, name: str, effect: bool | None) -> Finding:
    """What a row without any key comes out as: nan, 0, uniform or as if nothing were masked."""
    keep = np.ones((N_KEYS, N_KEYS), bool)
    keep[[1, -1]] = False  # a mask of keys alone is the last row
    mask = np.where(keep, 0.0, -np.inf) if effect is None else keep if effect else ~keep
    try:
        row = _weights(subject, name, mask)[0][:, 1]
    except NotFiniteError:
        row = np.full((1, N_KEYS), np.nan)
    if not np.isfinite(row).all():
        said = "nan"
    elif (np.abs(row) < 1e-9).all():
        said = "0"
    elif np.ptp(row) < 1e-6:
        said = "the mean of the values"
    else:
        said = "weights that are neither 0 nor alike"
    said = f"A row whose keys are all masked comes out as {said}; conventions differ, not judged."
    return Finding("masked rows", f"{name}=", "measured", said, "masked-row")
