"""The factor of q.k at several head dimensions, numbers of heads and of keys, and its name."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...stats.audit.factors import exponent, named_factor
from ...stats.audit.findings import Finding, judged
from ...stats.audit.known import Known, Point
from ...stats.failures import InconclusiveError
from ...stats.shown import error_said
from .black_box import ProbeError
from .form import Form
from .forms import find_form
from .subject import N_KEYS, Subject


def measured_points(subject: Subject, form: Form) -> tuple[list[Point], list[Finding]]:
    """The factor at every size asked for, and with one head less; sizes that it does not take."""
    points, refused = [], []
    heads, fewer = subject.options.heads, subject.fewer_heads
    sizes = [(size, heads) for size in subject.options.sizes]
    if "h" in subject.box.layout and fewer:
        sizes.append((subject.d_k, fewer))
    for size, n_heads in sizes:
        q, k = subject.draw(size, n_heads=n_heads)
        try:
            if n_heads != heads and find_form(subject.box, q, k).slug != form.slug:
                refused.append(_made_for(heads, fewer))
                continue
            factor = form.factor(subject.box, q, k)
        except InconclusiveError:
            if np.isfinite(subject.box.weights(q, k)[0]).any():
                raise
            refused.append(_not_finite(size, n_heads, heads))
            continue
        except (Exception, SystemExit) as error:  # a function may be made for one size alone
            with_fewer = "" if n_heads == heads else f" with {n_heads} heads"
            said = f"At d_k = {size}{with_fewer} it fails: {first_line(error)}."
            place = {"d_k": size}
            refused.append(Finding("factor", f"d_k = {size}", "measured", said, place=place))
            continue
        points.append(Point(size, subject.box.heads(q), N_KEYS, factor))
    if not points:
        raise ProbeError("no factor could be measured at any d_k; " + refused[0].said)
    return points, refused


def _not_finite(size: int, n_heads: int, heads: int) -> Finding:
    fewer = "" if n_heads == heads else f" with {n_heads} heads"
    said = f"At d_k = {size}{fewer} the output is nan or inf throughout."
    place = {"d_k": size}
    return Finding("factor", f"d_k = {size}", "mismatch", said, "not-finite", place=place)


def _made_for(heads: int, fewer: int) -> Finding:
    """A function that is made for the number of heads it was given, which tells nothing of it."""
    said = f"With {fewer} heads its logits are of another form: it is made for {heads}."
    return Finding("factor", f"{fewer} heads", "measured", said)


def first_line(error: BaseException) -> str:
    """The kind of an error and the first line of what it says, without its full stop."""
    head, *attempts = str(error).strip().split("\n") if isinstance(error, ProbeError) else [""]
    if isinstance(error, ProbeError):
        return (attempts[0].strip() if attempts else head)[:120].rstrip(".")
    return error_said(error).rstrip(".")


def factor_findings(
    subject: Subject, points: Sequence[Point], extra: Sequence[Point] = ()
) -> list[Finding]:
    """A finding for each d_k, and one for the exponent; the first says what the factor is.

    `extra` are points of other numbers of keys: they help to name the factor.
    """
    known = named_factor([*points, *extra], 2 * subject.rtol)
    spoken = _spokesman(points, subject)
    findings = [_of_point(subject, point, known, said=point is spoken) for point in points]
    return [*findings, *_exponent(subject, points)]


def _of_point(subject: Subject, point: Point, known: Sequence[Known], said: bool) -> Finding:
    wanted, several = subject.options.factor(point.d_k), point.n_heads == subject.fewer_heads
    right = abs(point.factor / wanted - 1) <= subject.rtol
    fewer = f", {point.n_heads} heads" if several else ""
    return Finding(
        "factor",
        f"d_k = {point.d_k}{fewer}",
        "match" if right else "mismatch",
        _sentence(point, wanted, known, subject.options.convention, subject.rtol) if said else "",
        None if right or not known else known[0].slug,
        wanted,
        point.factor,
        subject.rtol,
        {"d_k": point.d_k},
    )


def _spokesman(points: Sequence[Point], subject: Subject) -> Point:
    """The point that speaks for all: the first that is wrong, else that of the base size."""
    at_base = [point for point in points if point.d_k == subject.d_k] or list(points)
    wrong = [
        point
        for point in [*at_base, *points]
        if abs(point.factor / subject.options.factor(point.d_k) - 1) > subject.rtol
    ]
    return (wrong or at_base)[0]


def _sentence(
    point: Point, wanted: float, known: Sequence[Known], convention: str, rtol: float
) -> str:
    """What the factor is: its divisor, its name, and what it does where it is wrong."""
    said, ratio = f"At d_k = {point.d_k} it {_acts(point.factor)}", point.factor / wanted
    names = "; or ".join(f"{one.formula}, {one.met}" for one in known[:3])
    if known and known[0].slug == convention:
        return f"{said}: {names}."
    named = names or "no known mistake or convention"
    if abs(ratio - 1) <= rtol:
        return f"{said}, as {convention} does ({named})."
    flat = f"logits are {1 / ratio:.6g} times too small, the softmax too flat" if ratio > 0 else ""
    peaked = f"logits are {ratio:.6g} times too large, the softmax too peaked"
    size = peaked if ratio > 1 else flat or "the softmax does not follow q.k"
    end = "" if named.endswith("?") else "."
    return f"{said} where {convention} {_acts(wanted)}: {size}. That is {named}{end}"


def _acts(factor: float) -> str:
    if factor == 0:
        return "multiplies q.k by 0"
    if abs(factor - 1) < 1e-5:
        return "leaves q.k unscaled"
    return f"divides by {1 / factor:.4f}" if abs(factor) < 1 else f"multiplies by {factor:.6g}"


def _exponent(subject: Subject, points: Sequence[Point]) -> list[Finding]:
    points = [point for point in points if point.n_heads == points[0].n_heads]
    line = exponent(points)
    if line is None:
        return []
    asked = [Point(p.d_k, p.n_heads, p.n_keys, subject.options.factor(p.d_k)) for p in points]
    wanted = exponent(asked)
    assert wanted is not None
    logs = [math.log(point.d_k) for point in points]
    mean = sum(logs) / len(logs)
    off = [abs(x - mean) for x in logs]
    allowed = subject.rtol * sum(off) / sum(x * x for x in off)  # every factor off by rtol
    sizes = [point.d_k for point in points]
    where = f"d_k = {min(sizes)} to {max(sizes)}"
    error = "" if line[1] <= allowed else f"; no single power: its error is {line[1]:.2g}"
    shown = round(line[0], 4) + 0.0  # no negative zero
    said = f"The factor goes as d_k^({shown:g}), not d_k^({wanted[0]:g}){error}."
    right = abs(line[0] - wanted[0]) <= allowed
    slope = round(line[0], 6) + 0.0  # beyond that it is rounding
    numbers = {"expected": wanted[0], "measured": slope, "allowed": allowed}
    return [judged("exponent of d_k", where, right, said, None, **numbers)]
