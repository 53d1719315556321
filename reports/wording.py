"""One object owns the words of a verdict: the sentences and the exit code."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from statistics import NormalDist

from ..stats.cases import HALF
from ..stats.decision import BELOW_FLOOR, WIDEST_DETECTABLE
from ..stats.planning import shown_duration
from ..stats.quantities import GROUPS
from .numbers import one_in
from .record import Record, verdict_counts

EXIT_CODES = {"match": 0, "measured": 0, "mismatch": 1, "undecided": 3}
WIDTH = 90


def exit_code(record: Record) -> int:
    """0 match, measured or nothing judged, 1 mismatch, 3 undecided."""
    return EXIT_CODES.get(record["verdict"], 0)


def wrapped(text: str) -> str:
    """Sentences in lines that are read at ease."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def summary(record: Record) -> str:
    """What the run shows, in words that need no statistics."""
    if record["command"] == "predict":
        return ""
    if record["command"] == "plan":
        return _planned(record)
    if record["command"] == "claims":
        from .claims.table import claim_summary

        return claim_summary(record)
    if record["command"] == "audit":
        from .audit.table import audit_summary

        return audit_summary(record)
    if record["command"] == "train":
        from .training.table import training_summary

        return training_summary(record)
    if record["command"] == "calibrate":
        from .calibration.table import calibration_summary

        return calibration_summary(record)
    compared = [row for row in record["rows"] if row["verdict"] != "measured"]
    lines = [_counted(verdict_counts(record["rows"]))]
    if compared:
        lines += [_sensitivity(record, compared), _allowance(record, compared)]
        lines += [_rates(record, compared), _looks(record)]
    seed = record["provenance"]["seed"]
    if seed is not None:
        lines.append(f"Seed {seed}.")
    return " ".join(filter(None, lines))


def _planned(record: Record) -> str:
    design = record["design"]
    return (
        f"N = ((z_holm + z_power) replicate_sd / (unit tolerance))^2, false alarm "
        f"{design['false_alarm']:g} over {design['tests']} tests, power {design['power']:g}; "
        "a cell draws the most that its rows need. "
        f"About {shown_duration(design['seconds'])} on two cores."
    )


def _counted(counts: dict[str, int]) -> str:
    compared = sum(counts.values()) - counts["measured"]
    if not compared:
        return "No row was compared: nothing here has an exact theory, so the figures are measured."
    rows = f"of {compared} {'row' if compared == 1 else 'rows'}"
    says = {
        "mismatch": ("differs from theory", "differ from theory"),
        "undecided": ("is undecided", "are undecided"),
        "match": ("matches", "match"),
    }
    parts = [f"{n} {rows} {says[name][n != 1]}" for name in says if (n := counts[name])]
    said = "; ".join(parts)
    said += ": simulation agrees with theory." if counts["match"] == compared else "."
    return said + (f" {counts['measured']} more are measured only." if counts["measured"] else "")


def _sensitivity(record: Record, compared: Sequence[Record]) -> str:
    """The gap that would have been seen: never smaller than what the draws detect."""
    within = bool(record["request"].get("within"))
    decidable = [
        row
        for row in compared
        if (row["p_value"] is not None and (row["detectable"] or 0.0) <= WIDEST_DETECTABLE)
        or row["quantity"] in GROUPS["extremes"]
    ]

    def size(row: Record) -> float:
        allowed, seen = row["tolerance"] or 0.0, row["detectable"] or 0.0
        return seen if within else allowed + seen if rounded(row) else max(allowed, seen)

    errors = _largest(decidable, size)
    if not errors:
        return ""
    where = "An" if len(decidable) == len(compared) else "Where the draws suffice, an"
    beyond = " beyond the tolerance" if within else ""
    gaps = (size(row) + within * (row["tolerance"] or 0.0) for row in decidable if _spread(row))
    missed = 1 - _attained(record["design"]["power"], gaps)
    power = 1 - float(f"{missed:.1g}")
    return f"{where} error of {errors}{beyond} would have been reported with probability {power:g}."


