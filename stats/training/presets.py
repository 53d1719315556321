"""What is trained: tasks, sizes, arms, rates and replicates of experiments, as plain numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .arms import ARMS, CONTROL, REFERENCE

D_MODEL, D_FF, LENGTH = 128, 256, 64
RATES = (1.5e-3, 5e-3, 1.5e-2)
"""Learning rates that are tried; the reference's best at d_k = 16 and 64 lies inside."""
RATE = 5e-3
"""The fixed rate, at which all arms are compared as well."""
NORMED = ("score-layernorm", "qk-rmsnorm")
"""Arms whose program has the norms in it."""
MAPPED = (REFERENCE, "none")
"""Arms whose attention maps are kept, of the first replicate."""
TUNING = -1
"""The replicate that rates are tuned on; those that are judged count from 0."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One task and model with its arms; replicates differ in initialisation and data order."""

    name: str
    arms: tuple[str, ...] = tuple(ARMS)
    task: str = "characters"
    n_heads: int = 8
    n_layers: int = 1
    dtype: str = "float32"
    steps: int = 450
    batch: int = 8
    replicates: int = 5
    tuned: bool = False
    d_model: int = D_MODEL
    d_ff: int = D_FF
    length: int = LENGTH
    every: int = 90

    @property
    def d_k(self) -> int:
        """Width of a head."""
        return self.d_model // self.n_heads


@dataclass(frozen=True, slots=True)
class Run:
    """One training run: an arm at a rate, from the initialisation and data of a replicate."""

    experiment: str
    arm: str
    rate: float
    replicate: int


_PAIR = (REFERENCE, "none")
_THREE = (*_PAIR, CONTROL)
_TOPICS = (*_PAIR, "power:0.6", "power:0.8", CONTROL)
PRESETS: dict[str, tuple[Experiment, ...]] = {
    "documents": (
        Experiment("d_k 64", n_heads=2, tuned=True),
        Experiment("d_k 16", _THREE),
        Experiment("two layers", _PAIR, n_layers=2, steps=300, every=60),
        Experiment("two topics", _TOPICS, "topics", n_heads=2, steps=250, every=50),
        Experiment("bfloat16", _PAIR, n_heads=2, dtype="bfloat16", steps=100, every=50),
        Experiment("float16", (*_PAIR, "sd-15"), n_heads=2, dtype="float16", steps=100, every=50),
    ),
    "quick": (Experiment("d_k 64", _THREE, n_heads=2, steps=400, every=100),),
}


def fixed_runs(experiment: Experiment) -> Iterator[Run]:
    """Every arm of every replicate at the fixed rate."""
    for replicate in range(experiment.replicates):
        for arm in experiment.arms:
            yield Run(experiment.name, arm, RATE, replicate)


def tuning_runs(experiment: Experiment) -> Iterator[Run]:
    """Every arm at every rate, on a replicate that is not judged."""
    if experiment.tuned:
        for rate in RATES:
            for arm in experiment.arms:
                yield Run(experiment.name, arm, rate, TUNING)


def tuned_runs(experiment: Experiment, best: dict[str, float]) -> Iterator[Run]:
    """The runs at each arm's best rate that the fixed rate does not hold already."""
    for run in fixed_runs(experiment):
        if experiment.tuned and best[run.arm] != RATE:
            yield replace(run, rate=best[run.arm])
