"""Interleaved timing, A B A B ...: what disturbs the machine disturbs every contestant alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Contestant:
    """One way to do the work; `units` counts the work of a call, so that sizes may differ."""

    name: str
    work: Callable[[], object]
    units: float = 1.0


@dataclass(frozen=True)
class Times:
    """Median seconds a unit: CPU time of all threads of this process, and wall time."""

    name: str
    cpu: float
    wall: float


@dataclass(frozen=True)
class Sizes:
    """How much is run."""

    elements: float = 1e8  # random elements in a call
    repeats: int = 5
    largest: float = 1e8  # draws in the largest memory run


def interleave(contestants: Sequence[Contestant], repeats: int) -> list[Times]:
    """Median times over `repeats` rounds, after one round that warms caches and compilers."""
    samples: list[list[tuple[float, float]]] = [[] for _ in contestants]
    for contestant in contestants:
        contestant.work()
    for _ in range(repeats):
        for contestant, taken in zip(contestants, samples, strict=True):
            cpu, wall = time.process_time(), time.perf_counter()
            contestant.work()
            taken.append((time.process_time() - cpu, time.perf_counter() - wall))
    return [
        Times(c.name, *(median(clock) / c.units for clock in zip(*taken, strict=True)))
        for c, taken in zip(contestants, samples, strict=True)
    ]
