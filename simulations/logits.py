"""The logit x = q . k of one pair a replicate: drawn and measured in one fused kernel.

A block is 65536 replicates, fewer through weights. What can go wrong: a sum whose order the
compiler chooses changes bits with the thread count (tree_sum fixes it), and float32 totals lose
digits (a block is centred on its own mean, and blocks are merged in float64 on the host).
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
from ..stats.moments import Moments
from .drawing import Drawn, drawn_logits, prepared
from .half import HalfRecipe
from .keys import block_words
from .layers import replicates_in_block
from .recipes import block_key, cell_words, with_float64
from .reduce import block_moments, tree_sum
from .sharding import device_mesh, on_each_device
from .variants import replicates_of_pairs

BLOCK = 65536  # replicates in a block
FEWEST_LANES = 1024
CALL_BLOCKS = 256  # rows of output that a device keeps for one call
ORDER, ABS_ORDER = 8, 2
COLUMNS = 1 + (1 + ORDER) + (1 + ABS_ORDER)


def pairs_in_block(case: Case) -> int:
    """Replicates of a full block."""
    if case.transform:
        return replicates_of_pairs(case, BLOCK)
    return BLOCK if case.weights is None else replicates_in_block(case)


def power_sums(y: Array, valid: Array, count: Array, order: int) -> Array:
    """`[m, S_1, ..., S_order]`: a rounded mean m and the sums of `(y - m)^r` over valid lanes.

    S_1 is what rounding left out of m; the host puts it back in float64.
    """
    mean = tree_sum(jnp.where(valid, y, 0)) / count.astype(y.dtype)
    centred = jnp.where(valid, y - mean, 0)

    def next_order(r: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        power, sums = carry
        power = power * centred
        return power, sums.at[r].set(tree_sum(power))

    sums = jnp.zeros(order + 1, y.dtype).at[0].set(mean)
    carry: tuple[Array, Array] = (jnp.ones_like(y), sums)
    carry = lax.fori_loop(1, order + 1, next_order, carry)
    return carry[1]


def _measure_block(recipe: Drawn, lanes: int, block: Array, numbers: Any) -> Array:
    """Columns of one block, a row of a `block_table`."""
    key = block_key((block[0], block[1]), block[2], block[3])
    y = drawn_logits(recipe, key, numbers, lanes) / numbers.unit
    valid = jnp.arange(lanes, dtype=jnp.uint32) < block[4]
    count = block[4]
    if isinstance(recipe, HalfRecipe):
        valid &= jnp.isfinite(y)
        count = valid.sum(dtype=jnp.uint32)
    signed = power_sums(y, valid, jnp.maximum(count, 1), ORDER)
    absolute = power_sums(jnp.abs(y), valid, jnp.maximum(count, 1), ABS_ORDER)
    return jnp.concatenate([count.astype(y.dtype)[None], signed, absolute])


def _measure_blocks(
    recipe: Drawn, lanes: int, blocks: Array, n_blocks: Array, numbers: Any
) -> Array:
    """One device's program: its first `n_blocks[0]` blocks, the others cost nothing."""

    def measure(i: Array, out: Array) -> Array:
        return out.at[i].set(_measure_block(recipe, lanes, blocks[i], numbers))

    empty = jnp.zeros((blocks.shape[0], COLUMNS), recipe.float_type)
    out: Array = lax.fori_loop(0, n_blocks[0], measure, empty)
    return out


@lru_cache(maxsize=64)
def _compiled(recipe: Drawn, lanes: int, mesh: Mesh) -> Any:
    program = partial(_measure_blocks, recipe, lanes)
    return on_each_device(program, mesh, split=(True, True, False))


