"""Masks and biases: added to the logits as they are, after the scale and after a cap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from ...stats.audit.findings import Finding, judged
from ...stats.audit.known import Point
from .black_box import Array, Mask
from .positions import about_means
from .subject import N_KEYS, Subject

_FAR = -1e9  # what masks add where they do not add -inf


def _shapes(subject: Subject) -> list[tuple[int, ...]]:
    """Shapes that functions want of a mask or a bias over 16 queries and keys."""
    square = (N_KEYS, N_KEYS)
    return [(1, 1, *square), square, (1, *square)]


def _weights(subject: Subject, name: str, mask: Array | Mask) -> Array:
    """Weights under a mask or bias (query, key), in the first shape that the function takes."""
    q, k = subject.draw(subject.d_k)
    last: Exception | None = None
    for shape in _shapes(subject):
        try:
            given = _array(subject, mask.reshape(shape))
            return subject.given({name: given}).box.weights(q, k)[0]
        except Exception as error:  # another shape may be the one that it wants
            last = last or error
    assert last is not None
    raise last


def _array(subject: Subject, x: Array | Mask) -> Any:
    """An array of the function's framework; a boolean one stays boolean."""
    made = subject.box.to_array(x.astype(np.float32))
    return made > 0 if x.dtype == np.bool_ else made


def bias_finding(subject: Subject, name: str, base: Point) -> Finding:
    """A bias must shift the log odds of a key by its own value, whatever the scale."""
    rng = np.random.default_rng((subject.options.chosen_seed, 2))
    bias = rng.standard_normal((N_KEYS, N_KEYS))
    q, k = subject.draw(subject.d_k)
    plain = subject.box.weights(q, k)[0]
    with_bias = _weights(subject, name, bias)
    kept = (plain > 1e-6) & (with_bias > 1e-6)
    shift = np.where(kept, np.log(with_bias) - np.log(plain), 0.0)
    x, y = (about_means(array, kept) for array in (np.broadcast_to(bias, shift.shape), shift))
    slope = float((x * y).sum() / (x * x).sum())
    left = float(np.sqrt(np.mean((y - slope * x) ** 2)))
    allowed = 10 * subject.rtol
    right = abs(slope - 1) <= allowed and left <= 10 * allowed
    cause, said = ("", "") if right else _wrong_bias(name, slope, left, base, subject.rtol)
    numbers = {"expected": 1.0, "measured": slope, "allowed": allowed}
    return judged("argument", f"{name}=", right, said, cause, **numbers)


def _wrong_bias(name: str, slope: float, left: float, base: Point, rtol: float) -> tuple[str, str]:
    if abs(slope) < 10 * rtol and left < 10 * rtol:
        return "argument-ignored", f"The argument {name}= is accepted and ignored."
    if abs(slope / base.factor - 1) < 100 * rtol and left <= 100 * rtol:
        said = (
            f"The argument {name}= is multiplied by the scale: -10 acts as {-10 * slope:.4g}; "
            "it should be added after q.k is scaled."
        )
        return "bias-scaled", said
    return (
        "bias-misused",
        f"The argument {name}= shifts the log odds by {slope:.6g} times its value.",
    )


def mask_findings(subject: Subject, name: str, base: Point) -> Iterator[Finding]:
    """Masked keys must get no weight at all; rows without any key are reported, not judged."""
    rng = np.random.default_rng((subject.options.chosen_seed, 3))
    keep = rng.random((N_KEYS, N_KEYS)) < 0.6
    keep[:, 0], keep[:, 1] = True, False
    where, effect = f"{name}=", _effect(subject, name, keep)
    if effect is None:  # numbers to add
        finding = bias_finding(subject, name, base)
        if finding.verdict == "mismatch":
            yield finding
            return
        weights = _weights(subject, name, np.where(keep, 0.0, _FAR))
    else:
        yield from _scaled_as_numbers(subject, name, base)
        keep = keep if effect else ~keep
        weights = _weights(subject, name, keep if effect else ~keep)
    dropped = float(np.nan_to_num(weights)[:, ~keep].max())
    said = f"Masked keys have weights up to {dropped:.3g}: is a cap applied after the mask?"
    numbers = {"expected": 0.0, "measured": dropped, "allowed": 1e-6}
    yield judged("argument", where, dropped <= 1e-6, said, "mask-leaks", **numbers)
    yield _masked_row(subject, name, effect)


def _scaled_as_numbers(subject: Subject, name: str, base: Point) -> Iterator[Finding]:
    """The finding of a mask that may be given as numbers too, where these are scaled."""
    with suppress(Exception):  # it may want booleans alone, or take any number for True
        finding = bias_finding(subject, name, base)
        if finding.cause == "bias-scaled":
            yield finding


def _effect(subject: Subject, name: str, keep: Mask) -> bool | None:
    """Whether True keeps a key or drops it; None where a boolean mask is none of both.

    A boolean that is added to the logits shifts them by 1 alone.
    """
    plain = subject.box.weights(*subject.draw(subject.d_k))[0]
    try:
        logs = np.log(np.maximum(_weights(subject, name, keep), 1e-30)) - np.log(plain)
    except Exception:  # it may want numbers to add
        return None
    logs = np.nan_to_num(logs)
    gap = float(logs[:, keep].mean() - logs[:, ~keep].mean())
    return None if abs(gap) < 2 else gap > 0


def _masked_row(subject: Subject, name: str, effect: bool | None) -> Finding:
    """What a row without any key comes out as: nan, 0, uniform or as if nothing were masked."""
    keep = np.ones((N_KEYS, N_KEYS), bool)
    keep[1] = False
    mask = np.where(keep, 0.0, -np.inf) if effect is None else keep if effect else ~keep
    row = _weights(subject, name, mask)[:, 1]
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
