"""Arguments besides q, k and v: which there are, and a check for each whose name says its role."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from ...stats.audit.arguments import Role, role_of
from ...stats.audit.findings import Finding, judged
from ...stats.audit.known import Point
from .form import Form
from .forms import find_form
from .lengths import length_findings
from .masks import bias_finding, mask_findings
from .scale_arguments import divisor_findings, scale_findings, softcap_findings
from .scaling import first_line
from .subject import Subject
from .tried import NotFiniteError, RandomError, dead, ignored, weights_with
from .windows import causal_findings, window_findings

VAR_POSITIONAL, VAR_KEYWORD = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


def argument_findings(subject: Subject, form: Form, base: Point) -> Iterator[Finding]:
    """A finding for each argument whose name says what it should do, and one for the others."""
    named = named_arguments(subject.attention)
    for name, default in named.items():
        role = role_of(name)
        if role is None:
            continue
        check = _flag if isinstance(default, bool) and role != "causal" else _CHECKS[role]
        where = f"{name}="
        try:
            yield from check(subject, name, form, base)
        except NotFiniteError as error:
            yield Finding("argument", where, "mismatch", str(error), "not-finite")
        except RandomError as error:
            yield Finding("argument", where, "undecided", str(error), "random")
        except (Exception, SystemExit) as error:  # what it raises says why it cannot be used
            said = f"The argument {name}= could not be tried: {first_line(error)}."
            yield Finding("argument", where, "measured", said)
    if others := [f"{name}=" for name in named if role_of(name) is None]:
        said = f"Not looked at, since the name does not say what it does: {', '.join(others)}."
        yield Finding("arguments", f"{len(others)} more", "measured", said, "unknown-arguments")


def named_arguments(attention: Any) -> dict[str, Any]:
    """The arguments after q, k, v with their defaults; of a builtin those in its documentation."""
    named: dict[str, Any]
    try:
        parameters = inspect.signature(attention).parameters.values()
        open_ended = (VAR_POSITIONAL, VAR_KEYWORD)
        named = {p.name: p.default for p in [*parameters][3:] if p.kind not in open_ended}
    except Exception:  # a foreign object may raise anything when it is looked at
        said = (getattr(attention, "__doc__", None) or "").partition("->")[0]
        named = dict.fromkeys(re.findall(r"(\w+)\s*=", said))
    return {name: default for name, default in named.items() if not name.startswith("_")}


def required_arguments(attention: Any) -> list[str]:
    """Names of the arguments after q, k and v that have no default."""
    with suppress(Exception):
        more = list(inspect.signature(attention).parameters.values())[3:]
        empty, open_ended = inspect.Parameter.empty, (VAR_POSITIONAL, VAR_KEYWORD)
        return [p.name for p in more if p.default is empty and p.kind not in open_ended]
    return []


def _flag(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    """A flag must do something; what is right for its default is judged without it."""
    if ignored(subject, name, (False, True)):
        yield dead(name)
        return
    factors = []
    for value in (False, True):
        given = subject.given({name: value})
        found = find_form(given.box, *given.draw(subject.d_k))
        if found.known:
            factor = found.factor(given.box, *given.draw(subject.d_k))
            factors.append(f"{name}={value} q.k is multiplied by {factor:.6g}")
    said = f"With {', with '.join(factors)}." if len(factors) == 2 else ""
    yield Finding("argument", f"{name}=", "measured", said, "flag")


def _learned(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    """A learned gain must change the output when it changes."""
    last: Exception | None = None
    for shape in ((subject.d_k,), (), (1,), (subject.options.heads, 1, 1)):
        values = tuple(subject.box.to_array(np.full(shape, x, np.float32)) for x in (1.0, 2.0))
        try:
            unused = ignored(subject, name, values)
        except Exception as error:  # another shape may be the one that it wants
            last = error
            continue
        yield dead(name) if unused else Finding("argument", f"{name}=", "match")
        return
    assert last is not None
    raise last


def _values(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    """A scale of the values should multiply the output."""
    first, second = (np.nansum(weights_with(subject, name, x)) for x in (0.5, 1.0))
    ratio = float(first / second) if second else 0.0
    if ratio == 1.0:
        yield dead(name)
        return
    said, allowed = f"With {name}=0.5 the output is multiplied by {ratio:.6g}.", 10 * subject.rtol
    numbers = {"expected": 0.5, "measured": ratio, "allowed": allowed}
    right = abs(ratio / 0.5 - 1) <= allowed
    yield judged("argument", f"{name}=0.5", right, said, "output-scaled", **numbers)


def _bias(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    yield bias_finding(subject, name, base)


def _mask(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    yield from mask_findings(subject, name, base)


def _causal(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    yield from causal_findings(subject, name)
    of_lengths = length_findings(subject.given({name: True}), base.factor, f"{name}=True")
    yield from (finding for finding in of_lengths if finding.verdict != "match")


def _window(subject: Subject, name: str, form: Form, base: Point) -> Iterator[Finding]:
    flags = [other for other in named_arguments(subject.attention) if role_of(other) == "causal"]
    yield window_findings(subject, name, flags)


_Check = Callable[[Subject, str, Form, Point], Iterator[Finding]]
_CHECKS: dict[Role, _Check] = {
    "scale": scale_findings,
    "divisor": divisor_findings,
    "softcap": softcap_findings,
    "bias": _bias,
    "mask": _mask,
    "causal": _causal,
    "window": _window,
    "learned": _learned,
    "values": _values,
}
