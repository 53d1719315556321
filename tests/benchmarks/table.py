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
    return Line(
        work, clock, duration(ours), rival, duration(theirs), f"{ratio:.2f}", *_judged(ratio, goal)
    )


def at_most(work: str, ours: str, rival: str, theirs: str, ratio: float, goal: float) -> Line:
    """A ratio ours / theirs that should stay small."""
    met = "yes" if ratio <= goal else "NO"
    return Line(work, "wall", ours, rival, theirs, f"{ratio:.2f}", f"<= {goal:g}", met)


def _judged(ratio: float, goal: float | None) -> tuple[str, str]:
    if goal is None:
        return "", ""
    return f">= {goal:g}", "yes" if ratio >= goal else "NO"


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
