"""Drawing q and k and taking the logit's variance, in seconds a random element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import c_limit
import jax_scripts
import numpy_scripts
import ours
from interleave import Contestant, Sizes, interleave
from table import Line, at_least

D_K, SEED = 64, 1
CPU_GOALS = {
    "NumPy float32, at once": 5.0,
    "NumPy float32, in pieces": 5.0,
    "jax.random.normal, threefry": 10.0,
    "jax.random.normal, rbg": 10.0,
    "C, threefry": 0.9,
    "jax.random.rademacher": 40.0,
}
WALL_GOALS = {"NumPy float32, at once": 8.0, "NumPy float32, in pieces": 8.0}
LAW_GOAL = 2.0

Variance = Callable[[int, int, int], float]  # of pairs, d_k and seed


def lines(sizes: Sizes) -> Iterator[Line]:
    """Normals, signs, and every other element law."""
    pairs = max(1, round(sizes.elements / (2 * D_K)))
    for work, rivals in (("normals", normals()), ("rademacher", rademacher())):
        first, *others = interleave(contestants(rivals, pairs), sizes.repeats)
        for other in others:
            goal = CPU_GOALS.get(other.name)
            yield at_least(work, "CPU", first.cpu, other.name, other.cpu, goal)
        for other in others:
            goal = WALL_GOALS.get(other.name)
            yield at_least(work, "wall", first.wall, other.name, other.wall, goal)
    for law in numpy_scripts.SCRIPTS:
        first, *others = interleave(contestants(element_law(law), pairs), sizes.repeats)
        best = min(others, key=lambda other: other.cpu)
        yield at_least(law, "CPU", first.cpu, best.name, best.cpu, LAW_GOAL)


def contestants(rivals: dict[str, Variance], pairs: int) -> list[Contestant]:
    """Everyone draws the same number of pairs and returns the variance."""
    return [
        Contestant(name, partial(variance, pairs, D_K, SEED), 2 * D_K * pairs)
        for name, variance in rivals.items()
    ]


def normals() -> dict[str, Variance]:
    """Ours first."""
    numpy, float32, float64 = numpy_scripts.variance, numpy_scripts.normal, numpy_scripts.normal64
    rivals: dict[str, Variance] = {
        "ours": partial(ours.variance, "normal"),
        "NumPy float32, at once": partial(numpy, float32, None),
        "NumPy float32, in pieces": partial(numpy, float32, numpy_scripts.PIECE),
        "NumPy float64, at once": partial(numpy, float64, None),
        "jax.random.normal, threefry": partial(jax_scripts.normal_variance, "threefry2x32"),
        "jax.random.normal, rbg": partial(jax_scripts.normal_variance, "rbg"),
    }
    if jax_scripts.has_torch():
        rivals["torch.randn"] = jax_scripts.torch_variance
    else:
        print("torch is not installed: left out")
    if c_limit.compiler():
        rivals["C, threefry"] = partial(c_limit.variance, "threefry")
        rivals["C, xoshiro128++"] = partial(c_limit.variance, "xoshiro")
    else:
        print("no C compiler: the limit is left out")
    return rivals


def rademacher() -> dict[str, Variance]:
    """Ours first."""
    return {
        "ours": partial(ours.variance, "rademacher"),
        "jax.random.rademacher": jax_scripts.rademacher_variance,
    }


def element_law(law: str) -> dict[str, Variance]:
    """Ours first, then every script for the law, in pieces that stay in cache."""
    rivals: dict[str, Variance] = {"ours": partial(ours.variance, law)}
    for draw in numpy_scripts.SCRIPTS[law]:
        name = f"NumPy, {draw.__name__.strip('_').replace('_', ' ')}"
        rivals[name] = partial(numpy_scripts.variance, draw, numpy_scripts.PIECE)
    return rivals
