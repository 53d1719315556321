"""What blocks leave behind: sums, one row a block, and exact counts; merged in block order.

A `Pass` is one program's look at a cell: it measures a run of consecutive blocks into a `Part`, on
whatever devices, in whatever order. A `Tally` takes the parts in block order, each block once, so
that its bits do not depend on how the blocks were shared out. It does not grow with the draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..stats.moments import Moments
from ..stats.quantities import Measurement
from .guards import Guard
from .reduce import block_moments

Variable = tuple[str, float | None]
"""What is measured, and the factor of the logits that it is measured at (None: exact for any)."""
Measured = dict[Variable, Measurement]


@dataclass(frozen=True)
class Part:
    """Consecutive blocks `first ... first + blocks - 1` of a pass.

    `sums` and `seen` hold one row a block, `[blocks, 2 + order]`: count, a centre c, and the sums
    of `(x - c)^r` for r = 1, 2, ...; the guards alone look at what is seen. `counts` are int64
    totals over all blocks, `ends` the smallest and the largest value.
    """

    first: int
    blocks: int
    sums: Mapping[Variable, NDArray[np.float64]] = field(default_factory=dict)
    seen: Mapping[Variable, NDArray[np.float64]] = field(default_factory=dict)
    counts: Mapping[Variable, NDArray[np.int64]] = field(default_factory=dict)
    ends: tuple[float, float] = (math.inf, -math.inf)


class Pass(Protocol):
    """One program's look at a cell; `block` replicates are drawn in each of its full blocks."""

    name: str
    block: int

    def at_once(self, n_devices: int) -> int:
        """Blocks between two looks at progress."""

    def measure(self, first: int, blocks: int, last: int, devices: Sequence[Any]) -> Part:
        """Blocks from `first` on; the last of them holds `last` replicates, the others `block`."""

    def guards(self) -> dict[Variable, Guard]:
        """What looks at the blocks' sums."""

    def error(self, tally: Tally) -> float | None:
        """Relative standard error of the first thing that is measured, where it is cheap."""

    def measured(self, tally: Tally, draws: int) -> Measured:
        """What the cell was drawn for, from all of its blocks."""


class Tally:
    """All blocks of a pass so far, merged in block order."""

    def __init__(self, guards: dict[Variable, Guard]) -> None:
        self.blocks = 0
        self.moments: dict[Variable, Moments] = {}
        self.counts: dict[Variable, NDArray[np.int64]] = {}
        self.ends = (math.inf, -math.inf)
        self._guards = guards

    def add(self, part: Part) -> None:
        """Take the next blocks; ValueError where one would be counted twice or left out."""
        if part.first != self.blocks:
            raise ValueError(f"block {self.blocks} must come next, got block {part.first}")
        for key, guard in self._guards.items():
            guard.add(part.sums[key] if key in part.sums else part.seen[key])
        self._merge(part)

    def with_last(self, part: Part) -> Tally:
        """These blocks and one that is not full, of which the guards know nothing to say."""
        whole = Tally(self._guards)
        whole.blocks, whole.ends = self.blocks, self.ends
        whole.moments, whole.counts = dict(self.moments), dict(self.counts)
        whole._merge(part)
        return whole

    def _merge(self, part: Part) -> None:
        for key, rows in part.sums.items():
            merged = self.moments.get(key)
            for row in rows:
                block = block_moments(row[1:], int(row[0]))
                merged = block if merged is None else merged.merge(block)
            assert merged is not None
            self.moments[key] = merged
        for key, counts in part.counts.items():
            self.counts[key] = self.counts[key] + counts if key in self.counts else counts
        smallest, largest = self.ends
        self.ends = min(smallest, part.ends[0]), max(largest, part.ends[1])
        self.blocks += part.blocks

    def error(self) -> float | None:
        """Relative standard error of the mean of the first variable."""
        moments = next(iter(self.moments.values()), None)
        if moments is None or not moments.count or not moments.mean:
            return None
        return math.sqrt(moments.central(2) / moments.count) / abs(moments.mean)

    def check(self) -> None:
        """Let the guards speak: BrokenGenerator where blocks are not independent draws."""
        for guard in self._guards.values():
            guard.check()
