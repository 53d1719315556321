"""Decide whether theory matches simulation, with stated error rates.

What can go wrong, and what is done about it: many rows (Holm over the distinct tests); a skewed
S^2 (Satterthwaite's chi-square law, not a z); a share near 0 or 1 (binomial tails, not a normal
interval); an error bar estimated from the same draws (the reference's own standard error where it
is known); a gap that no run of this size could see (`undecided`, not `match`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from . import pivots
from .cases import Case, Reference
from .checks import InputError
from .conventions import factor_after
from .planning import NUMERIC_FLOOR, Rates, detectable_by, draws_floor
from .quantities import GROUPS, JUDGED, Estimate

DEFAULT_RATES = Rates()
Verdict = Literal["match", "mismatch", "undecided", "measured"]
BELOW_FLOOR = "below the floor of"  # how the note of a row begins whose rates are not kept
WIDEST_DETECTABLE = 0.5  # a run that cannot see half the value says nothing


@dataclass(frozen=True, slots=True)
class Row:
    """One line of any table: case, quantity, reference, estimate, verdict.

    `gap`, `tolerance` and `detectable` are on the judged scale (fractions of the reference's
    unit); `mcse` and the interval are in the estimate's unit. `decide` fills what follows
    `capped`.
    """

    case: Case
    quantity: str
    reference: Reference
    estimate: Estimate | None = None
    capped: bool = False
    gap: float | None = None
    z: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    tolerance: float | None = None
    detectable: float | None = None
    verdict: Verdict | None = None
    note: str = ""
    look: int | None = None

    @property
    def test(self) -> tuple[object, ...]:
        """Identity of the row's distinct test: same draws, same standardised deviation.

        A logit moment's deviation does not depend on the scale; a row statistic's does.
        """
        quantity = JUDGED[self.quantity]
        factor = None if quantity.of_pairs else factor_after(self.case)
        return self.case.cell(), quantity.deviation, factor


def distinct_tests(rows: Iterable[Row]) -> int:
    """Tests in a table that are compared and not the same deviation twice."""
    return len({row.test for row in rows if row.reference.kind != "none"})


def decide(
    rows: Sequence[Row],
    rates: Rates = DEFAULT_RATES,
    *,
    samples_only: bool = False,
    accepted: int = 0,
) -> list[Row]:
    """Rows with their verdicts, judged together (Holm at the family's false-alarm rate).

    `samples_only`: the draws were given and no tolerance was, so that each row's tolerance is
    what its draws detect. `accepted`: further tests of the family, which are not rejected.

    Examples:
        >>> from verify_variance.stats.predict import predict
        >>> case = Case(d_k=64)
        >>> row = Row(case, "std", predict(case, "std"), Estimate(356_110, 8.004, 5.79))
        >>> decide([row])[0].verdict
        'match'

    """
    tests = distinct_tests(rows) + accepted
    judged = [_compared(row, rates, tests, samples_only) for row in rows]
    identities = [row.test for row in judged]
    p_values: dict[tuple[object, ...], float] = {}
    for row, test in zip(judged, identities, strict=True):
        if row.p_value is not None:
            p_values[test] = min(row.p_value, p_values.get(test, 1.0))
    adjusted = _holm(p_values, accepted)
    return [
        row
        if row.p_value is None
        # rows of one test differ in the slack of `within`: none is rejected beyond its own p-value
        else _verdict(replace(row, p_adjusted=max(adjusted[test], row.p_value)), rates, tests)
        for row, test in zip(judged, identities, strict=True)
    ]


def overall(rows: Iterable[Row]) -> Verdict:
    """A table's verdict: mismatch if any row is, else undecided if any is, else match."""
    verdicts = {row.verdict for row in rows}
    for verdict in ("mismatch", "undecided", "match"):
        if verdict in verdicts:
            return verdict
    return "measured"


def _compared(row: Row, rates: Rates, tests: int, samples_only: bool) -> Row:
    """The row with gap, z, p, interval and what it could have detected."""
    estimate, reference = row.estimate, row.reference
    if estimate is None:
        raise ValueError(f"the row of {row.quantity} has no estimate to judge")
    if not (math.isfinite(estimate.value) and math.isfinite(estimate.sd)):
        if estimate.lost:
            return _broken(row, estimate)
        raise InputError(
            f"the estimate of {row.quantity} must be finite, got {estimate.value} "
            f"with sd {estimate.sd}; take a smaller sigma or float64"
        )
    sd = max(reference.replicate_sd or 0.0, estimate.sd)
    error = sd / math.sqrt(estimate.draws)
    quantity, miss = JUDGED[row.quantity], 1 - rates.power
    low, high = estimate.value - rates.z_power * error, estimate.value + rates.z_power * error
    if quantity.test == "share":
        low, high = pivots.clopper_pearson(estimate.value, estimate.draws, miss)
    elif reference.sample_law is not None:
        low, high = reference.sample_law.interval(estimate.value, miss)
    row = replace(row, ci_low=low, ci_high=high)
    if reference.kind == "none" or reference.value is None:
        return replace(row, verdict="measured")
    detectable = detectable_by(row.quantity, reference, estimate.draws, rates, tests, estimate.sd)
    wanted = rates.tolerance_of(row.quantity)
    widened = row.capped and detectable > wanted
    by_draws = samples_only or (quantity.by_draws and rates.tolerance is None)
    # below the numeric floor rounding would be judged, not theory
    tolerance = max(detectable, NUMERIC_FLOOR) if by_draws or widened else wanted
    within = rates.within or reference.rounded
    pivot = pivots.judge(row.quantity, estimate, reference, tolerance if within else 0.0)
    floor = draws_floor(row.quantity, reference, rates.z_holm(tests))
    notes = [
        "judged at the gap its draws detect" if widened and not by_draws else "",
        f"{BELOW_FLOOR} {floor:.3g} draws" if estimate.draws < floor else "",
    ]
    return replace(
        row,
        gap=pivot.gap,
        z=pivot.z,
        p_value=pivot.p_value,
        tolerance=tolerance,
        detectable=detectable,
        note="; ".join(note for note in notes if note),
    )


def _holm(
    p_values: dict[tuple[object, ...], float], accepted: int
) -> dict[tuple[object, ...], float]:
    """Holm's step-down adjustment (1979): running maximum of `(m - i) p_(i)`, at most 1."""
    adjusted, worst, tests = {}, 0.0, len(p_values) + accepted
    for i, (test, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        worst = max(worst, min(1.0, (tests - i) * p))
        adjusted[test] = worst
    return adjusted


def _verdict(row: Row, rates: Rates, tests: int) -> Row:
    assert row.gap is not None
    assert row.detectable is not None
    assert row.tolerance is not None
    assert row.p_adjusted is not None
    rejected = row.p_adjusted <= rates.false_alarm and abs(row.gap) > _numeric_floor(row)
    # an extreme is one logit of all: it says what it can see, and never half of itself
    extreme = row.quantity in GROUPS["extremes"]
    if row.estimate is not None and row.estimate.lost:
        return _broken(row, row.estimate)
    if row.detectable > WIDEST_DETECTABLE and not extreme:
        return _noted(row, "undecided", "too few draws to see a gap of half the unit")
    if rejected:
        return replace(row, verdict="mismatch")
    if not _interval_inside(row, rates):
        return replace(row, verdict="undecided")
    if _nothing_would_match(row):
        row = replace(
            row, note="; ".join(filter(None, [row.note, "a value of 0 would match as well"]))
        )
    within = rates.within or row.reference.rounded
    if within and not _agrees_exactly(row, rates.false_alarm / tests):
        return _noted(row, "match", "differs from the theory, by less than the tolerance")
    return replace(row, verdict="match")


def _nothing_would_match(row: Row) -> bool:
    """Whether the tolerance is as large as the value itself."""
    assert row.tolerance is not None
    low, high = pivots.bounds(row.reference)
    nearest = max(low, -high, 0.0)
    return 0.0 < nearest <= row.tolerance * row.reference.unit


def _numeric_floor(row: Row) -> float:
    """Rounding of the logit, on the judged scale.

    In a tail beyond z sd the share moves by z times the hazard, which is near z: about z^2.
    """
    edge = JUDGED[row.quantity].edge
    return NUMERIC_FLOOR * (edge**2 * pivots.bounds(row.reference)[1] if edge else 1.0)


def _broken(row: Row, estimate: Estimate) -> Row:
    """A theory of finite numbers is wrong where some came out as inf or nan."""
    drawn = estimate.draws + estimate.lost
    of_pairs = JUDGED[row.quantity].of_pairs
    what = "logits" if of_pairs else "rows"
    rows = "take --softmax stable" if row.case.softmax == "naive" else "take a wider dtype"
    way = "scale q first, or use bfloat16" if of_pairs else rows
    said = f"{estimate.lost} of {drawn} {what} are inf or nan and left out; {way}"
    unjudged = replace(row, gap=None, z=None, p_value=None, p_adjusted=None)
    return _noted(unjudged, "mismatch", said)


def _noted(row: Row, verdict: Verdict, note: str) -> Row:
    return replace(row, verdict=verdict, note="; ".join(filter(None, [row.note, note])))


def _interval_inside(row: Row, rates: Rates) -> bool:
    """Whether the whole interval lies within the tolerance of the reference."""
    assert row.tolerance is not None
    assert row.ci_low is not None
    assert row.ci_high is not None
    low, high = pivots.bounds(row.reference)
    slack = row.tolerance * row.reference.unit
    rounding = 1e-12 * max(abs(low), abs(high), slack)
    return low - slack - rounding <= row.ci_low and row.ci_high <= high + slack + rounding


def _agrees_exactly(row: Row, false_alarm: float) -> bool:
    assert row.estimate is not None
    pivot = pivots.judge(row.quantity, row.estimate, row.reference, 0.0)
    return pivot.p_value > false_alarm or abs(pivot.gap) <= _numeric_floor(row)
