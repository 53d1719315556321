"""Many runs of one table: what `measure` gives for every seed, several seeds in one call.

A run alone is short, so that starting its programs would take longer than its draws. Blocks bring
their own key, hence one call measures those of many runs, and each run has the bits that it has
alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..stats.cells import Cell
from ..stats.moments import Moments
from ..stats.transforms.groups import grouped
from . import logits
from .parts import Measured
from .sweep import measure

CALL_ELEMENTS = 4e8  # random elements of one call: about a second on two cores
MOST_RUNS = 1024


def measure_runs(
    cells: Sequence[Cell], seeds: Sequence[int], devices: Sequence[Any]
) -> Iterator[list[Measured]]:
    """For each seed in order what all cells measure, with the bits of `sweep.measure`."""
    elements = max(sum(cell.elements for cell in cells), 1)
    step = int(min(max(CALL_ELEMENTS // elements, 1), MOST_RUNS))
    for start in range(0, len(seeds), step):
        some = seeds[start : start + step]
        by_cell = [_measured(cell, some, devices) for cell in cells]
        yield from map(list, zip(*by_cell, strict=True))


def _measured(cell: Cell, seeds: Sequence[int], devices: Sequence[Any]) -> Iterator[Measured]:
    if _is_of_pairs(cell):
        return _pairs(cell, seeds, devices)
    return (measure(cell, seed, devices) for seed in seeds)


def _is_of_pairs(cell: Cell) -> bool:
    """Whether nothing but power sums of pairs is asked for, by a program without a seed in it."""
    case = cell.case
    of_seed = case.weights is not None and case.ensemble == "tokens"
    rows = case.n_keys is not None or "counts" in cell.measured
    return not (of_seed or rows or grouped(case))


def _pairs(cell: Cell, seeds: Sequence[int], devices: Sequence[Any]) -> Iterator[Measured]:
    block = logits.pairs_in_block(cell.case)
    n_blocks = -(-cell.draws // block)
    last = cell.draws - (n_blocks - 1) * block
    tables = [logits.block_table(cell.case, seed, 0, n_blocks, last) for seed in seeds]
    sums = logits.measure_blocks(cell.case, 0, np.concatenate(tables), devices)
    for rows in sums.reshape(len(seeds), n_blocks, -1):
        yield _merged(cell, [logits.to_moments(row) for row in rows])


def _merged(cell: Cell, blocks: Sequence[dict[str, Moments]]) -> Measured:
    measured: Measured = {
        (name, None): reduce(Moments.merge, (block[name] for block in blocks))
        for name in ("logit", "abs_logit")
    }
    lost = 1 - sum(block["logit"].count for block in blocks) / cell.draws
    measured["overflow", None] = Moments(cell.draws, lost, (cell.draws * lost * (1 - lost),))
    return measured
