"""What a page says beside its table and figures, as plain lists of text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ...stats.quantities import QUANTITIES
from ..figures.series import case_of, reference_of
from ..numbers import interval, one_in, plain, whole, with_error
from ..record import Record, rates_of
from ..table import blocks
from ..training.page import training_section

Text = dict[str, object]
Key = TypeVar("Key")
_MOST_FORMULAS = 3
_REPLICATES = {
    "fresh q, k": "one independent q, k pair, or one query with its keys",
    "fresh logits": "one row of independent normal logits",
    "fresh weights": "one draw of the weights with its tokens",
    "fresh tokens": "one draw of tokens through fixed weights",
}


_TITLES = {
    "plan": "The draws that a run needs",
    "claims": "Published figures, judged",
    "audit": "Audit of {target}",
    "calibrate": "Our own error rates, counted",
    "train": "Training, scaled against unscaled",
}


def own_section(record: Record) -> Text:
    """A record whose rows are not of cases: its title, its tables and, of training, statements."""
    section: Text = {"title": _TITLES[record["command"]].format_map(record), "statements": []}
    if record["command"] == "train":
        return section | training_section(record)
    return section | {"blocks": blocks(record)}


def replicates(rows: Iterable[Record]) -> str:
    """What one replicate is, in a sentence."""
    kinds = dict.fromkeys(str(row["ensemble"]) for row in rows)
    said = "; or ".join(_REPLICATES.get(kind, kind) for kind in kinds)
    return f"A replicate is {said}. Logits that share a query or a key are never counted apart."


def claims(rows: Sequence[Record]) -> list[Text]:
    """Each quantity with its symbol, meaning, formulas, kinds of theory and assumptions."""
    return [
        _claim(name, group)
        for name, group in grouped(rows, lambda row: str(row["quantity"])).items()
    ]


def _claim(name: str, rows: Sequence[Record]) -> Text:
    known = QUANTITIES.get(name)
    formulas = list(dict.fromkeys(row["formula"] for row in rows if row["formula"]))
    more = len(formulas) - _MOST_FORMULAS
    kinds = dict.fromkeys(row["theory_kind"] for row in rows if row["theory_kind"])
    return {
        "quantity": name,
        "symbol": known.symbol if known else "",
        "meaning": known.meaning if known else "",
        "formulas": formulas[:_MOST_FORMULAS] + ([f"and {more} more"] if more > 0 else []),
        "kinds": ", ".join("no theory" if kind == "none" else kind for kind in kinds),
        "assumptions": assumptions(rows),
    }


def assumptions(rows: Sequence[Record]) -> str:
    """The words that the theory of these rows comes with: of one row for each pair of laws."""
    each = grouped(rows, lambda row: (row["elements"], row["weights"], row["theory_kind"]))
    found = (reference_of(case_of(group[0]), group[0]["quantity"]) for group in each.values())
    return "; ".join(dict.fromkeys(r.assumptions for r in found if r and r.assumptions))


def grouped(rows: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    """Rows by a key, in order."""
    groups: dict[Key, list[Record]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def limits(rows: Sequence[Record]) -> list[str]:
    """Where theory is an interval or nothing, what rows note, and what no row speaks of."""
    said = []
    kinds = grouped(rows, lambda row: (str(row["quantity"]), str(row["theory_kind"])))
    for (name, kind), group in kinds.items():
        if kind == "bracket":
            said.append(
                f"{name}: the expectation is proven to lie in an interval; a match means that the "
                "whole confidence interval is inside it, give or take the tolerance."
            )
        elif kind == "none":
            why = assumptions(group)
            said.append(
                f"{name}: measured and not compared{f' ({why})' if why else ''}; no verdict."
            )
    if any(row["theory_kind"] == "quadrature" for row in rows):
        said.append(
            "Quadratures are exact to a relative error below 1e-11, far below any gap here."
        )
    said.append(
        "Theory here is of independent elements, tokens or weights as drawn at initialisation; "
        "it says nothing of trained weights, where queries and keys depend on each other."
    )
    return said


def decision(record: Record) -> Text | None:
    """Rates and thresholds in words, and the gap that each quantity's draws detect."""
    compared = [row for row in record["rows"] if row["gap"] is not None]
    if not compared or record["design"]["tests"] is None:
        return None
    rates, tests = rates_of(record), record["design"]["tests"]
    words = [
        f"False alarm {rates.false_alarm:g}: a run in which every theory is exact reports a "
        f"mismatch {one_in(rates.false_alarm)} like this. Holm's procedure shares that rate among "
        f"the {tests} distinct tests of the table, so that the first needs |z| > "
        f"{rates.z_holm(tests):.2f}.",
        f"Power {rates.power:g}: a gap as large as the detectable one is reported with that "
        f"probability; intervals are the estimate ± {rates.z_power:.2f} standard errors.",
        "A match needs the whole interval inside the tolerance; mismatch needs Holm's rejection; "
        "anything else is undecided. Standard errors are those of theory where it has them. "
        "The variance is referred to Satterthwaite's chi-square law, shares to binomial tails.",
    ]
    if rates.within:
        words.append("The theory was taken as an approximation: only a gap beyond the tolerance "
                     "is a mismatch.")  # fmt: skip
    gaps = [
        (str(name), _range(r["draws"] for r in rows), _worst(rows, "detectable"),
         _worst(rows, "tolerance"))
        for name, rows in grouped(compared, lambda row: row["quantity"]).items()
    ]  # fmt: skip
    return {"words": words, "gaps": gaps}


