"""Drawing until every row is decided: the looks of `stats.looks`, on blocks that are continued."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..stats.cases import Case
from ..stats.looks import Looks, most_draws
from ..stats.request import DecisionOptions
from ..stats.run import Run
from .parts import Measured
from .sweep import Place, Progress, Sampling

Until = Callable[[Case, int], Measured]
"""What the first so many draws of a cell give."""


def sampled(run: Run, seed: int, place: Place | Sequence[Any], progress: Progress) -> Until:
    """The cells of a run, each drawn as far as somebody asked; no full block is drawn twice."""
    cells = {cell.case: Sampling(cell, seed, place, progress) for cell in run.cells}
    known: dict[tuple[Case, int], Measured] = {}

    def until(case: Case, draws: int) -> Measured:
        if (case, draws) not in known:
            known[case, draws] = cells[case].until(draws)
        return known[case, draws]

    return until


def planned_looks(run: Run, decision: DecisionOptions) -> Looks:
    """The looks at a run, of whole blocks."""
    blocks = {cell.case: Sampling(cell, 0, ()).block for cell in run.cells}
    most = {cell.case: most_draws(cell.case, decision) for cell in run.cells}
    return Looks(run, blocks.__getitem__, most.__getitem__, decision.draws())


def looked(looks: Looks, until: Until) -> Looks:
    """The looks, after all that is drawn for them."""
    while cells := looks.cells:
        looks.judge([until(cell.case, cell.draws) for cell in cells])
    return looks
