"""The record: plain data at full precision, of which table, page and CI text are views."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from ..stats.decision import Row, distinct_tests, overall
from ..stats.planning import Rates

Record = dict[str, Any]
SCHEMA_VERSION = 1


def make_record(
    command: str,
    request: Mapping[str, object],
    rows: Sequence[Row],
    rates: Rates,
    provenance: Mapping[str, object],
) -> Record:
    """The record of decided rows (or, for `predict`, of rows without an estimate)."""
    predicted = command in ("predict", "plan")  # nothing measured, so nothing judged
    return {
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "verdict": None if predicted else overall(rows),
        "request": dict(request),
        "design": {
            "false_alarm": rates.false_alarm,
            "power": rates.power,
            "tolerance": rates.tolerance,
            "tests": distinct_tests(rows),
        },
        "provenance": dict(provenance),
        "rows": [_row(row, predicted) for row in rows],
    }


def resolved(*groups: object, **more: object) -> dict[str, object]:
    """All options as resolved, from option groups and single values."""
    request: dict[str, object] = {}
    for group in groups:
        assert is_dataclass(group)
        for field in fields(group):
            value = getattr(group, field.name)
            request[field.name] = list(value) if isinstance(value, tuple) else value
    return request | more


def _row(row: Row, predicted: bool) -> Record:
    case, reference, estimate = row.case, row.reference, row.estimate
    theory = reference.value
    shown = {
        "quantity": row.quantity,
        "d_k": case.d_k,
        "n_keys": case.n_keys,
        "elements": case.elements if case.d_k is not None else None,
        "weights": None,
        "ensemble": "fresh logits" if case.d_k is None else "fresh q, k",
        "scale": case.scale,
        "transform": None,
        "dtype": case.dtype,
        "parameters": case.parameters(),
        "draws": estimate.draws if estimate else None,
        "theory": list(theory) if isinstance(theory, tuple) else theory,
        "theory_kind": reference.kind,
        "formula": reference.formula,
        "estimate": estimate.value if estimate else None,
        "mcse": estimate.mcse if estimate else None,
        "gap": row.gap,
        "z": row.z,
        "p_value": row.p_value,
        "p_adjusted": row.p_adjusted,
        "ci_low": row.ci_low,
        "ci_high": row.ci_high,
        "tolerance": row.tolerance,
        "detectable": row.detectable,
        "verdict": row.verdict,
        "note": row.note,
    }
    if predicted:
        shown["replicate_sd"] = reference.replicate_sd
    if reference.approximation is not None:
        shown["approximation"] = reference.approximation
    return {name: _finite(value) for name, value in shown.items()}


def _finite(value: object) -> object:
    """JSON has no infinity: what is not finite is absent."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def verdict_counts(rows: Iterable[Record]) -> dict[str, int]:
    """How many rows have each verdict, the worst first."""
    counts = dict.fromkeys(("mismatch", "undecided", "match", "measured"), 0)
    for row in rows:
        counts[row["verdict"]] += 1
    return counts
