"""What three articles say of training, each as criteria on what was measured.

A statement has parts, and all must hold: confirmed where every part does, refuted where one does
not, undecided where the interval of a part holds its bound. The bounds are generous to the
statement, so that a refutation does not hang on them; each interval misses at the rate of
`paired.FALSE_ALARM`. What can go wrong: an anecdote of one run cannot be refuted by another one.
What is judged is the general statement that it is told for, in experiments of this size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .arms import REFERENCE
from .finals import Table
from .paired import Interval

Measure = Callable[[Table], Interval]


@dataclass(frozen=True)
class Part:
    """What is measured in an experiment, and the bounds that it must lie between.

    `tuned`: each arm at its best rate, instead of all at the fixed one.
    """

    says: str
    experiment: str
    measure: Measure
    low: float = -math.inf
    high: float = math.inf
    arms: tuple[str, ...] = ()
    tuned: bool = False


@dataclass(frozen=True)
class Statement:
    """A claim of a document, its parts, and what these experiments cannot say of it.

    `direction`: the parts are about the claim's direction alone, not about its numbers.
    """

    id: str
    says: str
    parts: tuple[Part, ...]
    beyond: str = ""
    direction: bool = False


@dataclass(frozen=True)
class Outcome:
    """A part that was looked at: holds, does not, or its interval does not tell (None)."""

    part: Part
    interval: Interval
    holds: bool | None


@dataclass(frozen=True)
class Judged:
    """A statement with its verdict: confirmed, refuted or undecided."""

    statement: Statement
    verdict: str
    outcomes: tuple[Outcome, ...]


def judge(table: Table, statements: Sequence[Statement]) -> list[Judged]:
    """The statements that the table's experiments speak of, by the parts that they hold."""
    known = [(s, [part for part in s.parts if _known(part, table)]) for s in statements]
    return [_judged(statement, parts, table) for statement, parts in known if parts]


def _known(part: Part, table: Table) -> bool:
    trained = all(table.has(part.experiment, arm) for arm in (*part.arms, REFERENCE))
    return trained and (not part.tuned or table.tuned(part.experiment))


def _judged(statement: Statement, parts: Sequence[Part], table: Table) -> Judged:
    outcomes = []
    for part in parts:
        found = part.measure(table)
        outcomes.append(Outcome(part, found, holds(found, part.low, part.high)))
    holding = [outcome.holds for outcome in outcomes]
    verdict = "refuted" if False in holding else "undecided" if None in holding else "confirmed"
    return Judged(statement, verdict, tuple(outcomes))


def holds(found: Interval, low: float, high: float) -> bool | None:
    """Whether a mean lies between two bounds; None where its interval does not tell.

    Examples:
        >>> holds(Interval(0.9, 0.8, 1.0, 0.1, 5), -math.inf, 0.1)
        False

    """
    if low <= found.low and found.high <= high:
        return True
    return False if found.high < low or found.low > high else None
