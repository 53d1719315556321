"""Records made without sampling: what theory says, and what a run would need."""

from __future__ import annotations

from dataclasses import replace

from ..stats.decision import Row, distinct_tests
from ..stats.planning import Rates, detectable_gap
from ..stats.predict import predict
from ..stats.request import CaseOptions, DecisionOptions, requested_rows
from ..stats.run import Run
from .record import make_record, resolved
from .result import Result


def predicted(cases: CaseOptions) -> Result:
    """The references of everything that the options spell out, exact and without sampling.

    Examples:
        >>> predicted(CaseOptions(dk=("64",), quantities=("kurtosis",))).record["rows"][0]["theory"]
        0.09375

    """
    rows = [
        Row(case, quantity, predict(case, quantity)) for case, quantity in requested_rows(cases)
    ]
    return Result(make_record("predict", resolved(cases), rows, Rates(), {}))


def planned(cases: CaseOptions, decision: DecisionOptions) -> Result:
    """The draws that each row's cell needs, and the gap that these draws detect."""
    run = Run.planned(cases, decision)
    tests = distinct_tests(run.rows)
    cells = {cell.case: cell for cell in run.cells}
    rows = [_planned_row(row, cells[row.case.cell()].draws, run.rates, tests) for row in run.rows]
    record = make_record("plan", resolved(cases, decision), rows, run.rates, {})
    for shown, row in zip(record["rows"], run.rows, strict=True):
        cell = cells[row.case.cell()]
        shown |= {"draws": cell.draws, "capped": cell.capped, "elements_drawn": cell.elements}
    return Result(record | {"seconds": run.seconds})


def _planned_row(row: Row, draws: int, rates: Rates, tests: int) -> Row:
    sd = row.reference.replicate_sd
    gap = None
    if sd is not None and row.reference.kind != "none":
        gap = detectable_gap(
            sd,
            row.reference.unit,
            draws,
            tests=tests,
            false_alarm=rates.false_alarm,
            power=rates.power,
        )
    return replace(row, tolerance=rates.tolerance_of(row.quantity), detectable=gap)
