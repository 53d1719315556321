"""The same draws on one core and on two, in processes that are bound to them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context

from interleave import Contestant, Sizes, interleave
from table import Line, at_least

GOAL = 1.6
D_K, SEED = 64, 1


def lines(sizes: Sizes) -> Iterator[Line]:
    """Wall time; both processes wait for their turn, so that they never share the machine."""
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        print("fewer than two cores, or no way to bind to them: cores are left out")
        return
    cores = sorted(os.sched_getaffinity(0))
    pairs = max(1, round(sizes.elements / (2 * D_K)))
    with ExitStack() as stack:
        contestants = []
        for name, used in (("two cores", cores[:2]), ("one core", cores[:1])):
            worker = stack.enter_context(bound_to(used))
            contestants.append(Contestant(name, partial(turn, worker, pairs), 2 * D_K * pairs))
        two, one = interleave(contestants, sizes.repeats)
    yield at_least("normals, two cores", "wall", two.wall, one.name, one.wall, GOAL)


def bound_to(cores: list[int]) -> ProcessPoolExecutor:
    """A process that sees these cores from its first line on, before JAX counts them."""
    return ProcessPoolExecutor(
        1, get_context("spawn"), initializer=os.sched_setaffinity, initargs=(0, cores)
    )


def turn(worker: ProcessPoolExecutor, pairs: int) -> float:
    """The variance that the worker finds."""
    return worker.submit(draw, pairs).result()


def draw(pairs: int) -> float:
    """In the worker."""
    import ours

    return ours.variance("normal", pairs, D_K, SEED)
