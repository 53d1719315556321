"""Arguments that are numbers and set the size of the logits: a scale, a divisor, a cap.

A scale is held against several laws (as it is, its inverse, square, root, exponential) at two
values and two head dimensions, so that a number that fits by chance fits one of them alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...stats.audit.factors import named_factor
from ...stats.audit.findings import Finding, judged
from ...stats.audit.known import Known, Point
from .black_box import Array, ProbeError
from .form import Form
from .seen_logits import seen_logits
from .subject import N_KEYS, Subject
from .tried import dead, ignored, weights_with

_GIVEN = 0.2375  # a scale that no convention gives at any usual d_k
_CAP = 2.0
_LAWS: dict[str, Callable[[float], float]] = {
    "as it is": lambda s: s,
    "inverse": lambda s: 1 / s,
    "square": lambda s: s * s,
    "root": math.sqrt,
    "exponential": math.exp,
}
_SAID = {
    "as it is": "The factor is {times} the argument {name}=, not the argument: {met}.",
    "inverse": "The argument {name}= divides: the factor is {alone} divided by it.",
    "square": "The factor goes as the square of the argument {name}=: is it applied to q and k?",
    "root": "The factor goes as the square root of the argument {name}=.",
}
_CAUSE = {"inverse": "scale-divides", "square": "scale-squared", "root": "scale-misused"}


def scale_findings(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    """The factor should be the number that is given, not that times the default."""
    made = _maker(subject, name)
    values = (_GIVEN, 2 * _GIVEN)
    if ignored(subject, name, (made(values[0]), made(values[1]))):
        yield dead(name)
        return
    sizes = _two_sizes(subject, form)
    points = [[_with(subject, name, form, size, made(x)) for size in sizes] for x in values]
    law, per = _law(points, values, 4 * subject.rtol)
    known = named_factor(per, 2 * subject.rtol) if law else []
    right, verdict_said, cause = _judged_law(name, form, law, per, known, subject.rtol)
    if law == "exponential":
        yield Finding("argument", f"{name}=", "measured", verdict_said, "scale-exponential")
        return
    numbers = {
        "expected": _GIVEN,
        "measured": points[0][0].factor,
        "allowed": 2 * subject.rtol,
    }
    if right and law == "as it is" and form.slug == "qk-norm" and not _is(per, 1.0, subject.rtol):
        numbers["expected"] = _GIVEN / per[0].d_k
    if right and law == "inverse":
        numbers["expected"] = 1 / _GIVEN
    yield judged("argument", f"{name}={_GIVEN}", right, verdict_said, cause, **numbers)


def _law(
    points: list[list[Point]], values: tuple[float, float], allowed: float
) -> tuple[str, list[Point]]:
    """The law of the argument that both values follow, and what multiplies it; "" for none."""
    for law, of in _LAWS.items():
        per = [
            [replace(p, factor=p.factor / of(value)) for p in row]
            for row, value in zip(points, values, strict=True)
        ]
        pairs = zip(*per, strict=True)
        if all(abs(one.factor - two.factor) <= allowed * abs(one.factor) for one, two in pairs):
            return law, per[0]
    return "", points[0]


def _judged_law(
    name: str, form: Form, law: str, per: list[Point], known: list[Known], rtol: float
) -> tuple[bool, str, str]:
    """Whether a scale may act so; what it does and its cause where it may not."""
    if not law:
        return (
            False,
            f"The argument {name}= is used, but not as the factor of q.k.",
            "scale-misused",
        )
    alone = _is(per, 1.0, rtol) or (
        # a cosine is q.k of unit-RMS vectors by d_k
        form.slug == "qk-norm" and all(_is([p], 1 / p.d_k, rtol) for p in per)
    )
    if law == "exponential":
        what = "" if alone else f" times {known[0].formula if known else 'another number'}"
        said = f"The factor is exp({name}){what}: the argument is its logarithm, as in Swin-V2."
        return True, said, "scale-exponential"
    divisor = re.fullmatch(r"attn_scale", name.lower()) is not None  # TransformerLens divides
    if alone and (law == "as it is" or (law == "inverse" and divisor)):
        return True, "", ""
    first = known[0] if known else None
    if law == "as it is" and first is not None and first.slug == "sqrt-dk":
        said = f"The argument {name}= multiplies the default 1/sqrt(d_k) and does not replace it."
        return False, said, "scale-on-top-of-default"
    if _is(per, -1.0, rtol):
        first, times, met = None, "minus", "a minus sign too many"
    else:
        times, met = (f"{first.formula} times", first.met) if first else ("not once", "")
    if law == "as it is" and not met:
        return (
            False,
            f"The argument {name}= is used, but not as the factor of q.k.",
            "scale-misused",
        )
    shown = "1" if _is(per, 1.0, rtol) else first.formula if first else "another number"
    said = _SAID[law].format(name=name, times=times, met=met, alone=shown)
    slug = "negative" if times == "minus" else first.slug if first else "scale-misused"
    return False, said, _CAUSE.get(law, slug)


def _is(points: list[Point], value: float, rtol: float) -> bool:
    return all(abs(point.factor / value - 1) <= 2 * rtol for point in points)


def _maker(subject: Subject, name: str) -> Callable[[float], Any]:
    """What makes of a number what the argument takes: the number, or an array of a learned one."""
    heads = subject.options.heads
    makers: list[Callable[[float], Any]] = [
        lambda x: x,
        lambda x: subject.box.to_array(np.full((), x, np.float32)),
        lambda x: subject.box.to_array(np.full((heads, 1, 1), x, np.float32)),
    ]
    first: Exception | None = None
    for made in makers:
        try:
            weights_with(subject, name, made(_GIVEN))
        except Exception as error:  # another kind may be the one that it wants
            first = first or error
            continue
        return made
    assert first is not None
    raise first


def divisor_findings(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    """A temperature should divide, the default or q.k itself."""
    made, values = _maker(subject, name), (2.0, 4.0)
    if ignored(subject, name, (made(values[0]), made(values[1]))):
        yield dead(name)
        return
    factors = [_with(subject, name, form, subject.d_k, made(x)).factor for x in values]
    ratio, allowed = factors[0] / factors[1], 4 * subject.rtol
    if abs(ratio * math.exp(2) - 1) <= allowed:
        said = f"The factor goes as exp({name}): the argument is its logarithm, a learned one."
        yield Finding("argument", f"{name}=", "measured", said, "scale-exponential")
        return
    said = f"The argument {name}= does not divide: {1 / ratio:.6g} times the factor where doubled."
    numbers = {"expected": 2.0, "measured": ratio, "allowed": allowed}
    right = abs(ratio / 2 - 1) <= allowed
    yield judged("argument", f"{name}=", right, said, "temperature-misused", **numbers)


def _two_sizes(subject: Subject, form: Form) -> list[int]:
    others = [s for s in subject.options.sizes if s != subject.d_k]
    return [subject.d_k, *others[:1]]


def _with(subject: Subject, name: str, form: Form, size: int, value: Any) -> Point:
    box = subject.given({name: value}).box
    factor = form.factor(box, *subject.draw(size))
    return Point(size, subject.options.heads, N_KEYS, factor)


def softcap_findings(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    """Logits x should come out as C tanh(x / C), or cut off at C, whatever is done before."""
    q, k = _for_cap(subject, form, base)
    if ignored(subject, name, (_CAP, 2 * _CAP), (q, k)):  # these reach the cap
        yield dead(name)
        return
    seen = seen_logits(subject.given({name: _CAP}).box, q, k)
    seen = seen.of_head(0) if form.per_head else seen
    x = base.factor * form.product(seen.saw_q, seen.saw_k)
    wanted = (_CAP * np.tanh(x / _CAP), np.clip(x, -_CAP, _CAP))
    off, allowed = min(_rms(seen.odd - seen.centred(y)) for y in wanted), 10 * subject.rtol
    if seen.largest <= 10 * allowed:
        raise ProbeError("no logits are seen")
    said = (
        f"With {name}={_CAP:g} a logit x does not come out as {_CAP:g} tanh(x/{_CAP:g}): logits "
        f"are off by {off:.3g} (rms)."
    )
    numbers = {"expected": 0.0, "measured": off, "allowed": allowed}
    yield judged("argument", f"{name}={_CAP:g}", off <= allowed, said, "softcap-misused", **numbers)


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(x**2)))


def _for_cap(subject: Subject, form: Form, base: Point) -> tuple[Array, Array]:
    """Queries and keys whose logits reach about 1.5 times the cap, where they grow with q."""
    q, k = (times * x for times, x in zip(form.grown, subject.draw(subject.d_k), strict=True))
    largest = float(np.abs(base.factor * form.product(q, k)).max())
    if largest == 0:
        raise ProbeError("q.k is not used")
    return q * 2.0 ** round(math.log2(1.5 * _CAP / largest)), k
