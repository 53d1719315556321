"""One exact statistic of a softmax row, with nothing remembered from an earlier one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import product
from statistics import median

from interleave import Sizes
from table import Line, limit
from verify_variance.stats.cases import Case
from verify_variance.stats.predict import predict

QUANTITIES = ("max_prob", "entropy", "sum_p2", "jacobian_frobenius_sq")
N_KEYS = (2, 10, 128, 1024, 16384)
LOGIT_STDS = (0.1, 0.5, 1.0, 3.0, 8.0)
D_KS = (4, 64)
MEDIAN_GOAL, WORST_GOAL = 0.020, 0.060


def lines(sizes: Sizes) -> Iterator[Line]:
    """Median and worst over a grid, each cell the median of its repeats."""
    for name, cases in (("given logits", given_logits()), ("dot products", dot_products())):
        cells = list(product(cases, QUANTITIES))
        rounds = [[seconds(*cell) for cell in cells] for _ in range(sizes.repeats)]
        for i, clock in enumerate(("CPU", "wall")):
            taken = [median(times[i] for times in cell) for cell in zip(*rounds, strict=True)]
            yield limit(f"row of {name}, median of {len(cells)}", clock, median(taken), MEDIAN_GOAL)
            yield limit(f"row of {name}, worst of {len(cells)}", clock, max(taken), WORST_GOAL)


def given_logits() -> list[Case]:
    """Independent normal logits of a given standard deviation."""
    return [Case(d_k=None, n_keys=n, logit_std=s) for n, s in product(N_KEYS, LOGIT_STDS)]


def dot_products() -> list[Case]:
    """Scaled logits of normal q and k: the query's norm is averaged over."""
    return [Case(d_k=d, n_keys=n, scale="sqrt-dk") for n, d in product(N_KEYS, D_KS)]


def seconds(case: Case, quantity: str) -> tuple[float, float]:
    """CPU and wall time of one prediction from empty caches."""
    forget()
    cpu, wall = time.process_time(), time.perf_counter()
    predict(case, quantity)
    return time.process_time() - cpu, time.perf_counter() - wall


def forget() -> None:
    """Empty every cache in `stats`."""
    for name, module in list(sys.modules.items()):
        if name.startswith("verify_variance.stats"):
            for value in vars(module).values():
                clear = getattr(value, "cache_clear", None)
                if clear is not None:
                    clear()
