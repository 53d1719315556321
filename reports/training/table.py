"""A training experiment as tables, and what it says and cannot say in words."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence

from ..markup import Block, tabulated
from ..numbers import plain, with_error
from ..record import Record

WIDTH = 100
Cells = list[str]


def training_table(record: Record) -> str:
    """Each experiment's arms, then the statements."""
    parts = [
        f"{textwrap.fill(block.heading, WIDTH)}\n"
        + tabulated(block.cells, block.headers, "plain", block.texts)
        for block in arms_blocks(record)
    ]
    return "\n\n".join([*parts, *([_statements(record)] if record["statements"] else [])])


def training_blocks(record: Record) -> list[Block]:
    """Each experiment's arms, then the statements, as tables."""
    headers = ("id", "statement", "here", "measured", "not tested")
    cells = [
        [s["id"], s["claim"], s["verdict"], "; ".join(map(part_said, s["parts"])), s["beyond"]]
        for s in record["statements"]
    ]
    statements = [Block(_OF_STATEMENTS, headers, [True] * 5, cells, bold=False)] if cells else []
    return [*arms_blocks(record), *statements]


def arms_blocks(record: Record) -> list[Block]:
    """The arms of each experiment as a table under its description."""
    found = []
    for heading, rows in blocks(record):
        headers, cells = arms_table(rows)
        texts = [True, *[False] * (len(headers) - 1)]
        found.append(Block(heading, headers, texts, cells, bold=False))
    return found


def blocks(record: Record) -> Iterable[tuple[str, list[Record]]]:
    """The rows of each experiment at the fixed rate and, where they were tuned, at the best."""
    for experiment in record["experiments"]:
        for tuned in (False, True):
            rows = [
                row
                for row in record["rows"]
                if row["experiment"] == experiment["name"] and row["tuned"] == tuned
            ]
            if rows:
                yield described(experiment, record, tuned), rows


def described(experiment: Record, record: Record, tuned: bool) -> str:
    """An experiment's task, model, steps and rates in one sentence."""
    e, layers = experiment, experiment["n_layers"]
    task = {"characters": "next character", "topics": "which of two topics"}[e["task"]]
    rates = record["rates"]
    rate = (
        f"each arm at its best rate of {', '.join(f'{r:g}' for r in rates['tried'])}"
        if tuned
        else f"all at the rate {rates['fixed']:g}"
    )
    return (
        f"{e['name']}: {task}; {layers} {'layer' if layers == 1 else 'layers'} of {e['n_heads']} "
        f"heads, d_k {e['d_model'] // e['n_heads']}; {e['steps']} steps of {e['batch']} x "
        f"{e['length']} characters; {e['dtype']}; {e['replicates']} replicates; {rate}"
    )


_COMMON = ("arm", "loss", "less sqrt-dk", "less control")
_INSIDE = ("sd(x)", "keys", "overlap")


def arms_table(rows: Sequence[Record]) -> tuple[list[str], list[Cells]]:
    """Headers and cells of one experiment's arms; at best rates, the rate instead of the inside."""
    tuned, classes = rows[0]["tuned"], rows[0]["task"] == "topics"
    lost = any(row["lost_scores"] or row["lost_steps"] or row["lost_gradients"] for row in rows)
    headers = [*_COMMON, *(("rate",) if tuned else _INSIDE)]
    headers[-1:] = ["accuracy"] if classes else headers[-1:]  # no room for both
    headers += ["not finite"] * lost
    cells = []
    for row in rows:
        more = [f"{row['rate']:g}"] if tuned else _inside(row)
        more[-1:] = [_end(row, "accuracy")] if classes else more[-1:]
        cells.append(
            [*_cells(row), *more, *[str(row["lost_scores"] + row["lost_gradients"])] * lost]
        )
    return headers, cells


def _cells(row: Record) -> Cells:
    return [
        row["arm"],
        with_error(row["estimate"], row["mcse"]) or "lost",
        _difference(row["difference"], row["ci_high"]) if row["against"] else "",
        _difference(row["to_control"], row["to_control_high"]),
    ]


