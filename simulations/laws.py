"""The law of the logit: every draw counted in a fixed cell, the extremes kept.

A program of its own beside that of the power sums, so that their bits do not depend on whether
counts are asked for. Counts are integers: exact on any number of devices, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh
from numpy.typing import NDArray

from ..stats.cases import Case
from .drawing import Drawn, drawn_logits, prepared
from .keys import block_words
from .logits import CALL_BLOCKS, FEWEST_LANES, pairs_in_block
from .recipes import Key, block_key, cell_words, with_float64
from .reduce import tree_max
from .sharding import device_mesh, on_each_device

Found = tuple[NDArray[np.int64], NDArray[np.float64]]


def cell_counts(y: Array, valid: Array, edges: Array) -> Array:
    """int32 counts [edges + 1] of the valid lanes: cell i holds `edges[i-1] < y <= edges[i]`.

    Examples:
        >>> edges = jnp.array([0.0, 1.0])
        >>> cell_counts(jnp.array([0.0, 0.5, 2.0, 3.0]), jnp.array([1, 1, 1, 0]), edges).tolist()
        [1, 1, 1]

    """
    cells = jnp.searchsorted(edges, y, side="left", method="scan_unrolled")
    return jnp.zeros(edges.shape[0] + 1, jnp.int32).at[cells].add(valid.astype(jnp.int32))


def _count_block(
    recipe: Drawn, lanes: int, cell: Key, block: Array, numbers: Any, edges: Array
) -> tuple[Array, Array]:
    """Counts of one block, and its (smallest, largest); `block` is (index high, low, count)."""
    key = block_key(cell, block[0], block[1])
    y = drawn_logits(recipe, key, numbers, lanes)
    valid = jnp.arange(lanes, dtype=jnp.uint32) < block[2]
    far = jnp.asarray(jnp.inf, y.dtype)
    largest = tree_max(jnp.where(valid, y, -far))
    smallest = -tree_max(jnp.where(valid, -y, -far))
    return cell_counts(y, valid, edges), jnp.stack([smallest, largest])


def _count_blocks(
    recipe: Drawn,
    lanes: int,
    cell: Key,
    blocks: Array,
    n_blocks: Array,
    numbers: Any,
    edges: Array,
) -> tuple[Array, Array]:
    """One device's program: its first `n_blocks[0]` blocks, the others cost nothing."""

    def measure(i: Array, out: tuple[Array, Array]) -> tuple[Array, Array]:
        counts, ends = _count_block(recipe, lanes, cell, blocks[i], numbers, edges)
        return out[0].at[i].set(counts), out[1].at[i].set(ends)

    n = blocks.shape[0]
    empty = (
        jnp.zeros((n, edges.shape[0] + 1), jnp.int32),
        jnp.zeros((n, 2), recipe.float_type),
    )
    out: tuple[Array, Array] = lax.fori_loop(0, n_blocks[0], measure, empty)
    return out


@lru_cache(maxsize=64)
def _compiled(recipe: Drawn, lanes: int, mesh: Mesh) -> Any:
    program = partial(_count_blocks, recipe, lanes)
    return on_each_device(program, mesh, split=(False, True, True, False, False))


def count_pairs(
    case: Case,
    edges: NDArray[np.float64],
    seed: int,
    first_block: int,
    n_blocks: int,
    last_count: int | None = None,
    devices: Sequence[jax.Device] | None = None,
) -> Found:
    """Counts [blocks, edges + 1] and (smallest, largest) [blocks, 2], of the unscaled logit.

    Blocks are those of `logits.measure_pairs`: the same draws.
    """
    recipe, numbers = prepared(case, seed)
    devices = list(devices or jax.local_devices())
    lanes = block = pairs_in_block(case)
    last_count = block if last_count is None else last_count
    if first_block == 0 and n_blocks == 1:
        lanes = min(block, max(FEWEST_LANES, 1 << (last_count - 1).bit_length()))
    cell = cell_words(case, seed)
    counts = [block] * (n_blocks - 1) + [last_count]
    table = [(*block_words(first_block + i), counts[i]) for i in range(n_blocks)]
    real: Any = np.float64 if case.dtype == "float64" else np.float32
    found = []
    with with_float64(case.dtype):
        run = _compiled(recipe, lanes, device_mesh(devices))
        for start in range(0, n_blocks, CALL_BLOCKS * len(devices)):
            part = table[start : start + CALL_BLOCKS * len(devices)]
            blocks, taken, kept = _shared_out(part, len(devices))
            out = run(cell, blocks, taken, numbers, edges.astype(real))
            found.append([np.asarray(array)[kept] for array in out])
    cells, ends = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return cells.astype(np.int64), ends.astype(np.float64)


def _shared_out(
    table: list[tuple[int, int, int]], n_devices: int
) -> tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.bool_]]:
    """Consecutive blocks for each device, how many each has, and which outputs are theirs."""
    share = -(-len(table) // n_devices)
    taken = np.clip(len(table) - share * np.arange(n_devices), 0, share).astype(np.int32)
    kept = (np.arange(CALL_BLOCKS) < taken[:, None]).ravel()
    blocks = np.zeros((len(kept), 3), np.uint32)
    blocks[kept] = table
    return blocks, taken, kept


def block_sums(cells: NDArray[np.int64], ends: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the guards look at: count, mean cell, S_1 to S_4 about it (S_1 is 0), the extremes."""
    at = np.arange(cells.shape[1], dtype=np.float64)
    count = cells.sum(1)
    mean = cells @ at / count
    centred = at - mean[:, None]
    sums = [(cells * centred**r).sum(1) for r in (2, 3, 4)]
    return np.column_stack([count, mean, np.zeros_like(mean), *sums, ends])
