"""Audit a function of (q, k, v): what it multiplies q.k by, and what it does besides."""

from __future__ import annotations

from typing import Any

from ...stats.audit.findings import Audit, Finding
from ...stats.audit.options import AuditOptions
from .guard import guarded
from .probe import probe_factor


def audit_function(attention: Any, name: str, options: AuditOptions) -> Audit:
    """The findings about a function of (q, k, v), called on arrays of our own."""
    findings = []
    with guarded():
        for size in options.sizes:
            probe = probe_factor(attention, size, layout=options.layout, n_heads=options.heads)
            expected = options.factor(size)
            right = abs(probe.factor / expected - 1) <= probe.rtol and not probe.unlike
            findings.append(
                Finding(
                    "factor",
                    f"d_k = {size}",
                    "match" if right else "mismatch",
                    expected=expected,
                    measured=probe.factor,
                    allowed=probe.rtol,
                    place={"d_k": size},
                )
            )
    return Audit(name, "callable", tuple(findings), {}, options.convention)
