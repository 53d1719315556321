"""The scripts that a user of JAX or PyTorch would write."""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from numpy.typing import NDArray


@partial(jax.jit, static_argnames=("draw", "shape"))
def _variance(draw: Any, key: jax.Array, shape: tuple[int, int]) -> jax.Array:
    key_q, key_k = jax.random.split(key)
    q, k = draw(key_q, shape), draw(key_k, shape)
    return (q * k).sum(-1).var()


def normal_variance(generator: str, pairs: int, d_k: int, seed: int) -> float:
    """With `jax.random.normal`; generator `threefry2x32` or `rbg`."""
    key = jax.random.key(seed, impl=generator)
    return float(_variance(jax.random.normal, key, (pairs, d_k)))


def _signs(key: jax.Array, shape: tuple[int, int]) -> jax.Array:
    return jax.random.rademacher(key, shape, dtype=jnp.float32)


def rademacher_variance(pairs: int, d_k: int, seed: int) -> float:
    """With `jax.random.rademacher`."""
    return float(_variance(_signs, jax.random.key(seed), (pairs, d_k)))


def has_torch() -> bool:
    """Whether PyTorch, which is no dependency, is installed."""
    return importlib.util.find_spec("torch") is not None


def torch_variance(pairs: int, d_k: int, seed: int) -> float:
    """With `torch.randn`."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(pairs, d_k, generator=generator) for _ in range(2))
    return float((q * k).sum(-1).var())


def row_means(logits: NDArray[Any]) -> dict[str, float]:
    """Means over rows of the largest p, the entropy and the sum of p^2; no Jacobian."""
    import torch

    p = torch.softmax(torch.from_numpy(logits), -1)
    entropy = torch.special.entr(p).sum(-1)
    return {
        "max_prob": float(p.amax(-1).mean()),
        "entropy": float(entropy.mean()),
        "sum_p2": float((p * p).sum(-1).mean()),
    }
