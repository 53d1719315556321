"""Statistics of softmax rows from logits that are there, in seconds a row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import jax.numpy as jnp
import jax_scripts
import numpy as np
import numpy_scripts
from interleave import Contestant, Sizes, interleave
from numpy.typing import NDArray
from table import Line, at_least
from verify_variance.simulations.jacobian import jacobian_statistics

PLAIN = ("max_prob", "entropy", "sum_p2")
FROBENIUS = (*PLAIN, "jacobian_frobenius")
SPECTRAL = (*FROBENIUS, "jacobian_spectral")
N_KEYS = (10, 64, 512, 4096)
LARGEST_MATRIX = 512  # where eigvalsh takes a second for a few rows
FROBENIUS_GOAL, SPECTRAL_GOAL = 2.0, 1.0


def lines(sizes: Sizes) -> Iterator[Line]:
    """With the Frobenius norm, with the spectral norm too, and the spectral norm alone."""
    for n_keys in N_KEYS:
        logits = draw_logits(max(16, round(sizes.elements / 8 / n_keys)), n_keys)
        frobenius, spectral, *rivals = interleave(contestants(logits), sizes.repeats)
        for clock in ("CPU", "wall"):
            for name, mine, goal in (
                ("Frobenius", frobenius, FROBENIUS_GOAL),
                ("Frobenius, spectral", spectral, SPECTRAL_GOAL),
            ):
                for rival in rivals:
                    seconds = [t.cpu if clock == "CPU" else t.wall for t in (mine, rival)]
                    work = f"rows of {n_keys}, {name}"
                    yield at_least(work, clock, seconds[0], rival.name, seconds[1], goal)
        if n_keys <= LARGEST_MATRIX:
            mine, rival = interleave(spectral_contestants(logits), sizes.repeats)
            yield at_least(f"rows of {n_keys}, spectral", "CPU", mine.cpu, rival.name, rival.cpu)


def draw_logits(rows: int, n_keys: int) -> NDArray[np.float32]:
    """Normal logits of standard deviation 2."""
    rng = np.random.default_rng(1)
    return 2 * rng.standard_normal((rows, n_keys), dtype=np.float32)


def our_means(quantities: tuple[str, ...], logits: object) -> dict[str, float]:
    """Means over rows of what is asked for."""
    statistics = jacobian_statistics(logits, 1.0, quantities)
    return {name: float(values.mean()) for name, values in statistics.items()}


def contestants(logits: NDArray[np.float32]) -> list[Contestant]:
    """Ours twice, then the scripts, which leave the Jacobian out."""
    on_device, rows = jnp.asarray(logits), len(logits)
    rivals = [
        Contestant("ours", partial(our_means, FROBENIUS, on_device), rows),
        Contestant("ours, spectral", partial(our_means, SPECTRAL, on_device), rows),
        Contestant("NumPy float32", partial(numpy_scripts.softmax_row_means, logits), rows),
    ]
    if jax_scripts.has_torch():
        rivals.append(Contestant("torch", partial(jax_scripts.torch_row_means, logits), rows))
    return rivals


def spectral_contestants(logits: NDArray[np.float32]) -> list[Contestant]:
    """The spectral norm alone; the matrix' eigenvalues for as many rows as take a moment."""
    on_device, few = jnp.asarray(logits), max(1, 2048 // logits.shape[1])
    return [
        Contestant("ours", partial(our_means, ("jacobian_spectral",), on_device), len(logits)),
        Contestant("eigvalsh", partial(numpy_scripts.spectral_mean, logits[:few]), few),
    ]
