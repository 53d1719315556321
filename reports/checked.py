"""Judge the user's own logits against the theory of the case they name."""

from __future__ import annotations

from typing import Any

from ..stats.checks import InputError
from ..stats.decision import Row, decide
from ..stats.predict import check_verdict_possible, predict
from ..stats.quantities import GROUPS
from ..stats.replicates import judged_row
from ..stats.request import CaseOptions, DecisionOptions, requested_rows
from .record import make_record, resolved
from .result import Result


def checked(logits: Any, cases: CaseOptions, decision: DecisionOptions) -> Result:
    """Rows for the logits in an array: 1-D, or 3-D replicate x query x key.

    The tolerance is what the array detects, unless one is given. Raises InputError for a 2-D
    array, for values that are not finite numbers, and where --dk is not exactly one value.
    """
    if len(cases.dk) != 1:
        raise InputError(f"check needs one --dk, got {len(cases.dk)}; for example --dk 64")
    if decision.samples is not None:
        raise InputError("samples are those in the file; drop --samples")
    rates = decision.rates()
    rows = []
    for case, quantity in requested_rows(cases):
        if quantity not in GROUPS["logits"]:
            raise InputError(
                f"check judges logits, got {quantity}; known: {', '.join(GROUPS['logits'])}"
            )
        check_verdict_possible(case, quantity)
        rows.append(judged_row(Row(case, quantity, predict(case, quantity)), logits))
    decided = decide(rows, rates, samples_only=decision.tolerance is None)
    request = resolved(cases, decision) | {"samples": decided[0].estimate.draws}  # type: ignore[union-attr]
    return Result(make_record("check", request, decided, rates, {}))
