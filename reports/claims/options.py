"""What the command `claims` takes besides a file."""

from __future__ import annotations

from dataclasses import dataclass

from ...stats.checks import choice, count
from ...stats.claims.claim import VERDICTS


@dataclass(frozen=True)
class ClaimOptions:
    """Which claims are shown, and whether they are judged at all.

    Parameters
    ----------
    only
        Show the claims with these verdicts alone: confirmed, refuted, inconsistent,
        not-reproducible, qualitative, undecided, needs-training. The counts are of all claims.
    check
        Validate the file and compute nothing.
    source
        Print the file itself, comments and all, and judge nothing: example is one to start from.
    seed
        Seed of what is measured: an integer.

    """

    only: tuple[str, ...] = ()
    check: bool = False
    source: bool = False
    seed: str = "0"

    def verdicts(self) -> tuple[str, ...]:
        """The verdicts asked for, all where none is."""
        words = tuple(name.replace("-", " ") for name in self.only)
        for word in words:
            choice("verdict", word, VERDICTS)
        return words or VERDICTS

    def chosen_seed(self) -> int:
        """The seed as a number."""
        return count("seed", self.seed, least=0)
