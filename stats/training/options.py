"""What the command `train` takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..checks import InputError, choice, count, no_duplicates
from .arms import ARMS, REFERENCE
from .presets import PRESETS, Experiment


@dataclass(frozen=True)
class TrainOptions:
    """What is trained, and how long.

    Parameters
    ----------
    preset
        documents: what the articles' claims on training need, some ten minutes on two cores.
    quick
        One experiment of three arms in about a minute; the same as --preset quick.
    arms
        Train these arms alone, such as sqrt-dk none score-layernorm; sqrt-dk, with which all are
        compared, must be among them.
    steps
        Steps of each run, instead of the preset's.
    replicates
        Initialisations and data orders, each met by every arm, instead of the preset's.
    resume
        Go on from this file, which is made where it is not there and kept up as runs finish.
    seed
        Seed of all initialisations and data orders: an integer.

    """

    preset: str = "documents"
    quick: bool = False
    arms: tuple[str, ...] = ()
    steps: str | None = None
    replicates: str | None = None
    resume: str | None = None
    seed: str = "0"

    def experiments(self) -> tuple[Experiment, ...]:
        """The experiments that are asked for.

        Examples:
            >>> (few,) = TrainOptions(quick=True, arms=("sqrt-dk", "none")).experiments()
            >>> few.name, few.arms
            ('d_k 64', ('sqrt-dk', 'none'))

        """
        name = "quick" if self.quick else choice("preset", self.preset, PRESETS)
        for arm in self.arms:
            choice("arm", arm, ARMS)
        no_duplicates("arms", self.arms)
        if self.arms and REFERENCE not in self.arms:
            raise InputError(
                f"arms must have {REFERENCE}, with which all are compared, got "
                f"{' '.join(self.arms)}; add it"
            )
        return tuple(map(self._as_asked, PRESETS[name]))

    def _as_asked(self, experiment: Experiment) -> Experiment:
        if self.steps is not None:
            steps = count("steps", self.steps, least=3)
            experiment = replace(experiment, steps=steps, every=-(-steps // 4))
        if self.replicates is not None:
            n = count("replicates", self.replicates, least=2)
            experiment = replace(experiment, replicates=n)
        if self.arms:
            kept = tuple(arm for arm in experiment.arms if arm in self.arms)
            experiment = replace(experiment, arms=kept)
        return experiment

    def chosen_seed(self) -> int:
        """The seed as a number."""
        return count("seed", self.seed, least=0)
