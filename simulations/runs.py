"""Many runs of one table: what `measure` gives for every seed, several seeds in one call.

A run alone is short, so that starting its programs would take longer than its draws. Blocks bring
their own key, hence one call measures those of many runs, and each run has the bits that it has
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..stats.calibration.looks_tally import LooksTally
from ..stats.calibration.tally import Tally
from ..stats.cells import Cell
from ..stats.request import DecisionOptions
from ..stats.run import Run
from ..stats.transforms.groups import grouped
from . import logits
from .guards import Guard
from .looks import planned_looks, sampled
from .pairs import PairSums, is_lattice
from .parts import Measured
from .parts import Tally as Blocks
from .sweep import measure

CALL_ELEMENTS = 4e8  # random elements of one call: about a second on two cores
MOST_RUNS = 1024


def tallied(
    run: Run,
    decision: DecisionOptions,
    gaps: Sequence[float],
    seeds: Sequence[int],
    devices: Sequence[Any],
    progress: Callable[[int], None],
) -> Tally:
    """One run for each seed, decided and counted; `progress` hears of the elements drawn.

    Raises InputError before anything is drawn.
    """
    if decision.until_decided:
        looks = LooksTally(run, gaps, lambda own: planned_looks(own, decision))
        progress(0)
        for seed in seeds:
            looks.add(sampled(run, seed, devices, lambda elements: None))
            progress(run.elements)
        return looks
    tally = Tally(run, gaps)
    progress(0)
    for measured in measure_runs(run.cells, seeds, devices):
        tally.add(measured)
        progress(run.elements)
    return tally


def measure_runs(
    cells: Sequence[Cell], seeds: Sequence[int], devices: Sequence[Any]
) -> Iterator[list[Measured]]:
    """For each seed in order what all cells measure, with the bits of `sweep.measure`.

    At the end the guards look at the blocks of all runs together: BrokenGenerator where two of
    them share draws.
    """
    elements = max(sum(cell.elements for cell in cells), 1)
    step = int(min(max(CALL_ELEMENTS // elements, 1), MOST_RUNS))
    of_cells = [_OfPairs(cell) if _is_of_pairs(cell) else _OneByOne(cell) for cell in cells]
    for start in range(0, len(seeds), step):
        some = seeds[start : start + step]
        yield from map(list, zip(*(each.measure(some, devices) for each in of_cells), strict=True))
    for each in of_cells:
        each.check()


def _is_of_pairs(cell: Cell) -> bool:
    """Whether nothing but power sums of pairs is asked for, by a program without a seed in it."""
    case = cell.case
    of_seed = case.weights is not None and case.ensemble == "tokens"
    rows = case.n_keys is not None or "counts" in cell.measured
    return not (of_seed or rows or grouped(case))


class _OneByOne:
    """A cell whose runs are measured like any other, with guards of their own."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def measure(self, seeds: Sequence[int], devices: Sequence[Any]) -> Iterator[Measured]:
        return (measure(self._cell, seed, devices) for seed in seeds)

    def check(self) -> None:
        pass


class _OfPairs:
    """A cell of pairs: the blocks of several runs in one table."""

    def __init__(self, cell: Cell) -> None:
        self._cell, block = cell, logits.pairs_in_block(cell.case)
        self._blocks = -(-cell.draws // block)
        self._last = cell.draws - (self._blocks - 1) * block
        what = f"{cell.case.canonical()}, all runs"
        size = min(block, cell.draws)
        self._guard = Guard(size, lattice=is_lattice(cell.case), what=what)

    def measure(self, seeds: Sequence[int], devices: Sequence[Any]) -> Iterator[Measured]:
        case, n = self._cell.case, self._blocks
        table = [logits.block_table(case, seed, 0, n, self._last) for seed in seeds]
        sums = logits.measure_blocks(case, 0, np.concatenate(table), devices)
        self._guard.add(logits.split(sums)[0])
        for seed, rows in zip(seeds, sums.reshape(len(seeds), n, -1), strict=True):
            blocks, each = Blocks({}), PairSums(self._cell, seed)
            blocks.add(each.part(0, rows))
            yield each.measured(blocks, self._cell.draws)

    def check(self) -> None:
        self._guard.check()
