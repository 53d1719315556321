"""A calibration as a table, and what it says of our own rates in words."""

from __future__ import annotations

from ..markup import Block, tabulated
from ..numbers import deviate, interval, percent, plain, whole, with_error
from ..record import Record, verdict_counts

_HEADERS = ("check", "count", "measured", "95 % interval", "stated", "z", "verdict")
_TEXTS = (True, False, False, False, False, False, True)


def calibration_blocks(record: Record) -> list[Block]:
    """The checks as a table."""
    cells = [[row["where"], *_cells(row)] for row in record["rows"]]
    return [Block("", ("where", *_HEADERS), (True, *_TEXTS), cells)]


def calibration_table(record: Record) -> str:
    """The checks, a table for the whole record and one for each test."""
    rows = record["rows"]
    cells = [_cells(row) for row in rows]
    head, rule, *lines = tabulated(cells, _HEADERS, "plain", _TEXTS).splitlines()
    said: dict[str, list[str]] = {}
    for row, line in zip(rows, lines, strict=True):
        said.setdefault(row["where"], [head, rule]).append(line.rstrip())
    return "\n\n".join("\n".join([where, *block]) for where, block in said.items())


def _cells(row: Record) -> list[str]:
    limits, share = row["interval"], row["count"] is not None
    distance = row["check"] == "p uniform"
    exact = share or distance or row["mcse"] < 1e-9  # draws that every run made
    return [
        row["check"] + ("" if row["planted"] is None else f" at {row['planted']:+g} tolerance"),
        whole(row["count"]),
        plain(row["estimate"], 4) if exact else with_error(row["estimate"], row["mcse"]),
        f"{plain(limits[0], 3)}..{plain(limits[1], 3)}" if limits else "",
        "both tails" if distance else _stated(row["theory"]),
        deviate(row["z"]),
        row["verdict"],
    ]


def _stated(theory: float | list[float] | None) -> str:
    if not isinstance(theory, list):
        return interval(theory, 3)
    low, high = theory
    if low == 0.0:
        return f"at most {plain(high, 3)}"
    if high == 1.0:
        return f"at least {plain(low, 3)}"
    return f"{plain(low, 3)}..{plain(high, 3)}"


def calibration_summary(record: Record) -> str:
    """A sentence that begins with the verdict, the exact rates, and the seeds."""
    counts, nominal = verdict_counts(record["rows"]), record["nominal"]
    compared = len(record["rows"]) - counts["measured"]
    alarm = record["rows"][0]
    low, high = (percent(limit).lstrip("+") for limit in alarm["interval"])
    seed, runs = record["provenance"]["seed"], alarm["runs"]
    lines = [
        {
            "match": f"Calibrated: {compared} of {compared} checks hold.",
            "mismatch": f"Not calibrated: {counts['mismatch']} of {compared} checks fail.",
            "undecided": f"Cannot tell: {counts['undecided']} of {compared} checks need more "
            "--runs.",
        }[record["verdict"]],
        f"A correct theory was called a mismatch in {alarm['count']} of {runs} runs, "
        f"{percent(alarm['estimate']).lstrip('+')} % ({low} to {high} % with confidence 0.95); "
        f"nominal is {100 * nominal['false_alarm']:g} %.",
        *_computed(record),
        f"Run i of {runs} has seed {seed << 32} + i.",
    ]
    return " ".join(lines)


def _computed(record: Record) -> list[str]:
    """What inversion says of the variance's test, the worst of all cells at each rate."""
    worst: dict[float, Record] = {}
    for each in record["computed"]:
        known = worst.get(each["false_alarm"], each)
        worst[each["false_alarm"]] = max(known, each, key=lambda e: abs(e["ratio"] - 1))
    said = [f"{each['ratio']:.4f} of {rate:g}" for rate, each in worst.items()]
    return [f"Computed, for normal q and k: the rate is {' and '.join(said)}."] if said else []
