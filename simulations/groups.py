"""Groups of queries on the same keys: a statistic's mean over a group is one number a replicate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from ..stats.cells import Cell
from ..stats.transforms.groups import LOGIT_MEANS
from ..stats.transforms.stacks import draw_shape
from .guards import Guard
from .jacobian import jacobian_statistics
from .parts import Measured, Part, Tally, Variable
from .recipes import Key, block_key, cell_words, with_float64
from .reduce import row_moments, tree_sum
from .rows import STEPS_IN_FLIGHT, block_table, on_devices, rows_in_block
from .sharding import device_mesh, on_each_device
from .variants import VariantNumbers, VariantRecipe, variant_logits, variant_recipe


class GroupSums:
    """Sums of what was asked for; every draw has its scale in it, so that the factor is 1."""

    name = "groups"

    def __init__(self, cell: Cell, seed: int) -> None:
        of_rows = cell.case.n_keys is not None
        self._case, self._seed = cell.case, seed
        self._names = tuple(sorted(cell.measured)) if of_rows else LOGIT_MEANS
        self._factor = 1.0 if of_rows else None
        self.block = rows_in_block(int(np.prod(draw_shape(cell.case))))

    def at_once(self, n_devices: int) -> int:
        """Blocks between two looks at progress."""
        return STEPS_IN_FLIGHT * n_devices

    def measure(self, first: int, blocks: int, last: int, devices: Sequence[Any]) -> Part:
        """Sums of blocks from `first` on, the last of `last` replicates."""
        recipe, numbers = variant_recipe(self._case)
        key, table = (
            cell_words(self._case, self._seed),
            block_table(first, blocks, last, self.block),
        )
        with with_float64(self._case.dtype):
            run = _compiled(recipe, self._names, self.block, device_mesh(devices))
            parts = [run(key, some, numbers) for some in on_devices(table, len(devices))]
            found = np.concatenate([np.asarray(p, np.float64) for p in parts])[:blocks]
        return Part(
            first,
            blocks,
            {
                (name, self._factor): np.column_stack([table[:, 2], found[:, i]])
                for i, name in enumerate(self._names)
            },
        )

    def guards(self) -> dict[Variable, Guard]:
        """What looks at the blocks' sums."""
        what = f"{self._case.canonical()}, {self._names[0]}"
        return {(self._names[0], self._factor): Guard(self.block, lattice=True, what=what)}

    def error(self, tally: Tally) -> float | None:
        """Relative standard error so far."""
        return tally.error()

    def measured(self, tally: Tally, draws: int) -> Measured:
        """What all blocks give."""
        return dict(tally.moments)


@lru_cache(maxsize=64)
def _compiled(recipe: VariantRecipe, names: tuple[str, ...], rows: int, mesh: Mesh) -> Any:
    program = partial(_sums, recipe, names, rows)
    return on_each_device(program, mesh, split=(False, True, False))


def _sums(
    recipe: VariantRecipe,
    names: tuple[str, ...],
    rows: int,
    cell: Key,
    blocks: Array,
    numbers: VariantNumbers,
) -> Array:
    """One device's centred sums [1, statistics, 4] of its groups."""
    key = block_key(cell, blocks[0, 0], blocks[0, 1])
    x = variant_logits(recipe, key, numbers, rows)
    if names == LOGIT_MEANS:
        flat = x.reshape(rows, -1)
        size = flat.shape[1]
        means = {
            "logit": tree_sum(flat) / size,
            "logit_square": tree_sum(flat * flat) / size,
            "abs_logit": tree_sum(jnp.abs(flat)) / size,
        }
    else:
        statistics = jacobian_statistics(x.reshape(-1, x.shape[-1]), 1.0, names)
        means = {
            name: tree_sum(value.reshape(rows, -1)) / recipe.queries
            for name, value in statistics.items()
        }
    sums = row_moments(means, blocks[0, 2])
    return jnp.stack([sums[name] for name in names])[None]
