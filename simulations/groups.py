"""Groups of queries on the same keys: a statistic's mean over a group is one number a replicate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial, reduce
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from ..stats.cases import Case
from ..stats.cells import Cell
from ..stats.moments import Moments
from ..stats.planning import elements_per_draw
from ..stats.quantities import Measurement
from ..stats.transforms.groups import LOGIT_MEANS
from ..stats.transforms.stacks import draw_shape
from .guards import check_blocks
from .jacobian import jacobian_statistics
from .recipes import Key, block_key, cell_words, with_float64
from .reduce import block_moments, row_moments, tree_sum
from .rows import STEPS_IN_FLIGHT, block_tables, on_devices, rows_in_block
from .sharding import device_mesh, on_each_device
from .variants import VariantNumbers, VariantRecipe, variant_logits, variant_recipe


def measure_groups(
    cell: Cell, seed: int, devices: Sequence[Any], progress: Callable[[int], None]
) -> dict[tuple[str, float | None], Measurement]:
    """Moments of what was asked for; every draw has its scale in it, so that the factor is 1."""
    of_rows = cell.case.n_keys is not None
    names = tuple(sorted(cell.measured)) if of_rows else LOGIT_MEANS
    recipe, numbers = variant_recipe(cell.case)
    rows = rows_in_block(int(np.prod(draw_shape(cell.case))))
    mesh = device_mesh(devices)
    key = cell_words(cell.case, seed)
    found: list[Any] = []
    counts: list[Any] = []
    with with_float64(cell.case.dtype):
        run = _compiled(recipe, names, rows, mesh)
        for table in block_tables(cell.draws, rows, STEPS_IN_FLIGHT * len(devices)):
            parts = [run(key, blocks, numbers) for blocks in on_devices(table, len(devices))]
            found.append(np.concatenate([np.asarray(p, np.float64) for p in parts])[: len(table)])
            counts.append(table[:, 2])
            progress(int(table[:, 2].sum()) * elements_per_draw(cell.case))
    return _merged(cell.case, names, np.concatenate(found), np.concatenate(counts), rows)


def _merged(
    case: Case, names: tuple[str, ...], sums: Any, counts: Any, rows: int
) -> dict[tuple[str, float | None], Measurement]:
    count, centre, first, second, third = np.column_stack([counts, sums[:, 0]]).T
    check_blocks(
        np.column_stack([count, centre + first / count, second, third]),
        rows,
        lattice=True,
        what=f"{case.canonical()}, {names[0]}",
    )
    factor = None if case.n_keys is None else 1.0
    return {
        (name, factor): reduce(
            Moments.merge,
            (block_moments(b, int(n)) for b, n in zip(sums[:, i], counts, strict=True)),
        )
        for i, name in enumerate(names)
    }


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
