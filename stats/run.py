"""A run before and after the draws: requested rows, planned cells, decided rows. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .cases import Case
from .cells import Cell, plan_cells
from .checks import InputError
from .conventions import factor_after
from .decision import Row, decide
from .laws.logit_counts import LogitCounts
from .laws.references import law_estimate
from .moments import Moments
from .planning import Rates, predicted_seconds, shown_duration
from .predict import check_verdict_possible, predict
from .quantities import QUANTITIES, Estimate, Measurement, Quantity
from .request import DecisionOptions
from .sweeps import Asked, asked_rows
from .transforms.groups import grouped, grouped_estimate

if TYPE_CHECKING:
    from .weights.fixed import Matrices

Measured = Mapping[tuple[str, float | None], Measurement]
LONGEST_SECONDS = 30 * 86400.0


@dataclass(frozen=True)
class Run:
    """What will be drawn for which rows, and how it will be judged."""

    rows: tuple[Row, ...]
    cells: tuple[Cell, ...]
    rates: Rates
    samples_only: bool

    @classmethod
    def planned(
        cls,
        cases: Asked,
        decision: DecisionOptions,
        drawn: Callable[[Case], Matrices] | None = None,
    ) -> Run:
        """The rows that the options ask for, their references and the draws they need.

        `drawn` gives the weights of a cell whose replicates are fresh tokens through one pair of
        them; without it such a cell is refused.

        Raises InputError where a rule is broken, a verdict is impossible or the run would take
        more than 30 days.
        """
        rates, samples = decision.rates(), None if decision.until_decided else decision.draws()
        most = decision.most_draws()
        asked = asked_rows(cases)
        for case, quantity in asked:  # complaints come before anything is computed
            check_verdict_possible(case, quantity)
        rows = tuple(_row(case, quantity, drawn) for case, quantity in asked)
        cells = tuple(plan_cells(rows, rates, samples, decision.element_cap()))
        run = cls(rows, cells, rates, samples is not None and decision.tolerance is None)
        at_most = run if most is None else replace(run, cells=_drawn(cells, most))
        if at_most.seconds > LONGEST_SECONDS:
            draws = max(cell.draws for cell in at_most.cells)
            raise InputError(
                f"a run may take 30 days, got {draws:.3g} draws that take about "
                f"{shown_duration(at_most.seconds)}; give fewer --"
                f"{'samples' if most is None else 'max-samples'}, a lower --max-elements or "
                "fewer --dk"
            )
        return run

    @property
    def elements(self) -> int:
        """Random elements that all cells draw."""
        return sum(cell.elements for cell in self.cells)

    @property
    def seconds(self) -> float:
        """Time the draws will take on two ordinary cores."""
        return predicted_seconds(self.elements)

    def decided(
        self, measured: Sequence[Mapping[tuple[str, float | None], Measurement]], accepted: int = 0
    ) -> list[Row]:
        """The rows with their estimates and verdicts; `measured` is in the order of the cells.

        `accepted` tests of the same family are known not to be rejected.
        """
        of_cell = {c.case: (c, m) for c, m in zip(self.cells, measured, strict=True)}
        rows = []
        for row in self.rows:
            cell, moments = of_cell[row.case.cell()]
            estimate = estimate_of(row, moments)
            lost = cell.draws - estimate.draws if row.case.rounds_rows else 0
            estimate = replace(estimate, lost=lost)
            reference = row.reference.at(cell.draws) if row.reference.at else row.reference
            row = replace(row, reference=reference, estimate=estimate, capped=cell.capped)
            rows.append(row)
        return decide(rows, self.rates, samples_only=self.samples_only, accepted=accepted)


def _drawn(cells: Sequence[Cell], draws: int) -> tuple[Cell, ...]:
    return tuple(replace(cell, draws=draws) for cell in cells)


def _row(case: Case, quantity: str, drawn: Callable[[Case], Matrices] | None) -> Row:
    fixed = case.weights is not None and case.ensemble == "tokens" and case.n_keys is None
    matrices = drawn(case.cell()) if fixed and drawn is not None else None
    return Row(case, quantity, predict(case, quantity, matrices))


def estimate_of(row: Row, moments: Measured) -> Estimate:
    """A row's estimate from its cell's Moments; logit moments are scaled exactly."""
    quantity = QUANTITIES[row.quantity]
    factor = factor_after(row.case)
    if quantity.group == "law":
        counts = moments[quantity.measured, None]
        assert isinstance(counts, LogitCounts)
        return law_estimate(row.case.cell(), row.quantity, factor, counts)
    if quantity.group == "logits" and grouped(row.case):
        return grouped_estimate(row.case, row.quantity, moments)
    if quantity.group == "logits":
        unscaled = moments[quantity.measured, None]
        assert isinstance(unscaled, Moments)
        return _of_finite(quantity, unscaled.scaled(factor))
    return _of_finite(quantity, moments[quantity.measured, factor])


def _of_finite(quantity: Quantity, measured: Measurement) -> Estimate:
    """The estimate, or nan where all but one replicate, or all, came out as inf or nan."""
    if isinstance(measured, Moments) and measured.count < 2:
        return Estimate(measured.count, math.nan, math.nan)
    return quantity.estimate(measured)
