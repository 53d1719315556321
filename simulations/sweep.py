"""The spine: cells -> blocks -> Moments.

Blocks are measured in batches, so that progress shows and an interruption is prompt; what a block
gives depends on (seed, cell, block index) alone, and blocks merge on the host in block order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..stats.cells import Cell
from ..stats.planning import elements_per_draw
from ..stats.transforms.groups import grouped
from .groups import GroupSums
from .journal import Journal, packed, unpacked
from .pairs import PairCounts, PairSums
from .parts import Measured, Part, Pass, Tally
from .processes import ALONE, Team
from .rows import RowSums


class Step(NamedTuple):
    """What has just been done: random elements, blocks that the journal had, the relative error.

    The error is that of the cell's first quantity after all its draws so far, where it is known.
    """

    elements: int
    resumed_blocks: int = 0
    error: float | None = None


Progress = Callable[[Step], None]


@dataclass(frozen=True)
class Place:
    """Where blocks are measured and kept: devices of this process, the others, the journal."""

    devices: Sequence[Any]
    team: Team = ALONE
    journal: Journal | None = None

    @property
    def workers(self) -> int:
        """Devices of all processes, as if each had as many as this one."""
        return max(len(self.devices), 1) * self.team.count


def measure(
    cell: Cell,
    seed: int,
    place: Place | Sequence[Any],
    progress: Progress = lambda step: None,
) -> Measured:
    """Moments of everything that a cell is measured for, keyed by (variable, factor).

    The factor is None for logit moments and counts, which scale exactly afterwards. A place may be
    devices alone.
    """
    return Sampling(cell, seed, place, progress).until(cell.draws)


class Sampling:
    """The draws of a cell, block by block; they can be continued, and no full block is redrawn."""

    def __init__(
        self,
        cell: Cell,
        seed: int,
        place: Place | Sequence[Any],
        progress: Progress = lambda step: None,
    ) -> None:
        self._place = place if isinstance(place, Place) else Place(place)
        self._progress = progress
        self._per_draw = elements_per_draw(cell.case)
        asked = json.dumps([cell.case.canonical(), cell.measured, cell.factors])
        self._passes = [
            (each, Tally(each.guards()), f"{each.name} {asked}") for each in passes_of(cell, seed)
        ]
        self.block = max(each.block for each, *_ in self._passes)

    def until(self, draws: int) -> Measured:
        """What the first `draws` replicates give; a later call asks for as many or more."""
        measured: Measured = {}
        for each, tally, name in self._passes:
            measured |= self._until(each, tally, name, draws)
        return measured

    def _until(self, each: Pass, tally: Tally, name: str, draws: int) -> Measured:
        full, rest = divmod(draws, each.block)
        for part in self._kept(name, tally, full):
            tally.add(part)
            elements = part.blocks * each.block * self._per_draw
            self._progress(Step(elements, part.blocks, each.error(tally)))
        while tally.blocks < full:
            blocks = min(each.at_once(self._place.workers), full - tally.blocks)
            for part in self._parts(each, tally.blocks, blocks, each.block):
                tally.add(part)
                if self._place.journal is not None:
                    self._place.journal.keep(name, part)
            elements = blocks * each.block * self._per_draw
            self._progress(Step(elements, error=each.error(tally)))
        tally.check()
        if rest:  # for this answer alone: more draws fill the block up, and it is measured anew
            (last,) = self._parts(each, full, 1, rest)
            tally = tally.with_last(last)
            self._progress(Step(rest * self._per_draw, error=each.error(tally)))
        return each.measured(tally, draws)

    def _kept(self, name: str, tally: Tally, full: int) -> Iterator[Part]:
        """The parts that the journal of the first process has, up to block `full`."""
        journal, team = self._place.journal, self._place.team
        while tally.blocks < full:
            part = None if journal is None else journal.part(name, tally.blocks, full)
            if team.count > 1:
                data = team.from_first(b"" if part is None else packed(part))
                part = unpacked(data) if data else None
            if part is None:
                return
            yield part

    def _parts(self, each: Pass, first: int, blocks: int, last: int) -> list[Part]:
        """Consecutive blocks, in order; each process measures its share of them."""
        team, devices = self._place.team, self._place.devices
        if team.count == 1:
            return [each.measure(first, blocks, last, devices)]
        share = -(-blocks // team.count)
        begin = min(team.index * share, blocks)
        own = min(share, blocks - begin)
        data = b""
        if own:
            at_end = last if begin + own == blocks else each.block
            data = packed(each.measure(first + begin, own, at_end, devices))
        return [unpacked(found) for found in team.gather(data) if found]


def passes_of(cell: Cell, seed: int) -> list[Pass]:
    """The programs that look at a cell, each of which draws its blocks anew."""
    if grouped(cell.case):
        return [GroupSums(cell, seed)]
    if cell.case.n_keys is not None:
        return [RowSums(cell, seed)]
    counts = "counts" in cell.measured
    passes: list[Pass] = [PairCounts(cell, seed)] if counts else []
    if not counts or len(cell.measured) > 1:
        passes.append(PairSums(cell, seed))
    return passes
