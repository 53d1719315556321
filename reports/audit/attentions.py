"""The attentions of a checkpoint as a table: what their heads are, beside their initialisation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median

from ..markup import tabulated
from ..numbers import plain
from ..record import Record

_NUMBER = re.compile(r"\.\d+\.")
CHECK = "logit std"  # the rows that hold the figures of every head
_HEADERS = (
    *("layer", "heads", "sd W_q", "sd W_k", "align", "rank", "logit std", "largest", "at init"),
)


def is_attention(row: Record) -> bool:
    """Whether a row of an audit holds the figures of an attention's heads.

    Examples:
        >>> is_attention({"check": "scale", "parameters": {}})
        False

    """
    return row["check"] == CHECK and "stable_rank" in row["parameters"]


def attention_tables(rows: Sequence[Record]) -> list[str]:
    """For each kind of attention its path, and a table of its layers: medians over the heads.

    The largest is the logit std of the head whose logits are the widest.
    """
    kinds: dict[str, list[Record]] = {}
    for row in rows:
        kinds.setdefault(_NUMBER.sub(".N.", row["where"], count=1), []).append(row)
    texts = [False] * len(_HEADERS)
    return [
        f"{path}\n{tabulated([_cells(row) for row in those], _HEADERS, 'plain', texts)}"
        for path, those in kinds.items()
    ]


def _cells(row: Record) -> list[str]:
    heads = row["parameters"]
    number = _NUMBER.search(row["where"])
    medians = (_middle(heads[name]) for name in ("sd_q", "sd_k", "alignment", "stable_rank"))
    largest = max(_known(heads["logit_std"]), default=None)
    figures = (*medians, row["estimate"], largest, row["theory"])
    layer = number[0].strip(".") if number else ""
    return [layer, str(heads["heads"]), *(plain(figure, 3) for figure in figures)]


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _middle(values: Sequence[float | None]) -> float | None:
    known = _known(values)
    return median(known) if known else None
