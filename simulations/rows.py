"""Softmax rows: one query with its keys a replicate, drawn block by block and measured.

The logits of a block are drawn once and measured under every factor. Each set of statistics is a
program of its own, so that a quantity's bits do not depend on what else is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec
from numpy.typing import NDArray

from ..stats.cells import Cell
from ..stats.moments import Moments
from .guards import check_blocks
from .jacobian import jacobian_statistics
from .keys import block_words
from .random import box_muller, random_words, to_bits
from .recipes import Key, Recipe, block_key, cell_words, recipe_of, with_float64
from .reduce import block_moments, row_moments
from .vectors import draw_logits

SETS = (
    (
        "max_prob",
        "entropy",
        "sum_p2",
        "saturated",
        "jacobian_trace",
        "jacobian_frobenius_sq",
        "jacobian_frobenius",
    ),
    ("second_prob", "third_prob"),
    ("jacobian_spectral",),
)
_BLOCK_LOGITS = 2**17  # in one block: large enough to keep the cores busy, small enough for caches
_MOST_ROWS = 2**15
STEPS_IN_FLIGHT = 32  # blocks dispatched before their sums are fetched, so that memory stays flat


def rows_in_block(n_keys: int) -> int:
    """Replicates of a block: a power of two with about 2^17 logits, at least 1.

    Examples:
        >>> rows_in_block(10), rows_in_block(512), rows_in_block(10**6)
        (8192, 256, 1)

    """
    return min(_MOST_ROWS, 1 << max((_BLOCK_LOGITS // n_keys).bit_length() - 1, 0))


def given_logits(key: Key, std: Array, rows: int, n_keys: int) -> Array:
    """Independent normal logits [rows, n_keys] of one standard deviation, of its dtype."""
    per_uniform = 2 if std.dtype == jnp.float64 else 1
    lane = jnp.arange(rows, dtype=jnp.uint32)[:, None]
    pair = jnp.arange((n_keys + 1) // 2, dtype=jnp.uint32)
    words = random_words(key, lane, 0, pair, 2 * per_uniform)
    normals = jnp.stack(box_muller(*to_bits(words, per_uniform)), axis=-1)
    return std * normals.reshape(rows, -1)[:, :n_keys]


def _draw(
    recipe: Recipe | None, rows: int, n_keys: int, cell: Key, blocks: Array, numbers: Any
) -> Array:
    """One device's logits [rows, n_keys]; `blocks` is its (index high, index low, count)."""
    key = block_key(cell, blocks[0, 0], blocks[0, 1])
    if recipe is None:
        return given_logits(key, numbers, rows, n_keys)
    return draw_logits(recipe, key, numbers, rows, n_keys)


def _sums(names: tuple[str, ...], logits: Array, factor: Array, blocks: Array) -> Array:
    """One device's centred sums [1, quantities, 4] of its rows' statistics."""
    statistics = jacobian_statistics(logits, factor, names)
    sums = row_moments(statistics, blocks[0, 2])
    return jnp.stack([sums[name] for name in names])[None]


@lru_cache(maxsize=64)
def _compiled_draw(recipe: Recipe | None, rows: int, n_keys: int, mesh: Mesh) -> Any:
    shared, split = PartitionSpec(), PartitionSpec("device")
    return jax.jit(
        jax.shard_map(
            partial(_draw, recipe, rows, n_keys),
            mesh=mesh,
            in_specs=(shared, split, shared),
            out_specs=split,
            check_vma=False,  # as in logits.py
        )
    )


@lru_cache(maxsize=64)
def _compiled_sums(names: tuple[str, ...], mesh: Mesh) -> Any:
    shared, split = PartitionSpec(), PartitionSpec("device")
    return jax.jit(
        jax.shard_map(
            partial(_sums, names),
            mesh=mesh,
            in_specs=(split, shared, split),
            out_specs=split,
            check_vma=False,
        )
    )


