"""Deciding while drawing: looks at doubled draws, each of which spends part of the error rates.

What can go wrong: a test that is looked at until it alarms will alarm. Look k therefore has a
false-alarm rate of `a / (k (k + 1))`, which over all looks sums to a, and Holm's step-down runs
within it; the chance to call a gap of the tolerance a match is spent in the same way. A row that
is decided stays as it is, and a cell is drawn on only while one of its rows is open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from .cases import Case
from .cells import Cell
from .checks import InputError
from .decision import Row, distinct_tests
from .planning import Rates, draws_floor, elements_per_draw
from .quantities import QUANTITIES
from .request import DecisionOptions
from .run import Measured, Run

FIRST_SHARE = 1 / 8  # of the draws of the fixed plan: three doublings reach it


def spent(rate: float, look: int) -> float:
    """The part of a rate that look k = 1, 2, ... has: `rate / (k (k + 1))`, which sums to the rate.

    Examples:
        >>> spent(0.01, 1), round(sum(spent(0.01, k) for k in range(1, 1000)), 6)
        (0.005, 0.00999)

    """
    return rate / (look * (look + 1))


def rates_at(rates: Rates, look: int) -> Rates:
    """The error rates of one look.

    Examples:
        >>> rates_at(Rates(), 2).power
        0.9998333333333334

    """
    return replace(
        rates, false_alarm=spent(rates.false_alarm, look), power=1 - spent(1 - rates.power, look)
    )


def most_draws(case: Case, decision: DecisionOptions) -> int:
    """The draws of a cell after which nothing more is drawn: `max_samples`, else the cap."""
    most = decision.most_draws()
    cap = max(int(decision.element_cap() // elements_per_draw(case)), 2)
    return cap if most is None else most


class Looks:
    """What is open, how much to draw for it, and what each look decides.

    Args:
        run: the fixed plan, whose rows and rates these are.
        block: draws of a full block of a case: looks are whole blocks, so that none is redrawn.
        most: draws of a cell after which what is still open stays undecided.
        first: draws at the first look, or None for a share of the plan's, never below the floor
            under which a row's law is not trusted.

    """

    def __init__(
        self,
        run: Run,
        block: Callable[[Case], int],
        most: Callable[[Case], int],
        first: int | None = None,
    ) -> None:
        if all(row.reference.kind == "none" for row in run.rows):
            raise InputError("nothing to decide: no row has an exact theory; drop --until-decided")
        for row in run.rows:
            if QUANTITIES[row.quantity].by_draws and run.rates.tolerance is None:
                raise InputError(
                    f"{row.quantity} has a tolerance by its draws alone, got --until-decided; "
                    "give --tolerance"
                )
        self._run, self.number = run, 1
        self.rows = list(run.rows)
        self.drawn = {cell.case: 0 for cell in run.cells}
        self._most = {cell.case: most(cell.case) for cell in run.cells}
        self._draws = {c.case: self._first(c, block(c.case), first) for c in run.cells}

    def _first(self, cell: Cell, block: int, given: int | None) -> int:
        compared = [row for row in self._of(cell) if row.reference.kind != "none"]
        if not compared:
            return cell.draws
        z = rates_at(self._run.rates, 1).z_holm(distinct_tests(self._run.rows))
        floors = (draws_floor(row.quantity, row.reference, z) for row in compared)
        first = given or max(cell.draws * FIRST_SHARE, *floors)
        return min(math.ceil(first / block) * block, self._most[cell.case])

    def _of(self, cell: Cell) -> list[Row]:
        return [row for row in self.rows if row.case.cell() == cell.case]

    @property
    def cells(self) -> list[Cell]:
        """The cells that are drawn on, with their draws in all; none where all is decided."""
        return [
            replace(cell, draws=self._draws[cell.case], capped=False)  # no tolerance is widened
            for cell in self._run.cells
            if self._is_open(cell)
        ]

    def _is_open(self, cell: Cell) -> bool:
        verdicts = {row.verdict for row in self._of(cell)}
        return None in verdicts or ("undecided" in verdicts and self._draws[cell.case] > 0)

    def judge(self, measured: Sequence[Measured]) -> None:
        """Decide what is open, from what `cells` measured; then plan the next look."""
        cells, rates = self.cells, rates_at(self._run.rates, self.number)
        drawn = {cell.case for cell in cells}
        places = [
            i
            for i, row in enumerate(self.rows)
            if row.case.cell() in drawn and row.verdict not in ("match", "mismatch")
        ]
        rows = tuple(self._run.rows[i] for i in places)
        look = replace(self._run, rows=rows, cells=tuple(cells), rates=rates, samples_only=False)
        decided = look.decided(measured, accepted=self._accepted(rows))
        for i, row in zip(places, decided, strict=True):
            self.rows[i] = _of_look(row, self.number)
        for cell in cells:
            most, self.drawn[cell.case] = self._most[cell.case], cell.draws
            self._draws[cell.case] = min(2 * cell.draws, most) if cell.draws < most else 0
        self.number += bool(self.cells)

    def design(self) -> dict[str, object]:
        """What the record says of the looks: their number, what each spent, the draws in all."""
        looks = [(k, rates_at(self._run.rates, k)) for k in range(1, self.number + 1)]
        return {
            "looks": [
                {"look": k, "false_alarm": rates.false_alarm, "power": rates.power}
                for k, rates in looks
            ],
            "draws_planned": sum(cell.draws for cell in self._run.cells),
            "draws_made": sum(self.drawn.values()),
        }

    def _accepted(self, rows: Sequence[Row]) -> int:
        """Tests of the family that earlier looks decided as a match: Holm counts them in."""
        known = {row.test for row in rows}
        known |= {row.test for row in self.rows if row.verdict == "mismatch"}
        return len({row.test for row in self.rows if row.verdict == "match"} - known)


def _of_look(row: Row, look: int) -> Row:
    """The row in the run's terms: p-values for its false-alarm rate, and what it can detect.

    Whatever look decides, a gap of the tolerance is called a match with what power leaves at most.
    """
    p, detectable = row.p_adjusted, row.detectable
    if row.verdict in ("match", "mismatch") and row.tolerance is not None:
        detectable = row.tolerance
    adjusted = None if p is None else min(1.0, p * look * (look + 1))
    return replace(row, look=look, p_adjusted=adjusted, detectable=detectable)
