"""Audit a function of (q, k, v): what it multiplies q.k by, and what it does besides."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...stats.audit.findings import Audit, Finding
from ...stats.audit.options import AuditOptions
from ...stats.decision import Verdict
from ...stats.failures import InconclusiveError
from ..devices import keep_compilations
from .arguments import argument_findings, required_arguments
from .black_box import ProbeError
from .form import Form
from .forms import find_form
from .guard import guarded
from .lengths import length_findings
from .opening import by_position
from .outputs import (
    batch_of_two,
    leaves_arguments,
    other_width,
    row_sums,
    values_through,
    wrong_axis,
)
from .positions import position_findings
from .precision import precision_findings
from .scaling import factor_findings, first_line, measured_points
from .sharing import order_findings, sharing_findings
from .subject import Subject, opened, other_layout


def audit_function(attention: Any, name: str, options: AuditOptions) -> Audit:
    """The findings about a function of (q, k, v), called on arrays of our own."""
    facts: dict[str, str] = {}
    attention = by_position(attention)
    if (jax := sys.modules.get("jax")) is not None:
        keep_compilations(jax)  # each size compiles anew: the second audit starts at once
    with guarded(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            subject = opened(attention, options, options.dtype[0])
        except ProbeError as error:
            findings = [_unopened(attention, options, error)]
        else:
            facts |= _versions(name, subject) | {"layout": subject.axes}
            findings = _until_it_fails(subject)
    return Audit(name, "callable", tuple(findings), facts, options.convention)


def _until_it_fails(subject: Subject) -> list[Finding]:
    """The findings, those before an error of the function where it raises one."""
    findings: list[Finding] = []
    try:
        for finding in _findings(subject):
            findings.append(finding)  # each is kept when the next one fails
    except ProbeError as error:
        said = f"It takes some calls and fails in others: {first_line(error)}."
        findings.append(Finding("call", "", "undecided", said, "call-fails"))
    return findings


def _findings(subject: Subject) -> Iterator[Finding]:
    if (axis := wrong_axis(subject)) is not None:
        yield axis
        return
    yield from order_findings(subject)
    try:
        form = find_form(subject.box, *subject.draw(subject.d_k))
        yield _form_finding(form)
        if not form.known:
            return
        points, refused = measured_points(subject, form)
        base = next((p for p in points if p.d_k == subject.d_k), points[0])
        extra, positions = position_findings(subject, form, base)
        yield from factor_findings(subject, points, extra)
        yield from refused
        yield from positions
        yield row_sums(subject)
        yield values_through(subject)
        yield from other_width(subject)
        yield from batch_of_two(subject)
        yield from sharing_findings(subject, base.factor)
        yield from length_findings(subject, base.factor)
        yield from leaves_arguments(subject)
        yield from argument_findings(subject, form, base)
        yield from precision_findings(subject, form, base)
    except InconclusiveError as error:
        said = f"{str(error)[:1].upper()}{str(error)[1:]}."
        yield Finding("factor", "", "undecided", said, "too-little-seen")


def _form_finding(form: Form) -> Finding:
    if form.slug in ("plain", "zero"):
        return Finding("form", "factor q.k", "match")
    bound = form.curve.bound if form.curve else None
    verdict: Verdict = "measured" if form.known else "undecided"
    if form.wrong:
        verdict = "mismatch"
    return Finding("form", form.slug, verdict, form.said, form.slug, measured=bound)


def _unopened(attention: Any, options: AuditOptions, error: ProbeError) -> Finding:
    """A function over the wrong axis of the layout that was declared, or none that can be told."""
    if options.layout != "auto":
        other = other_layout(attention, options, options.dtype[0])
        if other is not None:
            heads = float(options.heads)
            said = (
                f"In layout {options.layout} each query meets {heads:g} keys, one for each head, "
                f"not 16: it attends over the axis of the heads, and takes layout {other.axes}."
            )
            where, slug = f"layout {options.layout}", "attends-over-heads"
            return Finding("axis", where, "mismatch", said, slug, 16.0, heads)
    if more := required_arguments(attention):
        said = f"It needs {', '.join(more)} besides q, k and v: audit a function of q, k, v alone."
        return Finding("call", "", "undecided", said, "more-arguments")
    return Finding("call", "", "undecided", _attempts(error), "no-weights")


def _attempts(error: ProbeError) -> str:
    """What each layout met, the same only once."""
    met: dict[str, list[str]] = {}
    for line in str(error).splitlines()[1:]:
        attempt, _, said = line.strip().partition(": ")
        met.setdefault(said.rstrip("."), []).append(attempt.partition(",")[0])
    each = "; ".join(f"{', '.join(dict.fromkeys(names))}: {said}" for said, names in met.items())
    return f"No call as attention(q, k, v) gave weights over 16 keys. {each}."


def _versions(name: str, subject: Subject) -> dict[str, str]:
    """Versions of the library that a function comes from, and of the one whose arrays it takes."""
    array = type(subject.box.to_array(np.zeros(1, np.float32))).__module__
    roots = [name.partition(":")[0].partition(".")[0], array.partition(".")[0]]
    names = dict.fromkeys("jax" if root == "jaxlib" else root for root in roots)
    versions = {n: getattr(sys.modules.get(n), "__version__", None) for n in names}
    return {n: str(version) for n, version in versions.items() if version}
