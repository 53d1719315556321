"""Arguments besides q, k and v: the scale as given, the cap, the mask, the bias."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from ...stats.audit.arguments import Role, role_of
from ...stats.audit.factors import named_factor
from ...stats.audit.findings import Finding, judged
from ...stats.audit.known import Point
from .form import Form
from .forms import find_form
from .masks import bias_finding, mask_findings
from .scaling import first_line
from .subject import N_KEYS, Subject

VAR_POSITIONAL, VAR_KEYWORD = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_GIVEN = 0.2375  # a scale that no convention gives at any usual d_k


def argument_findings(subject: Subject, form: Form, base: Point) -> Iterator[Finding]:
    """A finding for each argument whose name says what it should do."""
    for name in named_arguments(subject.attention):
        role = role_of(name)
        if role is None:
            continue
        try:
            yield from _CHECKS[role](subject, name, form, base)
        except (Exception, SystemExit) as error:  # what it raises says why it cannot be used
            said = f"The argument {name}= could not be tried: {first_line(error)}."
            yield Finding("argument", f"{name}=", "measured", said)


def named_arguments(attention: Any) -> list[str]:
    """Names of the arguments after q, k and v; of a builtin those that its documentation has."""
    try:
        names = list(inspect.signature(attention).parameters)
    except (TypeError, ValueError):
        said = (getattr(attention, "__doc__", None) or "").partition("->")[0]
        names = ["", "", "", *re.findall(r"(\w+)\s*=", said)]
    return [name for name in names[3:] if not name.startswith("_")]


def required_arguments(attention: Any) -> list[str]:
    """Names of the arguments after q, k and v that have no default."""
    with suppress(TypeError, ValueError):
        more = list(inspect.signature(attention).parameters.values())[3:]
        empty, open_ended = inspect.Parameter.empty, (VAR_POSITIONAL, VAR_KEYWORD)
        return [p.name for p in more if p.default is empty and p.kind not in open_ended]
    return []


def _ignored(subject: Subject, name: str, values: tuple[Any, Any]) -> bool:
    """Whether two values of an argument give the same bits."""
    q, k = subject.draw(subject.d_k)
    first, second = (subject.given({name: value}).box.weights(q, k)[0] for value in values)
    return bool(np.array_equal(first, second, equal_nan=True))


def _dead(name: str) -> Finding:
    said = f"The argument {name}= is accepted and ignored: two values give the same bits."
    return Finding("argument", f"{name}=", "mismatch", said, "argument-ignored")


def _scale(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    """The factor should be the number that is given, not that times the default."""
    if _ignored(subject, name, (_GIVEN, 2 * _GIVEN)):
        yield _dead(name)
        return
    points = [_with(subject, name, form, size, _GIVEN) for size in _two_sizes(subject, form)]
    factors = [p.factor for p in points]
    right = all(abs(factor / _GIVEN - 1) <= 2 * subject.rtol for factor in factors)
    said, cause = ("", "") if right else _not_as_given(name, points, subject.rtol)
    numbers = {"expected": _GIVEN, "measured": factors[0], "allowed": 2 * subject.rtol}
    yield judged("argument", f"{name}={_GIVEN}", right, said, cause, **numbers)


def _not_as_given(name: str, points: list[Point], rtol: float) -> tuple[str, str]:
    per = [Point(p.d_k, p.n_heads, p.n_keys, p.factor / _GIVEN) for p in points]
    if known := named_factor(per, 2 * rtol):
        formula = known[0].formula
        slug = "scale-on-top-of-default" if known[0].slug == "sqrt-dk" else known[0].slug
        said = (
            f"The factor is {formula} times the argument {name}=, not the argument: {known[0].met}."
        )
        if slug == "scale-on-top-of-default":
            said = (
                f"The argument {name}= multiplies the default 1/sqrt(d_k) and does not replace it."
            )
        if slug not in ("constant", "power", "scaled-root"):
            return said, slug
    upside_down = [Point(p.d_k, p.n_heads, p.n_keys, p.factor * _GIVEN) for p in points]
    if known := named_factor(upside_down, 2 * rtol):
        said = f"The argument {name}= divides: the factor is {known[0].formula} divided by it."
        return said, "scale-divides"
    return f"The argument {name}= is used, but not as the factor of q.k.", "scale-misused"


def _divisor(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    """A temperature should divide, the default or q.k itself."""
    if _ignored(subject, name, (2.0, 4.0)):
        yield _dead(name)
        return
    factors = [_with(subject, name, form, subject.d_k, value).factor for value in (2.0, 4.0)]
    ratio, allowed = factors[0] / factors[1], 4 * subject.rtol
    said = f"The argument {name}= does not divide: {1 / ratio:.6g} times the factor where doubled."
    numbers = {"expected": 2.0, "measured": ratio, "allowed": allowed}
    right = abs(ratio / 2 - 1) <= allowed
    yield judged("argument", f"{name}=", right, said, "temperature-misused", **numbers)


def _two_sizes(subject: Subject, form: Form) -> list[int]:
    others = [s for s in subject.options.sizes if s != subject.d_k and s % form.heads == 0]
    return [subject.d_k, *others[:1]]


def _with(subject: Subject, name: str, form: Form, size: int, value: Any) -> Point:
    box = subject.given({name: value}).box
    factor = form.factor(box, *subject.draw(size))
    return Point(size // form.heads, subject.options.heads, N_KEYS, factor)


def _softcap(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    """Logits should end at the cap that is given."""
    cap = 2.0
    given = subject.given({name: cap})
    found = find_form(given.box, *given.draw(subject.d_k))
    bound = found.curve.bound if found.curve else None
    if bound is None and _ignored(subject, name, (cap, 2 * cap)):
        yield _dead(name)
        return
    right = bound is not None and abs(bound / cap - 1) <= 1e-3
    said = f"With {name}={cap:g} the logits do not end at {cap:g}: their form is {found.slug}."
    numbers = {"expected": cap, "measured": bound, "allowed": 1e-3}
    yield judged("argument", f"{name}={cap:g}", right, said, "softcap-misused", **numbers)


def _learned(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    """A learned gain must change the output when it changes."""
    last: Exception | None = None
    for shape in ((subject.d_k,), (), (1,), (subject.options.heads, 1, 1)):
        values = tuple(subject.box.to_array(np.full(shape, x, np.float32)) for x in (1.0, 2.0))
        try:
            dead = _ignored(subject, name, values)
        except Exception as error:  # another shape may be the one that it wants
            last = error
            continue
        yield _dead(name) if dead else Finding("argument", f"{name}=", "match")
        return
    assert last is not None
    raise last


def _values(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    """A scale of the values should multiply the output."""
    q, k = subject.draw(subject.d_k)
    first, second = (subject.given({name: x}).box.weights(q, k)[0].sum() for x in (0.5, 1.0))
    ratio = float(first / second)
    if ratio == 1.0:
        yield _dead(name)
        return
    said, allowed = f"With {name}=0.5 the output is multiplied by {ratio:.6g}.", 10 * subject.rtol
    numbers = {"expected": 0.5, "measured": ratio, "allowed": allowed}
    right = abs(ratio / 0.5 - 1) <= allowed
    yield judged("argument", f"{name}=0.5", right, said, "output-scaled", **numbers)


def _bias(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    yield bias_finding(subject, name, base)


def _mask(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    yield from mask_findings(subject, name, base)


_Check = Callable[[Subject, str, Form, Point], Iterator[Finding]]
_CHECKS: dict[Role, _Check] = {
    "scale": _scale,
    "divisor": _divisor,
    "softcap": _softcap,
    "bias": _bias,
    "mask": _mask,
    "learned": _learned,
    "values": _values,
}
