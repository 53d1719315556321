"""The spine: cells -> blocks -> Moments.

Blocks are measured in batches, so that progress shows and an interruption is prompt; what a block
gives depends on (seed, cell, block index) alone, and blocks merge on the host in block order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..stats.cells import Cell
from ..stats.laws.logit_counts import LogitCounts, count_edges
from ..stats.moments import Moments
from ..stats.planning import elements_per_draw
from ..stats.quantities import Measurement
from ..stats.transforms.groups import grouped
from . import groups, laws, logits, rows
from .elements import sampler_of
from .guards import check_blocks

Measured = dict[tuple[str, float | None], Measurement]
Progress = Callable[[int], None]

BATCH_ELEMENTS = 2e8  # random elements between two looks at progress: about a second on two cores


def measure(
    cell: Cell, seed: int, devices: Sequence[Any], progress: Progress = lambda elements: None
) -> Measured:
    """Moments of everything that a cell is measured for, keyed by (variable, factor).

    The factor is None for logit moments and counts, which scale exactly afterwards.
    """
    if grouped(cell.case):
        return groups.measure_groups(cell, seed, devices, progress)
    if cell.case.n_keys is not None:
        return rows.measure_cell(cell, seed, devices, progress)
    measured: Measured = {}
    if "counts" in cell.measured:
        measured["counts", None] = counted(cell, seed, devices, progress)
    if set(cell.measured) - {"counts"}:
        measured |= _moments(cell, seed, devices, progress)
    return measured


def counted(cell: Cell, seed: int, devices: Sequence[Any], progress: Progress) -> LogitCounts:
    """Counts of all logits of a cell; the guards look at its blocks' mean cells."""
    edges, block = count_edges(cell.case), logits.pairs_in_block(cell.case)
    total, sums = None, []
    for first, n_blocks, last in batches(cell, block):
        found = laws.count_pairs(cell.case, edges, seed, first, n_blocks, last, devices)
        sums.append(laws.block_sums(*found))
        part = laws.to_counts(edges, *found)
        total = part if total is None else total.merge(part)
        progress(((n_blocks - 1) * block + last) * elements_per_draw(cell.case))
    assert total is not None
    what = f"{cell.case.canonical()}, counts"
    check_blocks(np.concatenate(sums), block, lattice=is_lattice(cell), what=what)
    return total


def _moments(cell: Cell, seed: int, devices: Sequence[Any], progress: Progress) -> Measured:
    parts, block = [], logits.pairs_in_block(cell.case)
    for first, n_blocks, last in batches(cell, block):
        parts.append(logits.measure_pairs(cell.case, seed, first, n_blocks, last, devices))
        progress(((n_blocks - 1) * block + last) * elements_per_draw(cell.case))
    blocks = np.concatenate(parts)
    count, centre, first, *sums = blocks.T[: 2 + logits.ORDER]
    check_blocks(
        np.column_stack([count, centre + first / np.maximum(count, 1), *sums]),
        block,
        lattice=is_lattice(cell),
        what=cell.case.canonical(),
    )
    moments = [logits.to_moments(row) for row in blocks]
    measured: Measured = {
        (name, None): reduce(Moments.merge, (part[name] for part in moments))
        for name in ("logit", "abs_logit")
    }
    lost = 1 - count.sum() / cell.draws  # logits that are inf or nan
    measured["overflow", None] = Moments(cell.draws, lost, (cell.draws * lost * (1 - lost),))
    return measured


def batches(cell: Cell, block: int) -> Iterator[tuple[int, int, int]]:
    """(first block, number of blocks, draws in the last of them) of each batch of a cell."""
    total = -(-cell.draws // block)
    size = max(1, int(BATCH_ELEMENTS // (block * elements_per_draw(cell.case))))
    for first in range(0, total, size):
        n_blocks = min(size, total - first)
        at_end = first + n_blocks == total
        yield first, n_blocks, cell.draws - (total - 1) * block if at_end else block


def is_lattice(cell: Cell) -> bool:
    """Whether the logit takes few values, so that two blocks may agree by chance."""
    names = (cell.case.elements_q, cell.case.elements_k)
    return all(sampler_of(name)[0].packed for name in names)