def measure_rows(
    cell: Cell, seed: int, devices: Sequence[Any]
) -> Iterator[tuple[int, dict[tuple[str, float], NDArray[np.float64]]]]:
    """Blocks in order, some at a time: (draws in them, sums [blocks, 5] by statistic and factor).

    Columns: count, centre, and the sums of d, d^2 and d^3 about the centre.
    """
    case, n_keys = cell.case, cell.case.n_keys
    assert n_keys is not None
    rows = rows_in_block(n_keys)
    recipe, numbers = _recipe(cell)
    mesh = Mesh(np.array(devices), ("device",))
    key = cell_words(case, seed)
    sets = [names for names in SETS if set(names) & set(cell.measured)]
    steps = STEPS_IN_FLIGHT * len(devices)
    with with_float64(case.dtype):
        draw = _compiled_draw(recipe, rows, n_keys, mesh)
        real: Any = np.float64 if case.dtype == "float64" else np.float32
        for table in _tables(cell.draws, rows, steps):
            pending: dict[tuple[tuple[str, ...], float], list[Any]] = {}
            for blocks in _padded(table, len(devices)):
                logits = draw(key, blocks, numbers)
                for names in sets:
                    run = _compiled_sums(names, mesh)
                    for factor in cell.factors:
                        sums = run(logits, real(factor), blocks)
                        pending.setdefault((names, factor), []).append(sums)
            counts = table[:, 2:].astype(np.float64)
            yield int(counts.sum()), _fetched(pending, counts)


def _recipe(cell: Cell) -> tuple[Recipe | None, Any]:
    case = cell.case
    if case.logit_std is None:
        return recipe_of(case)
    return None, (np.float64 if case.dtype == "float64" else np.float32)(case.logit_std)


def _tables(draws: int, rows: int, steps: int) -> Iterator[NDArray[np.uint32]]:
    """(index high, index low, count) of every block, some blocks at a time."""
    total = -(-draws // rows)
    for first in range(0, total, steps):
        last = min(first + steps, total)
        table = [(*block_words(b), min(rows, draws - b * rows)) for b in range(first, last)]
        yield np.array(table, np.uint32)


def _padded(table: NDArray[np.uint32], n_devices: int) -> Iterator[NDArray[np.uint32]]:
    """One block for each device at a time; a device without one repeats the last, unused."""
    for first in range(0, len(table), n_devices):
        part = table[first : first + n_devices]
        yield np.concatenate([part, np.repeat(part[-1:], n_devices - len(part), axis=0)])


def _fetched(
    pending: dict[tuple[tuple[str, ...], float], list[Any]], counts: NDArray[np.float64]
) -> dict[tuple[str, float], NDArray[np.float64]]:
    fetched = {}
    for (names, factor), parts in pending.items():
        sums = np.concatenate([np.asarray(part, np.float64) for part in parts])[: len(counts)]
        for i, name in enumerate(names):
            fetched[name, factor] = np.concatenate([counts, sums[:, i]], axis=1)
    return fetched


def merged(cell: Cell, blocks: dict[tuple[str, float], NDArray[np.float64]]) -> Any:
    """Moments of what was asked for, after the guards have looked at every statistic."""
    assert cell.case.n_keys is not None
    block = rows_in_block(cell.case.n_keys)
    for (name, _), sums in blocks.items():
        if name == "entropy":
            what = f"{cell.case.canonical()}, {name}"
            check_blocks(sums[:, [0, 1, 3, 4]], block, lattice=_few_values(cell), what=what)
    return {
        (name, factor): reduce(Moments.merge, (block_moments(row[1:], int(row[0])) for row in sums))
        for (name, factor), sums in blocks.items()
        if name in cell.measured
    }


def _few_values(cell: Cell) -> bool:
    """Whether a row takes few values, so that blocks may agree by chance."""
    recipe, _ = _recipe(cell)
    return recipe is not None and recipe.packed
