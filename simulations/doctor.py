"""Is this machine fit to draw? Devices, versions, known answers, the compilation cache."""

from __future__ import annotations

import os
import time
from importlib.util import find_spec

from .devices import cache_in_use, provenance, use_platform

# Salmon et al. 2011, Random123's kat_vectors: threefry2x32-20 of (key, counter)
KNOWN_ANSWERS = (
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
)
OPTIONAL = ("torch", "transformers", "flax", "keras", "equinox", "safetensors", "optax")


def examine(platform: str = "auto") -> tuple[str, bool]:
    """A report in lines, and whether the generator gives its known answers here."""
    devices = use_platform(platform)
    healthy = generator_is_right()
    facts = provenance(devices)
    folder = cache_in_use()
    cache = "writable" if _writable(folder) else "not writable: every first run compiles anew"
    there = [name for name in OPTIONAL if find_spec(name)]
    lines = [
        ("devices", ", ".join(map(str, devices))),
        *((name, str(facts[name])) for name in ("platform", "jax", "jaxlib", "numpy", "python")),
        ("generator", "gives its known answers" if healthy else "WRONG: not the known answers"),
        ("throughput", f"{throughput(devices):.0f} million normals a second"),
        ("cache", f"{folder} ({cache})"),
        ("optional", ", ".join(there) or "none installed"),
    ]
    return "\n".join(f"{name:<11} {value}" for name, value in lines), healthy


def generator_is_right() -> bool:
    """Whether threefry gives Random123's known answers on the default device."""
    import jax
    import jax.numpy as jnp

    from .random import threefry_2x32

    words = jax.jit(threefry_2x32)
    return all(
        tuple(int(w) for w in words(*(jnp.uint32(n) for n in (*key, *counter)))) == answer
        for key, counter, answer in KNOWN_ANSWERS
    )


def throughput(devices: list[object]) -> float:
    """Millions of normal elements a second, drawn and multiplied, after one warm-up."""
    from ..stats.cases import Case
    from .logits import BLOCK, measure_pairs

    case, blocks = Case(d_k=64), 4
    measure_pairs(case, 0, 0, blocks, devices=devices)
    start = time.perf_counter()
    measure_pairs(case, 1, 0, blocks, devices=devices)
    return blocks * BLOCK * 128 / (time.perf_counter() - start) / 1e6


def _writable(folder: object) -> bool:
    return os.access(str(folder), os.W_OK)