def _inside(row: Record) -> Cells:
    """What attention is like: spread of the logits, keys in use, likeness of heads."""
    error, keys = row["errors"]["entropy"], None
    if row["entropy"] is not None:
        keys = math.exp(row["entropy"])
        error = None if error is None else keys * error
    return [
        f"{plain(row['start_logit_std'], 2)}..{_end(row, 'logit_std')}",
        with_error(keys, error),
        _end(row, "head_overlap"),
    ]


def _end(row: Record, quantity: str) -> str:
    """What runs ended with, and its standard error over replicates."""
    return with_error(row[quantity], row["errors"][quantity])


def _difference(mean: float | None, high: float | None) -> str:
    """A paired difference and half the width of its interval."""
    if mean is None or high is None:
        return ""
    return f"{mean:+.3f} ± {high - mean:.3f}"


def _number(value: float | None) -> str:
    return plain(value, 3)


def span(low: float | None, high: float | None) -> str:
    """An interval as `low..high`; an open end is left out.

    Examples:
        >>> span(0.1, 0.25), span(None, None)
        ('0.1..0.25', '..')

    """
    return f"{_number(low)}..{_number(high)}"


def _statements(record: Record) -> str:
    lines = [textwrap.fill(_OF_STATEMENTS, WIDTH)]
    for s in record["statements"]:
        lines += ["", f"{s['id']}  {s['verdict']}: {s['claim']}"]
        for part in s["parts"]:
            lines += _indented(part_said(part))
        if s["beyond"]:
            lines += _indented(f"not tested: {s['beyond']}")
    return "\n".join(lines)


_OF_STATEMENTS = (
    "What articles say of training, as far as these experiments go. Each line: what was measured, "
    "its mean and interval over replicates, what the statement needs, and whether it holds."
)


def part_said(part: Record) -> str:
    """One criterion in words.

    Examples:
        >>> part_said({"says": "fall", "experiment": "d_k 64", "tuned": False, "mean": 0.9,
        ...     "low": 0.8, "high": 1.0, "least": None, "most": 0.1, "holds": False})
        'd_k 64: fall 0.9 (0.8..1), needs at most 0.1: no'

    """
    least, most = part["least"], part["most"]
    needs = (
        f"{least:g} to {most:g}"
        if least is not None and most is not None
        else f"at least {least:g}"
        if least is not None
        else f"at most {most:g}"
    )
    holds = {True: "yes", False: "no", None: "cannot tell"}[part["holds"]]
    where = part["experiment"] + (", best rates" if part["tuned"] else "")
    inside = span(part["low"], part["high"])
    return f"{where}: {part['says']} {plain(part['mean'], 3)} ({inside}), needs {needs}: {holds}"


def _indented(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent="     ", subsequent_indent="       ", break_on_hyphens=False
    )


def training_summary(record: Record) -> str:
    """Counts, rates, and what an experiment of this size cannot say."""
    counts = Counter(s["verdict"] for s in record["statements"])
    said = ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
    rate = record["design"]["false_alarm"]
    most = max(e["steps"] * e["batch"] * e["length"] for e in record["experiments"])
    lines = [
        f"{len(record['statements'])} statements: {said}." if said else "",
        "control: the arm no-attention; sd(x): standard deviation of the logits at the start and "
        "the end; keys: exp of the rows' mean entropy; overlap: of the heads' maps.",
        "In parentheses stand standard errors over replicates, in units of the last digit.",
        f"Intervals are Student's, of paired replicates (same initialisation, same data order); "
        f"each misses at a rate of {rate:g} if differences are normal.",
        f"These models are small and see at most {most} characters of one text: nothing here "
        "speaks of convergence, of large models, of other data or optimisers than Adam with layer "
        "norm first, or of more layers.",
        f"Seed {record['provenance']['seed']}: the same bits on a processor of the same kind "
        "with as many cores; elsewhere sums round in another order, which training amplifies to "
        "differences as large as the errors shown.",
    ]
    return " ".join(filter(None, lines))
