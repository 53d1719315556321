"""From experiments to logs: runs are trained a few at a time, and nothing twice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...stats.training.arms import Arm, arm_of
from ...stats.training.finals import Table, finals_of
from ...stats.training.presets import (
    MAPPED,
    NORMED,
    TUNING,
    Experiment,
    Run,
    fixed_runs,
    tuned_runs,
    tuning_runs,
)
from ..keys import cell_key
from .model import Shape
from .steps import optax, programs, schedule, windows_at
from .text import SYMBOLS, Text, help_text, validation_starts

TOGETHER = 4
"""Runs that one program trains side by side: more would not fit a processor's caches."""
_VALIDATION = {"characters": 64, "topics": 256}
_PROBED = 16  # held-out windows that the logged quantities are of
_DIGITS = 6
_AT_ONCE = 2  # batches, each in its own thread

Log = dict[str, Any]
Done = dict[str, Log]


def run_name(run: Run) -> str:
    """The name of a run in a journal.

    Examples:
        >>> run_name(Run("d_k 16", "none", 0.005, 0))
        'd_k 16/none/0.005/0'

    """
    return f"{run.experiment}/{run.arm}/{run.rate:g}/{run.replicate}"


def run_experiments(
    experiments: Sequence[Experiment],
    seed: int,
    done: Done,
    save: Callable[[], None] = lambda: None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Train what is not in `done`, and add its log; `save` is called after each batch of runs.

    First the tuning runs, then all arms at the fixed rate, then each at its best rate. A batch is
    trained whole or not at all, so that a run has the same neighbours, and bits, after a stop.
    `progress` gets the work done and planned, in characters times layers; runs at tuned rates are
    planned when they are known.
    """
    optax()  # complains before any work
    planned = sum(
        work(e) for e in experiments for run in (*tuning_runs(e), *fixed_runs(e))
        if run_name(run) not in done
    )  # fmt: skip
    passed = 0

    def advance(more: int) -> None:
        nonlocal passed
        passed += more
        if progress is not None:
            progress(passed, max(planned, passed))

    advance(0)
    for experiment in experiments:
        text = help_text(experiment.task, experiment.length)

        def logs_of(batch: Sequence[Run], e: Experiment = experiment, text: Text = text) -> Done:
            if all(run_name(run) in done for run in batch):
                return {}
            return dict(zip(map(run_name, batch), train(e, batch, seed, text), strict=True))

        for stage in _STAGES:
            for batches in _programs(stage(experiment, done)):
                for batch, found in zip(batches, _side_by_side(logs_of, batches), strict=True):
                    if found:
                        done.update(found)
                        save()
                        advance(work(experiment) * len(batch))


def _side_by_side(
    logs_of: Callable[[Sequence[Run]], Done], batches: Sequence[Sequence[Run]]
) -> Iterator[Done]:
    """Results in order; one small program alone would leave part of two processors idle.

    The first batch goes ahead, so that its program is compiled once.
    """
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        yield logs_of(batches[0])
        yield from pool.map(logs_of, batches[1:])
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def work(experiment: Experiment) -> int:
    """Characters that one run is trained on, times layers: what its time goes with."""
    return experiment.steps * experiment.batch * experiment.length * experiment.n_layers


def text_digests(experiments: Sequence[Experiment]) -> dict[str, str]:
    """The hash of each task's text: it differs between versions of Python."""
    return {e.task: help_text(e.task, e.length).digest for e in experiments}


def _tuning(experiment: Experiment, done: Done) -> Iterator[Run]:
    return tuning_runs(experiment)


def _fixed(experiment: Experiment, done: Done) -> Iterator[Run]:
    return fixed_runs(experiment)


def _tuned(experiment: Experiment, done: Done) -> Iterator[Run]:
    """Known only when the tuning runs are done."""
    table = Table([finals_of(log) for log in done.values()])
    return tuned_runs(
        experiment, {arm: table.best_rate(experiment.name, arm) for arm in experiment.arms}
    )


_STAGES = (_tuning, _fixed, _tuned)


def _programs(runs: Iterable[Run]) -> Iterator[list[list[Run]]]:
    """The batches of each program, `TOGETHER` runs in each; the last may be smaller."""
    listed = list(runs)
    for normed in (False, True):
        alike = [run for run in listed if (run.arm in NORMED) == normed]
        if alike:
            yield [alike[i : i + TOGETHER] for i in range(0, len(alike), TOGETHER)]


def shape_of(experiment: Experiment, *, normed: bool) -> Shape:
    """The sizes of an experiment's model."""
    outputs = SYMBOLS if experiment.task == "characters" else 2
    e = experiment
    return Shape(e.d_model, e.n_heads, e.n_layers, e.d_ff, e.length, SYMBOLS, outputs, normed)


def train(experiment: Experiment, runs: Sequence[Run], seed: int, text: Text) -> list[Log]:
    """The logs of runs that are trained side by side; short batches repeat their last run.

    A log has the run's own fields and lists over the logged steps: `steps`, `training_loss` (mean
    since the last), `validation_loss`, `accuracy` and every quantity of `probes.probe` as
    [layers][heads]; how much was not finite; and the last attention `map` where it is kept. None
    stands for a number that is not finite itself.
    """
    lanes = [*runs, *[runs[-1]] * (TOGETHER - len(runs))]
    e, shape = experiment, shape_of(experiment, normed=runs[0].arm in NORMED)
    begin, advance, look = programs(shape, e.dtype)
    arms = _stacked([arm_of(run.arm, e.d_k, e.d_model) for run in lanes])
    keys = jnp.stack([_key(seed, e, run.replicate, "weights") for run in lanes])
    starts = np.stack([_order(seed, e, run.replicate, text) for run in lanes], axis=1)
    rates = schedule(e.steps)[:, None] * np.array([run.rate for run in lanes])
    tokens = (jnp.asarray(text.symbols), jnp.asarray(text.classes))
    held_out = windows_at(tokens, validation_starts(text, _VALIDATION[e.task]), e.length)
    some = windows_at(tokens, validation_starts(text, _PROBED), e.length)
    state = begin(keys, arms)
    points: list[dict[str, Any]] = [{"step": 0} | look(state.params, arms, held_out, some)]
    for first in range(0, e.steps, e.every):
        part = slice(first, first + e.every)
        state, steps = advance(state, arms, tokens, starts[part], rates[part].astype(np.float32))
        seen = look(state.params, arms, held_out, some)
        points.append({"step": min(first + e.every, e.steps), "trained": steps} | seen)
    logs = [asdict(run) | _log(points, lane) for lane, run in enumerate(runs)]
    for lane, run in enumerate(runs):
        if run.replicate == 0 and run.arm in MAPPED:
            logs[lane]["map"] = _rounded(np.asarray(points[-1]["map"][lane]), digits=2)
    return logs


def _stacked(arms: Sequence[Arm]) -> Any:
    """One array for each number of the arms."""
    return jax.tree.map(lambda *values: jnp.array(values), *arms)


def _key(seed: int, experiment: Experiment, replicate: int, what: str) -> Any:
    """The key of a replicate: the same for every arm, rate and dtype."""
    named = f"train/{experiment.task}/{'tuning' if replicate == TUNING else replicate}/{what}"
    words = jnp.array(cell_key(seed, named), jnp.uint32)
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _order(seed: int, experiment: Experiment, replicate: int, text: Text) -> NDArray[np.int64]:
    """Where the windows of each step start, [steps, batch]."""
    key = _key(seed, experiment, replicate, "order")
    size = (experiment.steps, experiment.batch)
    places = np.asarray(jax.random.randint(key, size, 0, len(text.training)))
    starts: NDArray[np.int64] = text.training[places]
    return starts


def _log(points: Sequence[dict[str, Any]], lane: int) -> Log:
    log: Log = {"steps": [point["step"] for point in points]}
    for name in points[0]:
        if name not in ("step", "map"):
            log[name] = [_rounded(np.asarray(point[name][lane])) for point in points]
    trained = [point["trained"] for point in points[1:]]
    losses = [np.asarray(part["loss"][:, lane], np.float64) for part in trained]
    log["training_loss"] = [None, *(_rounded(part.mean()) for part in losses)]
    log["largest_rise"] = _rounded(largest_rise(np.concatenate(losses)))
    for name in ("scores", "gradients"):
        log[f"lost_{name}"] = sum(int(part[name][:, lane].sum()) for part in trained)
    log["lost_steps"] = int((~np.isfinite(np.concatenate(losses))).sum())
    return log


def largest_rise(losses: NDArray[np.float64], before: int = 10) -> float:
    """Most that the loss of a step lies above the mean of the ten before it.

    Examples:
        >>> round(largest_rise(np.array([2.0] * 10 + [1.5, 2.45, 1.9])), 12)
        0.5

    """
    if len(losses) <= before:
        return 0.0
    sums = np.concatenate([[0.0], np.cumsum(losses)])
    means = (sums[before:-1] - sums[: -before - 1]) / before
    return float((losses[before:] - means).max())


def _rounded(value: Any, digits: int = _DIGITS) -> Any:
    """Plain numbers of a few digits, None where they are not finite."""
    if isinstance(value, np.ndarray) and value.ndim:
        return [_rounded(item, digits) for item in value]
    number = float(value)
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None
