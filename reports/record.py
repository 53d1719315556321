"""The record: plain data at full precision, of which table, page and CI text are views.

Every key is always there; what is absent is null. `predict` and `plan` rows have `replicate_sd`
besides, `plan` rows `elements_drawn` and its design `seconds`; where a run looks until all is
decided, its rows have `look` and its design `looks`.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import __version__
from ..stats.cases import Case
from ..stats.checks import count
from ..stats.decision import Row, distinct_tests, overall
from ..stats.planning import Rates
from ..stats.quantities import JUDGED, expand_quantities
from ..stats.request import CaseOptions
from ..stats.requested import requested_rows
from ..stats.sweeps import Asked, Sweep

Record = dict[str, Any]
SCHEMA_VERSION = 1
OWN_ROWS = ("plan", "claims", "audit", "calibrate", "train")
"""Commands whose rows have columns of their own: not quantities of cases beside their theory."""
ROW_KEYS = (
    "quantity", "d_k", "n_keys", "elements", "weights", "ensemble", "scale", "transform", "dtype",
    "parameters", "draws", "theory", "theory_kind", "formula", "estimate", "mcse", "gap", "z",
    "p_value", "p_adjusted", "ci_low", "ci_high", "tolerance", "detectable", "verdict", "note",
)  # fmt: skip
PROVENANCE = (
    "seed",
    "prng",
    "version",
    "jax",
    "jaxlib",
    "numpy",
    "python",
    "platform",
    "devices",
    "started",
    "wall_seconds",
    "processes",
    "elements",
    "elements_per_second",  # of each device, without what was resumed
    "resumed_blocks",
)


def make_record(
    command: str,
    request: Mapping[str, object],
    rows: Sequence[Row],
    rates: Rates | None,
    provenance: Mapping[str, object] | None = None,
) -> Record:
    """The record of decided rows (or, for `predict` and `plan`, of rows without an estimate)."""
    predicted = command in ("predict", "plan")  # nothing measured, so nothing judged
    here = {
        "version": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "verdict": None if predicted else overall(rows),
        "request": dict(request),
        "design": {
            "false_alarm": rates and rates.false_alarm,
            "power": rates and rates.power,
            "tolerance": rates and rates.tolerance,
            "tests": distinct_tests(rows) if rates else None,
        },
        "provenance": dict.fromkeys(PROVENANCE) | here | dict(provenance or {}),
        "rows": [row_record(row, predicted=predicted) for row in rows],
    }


def resolved(cases: Asked, *groups: object, **more: object) -> dict[str, object]:
    """All options as resolved: numbers as numbers, ranges and groups written out.

    `verify(**request)` asks for the same rows again. An empty list means that the option follows
    from others: `scale` from the quantity, `sigma_q` from `sigma`.

    Examples:
        >>> request = resolved(CaseOptions(dk=("16:64:x2",), quantities=("std",)))
        >>> request["dk"], request["sigma"], request["scale"]
        ([16, 32, 64], [1], [])

    """
    request = _of_sweep(cases) if isinstance(cases, Sweep) else _of_cases(cases)
    for group in groups:
        request |= vars(group)
    if isinstance(samples := request.get("samples"), str):
        request["samples"] = count("samples", samples)
    return request | more


def _of_cases(cases: CaseOptions) -> dict[str, object]:
    rows = requested_rows(cases)
    request: dict[str, object] = {
        name: [_number(text) for text in texts] for name, texts in vars(cases).items()
    }
    request["quantities"] = list(expand_quantities(dict.fromkeys(name for _, name in rows)))
    for name, values in (
        ("dk", [case.d_k for case, _ in rows]),
        ("n_keys", [case.n_keys for case, _ in rows]),
    ):
        request[name] = [n for n in dict.fromkeys(values) if n is not None] or request[name]
    return request


def _of_sweep(sweep: Sweep) -> dict[str, object]:
    """The tables, and for each option all values that they name."""
    tables: list[dict[str, Any]] = [_of_cases(table) for table in sweep.tables]
    values = {
        name: list(dict.fromkeys(value for table in tables for value in table[name]))
        for name in tables[0]
    }
    return values | {"sweep": tables}


def _number(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def rates_of(record: Record) -> Rates:
    """The error rates that a record was decided with."""
    design = record["design"]
    return Rates(
        design["false_alarm"],
        design["power"],
        design["tolerance"],
        bool(record["request"].get("within")),
    )


def row_record(row: Row, *, predicted: bool = False) -> Record:
    """A row as plain data, every one of `ROW_KEYS` there."""
    case, reference, estimate = row.case, row.reference, row.estimate
    theory = reference.value
    about = reference.approximation
    unknown = reference.kind == "none" and (
        JUDGED[row.quantity].group == "law" or bool(case.transform)
    )
    notes = (
        row.note,
        reference.assumptions if unknown else "",
        "" if about is None else f"approximation {about!r}, not compared",
    )
    shown = {
        "quantity": row.quantity,
        **case_record(case),
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
        "note": "; ".join(filter(None, notes)) or None,
    }
    if row.look is not None:
        shown["look"] = row.look
    if predicted:
        shown["replicate_sd"] = reference.replicate_sd
    return {name: plain_data(value) for name, value in shown.items()}


def case_record(case: Case) -> Record:
    """What a row says of its case."""
    has_vectors = case.d_k is not None and case.weights is None
    return {
        "d_k": case.d_k,
        "n_keys": case.n_keys,
        "elements": case.elements if has_vectors else None,
        "weights": case.weights,
        "ensemble": _ensemble(case),
        "scale": case.scale,
        "transform": "+".join(case.transform) or None,
        "dtype": case.dtype,
        "parameters": case.parameters(),
    }


def _ensemble(case: Case) -> str:
    """What is drawn anew in every replicate."""
    if case.weights is not None:
        return f"fresh {case.ensemble}"
    return "fresh logits" if case.d_k is None else "fresh q, k"


def plain_data(value: Any) -> Any:
    """Plain Python data: JSON has no infinity, so what is not finite is absent."""
    if isinstance(value, list):
        return [plain_data(item) for item in value]
    if isinstance(value, dict):
        return {name: plain_data(item) for name, item in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def verdict_counts(rows: Iterable[Record]) -> dict[str, int]:
    """How many rows have each verdict, the worst first."""
    counts = dict.fromkeys(("mismatch", "undecided", "match", "measured"), 0)
    for row in rows:
        counts[row["verdict"]] += 1
    return counts
