"""The record of a training experiment: a row for each arm, the statements, curves and maps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from ...stats.checks import count
from ...stats.training.arms import CONTROL, REFERENCE
from ...stats.training.documents import STATEMENTS
from ...stats.training.finals import BY_HEAD, Log, Table, finals_of
from ...stats.training.options import TrainOptions
from ...stats.training.paired import FALSE_ALARM, Interval
from ...stats.training.presets import RATE, RATES, TUNING, Experiment
from ...stats.training.statements import Judged, judge
from ..record import ROW_KEYS, Record, make_record, plain_data

CURVES = (
    *("training_loss", "validation_loss", "accuracy", "logit_std", "logit_max", "entropy"),
    *("max_prob", "saturated", "jacobian_frobenius_sq", "jacobian_spectral", "score_gradient"),
    *("query_gradient", "key_gradient", "head_overlap", "multiplier"),
)
"""What the record keeps of each logged step: mean and standard deviation over replicates."""
_ENDS = ("accuracy", "start_logit_std", *BY_HEAD)


def training_record(
    logs: Iterable[Log],
    experiments: Sequence[Experiment],
    request: Mapping[str, object],
    provenance: Mapping[str, object],
) -> Record:
    """The record of logs; `runs` has what each ended with, `curves` the arms at the fixed rate.

    `maps` has the weights of the first layer's first head, row by row as far as a query sees.

    A row's estimate is the mean of the validation loss, `difference` the paired one to the
    reference arm, with its interval in `ci_low` and `ci_high`; `to_control` that to the arm without
    attention. Its verdict is `measured`. `errors` has the standard errors, over replicates, of what
    attention is like in the end.
    """
    listed = list(logs)
    table = Table([finals_of(log) for log in listed])
    record = make_record("train", request, [], None, provenance)
    record["verdict"] = "measured"
    record["design"]["false_alarm"] = FALSE_ALARM
    record["experiments"] = [asdict(experiment) for experiment in experiments]
    record["rates"] = {"fixed": RATE, "tried": list(RATES)}
    record["rows"] = [
        _row(table, experiment, arm, tuned)
        for experiment in experiments
        for tuned in ((False, True) if experiment.tuned else (False,))
        for arm in experiment.arms
    ]
    record["statements"] = [statement_record(judged) for judged in judge(table, STATEMENTS)]
    record["runs"] = _columns(table)
    record["curves"] = [
        _curve(experiment, arm, listed) for experiment in experiments for arm in experiment.arms
    ]
    record["maps"] = [
        {"experiment": log["experiment"], "arm": log["arm"], "map": _seen(log["map"][0][0])}
        for log in listed
        if "map" in log and log["rate"] == RATE
    ]
    return record


def _columns(table: Table) -> Record:
    """What every run ended with, one list of values for each: names once, not in every run."""
    names = list(dict.fromkeys(name for run in table.runs for name in run))
    return {"columns": names, "values": [[run.get(name) for name in names] for run in table.runs]}


def table_of(record: Record) -> Table:
    """The runs of a record, to be asked and judged again."""
    names = record["runs"]["columns"]
    return Table([dict(zip(names, run, strict=True)) for run in record["runs"]["values"]])


def _seen(weights: Sequence[Sequence[float | None]]) -> list[list[float]]:
    """The weights of the keys that each query sees, in hundredths: of one layer and head."""
    return [[round(w or 0.0, 2) or 0 for w in row[: i + 1]] for i, row in enumerate(weights)]


def asked_of(options: TrainOptions) -> dict[str, object]:
    """What was asked for, as numbers; where it was kept is no part of it."""
    request: dict[str, object] = {"preset": "quick" if options.quick else options.preset}
    request |= {"arms": list(options.arms)}
    for name in ("steps", "replicates"):
        given = getattr(options, name)
        request[name] = None if given is None else count(name, given)
    return request | {"seed": options.chosen_seed()}


def _row(table: Table, experiment: Experiment, arm: str, tuned: bool) -> Record:
    name = experiment.name
    loss = table.mean(name, arm, "validation_loss", tuned=tuned)
    gap = table.against(name, arm, "validation_loss", tuned=tuned)
    row: Record = dict.fromkeys(ROW_KEYS)
    row |= {
        "quantity": "validation_loss",
        "d_k": experiment.d_k,
        "n_keys": experiment.length,
        "scale": arm,
        "dtype": experiment.dtype,
        "parameters": {"d_model": experiment.d_model},
        "draws": loss.replicates,
        "theory_kind": "none",
        "estimate": loss.mean,
        "mcse": loss.sd / math.sqrt(loss.replicates),
        "ci_low": gap.low,
        "ci_high": gap.high,
        "verdict": "measured",
        "experiment": name,
        "task": experiment.task,
        "arm": arm,
        "rate": table.best_rate(name, arm) if tuned else RATE,
        "tuned": tuned,
        "difference": gap.mean,
        "against": _against(arm, gap),
        **_to_control(table, name, arm, tuned),
    }
    ends = {q: table.mean(name, arm, q, tuned=tuned) for q in _ENDS}
    row |= {quantity: end.mean for quantity, end in ends.items()}
    for quantity in ("lost_steps", "lost_scores", "lost_gradients"):
        row[quantity] = round(sum(table.values(name, arm, quantity, tuned=tuned)))
    errors = {q: plain_data(end.sd / math.sqrt(end.replicates)) for q, end in ends.items()}
    return {key: plain_data(value) for key, value in row.items()} | {"errors": errors}


def _to_control(table: Table, name: str, arm: str, tuned: bool) -> Record:
    keys = ("to_control", "to_control_low", "to_control_high")
    if not table.has(name, CONTROL) or arm == CONTROL:
        return dict.fromkeys(keys)
    gap = table.against(name, arm, "validation_loss", tuned=tuned, reference=CONTROL)
    return dict(zip(keys, (gap.mean, gap.low, gap.high), strict=True))


def _against(arm: str, gap: Interval) -> str:
    """Worse or better where the interval of the difference says so."""
    if arm == REFERENCE:
        return ""
    return "worse" if gap.low > 0 else "better" if gap.high < 0 else "unclear"


def statement_record(judged: Judged) -> Record:
    """A judged statement as plain data."""
    parts = [
        {
            "says": outcome.part.says,
            "experiment": outcome.part.experiment,
            "tuned": outcome.part.tuned,
            "mean": plain_data(outcome.interval.mean),
            "low": plain_data(outcome.interval.low),
            "high": plain_data(outcome.interval.high),
            "replicates": outcome.interval.replicates,
            "least": plain_data(outcome.part.low),
            "most": plain_data(outcome.part.high),
            "holds": outcome.holds,
        }
        for outcome in judged.outcomes
    ]
    statement = judged.statement
    return {
        "id": statement.id,
        "claim": statement.says,
        "verdict": judged.verdict,
        "parts": parts,
        "of_parts": len(statement.parts),
        "direction": statement.direction,
        "beyond": statement.beyond,
    }


def _curve(experiment: Experiment, arm: str, logs: Sequence[Log]) -> Record:
    """Mean and standard deviation over replicates, by quantity, layer (if any) and logged step."""
    mine = [
        log
        for log in logs
        if (log["experiment"], log["arm"], log["rate"]) == (experiment.name, arm, RATE)
        and log["replicate"] != TUNING
    ]
    found: Record = {"experiment": experiment.name, "arm": arm, "steps": mine[0]["steps"]}
    for name in CURVES:
        if name in BY_HEAD:
            layers = range(experiment.n_layers)
            found[name] = [
                _over([[_mean(point[i]) for point in log[name]] for log in mine]) for i in layers
            ]
        else:
            found[name] = _over([log[name] for log in mine])
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if len(known) == len(values) else None


def _over(replicates: Sequence[Sequence[float | None]]) -> Record:
    """Mean and standard deviation at each step; None where a replicate has no finite number."""
    means: list[float | None] = []
    sds: list[float | None] = []
    for values in zip(*replicates, strict=True):
        mean = _mean(values)
        means.append(None if mean is None else float(f"{mean:.6g}"))
        if mean is None or len(values) < 2:
            sds.append(None)
            continue
        square = math.fsum((value - mean) ** 2 for value in values if value is not None)
        sds.append(float(f"{math.sqrt(square / (len(values) - 1)):.3g}"))
    return {"mean": means, "sd": sds}
