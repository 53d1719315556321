"""Records made without sampling: what theory says, and what a run would need."""

from __future__ import annotations

from dataclasses import replace

from ..stats.cells import Cell
from ..stats.checks import InputError
from ..stats.decision import Row, distinct_tests
from ..stats.planning import detectable_by
from ..stats.predict import predict
from ..stats.quantities import QUANTITIES
from ..stats.request import CaseOptions, DecisionOptions
from ..stats.run import Run
from ..stats.sweeps import Sweep, asked_rows
from .record import make_record, resolved
from .result import Result


def predicted(cases: CaseOptions | Sweep) -> Result:
    """The references of everything that the options spell out, exact and without sampling.

    Examples:
        >>> predicted(CaseOptions(dk=("64",), quantities=("kurtosis",))).record["rows"][0]["theory"]
        0.09375

    """
    rows = [Row(case, quantity, predict(case, quantity)) for case, quantity in asked_rows(cases)]
    return Result(make_record("predict", resolved(cases), rows, None))


def planned(cases: CaseOptions | Sweep, decision: DecisionOptions) -> Result:
    """The draws that each row's cell needs, and the gap that these draws detect.

    Examples:
        >>> planned(CaseOptions(dk=("64",)), DecisionOptions()).record["rows"][0]["draws"]
        333484

    """
    if decision.until_decided:
        raise InputError("plan is of fixed draws, got --until-decided; drop it")
    run = Run.planned(cases, decision)
    cells = {cell.case: cell for cell in run.cells}
    of_row = [cells[row.case.cell()] for row in run.rows]
    rows = [_planned_row(row, cell, run) for row, cell in zip(run.rows, of_row, strict=True)]
    record = make_record("plan", resolved(cases, decision), rows, run.rates)
    record["design"]["seconds"] = run.seconds
    for shown, cell in zip(record["rows"], of_row, strict=True):
        shown |= {"draws": cell.draws, "elements_drawn": cell.elements}
    return Result(record)


def _planned_row(row: Row, cell: Cell, run: Run) -> Row:
    """The row with the tolerance that a run would judge it at."""
    sd, wanted = row.reference.replicate_sd, run.rates.tolerance_of(row.quantity)
    if row.reference.kind == "none":
        return row
    if sd is None and row.reference.at is None:
        return replace(row, tolerance=None if run.samples_only else wanted)
    tests = distinct_tests(run.rows)
    gap = detectable_by(row.quantity, row.reference, cell.draws, run.rates, tests, sd or 0.0)
    by_draws = QUANTITIES[row.quantity].by_draws and run.rates.tolerance is None
    cut = cell.capped and gap > wanted and not by_draws
    note = "cut by --max-elements, so judged at the gap its draws detect" if cut else ""
    tolerance = gap if cut or run.samples_only or by_draws else wanted
    return replace(row, tolerance=tolerance, detectable=gap, note=note)