def _spread(row: Record) -> bool:
    return _error_of(row["quantity"]) == "in the standard deviation"


def _attained(power: float, gaps: Iterable[float]) -> float:
    """The power that is left at the largest gap: a law that is wider by it has wider errors, too.

    The plan is of first order in the gap; what is missed at it grows as in CALIBRATION.md.

    Examples:
        >>> [round(_attained(0.999, [gap]), 4) for gap in (0.0, 0.01, 0.05, 0.2)]
        [0.999, 0.9989, 0.9984, 0.995]

    """
    normal = NormalDist()
    return normal.cdf(normal.inv_cdf(power) / (1 + max(gaps, default=0.0)))


def _largest(rows: Sequence[Record], size: Callable[[Record], float]) -> str:
    """The largest gap of each kind: `2 % in the standard deviation, or 0.1 in the skewness`."""
    sizes: dict[str, float] = {}
    for row in rows:
        kind = _error_of(row["quantity"])
        sizes[kind] = max(sizes.get(kind, 0.0), size(row))
    return ", or ".join(f"{_size(size, kind)} {kind}" for kind, size in sizes.items())


def _allowance(record: Record, compared: Sequence[Record]) -> str:
    """What z leaves out, where rounding is no part of the theory."""
    rows = [row for row in compared if rounded(row) and row["p_value"] is not None]
    if not rows or record["request"].get("within"):
        return ""
    allowed = _largest(rows, lambda row: row["tolerance"] or 0.0)
    return (
        "Theory leaves rounding out, so z counts only what a gap is beyond the tolerance, here "
        f"{allowed}."
    )


def rounded(row: Record) -> bool:
    """Whether a row's theory leaves rounding out, so that its whole tolerance is allowed."""
    given = row["parameters"]
    named = {row["dtype"], given.get("dtype_products"), given.get("dtype_accumulate")}
    if row["n_keys"] is not None:
        named |= {given.get("dtype_softmax"), given.get("softmax")}
    exact = row["quantity"] in ("overflow", "broken_rows")
    return not exact and not named.isdisjoint((*HALF, "naive"))


def _error_of(quantity: str) -> str:
    named = {
        "variance": "in the standard deviation",
        "std": "in the standard deviation",
        "mean": "of a standard deviation in the mean",
        "saturated": "in the saturated share",
        "overflow": "in the overflow share",
        "broken_rows": "in the share of broken rows",
        "entropy": "of ln n in the entropy",
        "skewness": "in the skewness",
        "kurtosis": "in the kurtosis",
        "mean_abs": "in mean_abs",
        "law": "in the distribution function",
        **dict.fromkeys(GROUPS["tails"], "in the share of a tail"),
        **dict.fromkeys(GROUPS["extremes"], "of a standard deviation in an extreme"),
    }
    return named.get(quantity, "in a row statistic")


def _size(size: float, kind: str) -> str:
    absolute = any(word in kind for word in ("skewness", "kurtosis", "share", "distribution"))
    rounded = float(f"{size if absolute else 100 * size:.2g}")
    return f"{rounded:g}" if absolute else f"{rounded:g} %"


def _rates(record: Record, compared: Sequence[Record]) -> str:
    rate = one_in(record["design"]["false_alarm"])
    said = f"A correct theory is reported wrong {rate} like this."
    below = sum(BELOW_FLOOR in (row["note"] or "") for row in compared)
    if not below:
        return said
    rows = "the row below its" if below == 1 else f"the {below} rows below their"
    return (
        f"{said} These rates are not promised of {rows} floor of draws, where tails are not "
        "normal yet."
    )


def _looks(record: Record) -> str:
    design = record["design"]
    if "looks" not in design:
        return ""
    looks = len(design["looks"])
    share = 100 * design["draws_made"] / design["draws_planned"]
    return (
        f"Looked at {looks} {'time' if looks == 1 else 'times'}, with {share:.0f} % of the draws "
        "of a fixed plan."
    )
