"""Monte Carlo statistics and verification for the attention logit.

Measure by simulation, derive by mathematics, decide with stated error rates, show the table.

    >>> import verify_variance as vv
    >>> vv.verify(dk=[16, 32], samples=10_000).verdict
    'match'

Names are handed on lazily, so that importing this package loads nothing heavy.
"""

from __future__ import annotations

import importlib
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .reports.arrays import audit_logits as audit_logits
    from .reports.result import Result as Result
    from .simulations.audit.assertion import assert_logit_scale as assert_logit_scale
    from .simulations.audit.black_box import ProbeError as ProbeError
    from .simulations.audit.probe import Probe as Probe
    from .simulations.audit.probe import probe_factor as probe_factor
    from .simulations.own_laws import register_elements as register_elements
    from .stats.assertions import assert_logit_variance as assert_logit_variance
    from .stats.assertions import assert_matches as assert_matches
    from .stats.assertions import assert_unit_logits as assert_unit_logits
    from .stats.cases import Case as Case
    from .stats.cases import Reference as Reference
    from .stats.checks import InputError as InputError
    from .stats.decision import Row as Row
    from .stats.decision import decide as decide
    from .stats.failures import InconclusiveError as InconclusiveError
    from .stats.moments import Moments as Moments
    from .stats.planning import Rates as Rates
    from .stats.planning import detectable_gap as detectable_gap
    from .stats.planning import draws_needed as draws_needed
    from .stats.predict import predict as predict
    from .stats.quantities import Estimate as Estimate

__version__ = "0.1.0"