def _range(counts: Iterable[int | None]) -> str:
    known = sorted({count for count in counts if count is not None})
    if not known:
        return ""
    return whole(known[0]) if len(known) == 1 else f"{whole(known[0])} to {whole(known[-1])}"


def _worst(rows: Sequence[Record], name: str) -> str:
    known = [row[name] for row in rows if row[name] is not None]
    return plain(100 * max(known), 3) if known else ""


_CONTRASTED: dict[str, tuple[str, Callable[[float], float], Callable[[float], float]]] = {
    "max_prob": ("E p(1)", float, lambda x: 1.0),
    "entropy": ("effective keys", math.exp, math.exp),
    "saturated": ("saturated", float, lambda x: 1.0),
    "jacobian_frobenius_sq": (
        "rms ‖J‖",
        lambda x: math.sqrt(max(x, 0.0)),
        lambda x: 0.5 / math.sqrt(x) if x > 0 else 0.0,
    ),
    "jacobian_frobenius_median": ("median ‖J‖", float, lambda x: 1.0),
}
"""Quantity: what it is shown as, through which function, and that function's derivative."""


def contrast(rows: Sequence[Record]) -> Text:
    """Row statistics without the divisor beside those with 1/sqrt(d_k), one line for each d_k."""
    found: dict[tuple[int, str, str], Record] = {}
    for row in rows:
        if row["scale"] in ("none", "sqrt-dk") and row["quantity"] in _CONTRASTED and row["d_k"]:
            found.setdefault((row["d_k"], row["quantity"], row["scale"]), row)
    names = [q for q in _CONTRASTED if {s for _, n, s in found if n == q} == {"none", "sqrt-dk"}]
    d_ks = sorted({d for d, _, _ in found})
    headers = ["d_k", *(f"{_CONTRASTED[q][0]}, {w}" for q in names for w in ("unscaled", "scaled"))]
    lines = [
        [str(d), *(_shown(found.get((d, q, s)), q) for q in names for s in ("none", "sqrt-dk"))]
        for d in d_ks
    ]
    return {"headers": headers, "rows": lines if names else [], "words": _grows(found, d_ks)}


def _shown(row: Record | None, quantity: str) -> str:
    if row is None:
        return ""
    _, through, slope = _CONTRASTED[quantity]
    if row["estimate"] is None:
        return interval(through(row["theory"])) if isinstance(row["theory"], float) else ""
    error = row["mcse"] and row["mcse"] * slope(row["estimate"])
    return with_error(through(row["estimate"]), error)


def _grows(found: dict[tuple[int, str, str], Record], d_ks: Sequence[int]) -> list[str]:
    """What happens from the smallest to the largest d_k, in figures."""
    if len(d_ks) < 2:
        return []
    said = []
    for name in ("max_prob", "entropy", "jacobian_frobenius_median"):
        ends = [found.get((d, name, s)) for s in ("none", "sqrt-dk") for d in (d_ks[0], d_ks[-1])]
        values = [_CONTRASTED[name][1](r["estimate"]) for r in ends if r and r["estimate"]]
        if len(values) == 4:
            a, b, c, d = (plain(value, 3) for value in values)
            said.append(f"{_CONTRASTED[name][0]} {a} → {b} unscaled, {c} → {d} scaled")
    return [f"From d_k = {d_ks[0]} to {d_ks[-1]}: {'; '.join(said)}."] if said else []
