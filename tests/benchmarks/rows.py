"""Statistics of softmax rows from logits that are there, in seconds a row.

Ours and the scripts take the rows in the blocks that a run takes, which fit in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax_scripts
import numpy as np
import numpy_scripts
from interleave import Contestant, Sizes, interleave
from numpy.typing import NDArray
from table import Line, at_least
from verify_variance.simulations.jacobian import jacobian_statistics
from verify_variance.simulations.reduce import tree_sum
from verify_variance.simulations.rows import rows_in_block

PLAIN = ("max_prob", "entropy", "sum_p2")
FROBENIUS = (*PLAIN, "jacobian_frobenius")
SPECTRAL = (*FROBENIUS, "jacobian_spectral")
N_KEYS = (10, 64, 512, 4096)
LARGEST_MATRIX = 512  # where eigvalsh takes a second for a few rows
LOGITS_PER_ELEMENT = 1 / 8  # or the rows would take longer than the draws
FROBENIUS_GOAL, SPECTRAL_GOAL = 2.0, 1.0

Means = dict[str, float]


def lines(sizes: Sizes) -> Iterator[Line]:
    """With the Frobenius norm, with the spectral norm too, and the spectral norm alone."""
    for n_keys in N_KEYS:
        per_block = rows_in_block(n_keys) * n_keys
        blocks = draw_blocks(max(1, round(sizes.elements * LOGITS_PER_ELEMENT / per_block)), n_keys)
        frobenius, spectral, *rivals = interleave(contestants(blocks), sizes.repeats)
        for name, mine, goal in (
            ("Frobenius", frobenius, FROBENIUS_GOAL),
            ("Frobenius, spectral", spectral, SPECTRAL_GOAL),
        ):
            work = f"rows of {n_keys}, {name}"
            for rival in rivals:
                yield at_least(work, "CPU", mine.cpu, rival.name, rival.cpu, goal)
                yield at_least(work, "wall", mine.wall, rival.name, rival.wall, goal)
        if n_keys <= LARGEST_MATRIX:
            mine, rival = interleave(spectral_contestants(blocks), sizes.repeats)
            yield at_least(f"rows of {n_keys}, spectral", "CPU", mine.cpu, rival.name, rival.cpu)


def draw_blocks(n_blocks: int, n_keys: int) -> NDArray[np.float32]:
    """Normal logits of standard deviation 2, [blocks, rows, n_keys]."""
    shape = (n_blocks, rows_in_block(n_keys), n_keys)
    return 2 * np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


@partial(jax.jit, static_argnames="quantities")
def _block_means(quantities: tuple[str, ...], logits: jax.Array) -> dict[str, jax.Array]:
    statistics = jacobian_statistics(logits, 1.0, quantities)
    return {name: tree_sum(values) / len(values) for name, values in statistics.items()}


def means(of_block: Callable[[Any], dict[str, Any]], blocks: Sequence[Any]) -> Means:
    """Means over all rows of what `of_block` finds in one block."""
    found = [of_block(block) for block in blocks]  # all dispatched before the first is fetched
    return {name: float(np.mean([float(part[name]) for part in found])) for name in found[0]}


def contestants(blocks: NDArray[np.float32]) -> list[Contestant]:
    """Ours twice, then the scripts, which leave the Jacobian out."""
    n_rows, on_device = blocks.shape[0] * blocks.shape[1], [jnp.asarray(b) for b in blocks]
    rivals = [
        Contestant("ours", partial(means, partial(_block_means, FROBENIUS), on_device), n_rows),
        Contestant("spectral", partial(means, partial(_block_means, SPECTRAL), on_device), n_rows),
        Contestant("NumPy float32", partial(means, numpy_scripts.row_means, blocks), n_rows),
    ]
    if jax_scripts.has_torch():
        rivals.append(Contestant("torch", partial(means, jax_scripts.row_means, blocks), n_rows))
    return rivals


def spectral_contestants(blocks: NDArray[np.float32]) -> list[Contestant]:
    """The spectral norm alone: ours for a block, the matrix' eigenvalues for its first rows."""
    block = blocks[0]
    few = block[: max(1, 2048 // block.shape[1])]
    ours = partial(_block_means, ("jacobian_spectral",))
    return [
        Contestant("ours", partial(means, ours, [jnp.asarray(block)]), len(block)),
        Contestant("eigvalsh", partial(means, numpy_scripts.spectral_mean, [few]), len(few)),
    ]
