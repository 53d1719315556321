"""The spine: cells -> blocks -> Moments.

Blocks are measured in batches, so that progress shows and an interruption is prompt; what a block
gives depends on (seed, cell, block index) alone, and blocks merge on the host in block order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..stats.cells import Cell
from ..stats.planning import elements_per_draw
from ..stats.transforms.groups import grouped
from .groups import GroupSums
from .pairs import PairCounts, PairSums
from .parts import Measured, Part, Pass, Tally
from .rows import RowSums

Progress = Callable[[int], None]


def measure(
    cell: Cell, seed: int, devices: Sequence[Any], progress: Progress = lambda elements: None
) -> Measured:
    """Moments of everything that a cell is measured for, keyed by (variable, factor).

    The factor is None for logit moments and counts, which scale exactly afterwards.
    """
    return Sampling(cell, seed, devices, progress).until(cell.draws)


class Sampling:
    """The draws of a cell, block by block; they can be continued, and no full block is redrawn."""

    def __init__(
        self,
        cell: Cell,
        seed: int,
        devices: Sequence[Any],
        progress: Progress = lambda elements: None,
    ) -> None:
        self._devices, self._progress = devices, progress
        self._per_draw = elements_per_draw(cell.case)
        self._passes = [(each, Tally(each.guards())) for each in passes_of(cell, seed)]
        self.block = max(each.block for each, _ in self._passes)

    def until(self, draws: int) -> Measured:
        """What the first `draws` replicates give; a later call asks for as many or more."""
        measured: Measured = {}
        for each, tally in self._passes:
            measured |= self._until(each, tally, draws)
        return measured

    def _until(self, each: Pass, tally: Tally, draws: int) -> Measured:
        full, rest = divmod(draws, each.block)
        while tally.blocks < full:
            blocks = min(each.at_once(max(len(self._devices), 1)), full - tally.blocks)
            tally.add(self._part(each, tally.blocks, blocks, each.block))
            self._progress(blocks * each.block * self._per_draw)
        tally.check()
        if rest:  # for this answer alone: more draws fill the block up, and it is measured anew
            tally = tally.with_last(self._part(each, full, 1, rest))
            self._progress(rest * self._per_draw)
        return each.measured(tally, draws)

    def _part(self, each: Pass, first: int, blocks: int, last: int) -> Part:
        return each.measure(first, blocks, last, self._devices)


def passes_of(cell: Cell, seed: int) -> list[Pass]:
    """The programs that look at a cell, each of which draws its blocks anew."""
    if grouped(cell.case):
        return [GroupSums(cell, seed)]
    if cell.case.n_keys is not None:
        return [RowSums(cell, seed)]
    counts = "counts" in cell.measured
    passes: list[Pass] = [PairCounts(cell, seed)] if counts else []
    if not counts or len(cell.measured) > 1:
        passes.append(PairSums(cell, seed))
    return passes
