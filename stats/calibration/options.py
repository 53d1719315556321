"""What the command `calibrate` takes besides a case and its decision."""

from __future__ import annotations

from dataclasses import dataclass

from ..checks import InputError, count, no_duplicates, positive
from ..request import CaseOptions, DecisionOptions

MOST_RUNS = 10**8
SEEDS_OF_A_ROOT = 2**32


@dataclass(frozen=True)
class CalibratedCase(CaseOptions):  # noqa: D101
    __doc__ = CaseOptions.__doc__
    dk: tuple[str, ...] = ("16",)


@dataclass(frozen=True)
class NominalRates(DecisionOptions):  # noqa: D101
    __doc__ = DecisionOptions.__doc__
    false_alarm: float = 0.01  # one in a million takes more runs than anybody has time for


@dataclass(frozen=True)
class CalibrationOptions:
    """How our own error rates are measured.

    Parameters
    ----------
    runs
        Independent runs of the whole table, such as 10000 or 1e4.
    gaps
        Planted errors of the theory, in units of the tolerance (1 is the gap that --power is
        about); 0 runs after none.

    """

    runs: str = "10000"
    gaps: tuple[str, ...] = ("1",)

    @property
    def n_runs(self) -> int:
        """The runs as a number."""
        return count("runs", self.runs, least=2, most=MOST_RUNS)

    @property
    def planted(self) -> tuple[float, ...]:
        """The gaps as numbers."""
        no_duplicates("gaps", self.gaps)
        return tuple(positive("gaps", gap) for gap in self.gaps)

    def check(self) -> None:
        """Refuse what cannot be measured, before any work."""
        _ = self.n_runs, self.planted


def seed_of_run(root: int, run: int) -> int:
    """The seed of a run, counted from a root that is chosen once: `2^32 root + run`.

    `verify-variance --seed` of it draws that run again, bit for bit. Runs of two roots never
    share a seed.

    Examples:
        >>> seed_of_run(0, 37), seed_of_run(1, 0)
        (37, 4294967296)

    """
    if not 0 <= run < SEEDS_OF_A_ROOT:
        raise InputError(f"run must be from 0 to {SEEDS_OF_A_ROOT - 1}, got {run}")
    return SEEDS_OF_A_ROOT * root + run
