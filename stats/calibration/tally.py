"""Many runs of one table, decided one by one and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..cases import Reference
from ..checks import InputError
from ..decision import Row, decide, overall
from ..run import Measured, Run
from .checks import (
    Check,
    has_exact_law,
    judged_checks,
    law_checks,
    share_check,
    stated_false_alarm,
    stated_share,
)
from .planted import planted_row

Planted = tuple[int, float]  # the place of a row in the table, and its signed gap


class Tally:
    """Counts over runs of `run`, each with its own draws; `gaps` are planted on both sides.

    Examples:
        A table that calls a mismatch in every run is no better than its rate says:

        >>> from verify_variance.stats.quantities import Moments
        >>> from verify_variance.stats.request import CaseOptions, DecisionOptions
        >>> run = Run.planned(CaseOptions(dk=("16",)), DecisionOptions(false_alarm=0.01))
        >>> tally = Tally(run, ())
        >>> for i in range(40):
        ...     tally.add([{("logit", None): Moments(190620, 0.0, (190619 * 17.0, 0.0, 1.6e8))}])
        >>> tally.judged()[0].verdict
        'mismatch'

    """

    def __init__(self, run: Run, gaps: Sequence[float]) -> None:
        first = {row.test: i for i, row in reversed(list(enumerate(run.rows)))}
        self.run, self.runs = run, 0
        self._of_tests = sorted(i for i in first.values() if run.rows[i].reference.kind != "none")
        if not self._of_tests:
            raise InputError("nothing to calibrate: no row has an exact theory; name others")
        self._gaps = [sign * gap for gap in gaps for sign in (1, -1)]
        self._counts: Counter[tuple[str, Planted | None]] = Counter()
        self._planted: Counter[Planted] = Counter()
        self._z: dict[int, list[float]] = {
            i: [] for i in self._of_tests if has_exact_law(run.rows[i], run.rates)
        }

    def add(self, measured: Sequence[Measured]) -> None:
        """Decide one run, and once more for every planted gap; `measured` as `Run.decided`."""
        rows = self.run.decided(measured)
        self.runs += 1
        self._counts[overall(rows), None] += 1
        for i, values in self._z.items():
            z = rows[i].z
            assert z is not None
            values.append(z)
        for i in self._of_tests:
            for gap in self._gaps:
                changed = self._with_gap(rows, i, gap)
                if changed is not None:
                    only = self.run.samples_only
                    self._count_planted(decide(changed, self.run.rates, samples_only=only), i, gap)

    def _with_gap(self, rows: Sequence[Row], i: int, gap: float) -> list[Row] | None:
        """The table with the theory of one test wrong and every other exact."""
        wrong = {
            j: planted_row(row, gap, self.run.rates)
            for j, row in enumerate(rows)
            if row.test == rows[i].test
        }
        return None if wrong[i] is None else [wrong.get(j) or row for j, row in enumerate(rows)]

    def _count_planted(self, rows: Sequence[Row], i: int, gap: float) -> None:
        self._planted[i, gap] += 1
        self._counts[str(rows[i].verdict), (i, gap)] += 1

    def judged(self) -> list[Check]:
        """Every check with its verdict: false alarms, the law of z, planted gaps, undecided."""
        return judged_checks(self.checks())

    def checks(self) -> list[Check]:
        """The same, not judged yet."""
        return [*self._of_table(), *self._of_laws(), *self._of_planted()]

    def _stated_false_alarm(self) -> Reference:
        return stated_false_alarm(self.run.rows, self.run.rates)

    def _of_table(self) -> list[Check]:
        case, measured = self.run.rows[0].case, stated_share(None, None, "not stated")
        return [
            share_check(check, "table", case, self._counts[verdict, None], self.runs, reference)
            for check, verdict, reference in (
                ("false alarm", "mismatch", self._stated_false_alarm()),
                ("undecided", "undecided", measured),
            )
        ]

    def _of_laws(self) -> list[Check]:
        return [
            check
            for i, values in self._z.items()
            for check in law_checks(self.run.rows[i], where_of(self.run.rows[i]), values)
        ]

    def _of_planted(self) -> list[Check]:
        checks, power = [], self.run.rates.power
        called, passed = (
            stated_share(power, 1.0, "power"),
            stated_share(0.0, 1 - power, "1 - power"),
        )
        smaller = stated_share(None, None, "below the gap that power is about")
        for (i, gap), runs in self._planted.items():
            row = self.run.rows[i]
            for check, verdict, stated in (
                ("gap called", "mismatch", called),
                ("gap passed", "match", passed),
            ):
                stated = stated if abs(gap) >= 1 else smaller
                count = self._counts[verdict, (i, gap)]
                checks.append(share_check(check, where_of(row), row.case, count, runs, stated, gap))
        return checks


def where_of(row: Row) -> str:
    """A row in few words: its quantity, and what tells its case apart."""
    case = row.case
    parts = [
        row.quantity,
        "" if case.d_k is None else f"d_k {case.d_k}",
        "" if case.n_keys is None else f"keys {case.n_keys}",
        "" if case.elements == "normal" else case.elements,
        "" if case.scale == "none" else case.scale,
        *(f"{name} {value}" for name, value in case.parameters().items()),
    ]
    return ", ".join(filter(None, parts))
