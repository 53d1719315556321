"""The record of a calibration: a row for each check, with the runs that are behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...stats.calibration.checks import OUR_RATES, Check
from ...stats.calibration.exact_rates import false_alarm_ratio
from ...stats.calibration.options import CalibrationOptions
from ...stats.pivots import clopper_pearson
from ...stats.planning import Rates
from ...stats.request import DecisionOptions
from ...stats.run import Run
from ...stats.sweeps import Asked
from ..record import Record, make_record, plain_data, resolved

CONFIDENCE = 0.95  # of the interval beside a share


def calibration_record(
    checks: Sequence[Check],
    run: Run,
    asked: tuple[Asked, DecisionOptions, CalibrationOptions],
    provenance: Mapping[str, object],
    **chosen: object,
) -> Record:
    """The record of judged checks; its rows have `check`, `where`, `planted`, `runs` and `count`.

    `interval` is that of the share at 95 %, exact (Clopper-Pearson); `ci_low` and `ci_high` are at
    the power of the verdict, as everywhere.
    """
    cases, decision, options = asked
    request = resolved(cases, decision, **chosen)
    request |= {"runs": options.n_runs, "gaps": list(options.planted)}
    record = make_record("calibrate", request, checks, OUR_RATES, provenance)
    record["nominal"] = {
        "false_alarm": run.rates.false_alarm,
        "power": run.rates.power,
        "tests": len({row.test for row in run.rows if row.reference.kind != "none"}),
    }
    record["draws"] = [
        {"d_k": cell.case.d_k, "n_keys": cell.case.n_keys, "draws": cell.draws}
        for cell in run.cells
    ]
    record["computed"] = computed(run)
    for row, check in zip(record["rows"], checks, strict=True):
        row |= _of_runs(check)
    return record


def _of_runs(check: Check) -> Record:
    estimate = check.estimate
    assert estimate is not None
    shown: Record = {
        "check": check.check,
        "where": check.where,
        "planted": check.planted,
        "runs": estimate.draws,
        "count": None,
        "interval": None,
    }
    if check.quantity == "share_of_runs":
        ends = clopper_pearson(estimate.value, estimate.draws, (1 - CONFIDENCE) / 2)
        shown |= {"count": round(estimate.value * estimate.draws), "interval": list(ends)}
    return {name: plain_data(value) for name, value in shown.items()}


def computed(run: Run) -> list[Record]:
    """Actual over nominal rate of the variance's test where it can be computed: normal q and k.

    At the threshold of this table, and at that of the default rate, for the draws of each cell.
    """
    found = {}
    for row in run.rows:
        case = row.case
        plain = case.cell().parameters() == {} and case.n_keys is None and not case.transform
        normal = case.elements == "normal" and case.d_k is not None and case.dtype == "float32"
        if row.quantity not in ("variance", "std") or not plain or not normal or case.weights:
            continue
        assert case.d_k is not None
        draws = next(cell.draws for cell in run.cells if cell.case == case.cell())
        for rates in (run.rates, Rates()):
            tests = len({row.test for row in run.rows if row.reference.kind != "none"})
            ratio = false_alarm_ratio(case.d_k, draws, rates.z_holm(tests))
            found[case.d_k, draws, rates.false_alarm] = ratio
    return [
        {"d_k": d_k, "draws": draws, "false_alarm": rate, "ratio": ratio}
        for (d_k, draws, rate), ratio in found.items()
    ]
