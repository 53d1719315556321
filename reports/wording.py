"""One object owns the words of a verdict: the sentence, what to do now, the exit code."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence

from ..stats.cases import HALF
from ..stats.causes import likely_cause
from ..stats.decision import WIDEST_DETECTABLE
from ..stats.planning import shown_duration
from ..stats.quantities import GROUPS
from .numbers import interval, one_in, plain
from .record import Record, rates_of, verdict_counts

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
        lines += [_sensitivity(record, compared), _rates(record), _looks(record)]
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
    sizes: dict[str, float] = {}
    for row in decidable:
        kind, seen = _error_of(row["quantity"]), row["detectable"] or 0.0
        allowed = row["tolerance"] or 0.0
        size = seen if within else allowed + seen if rounded(row) else max(allowed, seen)
        sizes[kind] = max(sizes.get(kind, 0.0), size)
    if not sizes:
        return ""
    errors = ", or ".join(f"{_size(size, kind)} {kind}" for kind, size in sizes.items())
    where = "An" if len(decidable) == len(compared) else "Where the draws suffice, an"
    beyond = " beyond the tolerance" if within else ""
    power = record["design"]["power"]
    return f"{where} error of {errors}{beyond} would have been reported with probability {power:g}."


def rounded(row: Record) -> bool:
    """Whether a row's theory leaves rounding out, so that its whole tolerance is allowed."""
    named = {row["dtype"], *(str(value) for value in row["parameters"].values())}
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


def _rates(record: Record) -> str:
    rate = one_in(record["design"]["false_alarm"])
    return f"A correct theory is reported wrong {rate} like this."


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


def advice(record: Record) -> list[str]:
    """What to do now, for every mismatch and undecided row; then what their notes say."""
    rows = record["rows"]
    if record["command"] in ("claims", "calibrate", "train"):
        return []  # each row says why
    if record["command"] == "audit":
        from .audit.table import audit_advice

        return audit_advice(record)
    return [
        *(
            _mismatch(row)
            for row in rows
            if row["verdict"] == "mismatch" and row["p_value"] is not None
        ),
        *_grouped(
            (row for row in rows if row["verdict"] == "undecided"),
            lambda row: row["quantity"],
            lambda group: f"undecided; {_way_out(record, group)}",
        ),
        *_grouped(
            (row for row in rows if row["note"]),
            lambda row: (row["quantity"], row["note"]),
            lambda group: f"{group[0]['note']}",
        ),
    ]


def _grouped(
    rows: Iterable[Record],
    key: Callable[[Record], object],
    say: Callable[[list[Record]], str],
) -> list[str]:
    groups: dict[object, list[Record]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return [f"{_where(group)}: {say(group)}" for group in groups.values()]


def _where(rows: list[Record]) -> str:
    """A quantity and the values of d_k and n_keys that rows of it have."""
    said = []
    for name in ("d_k", "n_keys"):
        values = dict.fromkeys(str(row[name]) for row in rows if row[name] is not None)
        if values:
            said.append(f"{name} = {', '.join(values)}")
    return " at ".join(filter(None, [rows[0]["quantity"], "; ".join(said)]))


def _mismatch(row: Record) -> str:
    theory, estimate = row["theory"], row["estimate"]
    said = f"measured {plain(estimate)} where theory says {interval(theory)}"
    where = f"{_where([row])}: {said}"
    power = {"variance": 0.5, "std": 1.0, "mean_abs": 1.0}.get(row["quantity"])
    if power is None or not theory or isinstance(theory, list) or estimate <= 0:
        return f"{where}; is the case (laws, sigmas, means, scale) the one that was measured?"
    ratio = (estimate / theory) ** power
    cause = likely_cause(ratio, row["d_k"], row["scale"])
    said = f"{where}; the standard deviation is {ratio:.4g} times its theory"
    return said + (f" ({cause})" if cause else "; are the laws, sigmas and means as assumed?")


def _way_out(record: Record, rows: list[Record]) -> str:
    """The draws that would tell, or what else to change."""
    wanted = rates_of(record).tolerance_of(rows[0]["quantity"])
    known = [row for row in rows if row["detectable"] is not None]
    if not known:
        return "give more draws"
    needed = max(row["draws"] * (row["detectable"] / wanted) ** 2 for row in known)
    if all(row["tolerance"] < wanted for row in known):
        return f"these draws see gaps below {wanted:g}: --tolerance {wanted:g} would do"
    if all(row["detectable"] <= wanted * (1 + 1e-9) for row in known):
        needed = 4 * max(row["draws"] for row in known)
        return f"{_draws(record, needed)} halve the error, or allow more than {wanted:g}"
    return f"{_draws(record, needed)} would see a gap of {wanted:g}"


def _draws(record: Record, needed: float) -> str:
    step = 10.0 ** (math.floor(math.log10(needed)) - 1)
    up = math.ceil(needed / step) * step
    shown = f"{up:.0f}" if up < 1e9 else f"{up:.2g}"
    in_file = record["command"] == "check"
    return f"{shown} replicates in the file" if in_file else f"--samples {shown}"
