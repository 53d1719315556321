"""Many runs that look at their draws until all is decided, counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..cases import Case, Reference
from ..decision import Row, overall
from ..looks import Looks, spent
from ..moments import Moments
from ..quantities import JUDGED
from ..run import Measured, Run
from .checks import Check, has_exact_law, stated_share
from .tally import Tally, where_of

Until = Callable[[Case, int], Measured]


class LooksTally(Tally):
    """Counts over runs with looks, each planted gap with looks of its own, on the same draws.

    `looks` plans those of a run, whose theory may be a planted one.
    """

    def __init__(self, run: Run, gaps: Sequence[float], looks: Callable[[Run], Looks]) -> None:
        super().__init__(run, gaps)
        self._looks, self._z = looks, {}  # z at a look that was chosen by z has another law
        looks(run)  # complains of what no look can decide
        self._shares: dict[tuple[int, float] | None, list[float]] = {}

    def add(self, until: Until) -> None:  # type: ignore[override]
        """Decide one run, and once more for every gap; `until` says what a cell's draws give."""
        self.runs += 1
        self._counts[overall(self._decided(self.run, until, None)), None] += 1
        for i in self._of_tests:
            for gap in self._gaps:
                changed = self._with_gap(self._at_tolerance(), i, gap)
                if changed is not None:
                    run = replace(self.run, rows=tuple(changed))
                    rows = self._decided(run, until, (i, gap))
                    self._count_planted(rows, i, gap)

    def _at_tolerance(self) -> list[Row]:
        """The rows as the planner of gaps wants them: what they must call is their tolerance."""
        rates = self.run.rates
        return [
            row
            if rates.within or row.reference.rounded
            else replace(row, tolerance=rates.tolerance_of(row.quantity), detectable=0.0)
            for row in self.run.rows
        ]

    def _decided(self, run: Run, until: Until, key: tuple[int, float] | None) -> list[Row]:
        looks = self._looks(run)
        while cells := looks.cells:
            looks.judge([until(cell.case, cell.draws) for cell in cells])
        made = sum(looks.drawn.values()) / sum(cell.draws for cell in run.cells)
        self._shares.setdefault(key, []).append(made)
        return looks.rows

    def _stated_false_alarm(self) -> Reference:
        rates, tests = self.run.rates, len(self._of_tests)
        exact = any(has_exact_law(self.run.rows[i], rates) for i in self._of_tests)
        low = spent(rates.false_alarm, 1) / tests if exact else 0.0
        return stated_share(low, rates.false_alarm, "at most a, over all looks")

    def checks(self) -> list[Check]:
        """Those of fixed draws, and how many draws were made."""
        return [*super().checks(), *self._of_draws()]

    def _of_draws(self) -> list[Check]:
        nothing = stated_share(None, None, "draws over those of the fixed plan")
        found = []
        for key, shares in self._shares.items():
            row = self.run.rows[0 if key is None else key[0]]
            estimate = JUDGED["mean"].estimate(Moments.of(shares))
            where, gap = ("table", None) if key is None else (where_of(row), key[1])
            check = Check(row.case, "mean", nothing, estimate, check="draws over plan")
            found.append(replace(check, where=where, planted=gap))
        return found