def block_table(
    case: Case, seed: int, first_block: int, n_blocks: int, last_count: int
) -> NDArray[np.uint32]:
    """Which blocks: the words of the cell's key, of the block's index, and its replicates.

    The last block has `last_count` of them, every other `pairs_in_block`. One table may list
    blocks of several seeds, since each row brings its own key.

    Examples:
        >>> block_table(Case(d_k=64), 0, 0, 2, 10)[:, 2:].tolist()
        [[0, 0, 65536], [0, 1, 10]]

    """
    words = [int(word) for word in cell_words(case, seed)]
    counts = [pairs_in_block(case)] * (n_blocks - 1) + [last_count]
    rows = [(*words, *block_words(first_block + i), count) for i, count in enumerate(counts)]
    return np.array(rows, np.uint32)


def measure_pairs(
    case: Case,
    seed: int,
    first_block: int,
    n_blocks: int,
    last_count: int | None = None,
    devices: Sequence[jax.Device] | None = None,
) -> NDArray[np.float64]:
    """Power sums of blocks `first_block ... first_block + n_blocks - 1`, as `measure_blocks`."""
    last_count = pairs_in_block(case) if last_count is None else last_count
    table = block_table(case, seed, first_block, n_blocks, last_count)
    return measure_blocks(case, seed, table, devices)


def measure_blocks(
    case: Case,
    seed: int,
    table: NDArray[np.uint32],
    devices: Sequence[jax.Device] | None = None,
) -> NDArray[np.float64]:
    """Power sums of the blocks of a `block_table`, one row a block.

    `seed` draws the weights that all replicates go through, where there are any. Columns, in units
    of the unscaled logit: count, a centre m, the sums of `(x - m)^r` for r = 1..8, then a centre
    m' and the sums of `(|x| - m')^r` for r = 1, 2. `to_moments` reads a row.
    """
    recipe, numbers = prepared(case, seed)
    devices = list(devices or jax.local_devices())
    lanes = pairs_in_block(case)
    if not table[:, 2:4].any():  # first blocks alone: lanes beyond the last would draw for nothing
        most = int(table[:, 4].max())
        lanes = min(lanes, max(FEWEST_LANES, 1 << (most - 1).bit_length()))
    rows = []
    with with_float64(case.dtype):
        run = _compiled(recipe, lanes, device_mesh(devices))
        for start in range(0, len(table), CALL_BLOCKS * len(devices)):
            part = table[start : start + CALL_BLOCKS * len(devices)]
            rows.append(_call(run, part, numbers, len(devices)))
    return _descaled(np.concatenate(rows), float(numbers.unit))


def _call(run: Any, table: NDArray[np.uint32], numbers: Any, n_devices: int) -> NDArray[np.float64]:
    """One dispatch: each device takes a run of consecutive blocks."""
    share = -(-len(table) // n_devices)
    blocks = np.zeros((n_devices, CALL_BLOCKS, table.shape[1]), np.uint32)
    taken = np.zeros(n_devices, np.int32)
    for i in range(n_devices):
        own = table[i * share : (i + 1) * share]
        taken[i] = len(own)
        blocks[i, : len(own)] = own
    rows = np.asarray(run(blocks.reshape(-1, table.shape[1]), taken, numbers), np.float64)
    out = rows.reshape(n_devices, CALL_BLOCKS, COLUMNS)
    return np.concatenate([out[i, : taken[i]] for i in range(n_devices)])


def _descaled(rows: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    powers = [0, 1, *range(1, ORDER + 1), 1, *range(1, ABS_ORDER + 1)]
    factors: NDArray[np.float64] = np.array([unit**p for p in powers])
    return rows * factors


def split(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows of `measure_blocks` as those of the logit and those of |x|: count, centre, sums."""
    return rows[:, : 2 + ORDER], np.delete(rows, np.s_[1 : 2 + ORDER], axis=1)


def to_moments(row: NDArray[np.float64]) -> dict[str, Moments]:
    """`logit` (order 8) and `abs_logit` (order 2) of one row of `measure_blocks`."""
    parts = zip(("logit", "abs_logit"), split(row[None]), strict=True)
    return {name: block_moments(part[0, 1:], int(row[0])) for name, part in parts}