_HOMES = {
    "Case": "stats.cases",
    "Estimate": "stats.quantities",
    "InconclusiveError": "stats.failures",
    "InputError": "stats.checks",
    "Moments": "stats.moments",
    "Probe": "simulations.audit.probe",
    "ProbeError": "simulations.audit.black_box",
    "Rates": "stats.planning",
    "Reference": "stats.cases",
    "Result": "reports.result",
    "Row": "stats.decision",
    "audit_logits": "reports.arrays",
    "assert_logit_scale": "simulations.audit.assertion",
    "assert_logit_variance": "stats.assertions",
    "assert_matches": "stats.assertions",
    "assert_unit_logits": "stats.assertions",
    "decide": "stats.decision",
    "detectable_gap": "stats.planning",
    "draws_needed": "stats.planning",
    "predict": "stats.predict",
    "register_elements": "simulations.own_laws",
    "probe_factor": "simulations.audit.probe",
}
__all__ = ["__version__", "audit", "calibrate", "check_claims", "train", "verify", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def verify(
    *,
    sweep: str | Sequence[Mapping[str, object]] | None = None,
    platform: str = "auto",
    progress: Callable[[int, int, float | None], None] | None = None,
    **options: Any,
) -> Result:
    """Plan, measure, decide, record: what `verify-variance run` does.

    Args:
        sweep: tables of options whose rows stand one after the other, or the TOML file of them;
            what a table leaves out it has from the options beside it.
        platform: `auto`, `cpu`, `gpu` or `tpu`.
        progress: called with (elements drawn, elements to draw, relative error so far or None).
        options: fields of `stats.request.CaseOptions` and `DecisionOptions`, such as `dk`,
            `quantities`, `elements`, `scale`, `samples`, `tolerance`, `seed`, and of
            `stats.long_runs.LongRunOptions`, such as `resume`.

    Returns:
        A Result: `verdict`, `table()`, `frame`, `record`, `summary`.

    Raises:
        InputError: for anything that breaks a rule, in one line.

    Examples:
        >>> import verify_variance as vv
        >>> result = vv.verify(dk=[16, 64], scale="sqrt-dk", quantities="std", samples=20_000)
        >>> [round(theory, 12) for theory in result.frame["theory"]]
        [1.0, 1.0]

    """
    from .reports.files import check_writable
    from .reports.record import make_record, resolved
    from .reports.result import Result
    from .reports.sweeps import swept
    from .simulations import devices as machine  # loads no JAX yet
    from .simulations.processes import joined
    from .stats.long_runs import LongRunOptions
    from .stats.request import options_from
    from .stats.run import Run

    long, options = LongRunOptions.taken_from(options)
    given, decision = options_from(options)
    cases, seed = swept(sweep, given), decision.chosen_seed()
    if seed is None:
        long.refuse_random_seed()
    if long.resume is not None:
        check_writable(long.resume, "resume")
    team = joined(long)  # loads JAX only where there are others
    if seed is None:
        seed = int(team.from_first(str(machine.random_seed()).encode()))

    def drawn_weights(case: Case) -> Any:
        machine.use_platform(platform)
        return importlib.import_module(".simulations.matrices", __name__).drawn_weights(case, seed)

    run = Run.planned(cases, decision, drawn_weights)  # complaints come before JAX is loaded
    request = resolved(cases, decision, platform=platform, seed=seed)
    from .simulations.long_runs import Measuring
    from .simulations.looks import looked, planned_looks, sampled
    from .simulations.sweep import measure

    looks = planned_looks(run, decision) if decision.until_decided else None
    devices, watch = machine.use_platform(platform), machine.Stopwatch()
    with Measuring(run.elements, request, devices, team, long.resume, progress) as long_run:
        place, advance = long_run.place, long_run.advance
        if looks is None:
            rows = run.decided([measure(cell, seed, place, advance) for cell in run.cells])
        else:
            rows = looked(looks, sampled(run, seed, place, advance)).rows
    provenance = machine.provenance(devices) | watch.read() | {"seed": seed} | long_run.facts()
    record = make_record("run", request, rows, run.rates, provenance)
    record["design"] |= looks.design() if looks else {}
    return Result(record)


def check_claims(
    name: str, *, only: Sequence[str] = (), seed: int = 0, platform: str = "auto"
) -> Result:
    """Judge published figures: what `verify-variance claims` does.

    Args:
        name: `documents`, `example`, or the path of a TOML file of claims.
        only: verdicts of the rows that are kept, such as `refuted`; all by default.
        seed: seed of what has to be measured (gradients); most claims are exact.
        platform: `auto`, `cpu`, `gpu` or `tpu`.

    Returns:
        A Result whose verdict is `match` where every claim came out as its file expects, and those
        of which it expects nothing in particular are not wrong.

    Raises:
        InputError: for a file that breaks a rule, with its line.

    Examples:
        >>> import verify_variance as vv
        >>> vv.check_claims("example").verdict
        'match'

    """
    from .reports.claims.options import ClaimOptions
    from .reports.claims.records import claims_record, read_claims
    from .reports.result import Result
    from .reports.training.claims import trained_verdicts
    from .simulations import devices as machine  # loads no JAX yet
    from .stats.claims.settings import requests_of
    from .stats.claims.verdicts import judge_claims

    options = ClaimOptions(only=tuple(only), seed=str(seed))
    options.verdicts()
    file, chosen = read_claims(name), options.chosen_seed()
    watch, requests = machine.Stopwatch(), requests_of(file.claims)
    measured, provenance = {}, {}
    if requests:
        devices = machine.use_platform(platform)
        from .simulations.claims import measure_claim

        measured = {request: measure_claim(request, chosen, devices) for request in requests}
        provenance = machine.provenance(devices)
    judged = judge_claims(file.claims, measured, trained_verdicts(file.claims))
    return Result(claims_record(judged, file, options, provenance | watch.read()))


def audit(target: Any, **options: Any) -> Result:
    """Does an attention apply the scale that is expected of it? What `verify-variance audit` does.

    Args:
        target: a function of (q, k, v), a module, or the text that the command takes:
            `pkg.mod:attr`, `hf:NAME`, or the path of a checkpoint.
        options: fields of `stats.audit.options.AuditOptions`, such as `expected`, `dk`, `layout`,
            `dtype`, `n_heads`.

    Returns:
        A Result: `verdict` (`match`, `mismatch`, or `undecided` where it cannot tell), `exit_code`,
        `table()`, `record`, whose rows have `check`, `where`, `cause` and `said` besides.

    Raises:
        InputError: for a target that cannot be found or imported, in one line.

    Examples:
        >>> import numpy as np
        >>> import verify_variance as vv
        >>> def attention(q, k, v):
        ...     p = np.exp(q @ k.swapaxes(-1, -2) / q.shape[-1])
        ...     return p / p.sum(-1, keepdims=True) @ v
        >>> vv.audit(attention).verdict, vv.audit(attention, expected="dk").verdict
        ('mismatch', 'match')

    """
    from .reports.audit.checkpoints import is_checkpoint, open_checkpoint
    from .reports.audit.records import audit_record
    from .reports.result import Result
    from .simulations import devices as machine  # loads no JAX yet
    from .stats.audit.options import audit_options

    asked, watch = audit_options(options), machine.Stopwatch()
    if isinstance(target, str | PathLike) and is_checkpoint(target):
        from .stats.checkpoints.audit import audit_checkpoint

        found = audit_checkpoint(open_checkpoint(fspath(target)), asked)
    else:
        from .simulations.audit.target import audit_target

        found = audit_target(target, asked)
    return Result(audit_record(found, asked, watch.read()))


def calibrate(
    *,
    runs: int | str = 10_000,
    gaps: Sequence[float] = (1.0,),
    platform: str = "auto",
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Result:
    """Measure our own false-alarm and miss rates for a case: what the command `calibrate` does.

    Args:
        runs: independent runs, each a whole verdict; run i has the seed `2^32 seed + i`.
        gaps: planted errors of the theory, in units of the tolerance.
        platform: `auto`, `cpu`, `gpu` or `tpu`.
        progress: called with (elements drawn, elements planned), first with none drawn.
        options: as for `verify`; `false_alarm` is the nominal rate, 0.01 by default.

    Returns:
        A Result about ourselves: `match` where the rates are what they are said to be.

    Raises:
        InputError: for anything that breaks a rule, in one line.

    Examples:
        >>> import verify_variance as vv
        >>> vv.calibrate(dk=4, runs=400, tolerance=0.2).verdict
        'match'

    """
    from .reports.calibration.records import calibration_record
    from .reports.result import Result
    from .simulations import devices as machine  # loads no JAX yet
    from .stats.calibration.options import (
        CalibratedCase,
        CalibrationOptions,
        NominalRates,
        seed_of_run,
    )
    from .stats.request import options_from, options_of
    from .stats.run import Run

    how = options_of(CalibrationOptions, {"runs": str(runs), "gaps": gaps})
    how.check()
    nominal = {"dk": CalibratedCase.dk, "false_alarm": NominalRates.false_alarm}
    cases, decision = options_from(nominal | options)
    root = decision.chosen_seed()
    root = machine.random_seed() if root is None else root
    run = Run.planned(cases, decision)  # complaints come before JAX is loaded
    devices, watch = machine.use_platform(platform), machine.Stopwatch()

    from .simulations.runs import tallied

    seeds = [seed_of_run(root, i) for i in range(how.n_runs)]
    drawn = 0

    def advance(elements: int) -> None:
        nonlocal drawn
        drawn += elements
        if progress is not None:
            progress(drawn, len(seeds) * run.elements)

    tally = tallied(run, decision, how.planted, seeds, devices, advance)
    provenance = machine.provenance(devices) | watch.read() | {"seed": root, "resumed_blocks": 0}
    asked = (cases, decision, how)
    chosen = {"platform": platform, "seed": root}
    return Result(calibration_record(tally.judged(), run, asked, provenance, **chosen))


def train(
    *, platform: str = "auto", progress: Callable[[int, int], None] | None = None, **options: Any
) -> Result:
    """Train with and without the divisor, all else the same: what `verify-variance train` does.

    Args:
        platform: `auto`, `cpu`, `gpu` or `tpu`.
        progress: called with (work done, work planned), first with none done.
        options: fields of `stats.training.options.TrainOptions`, such as `quick`, `arms`,
            `steps`, `replicates`, `resume`, `seed`.

    Returns:
        A Result whose record has arms (`rows`), `statements`, `runs`, `curves` and `maps`.

    Raises:
        InputError: for anything that breaks a rule, and where optax is not installed.

    """
    from .reports.result import Result
    from .reports.training.journal import Journal
    from .reports.training.records import asked_of, training_record
    from .simulations import devices as machine  # loads no JAX yet
    from .stats.request import options_of
    from .stats.training.options import TrainOptions

    asked = options_of(TrainOptions, options)
    experiments, seed = asked.experiments(), asked.chosen_seed()
    devices, watch = machine.use_platform(platform), machine.Stopwatch()

    from .simulations.training.experiments import run_experiments, text_digests

    texts = text_digests(experiments)
    about = machine.provenance(devices) | {"seed": seed, "text": texts}
    journal = Journal(asked.resume, about | {"experiments": repr(experiments)})
    resumed = len(journal.logs)
    run_experiments(experiments, seed, journal.logs, journal.save, progress)
    provenance = about | watch.read() | {"resumed_blocks": resumed}
    return Result(training_record(journal.logs.values(), experiments, asked_of(asked), provenance))
