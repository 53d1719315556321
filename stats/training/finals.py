"""What is left of the logs when training is over: numbers of a run by name, by replicate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..checks import InputError
from .arms import REFERENCE
from .paired import Interval, interval, paired
from .presets import RATE, TUNING

Log = Mapping[str, Any]
"""Lists over the logged steps by quantity, a number for each layer and head in most."""
Finals = Mapping[str, Any]
"""`experiment`, `arm`, `rate`, `replicate`, and the last value of each quantity by its name."""
BY_HEAD = (
    *("logit_std", "logit_max", "entropy", "max_prob", "saturated", "jacobian_frobenius_sq"),
    *("jacobian_spectral", "score_gradient", "query_gradient", "key_gradient", "head_overlap"),
    *("first_key", "own_key", "near_keys", "multiplier", "not_finite"),
)
"""Quantities that are logged for each layer and head."""


def finals_of(log: Log) -> dict[str, Any]:
    """The last values of a log: means over heads, and by layer (`entropy_1`) and all layers.

    Besides: `fall`, by how much the validation loss fell; `loss_at_third`, its value at a third of
    the steps, by linear interpolation; `start_logit_std`, before the first step; with more layers
    than one `logit_std_growth`, the last layer's minus the first's.
    """
    losses, steps = log["validation_loss"], log["steps"]
    found = {
        **{name: log[name] for name in ("experiment", "arm", "rate", "replicate")},
        "validation_loss": losses[-1],
        "training_loss": log["training_loss"][-1],
        "fall": None if losses[-1] is None else losses[0] - losses[-1],
        "loss_at_third": _interpolated(steps, losses, steps[-1] / 3),
        "accuracy": log["accuracy"][-1],
        "start_logit_std": _mean(log["logit_std"][0]),
        **{name: log[name] for name in log if name.startswith(("lost_", "largest_"))},
    }
    for name in BY_HEAD:
        layers = log[name][-1]
        found[name] = _mean(layers)
        if len(layers) > 1:
            found |= {f"{name}_{i}": _mean([layer]) for i, layer in enumerate(layers, 1)}
    if len(log["logit_std"][-1]) > 1:
        first, last = found["logit_std_1"], found[f"logit_std_{len(log['logit_std'][-1])}"]
        found["logit_std_growth"] = None if first is None or last is None else last - first
    return found


def _mean(layers: Sequence[Sequence[float | None]]) -> float | None:
    values = [value for layer in layers for value in layer]
    if any(value is None for value in values):
        return None
    return math.fsum(value for value in values if value is not None) / len(values)


def _interpolated(steps: Sequence[int], values: Sequence[float | None], at: float) -> float | None:
    for a, b, x, y in zip(steps, steps[1:], values, values[1:], strict=False):
        if a <= at <= b:
            return None if x is None or y is None else x + (y - x) * (at - a) / (b - a)
    return None


@dataclass(frozen=True)
class Table:
    """All runs' finals; values are asked for by experiment, arm and quantity."""

    runs: Sequence[Finals]

    def experiments(self) -> list[str]:
        """Names of the experiments, in order."""
        return list(dict.fromkeys(run["experiment"] for run in self.runs))

    def arms(self, experiment: str) -> list[str]:
        """Names of an experiment's arms, in order."""
        return list(dict.fromkeys(r["arm"] for r in self.runs if r["experiment"] == experiment))

    def best_rate(self, experiment: str, arm: str) -> float:
        """The rate of the lowest validation loss on the tuning replicate, the fixed one without."""
        tuning = [
            (_or_infinite(run["validation_loss"]), run["rate"])
            for run in self._of(experiment, arm)
            if run["replicate"] == TUNING
        ]
        return float(min(tuning, default=(0.0, RATE))[1])

    def values(
        self, experiment: str, arm: str, quantity: str, *, tuned: bool = False
    ) -> list[float]:
        """A quantity by replicate, at the fixed rate or the arm's best; nan where it was lost.

        Raises InputError where no run has it.
        """
        rate = self.best_rate(experiment, arm) if tuned else RATE
        found = {
            run["replicate"]: run[quantity]
            for run in self._of(experiment, arm)
            if run["rate"] == rate and run["replicate"] != TUNING
        }
        if not found:
            raise InputError(f"no run of {arm} in {experiment} at rate {rate:g}; train it first")
        return [math.nan if found[r] is None else float(found[r]) for r in sorted(found)]

    def mean(self, experiment: str, arm: str, quantity: str, *, tuned: bool = False) -> Interval:
        """The interval of a quantity's mean over replicates."""
        return interval(self.values(experiment, arm, quantity, tuned=tuned))

    def against(
        self, experiment: str, arm: str, quantity: str, *, tuned: bool = False,
        reference: str = REFERENCE, other: str = "",
    ) -> Interval:  # fmt: skip
        """The interval of the paired difference to another arm, or to its `other` quantity."""
        theirs = self.values(experiment, reference, other or quantity, tuned=tuned)
        return paired(self.values(experiment, arm, quantity, tuned=tuned), theirs)

    def share(self, experiment: str, arm: str, quantity: str, *, tuned: bool = False) -> Interval:
        """The interval of the ratio to the reference arm, replicate by replicate."""
        reference = self.values(experiment, REFERENCE, quantity, tuned=tuned)
        values = self.values(experiment, arm, quantity, tuned=tuned)
        return interval([a / b if b else math.nan for a, b in zip(values, reference, strict=True)])

    def has(self, experiment: str, arm: str) -> bool:
        """Whether an arm of an experiment was trained."""
        return bool(self._of(experiment, arm))

    def tuned(self, experiment: str) -> bool:
        """Whether rates were tuned in an experiment."""
        return any(r["experiment"] == experiment and r["replicate"] == TUNING for r in self.runs)

    def _of(self, experiment: str, arm: str) -> list[Finals]:
        return [r for r in self.runs if (r["experiment"], r["arm"]) == (experiment, arm)]


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value
