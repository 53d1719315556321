"""Lines of the printed table: work, ours, rival, ratio, goal, met or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

HEADERS = ("work", "clock", "ours", "rival", "rival's", "ratio", "goal", "met")


@dataclass(frozen=True)
class Line:
    """One line, as text."""

    work: str
    clock: str
    ours: str
    rival: str
    theirs: str
    ratio: str
    goal: str
    met: str


def at_least(
    work: str, clock: str, ours: float, rival: str, theirs: float, goal: float | None = None
) -> Line:
    """How many times faster than the rival we are, in seconds a unit."""
    ratio = theirs / ours
    words = _goal(">=", goal, goal is not None and ratio >= goal)
    return Line(work, clock, duration(ours), rival, duration(theirs), f"{ratio:.2f}", *words)


def at_most(
    work: str, clock: str, ours: str, rival: str, theirs: str, ratio: float, goal: float | None
) -> Line:
    """A ratio ours / theirs that should stay small."""
    words = _goal("<=", goal, goal is not None and ratio <= goal)
    return Line(work, clock, ours, rival, theirs, f"{ratio:.2f}", *words)


def limit(work: str, clock: str, seconds: float, goal: float) -> Line:
    """A time without a rival that should stay below the goal."""
    met = "yes" if seconds <= goal else "NO"
    return Line(work, clock, duration(seconds), "", "", "", f"<= {duration(goal)}", met)


def _goal(sign: str, goal: float | None, met: bool) -> tuple[str, str]:
    return ("", "") if goal is None else (f"{sign} {goal:g}", "yes" if met else "NO")


def duration(seconds: float) -> str:
    """Three digits and a unit.

    Examples:
        >>> duration(1.234e-9), duration(0.5)
        ('1.23 ns', '500 ms')

    """
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def render(lines: Sequence[Line]) -> str:
    """The table as text."""
    from tabulate import tabulate

    return tabulate([astuple(line) for line in lines], headers=HEADERS, disable_numparse=True)
