"""The NumPy and SciPy scripts that a user would write, the faster one where there are two."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.floating]
Draw = Callable[[Generator, tuple[int, int]], Array]

PIECE = 16384  # pairs that stay in cache; memory for everything at once costs as much as drawing


def variance(draw: Draw, piece: int | None, pairs: int, d_k: int, seed: int) -> float:
    """`(q * k).sum(-1).var()`, in pieces or, with `piece` None, all at once."""
    rng = np.random.default_rng(seed)
    done, total, piece = 0, 0.0, piece or pairs
    while done < pairs:
        n = min(piece, pairs - done)
        q, k = draw(rng, (n, d_k)), draw(rng, (n, d_k))
        total += n * float((q * k).sum(-1).var())
        done += n
    return total / pairs


def normal(rng: Generator, shape: tuple[int, int]) -> Array:
    return rng.standard_normal(shape, dtype=np.float32)


def normal64(rng: Generator, shape: tuple[int, int]) -> Array:
    return rng.standard_normal(shape)


def _uniform(rng: Generator, shape: tuple[int, int]) -> Array:
    return (rng.random(shape, dtype=np.float32) - np.float32(0.5)) * np.float32(math.sqrt(12))


def _laplace(rng: Generator, shape: tuple[int, int]) -> Array:
    return rng.laplace(0, math.sqrt(0.5), shape)


def _logistic(rng: Generator, shape: tuple[int, int]) -> Array:
    return rng.logistic(0, math.sqrt(3) / math.pi, shape)


# standard deviation of a normal cut at +-2: sqrt(1 - 4 phi(2) / erf(sqrt(2)))
CUT_SD = math.sqrt(1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / math.erf(math.sqrt(2)))


def _cut(rng: Generator, shape: tuple[int, int]) -> Array:
    """By rejection."""
    x = rng.standard_normal(shape, dtype=np.float32)
    while (outside := np.abs(x) > 2).any():
        x[outside] = rng.standard_normal(int(outside.sum()), dtype=np.float32)
    return x


def _truncated_normal(rng: Generator, shape: tuple[int, int]) -> Array:
    return _cut(rng, shape) / np.float32(CUT_SD)


def _truncnorm(rng: Generator, shape: tuple[int, int]) -> Array:
    from scipy.stats import truncnorm

    x: Array = truncnorm.rvs(-2, 2, size=shape, random_state=rng) / CUT_SD
    return x


def _student_t(rng: Generator, shape: tuple[int, int]) -> Array:
    return rng.standard_t(9, shape) * math.sqrt(7 / 9)


def _exponential(rng: Generator, shape: tuple[int, int]) -> Array:
    return rng.standard_exponential(shape, dtype=np.float32) - 1


def _sparse(rng: Generator, shape: tuple[int, int]) -> Array:
    kept = rng.random(shape, dtype=np.float32) < np.float32(0.5)
    return kept * rng.standard_normal(shape, dtype=np.float32) * np.float32(math.sqrt(2))


def _lognormal(rng: Generator, shape: tuple[int, int]) -> Array:
    s = 0.5
    x = np.exp(np.float32(s) * rng.standard_normal(shape, dtype=np.float32))
    sd = math.exp(s * s / 2) * math.sqrt(math.expm1(s * s))
    return (x - np.float32(math.exp(s * s / 2))) / np.float32(sd)


def _sphere(rng: Generator, shape: tuple[int, int]) -> Array:
    x = rng.standard_normal(shape, dtype=np.float32)
    return x * (np.float32(math.sqrt(shape[-1])) / np.linalg.norm(x, axis=-1, keepdims=True))


SCRIPTS: dict[str, tuple[Draw, ...]] = {
    "uniform": (_uniform,),
    "laplace": (_laplace,),
    "logistic": (_logistic,),
    "truncated-normal:2": (_truncated_normal, _truncnorm),
    "truncated-normal-raw:2": (_cut,),
    "student-t:9": (_student_t,),
    "exponential": (_exponential,),
    "sparse:0.5": (_sparse,),
    "lognormal:0.5": (_lognormal,),
    "sphere": (_sphere,),
}


def row_means(logits: Array) -> dict[str, float]:
    """Means over rows of the largest p, the entropy and the sum of p^2; no Jacobian."""
    shifted = logits - logits.max(-1, keepdims=True)
    weights = np.exp(shifted)
    total = weights.sum(-1, keepdims=True)
    p = weights / total
    entropy = np.log(total[:, 0]) - (p * shifted).sum(-1)
    largest, squares = p.max(-1), (p * p).sum(-1)
    return {
        "max_prob": float(largest.mean()),
        "entropy": float(entropy.mean()),
        "sum_p2": float(squares.mean()),
    }


def spectral_mean(logits: Array) -> dict[str, float]:
    """Mean spectral norm of diag(p) - p p^T by `eigvalsh`."""
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    p = weights / weights.sum(-1, keepdims=True)
    norms = [np.linalg.eigvalsh(np.diag(row) - np.outer(row, row))[-1] for row in p]
    return {"jacobian_spectral": float(np.mean(norms))}
