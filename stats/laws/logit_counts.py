"""Logits counted in fixed cells: exact, mergeable in any order, and enough for their law.

The cells end at fixed multiples of the logit's own standard deviation, so that no draw decides
where they lie, and every cell counts, an empty one too. What can go wrong: a logit of signs lies
on a lattice, and an edge on a lattice point would count it on one side or the other as rounding
has it; such an edge stands halfway to the next point instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..cases import Case
from ..checks import InputError
from .distribution import lattice_points
from .logit_moments import logit_moments

Array = NDArray[np.float64]
REACH, PER_SD = 8, 64  # edges at multiples of sd / 64 within 8 sd: 3, 4, 5 and 6 among them
GRID = np.arange(-REACH * PER_SD, REACH * PER_SD + 1) / PER_SD


@lru_cache(maxsize=64)
def count_edges(case: Case) -> Array:
    """Edges [1025] of the cells of a case's unscaled logit, each a number that its dtype holds.

    Examples:
        >>> edges = count_edges(Case(d_k=64))
        >>> len(edges), float(edges[0]), float(edges[-1])
        (1025, -64.0, 64.0)

    """
    if case.weights is not None and case.ensemble == "tokens":
        raise InputError(
            "the law of logits through fixed weights depends on the drawn ones; "
            "use --ensemble weights, or test variance or kurtosis"
        )
    moments = logit_moments(case)
    edges = moments.mean + moments.std * GRID
    points = lattice_points(case)
    if points is not None:
        first, step = points
        place = (edges - first) / step
        outside = np.where(GRID < 0, np.ceil(place - 1e-6) - 0.5, np.floor(place + 1e-6) + 0.5)
        edges = first + step * outside  # beyond 3 sd is more than 3 sd away, on either side
    kept: Array = edges.astype(np.float64 if case.dtype == "float64" else np.float32)
    return kept.astype(np.float64)


@dataclass(frozen=True, slots=True)
class LogitCounts:
    """How many logits fell into each cell, and the smallest and the largest of them.

    `cells[i]` counts `edges[i-1] < x <= edges[i]`, the outer two what lies beyond.

    Examples:
        >>> counts = LogitCounts.of([-1.0, 0.5, 9.0], np.array([0.0, 1.0]))
        >>> counts.cells.tolist(), counts.largest, counts.cdf().tolist()
        ([1, 1, 1], 9.0, [0.3333333333333333, 0.6666666666666666])

    """

    edges: Array
    cells: NDArray[np.int64]
    smallest: float
    largest: float

    @classmethod
    def of(cls, values: object, edges: Array) -> LogitCounts:
        """Counts of an array of logits."""
        x = np.asarray(values, np.float64).ravel()
        cells = np.bincount(np.searchsorted(edges, x, "left"), minlength=len(edges) + 1)
        return cls(edges, cells, float(x.min()), float(x.max()))

    @property
    def count(self) -> int:
        """Logits counted."""
        return int(self.cells.sum())

    def merge(self, other: LogitCounts) -> LogitCounts:
        """Counts of both samples together."""
        return LogitCounts(
            self.edges,
            self.cells + other.cells,
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
        )

    def cdf(self) -> Array:
        """Share of logits that are at most each edge."""
        share: Array = np.cumsum(self.cells[:-1]) / self.count
        return share

    def share_above(self, z: float) -> float:
        """Share of logits beyond the edge at z standard deviations above the mean."""
        return float(self.cells[_place(z) + 1 :].sum() / self.count)

    def share_below(self, z: float) -> float:
        """Share of logits at or below the edge at z standard deviations below the mean."""
        return float(self.cells[: _place(-z) + 1].sum() / self.count)


def _place(z: float) -> int:
    return round((z + REACH) * PER_SD)
