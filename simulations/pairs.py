"""The passes over pairs: power sums of the logit, and counts of all logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..stats.cases import Case
from ..stats.cells import Cell
from ..stats.laws.logit_counts import LogitCounts, count_edges
from ..stats.moments import Moments
from ..stats.planning import elements_per_draw
from . import laws, logits
from .elements import sampler_of
from .guards import Guard
from .parts import Measured, Part, Tally, Variable

BATCH_ELEMENTS = 2e8  # random elements of a batch for one device: about a second on two cores
LOGIT, ABS_LOGIT, OVERFLOW, COUNTS = (
    (name, None) for name in ("logit", "abs_logit", "overflow", "counts")
)


class PairSums:
    """Power sums of each block's logits and of their absolute values."""

    name = "sums"

    def __init__(self, cell: Cell, seed: int) -> None:
        self._case, self._seed = cell.case, seed
        self.block = logits.pairs_in_block(cell.case)

    def at_once(self, n_devices: int) -> int:
        """Blocks between two looks at progress."""
        return batch_of(self._case, self.block, n_devices)

    def measure(self, first: int, blocks: int, last: int, devices: Sequence[Any]) -> Part:
        """Sums of blocks from `first` on, the last of `last` replicates."""
        rows = logits.measure_pairs(self._case, self._seed, first, blocks, last, devices)
        return self.part(first, rows)

    def part(self, first: int, rows: NDArray[np.float64]) -> Part:
        """Rows of `logits.measure_blocks` as the blocks from `first` on."""
        return Part(
            first, len(rows), dict(zip((LOGIT, ABS_LOGIT), logits.split(rows), strict=True))
        )

    def guards(self) -> dict[Variable, Guard]:
        """What looks at the blocks' sums."""
        what = self._case.canonical()
        return {LOGIT: Guard(self.block, lattice=is_lattice(self._case), what=what)}

    def error(self, tally: Tally) -> float | None:
        """Of the variance: sqrt((m_4 / m_2^2 - 1) / N)."""
        logit = tally.moments.get(LOGIT)
        if logit is None or logit.count < 2 or not logit.sums[0] > 0:
            return None
        return math.sqrt(max(logit.standardised(4) - 1.0, 0.0) / logit.count)

    def measured(self, tally: Tally, draws: int) -> Measured:
        """The Moments, and the share of logits that are inf or nan."""
        lost = 1 - tally.moments[LOGIT].count / draws
        overflow = Moments(draws, lost, (draws * lost * (1 - lost),))
        return {**tally.moments, OVERFLOW: overflow}


class PairCounts:
    """Counts of the very same logits; the guards look at the blocks' mean cells."""

    name = "counts"

    def __init__(self, cell: Cell, seed: int) -> None:
        self._case, self._seed = cell.case, seed
        self._edges = count_edges(cell.case)
        self.block = logits.pairs_in_block(cell.case)

    def at_once(self, n_devices: int) -> int:
        """Blocks between two looks at progress."""
        return batch_of(self._case, self.block, n_devices)

    def measure(self, first: int, blocks: int, last: int, devices: Sequence[Any]) -> Part:
        """Sums of blocks from `first` on, the last of `last` replicates."""
        cells, ends = laws.count_pairs(
            self._case, self._edges, self._seed, first, blocks, last, devices
        )
        return Part(
            first,
            blocks,
            seen={COUNTS: laws.block_sums(cells, ends)},
            counts={COUNTS: cells.sum(0)},
            ends=(float(ends[:, 0].min()), float(ends[:, 1].max())),
        )

    def guards(self) -> dict[Variable, Guard]:
        """What looks at the blocks' sums."""
        what = f"{self._case.canonical()}, counts"
        return {COUNTS: Guard(self.block, lattice=is_lattice(self._case), what=what)}

    def error(self, tally: Tally) -> float | None:
        """Relative standard error so far."""
        return None

    def measured(self, tally: Tally, draws: int) -> Measured:
        """What all blocks give."""
        return {COUNTS: LogitCounts(self._edges, tally.counts[COUNTS], *tally.ends)}


def batch_of(case: Case, block: int, n_devices: int) -> int:
    """Blocks of a batch."""
    return max(1, int(n_devices * BATCH_ELEMENTS // (block * elements_per_draw(case))))


def is_lattice(case: Case) -> bool:
    """Whether the logit takes few values, so that two blocks may agree by chance."""
    return all(sampler_of(name)[0].packed for name in (case.elements_q, case.elements_k))
