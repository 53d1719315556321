"""One object owns the words of a verdict: the sentence, what to do now, the exit code."""

from __future__ import annotations

import math

from ..stats.causes import likely_cause
from ..stats.planning import Rates, shown_duration
from ..stats.quantities import QUANTITIES
from .numbers import one_in, plain
from .record import Record, verdict_counts

EXIT_CODES = {"match": 0, "measured": 0, "mismatch": 1, "undecided": 3}


def exit_code(record: Record) -> int:
    """0 match, measured or nothing judged, 1 mismatch, 3 undecided."""
    return EXIT_CODES.get(record["verdict"], 0)


def summary(record: Record) -> str:
    """What the run shows, in words that need no statistics."""
    if record["command"] == "predict":
        return ""
    if record["command"] == "plan":
        return _planned(record)
    rows = record["rows"]
    counts = verdict_counts(rows)
    compared = [row for row in rows if row["verdict"] != "measured"]
    lines = [_counted(counts, len(rows))]
    if compared:
        lines += [_sensitivity(record, compared), _rates(record)]
    seed = record["provenance"].get("seed")
    if seed is not None:
        lines.append(f"Seed {seed}.")
    return " ".join(lines)


def _planned(record: Record) -> str:
    design = record["design"]
    return (
        f"N = ((z_holm + z_power) replicate_sd / (unit tolerance))^2, false alarm "
        f"{design['false_alarm']:g} over {design['tests']} tests, power {design['power']:g}; "
        "a cell draws the most that its rows need. "
        f"About {shown_duration(record['seconds'])} on two cores."
    )


def _counted(counts: dict[str, int], total: int) -> str:
    compared = total - counts["measured"]
    rows = "row" if compared == 1 else "rows"
    if not compared:
        return "No row was compared: nothing here has an exact theory, so the figures are measured."
    if counts["match"] == compared:
        verb = "matches" if compared == 1 else "match"
        said = f"{compared} of {compared} {rows} {verb}: simulation agrees with theory."
    else:
        parts = [f"{n} {name}" for name, n in counts.items() if n and name != "measured"]
        said = f"Of {compared} {rows}: {', '.join(parts)}."
    return said + (f" {counts['measured']} more are measured only." if counts["measured"] else "")


def _sensitivity(record: Record, compared: list[Record]) -> str:
    power = record["design"]["power"]
    groups: dict[str, float] = {}
    for row in compared:
        kind = _error_of(row["quantity"])
        groups[kind] = max(groups.get(kind, 0.0), row["tolerance"])
    errors = ", or ".join(
        f"{_size(tolerance, kind)} {kind}".strip() for kind, tolerance in groups.items()
    )
    given = record["request"].get("samples") and record["request"].get("tolerance") is None
    with_draws = "with these draws " if given else ""
    within = " beyond it" if record["request"].get("within") else ""
    reported = f"would {with_draws}have been reported{within} with probability {power:g}"
    return f"An error of {errors} {reported}."


def _error_of(quantity: str) -> str:
    if quantity in ("variance", "std"):
        return "in the standard deviation"
    if quantity == "mean":
        return "of a standard deviation in the mean"
    if quantity in ("skewness", "kurtosis", "saturated"):
        return f"in the {quantity}" if quantity != "saturated" else "in the saturated share"
    if quantity == "entropy":
        return "of ln n in the entropy"
    return "in mean_abs" if quantity == "mean_abs" else "in a row statistic"


def _size(tolerance: float, kind: str) -> str:
    absolute = any(word in kind for word in ("skewness", "kurtosis", "share"))
    return f"{tolerance:.2g}" if absolute else f"{100 * tolerance:.2g} %"


def _rates(record: Record) -> str:
    rate = one_in(record["design"]["false_alarm"])
    return f"A correct theory is reported wrong {rate} like this."


def advice(record: Record) -> list[str]:
    """Under every mismatch or undecided: what to do now."""
    failed = (row for row in record["rows"] if row["verdict"] in ("mismatch", "undecided"))
    return [_advice(record, row) for row in failed]


def _advice(record: Record, row: Record) -> str:
    where = f"{row['quantity']} at " + _where(row)
    if row["verdict"] == "mismatch":
        return f"{where}: {_difference(row)}{_cause(row)}"
    needed = _draws_needed(record, row)
    return f"{where}: undecided; {needed}"


def _where(row: Record) -> str:
    parts = [f"d_k = {row['d_k']}" if row["d_k"] is not None else "given logits"]
    if row["n_keys"] is not None:
        parts.append(f"n_keys = {row['n_keys']}")
    return ", ".join(parts)


def _difference(row: Record) -> str:
    theory = row["theory"]
    shown = f"{theory}" if isinstance(theory, list) else plain(theory)
    return f"measured {plain(row['estimate'])} where theory says {shown}"


def _cause(row: Record) -> str:
    theory, estimate = row["theory"], row["estimate"]
    power = {"variance": 0.5, "std": 1.0, "mean_abs": 1.0}.get(row["quantity"])
    if power is None or not theory or estimate <= 0:
        return "; the theory, the sampler or the assumptions are wrong: try neighbouring quantities"
    ratio = (estimate / theory) ** power
    cause = likely_cause(ratio, row["d_k"])
    said = f"; the standard deviation is {ratio:.4g} times its theory"
    return said + (f" ({cause})" if cause else "; are the laws, sigmas and means as assumed?")


def _draws_needed(record: Record, row: Record) -> str:
    wanted = record["design"]["tolerance"] or (
        0.01 if QUANTITIES[row["quantity"]].group == "logits" else 0.02
    )
    if row["detectable"] is None or row["draws"] is None:
        return "give more draws"
    if row["detectable"] > wanted:
        draws = math.ceil(row["draws"] * (row["detectable"] / wanted) ** 2)
        return f"--samples {draws:.3g} would see a gap of {wanted:g}"
    return f"--samples {4 * row['draws']:.3g} halves the error, or widen --tolerance {wanted:g}"


def rates_of(record: Record) -> Rates:
    """The error rates that a record was decided with."""
    design = record["design"]
    return Rates(
        design["false_alarm"],
        design["power"],
        design["tolerance"],
        bool(record["request"].get("within")),
    )
