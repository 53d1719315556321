"""Judge the user's own logits against the theory of the case they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from ..stats.checks import InputError
from ..stats.decision import Row, decide
from ..stats.planning import Rates
from ..stats.predict import check_verdict_possible, predict
from ..stats.quantities import GROUPS
from ..stats.replicates import judged_row
from ..stats.request import CaseOptions
from ..stats.requested import requested_rows
from .record import make_record, resolved
from .result import Result


@dataclass(frozen=True)
class CheckedCase(CaseOptions):  # noqa: D101
    __doc__ = CaseOptions.__doc__
    dk: tuple[str, ...] = ()
    quantities: Annotated[
        tuple[str, ...],
        Parameter(
            help=f"Which moments to judge: {', '.join(GROUPS['logits'])}; or all of them: logits."
        ),
    ] = ()


@dataclass(frozen=True)
class RateOptions:
    """How the verdict on given logits is made.

    Parameters
    ----------
    tolerance
        Relative gap that must be called a mismatch; without it, the one that the logits detect.
    false_alarm
        Probability that a mismatch is called although every theory is exact, whole table.
    power
        Probability that a gap as large as the tolerance is called a mismatch.
    within
        The theory is meant as an approximation: only a gap beyond the tolerance is a mismatch.

    """

    tolerance: float | None = None
    false_alarm: float = 1e-6
    power: float = 0.999
    within: bool = False


def checked(logits: Any, cases: CaseOptions, options: RateOptions, **source: object) -> Result:
    """Rows for the logits in an array: 1-D, or 3-D replicate x query x key.

    `source` goes into the record's request. Raises InputError for a 2-D array, for values that
    are not finite numbers, and where --dk is not exactly one value.

    Examples:
        >>> cases = CaseOptions(dk=("2",), elements=("rademacher",))
        >>> checked([2.0, 0.0, -2.0, 0.0] * 1000, cases, RateOptions()).verdict
        'match'

    """
    rates = Rates(options.false_alarm, options.power, options.tolerance, options.within)
    asked = requested_rows(cases) if cases.dk else []
    d_ks = {case.d_k for case, _ in asked}
    if len(d_ks) != 1:
        raise InputError(f"check needs one --dk, got {len(d_ks)}; for example --dk 64")
    rows = []
    for case, quantity in asked:
        if quantity not in GROUPS["logits"]:
            raise InputError(
                f"check judges logits, got {quantity}; known: {', '.join(GROUPS['logits'])}"
            )
        check_verdict_possible(case, quantity)
        rows.append(judged_row(Row(case, quantity, predict(case, quantity)), logits))
    decided = decide(rows, rates, samples_only=options.tolerance is None)
    return Result(make_record("check", resolved(cases, options, **source), decided, rates))
