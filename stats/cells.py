"""From table rows to the cells that must be drawn for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .cases import Case
from .conventions import factor_after
from .decision import Row, distinct_tests
from .planning import MAX_ELEMENTS, Rates, elements_per_draw, plan_draws
from .quantities import QUANTITIES


@dataclass(frozen=True, slots=True)
class Cell:
    """What is drawn once and measured for all of its rows.

    `case` has no scale; `factors` are those that its row statistics are evaluated at, on the same
    draws; `measured` names the variables whose Moments are wanted.
    """

    case: Case
    draws: int
    capped: bool
    factors: tuple[float, ...]
    measured: tuple[str, ...]

    @property
    def elements(self) -> int:
        """Random elements that the cell draws; its counts draw them again."""
        return self.draws * elements_per_draw(self.case) * self.passes

    @property
    def passes(self) -> int:
        """Times that the cell's draws are made: a program for power sums, one for counts."""
        counts = "counts" in self.measured
        return counts + (not counts or len(self.measured) > 1)


def plan_cells(
    rows: Sequence[Row],
    rates: Rates,
    samples: int | None = None,
    max_elements: float = MAX_ELEMENTS,
) -> list[Cell]:
    """The cells behind a table, in the order in which its rows need them."""
    tests = distinct_tests(rows)
    groups: dict[Case, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.case.cell(), []).append(row)
    return [
        _cell(case, group, rates, tests, samples, max_elements) for case, group in groups.items()
    ]


def _cell(
    case: Case,
    rows: Sequence[Row],
    rates: Rates,
    tests: int,
    samples: int | None,
    max_elements: float,
) -> Cell:
    planned = [(row.quantity, row.reference) for row in rows]
    draws, capped = (
        plan_draws(case, planned, rates, tests, max_elements)
        if samples is None
        else (samples, False)
    )
    of_rows = [row for row in rows if not QUANTITIES[row.quantity].of_pairs]
    factors = dict.fromkeys(factor_after(row.case) for row in of_rows)
    measured = dict.fromkeys(QUANTITIES[row.quantity].measured for row in rows)
    return Cell(case, draws, capped, tuple(factors), tuple(measured))
