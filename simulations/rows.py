"""Softmax rows: one query with its keys a replicate, drawn block by block and measured.

The logits of a block are drawn once and measured under every factor. Each set of statistics is a
program of its own, so that a quantity's bits do not depend on what else is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import product
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh
from numpy.typing import NDArray

from ..stats.cases import Case
from ..stats.cells import Cell
from ..stats.conventions import scale_factor
from ..stats.counts import BinCounts
from .drawing import Drawn, drawn_logits, prepared
from .elements import sampler_of
from .guards import Guard
from .half_rows import BROKEN, COUNTED, Form, softmax_form, sums_of_whole
from .jacobian import jacobian_statistics
from .keys import block_words
from .layers import replicates_in_block
from .parts import Measured, Part, Tally, Variable
from .random import box_muller, random_words, to_bits
from .recipes import Key, block_key, cell_words, with_float64
from .reduce import bin_counts, row_moments
from .rounding import rounded
from .sharding import device_mesh, on_each_device

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
    (COUNTED,),
    (BROKEN,),
)
GUARDED = ("entropy", "second_prob", "jacobian_spectral")
_BLOCK_LOGITS = 2**17  # in one block: large enough to keep the cores busy, small enough for caches
_MOST_ROWS = 2**15
_FEWEST_LANES = 256
STEPS_IN_FLIGHT = 32  # blocks dispatched before their sums are fetched, so that memory stays flat


def rows_in_block(n_keys: int) -> int:
    """Replicates of a block: a power of two with about 2^17 logits, at least 1.

    Examples:
        >>> rows_in_block(10), rows_in_block(512), rows_in_block(10**6)
        (8192, 256, 1)

    """
    return min(_MOST_ROWS, 1 << max((_BLOCK_LOGITS // n_keys).bit_length() - 1, 0))


def block_rows(case: Case) -> int:
    """Replicates of a block of a case, fewer where weights are drawn for each."""
    assert case.n_keys is not None
    rows = rows_in_block(case.n_keys)
    return rows if case.weights is None else min(rows, replicates_in_block(case))


def given_logits(key: Key, std: Array, rows: int, n_keys: int) -> Array:
    """Independent normal logits [rows, n_keys] of one standard deviation, of its dtype."""
    per_uniform = 2 if std.dtype == jnp.float64 else 1
    lane = jnp.arange(rows, dtype=jnp.uint32)[:, None]
    pair = jnp.arange((n_keys + 1) // 2, dtype=jnp.uint32)
    words = random_words(key, lane, 0, pair, 2 * per_uniform)
    normals = jnp.stack(box_muller(*to_bits(words, per_uniform)), axis=-1)
    return std * normals.reshape(rows, -1)[:, :n_keys]


def _draw(
    recipe: Drawn | str, rows: int, n_keys: int, cell: Key, blocks: Array, numbers: Any
) -> Array:
    """One device's logits [rows, n_keys]; `blocks` is its (index high, index low, count).

    For given normal logits the recipe is their dtype alone.
    """
    key = block_key(cell, blocks[0, 0], blocks[0, 1])
    if isinstance(recipe, str):
        std, after = numbers
        return rounded(rounded(given_logits(key, std, rows, n_keys), recipe) * after, recipe)
    return drawn_logits(recipe, key, numbers, rows, n_keys)


def _sums(
    names: tuple[str, ...], form: Form | None, logits: Array, factor: Array, blocks: Array
) -> Array:
    """One device's centred sums [1, statistics, 4] of its rows, or their counts [1, 1, bins].

    With a form of softmax that can break, the sums stand behind the number of rows that did not.
    """
    if form is not None:
        return sums_of_whole(names, form, logits, factor, blocks)
    if names == (COUNTED,):
        norms = jacobian_statistics(logits, factor, ("jacobian_frobenius",))
        return bin_counts(norms["jacobian_frobenius"], blocks[0, 2])[None, None]
    statistics = jacobian_statistics(logits, factor, names)
    sums = row_moments(statistics, blocks[0, 2])
    return jnp.stack([sums[name] for name in names])[None]


@lru_cache(maxsize=64)
def _compiled_draw(recipe: Drawn | str, rows: int, n_keys: int, mesh: Mesh) -> Any:
    return on_each_device(partial(_draw, recipe, rows, n_keys), mesh, split=(False, True, False))


@lru_cache(maxsize=64)
def _compiled_sums(names: tuple[str, ...], form: Form | None, mesh: Mesh) -> Any:
    return on_each_device(partial(_sums, names, form), mesh, split=(True, False, True))


class RowSums:
    """Sums of what was asked for, by statistic and factor; for the median, counts."""

    name = "rows"

    def __init__(self, cell: Cell, seed: int) -> None:
        assert cell.case.n_keys is not None
        self._cell, self._seed, self._n_keys = cell, seed, cell.case.n_keys
        self.block = block_rows(cell.case)
        self._sets = [names for names in SETS if set(names) & set(cell.measured)]

    def at_once(self, n_devices: int) -> int:
        """Blocks between two looks at progress."""
        return STEPS_IN_FLIGHT * n_devices

    def measure(self, first: int, blocks: int, last: int, devices: Sequence[Any]) -> Part:
        """Sums of blocks from `first` on, the last of `last` replicates."""
        table = block_table(first, blocks, last, self.block)
        sums: dict[Variable, NDArray[np.float64]] = {}
        seen: dict[Variable, NDArray[np.float64]] = {}
        counts: dict[Variable, NDArray[np.int64]] = {}
        for variable, found in self._fetched(table, devices).items():
            if variable[0] == COUNTED:
                counts[variable] = found.sum(axis=0, dtype=np.int64)
                continue
            whole = found.shape[1] > 4  # the rows that are whole, before their sums
            rows = np.asarray(found if whole else np.column_stack([table[:, 2], found]), np.float64)
            if variable[0] in self._cell.measured:
                sums[variable] = rows
            elif variable[0] in GUARDED:
                seen[variable] = rows
        return Part(first, blocks, sums, seen, counts)

    def _fetched(
        self, table: NDArray[np.uint32], devices: Sequence[Any]
    ) -> dict[tuple[str, float], NDArray[Any]]:
        """Sums or counts of each block, by statistic and factor."""
        case, mesh = self._cell.case, device_mesh(devices)
        lanes = self.block
        if len(table) == 1 and not table[0, :2].any():  # one alone is no wider than it needs
            lanes = min(lanes, max(_FEWEST_LANES, 1 << (int(table[0, 2]) - 1).bit_length()))
        recipe, numbers = _recipe(case, self._seed)
        key = cell_words(case, self._seed)
        real: Any = np.float64 if case.dtype == "float64" else np.float32
        pending: dict[tuple[tuple[str, ...], float], list[Any]] = {}
        with with_float64(case.dtype):
            draw = _compiled_draw(recipe, lanes, self._n_keys, mesh)
            for blocks in on_devices(table, len(devices)):
                logits = draw(key, blocks, numbers)
                for names, factor in product(self._sets, self._cell.factors):
                    program = _compiled_sums(names, softmax_form(case, names), mesh)
                    sums = program(logits, real(factor), blocks)
                    pending.setdefault((names, factor), []).append(sums)
            return _by_statistic(pending, len(table))

    def guards(self) -> dict[Variable, Guard]:
        """One statistic of each set: the sets share their draws."""
        case = self._cell.case
        signs = all(sampler_of(law)[0].packed for law in (case.elements_q, case.elements_k))
        eps = float(np.finfo("float64" if case.dtype == "float64" else "float32").eps)
        return {
            (name, factor): Guard(
                self.block,
                lattice=signs or case.rounds_rows,
                what=f"{case.canonical()}, {name}",
                resolution=256 * eps,
            )
            for names, factor in product(self._sets, self._cell.factors)
            for name in names
            if name in GUARDED
        }

    def error(self, tally: Tally) -> float | None:
        """Relative standard error so far."""
        return tally.error()

    def measured(self, tally: Tally, draws: int) -> Measured:
        """Moments, and the counts behind a median."""
        counts = {variable: BinCounts(bins) for variable, bins in tally.counts.items()}
        return {**tally.moments, **counts}


def _recipe(case: Case, seed: int) -> tuple[Drawn | str, Any]:
    if case.logit_std is None or case.transform:
        return prepared(case, seed)
    real = np.float64 if case.dtype == "float64" else np.float32
    return case.dtype, (real(case.logit_std), real(scale_factor(case) if case.rounds else 1.0))


def block_table(first: int, blocks: int, last: int, block: int) -> NDArray[np.uint32]:
    """(index high, index low, count) of consecutive blocks, of which the last may not be full."""
    counts = [block] * (blocks - 1) + [last]
    table = [(*block_words(first + i), count) for i, count in enumerate(counts)]
    return np.array(table, np.uint32)


def on_devices(table: NDArray[np.uint32], n_devices: int) -> Iterator[NDArray[np.uint32]]:
    """One block for each device at a time; a device without one repeats the last, unused."""
    for first in range(0, len(table), n_devices):
        part = table[first : first + n_devices]
        yield np.concatenate([part, np.repeat(part[-1:], n_devices - len(part), axis=0)])


def _by_statistic(
    pending: dict[tuple[tuple[str, ...], float], list[Any]], n_blocks: int
) -> dict[tuple[str, float], NDArray[Any]]:
    fetched = {}
    for (names, factor), parts in pending.items():
        blocks = np.concatenate([np.asarray(part) for part in parts])[:n_blocks]
        for i, name in enumerate(names):
            fetched[name, factor] = blocks[:, i]
    return fetched
