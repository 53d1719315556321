"""The findings about given queries and keys: their elements, their logits, and what softmax does.

Every test is at the tolerance with the arrays' own error in mind: `mismatch` where the whole
interval lies beyond it, `match` where it lies within, `undecided` where the rows are too few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_numpy
from ..audit.findings import Audit, Finding, decided_finding
from ..causes import factor_causes, likely_causes
from ..decision import Row, decide
from ..failures import suspects
from ..planning import Rates
from ..unit_logits import unit_row
from .element_rows import correlation_row, mean_row, share_row, spread_row
from .entropies import Pass, forward, reference_entropy
from .terms import Sums, grid_variance, term_shares

if TYPE_CHECKING:
    from ..decision import Verdict

Array = NDArray[np.float64]
TOLERANCE = 0.1  # of a standard deviation
FALSE_ALARM = 1e-6
_ENTROPY = (
    " Expected are the entropies (nats) of unit normal q and k, all keys seen by all queries."
)
_ROUNDING = 1e-9  # of a variance summed in two ways


def audit_vectors(
    q: Any,
    k: Any,
    factor: float | None = None,
    *,
    name: str = "q, k",
    tolerance: float = TOLERANCE,
    false_alarm: float = FALSE_ALARM,
    power: float = 0.999,
) -> Audit:
    """The findings about queries (..., n, d_k) and keys (..., m, d_k).

    `factor` multiplies q.k, 1/sqrt(d_k) where None. Raises InputError for shapes that do not fit
    and for elements that are not finite numbers.

    Examples:
        >>> q, k = np.random.default_rng(0).normal(size=(2, 8, 512, 64))
        >>> audit_vectors(q, k).verdict, audit_vectors(q, k, 1.0).verdict
        ('match', 'mismatch')

    """
    q, k = as_numpy(q, "q"), as_numpy(k, "k")
    logits, used = unit_row(q, k, factor)
    d_k, n, m = q.shape[-1], q.shape[-2], k.shape[-2]
    q, k = q.reshape(-1, n, d_k), k.reshape(-1, m, d_k)
    tests = [*_element_tests(q, k), *_assumption_tests(q, k)]
    each = Rates(false_alarm, power, tolerance).false_alarm / (len(tests) + 1)
    rates = Rates(each, power, tolerance, within=True)
    others = dict.fromkeys([used, 1.0, 1 / math.sqrt(d_k), 1 / d_k])
    seen = forward(q, k, list(others))
    findings = (
        *(_finding(check, row, said, rates) for check, row, said in tests),
        _logits(logits, used, factor is not None, rates),
        _formula(q, k, seen),
        *_entropies(seen, d_k, m),
    )
    shown = f"{used:.6g}" + ("" if factor is not None else " = 1/sqrt(d_k)")
    facts = {"q": _sizes(len(q), n, d_k), "k": _sizes(len(k), m, d_k), "factor": shown}
    return Audit(name, "arrays", findings, facts)


def _sizes(*sizes: int) -> str:
    return " x ".join(map(str, sizes if sizes[0] > 1 else sizes[1:]))


_Test = tuple[str, Row, str]
"""A check's name, its row, and what a mismatch means."""


def _element_tests(q: Array, k: Array) -> Iterator[_Test]:
    for name, x in (("q", q), ("k", k)):
        said = f"The elements of {name} have mean {{value:.3g}}, {{gap:.0%}} of their std."
        yield f"mean of {name}", mean_row(x), said
        said = f"The elements of {name} have std {{root:.3g}} where 1 was assumed: the logits' std "
        yield f"variance of {name}", spread_row(x), said + "goes with it."
    if q.shape == k.shape:
        said = "q_i and k_i at the same place have correlation {value:.3g}: a token's logit with "
        said += "itself has mean {shift:.3g} times the std of the others."
        yield "q with k", correlation_row(q, k), said


_MEANING = {
    "unequal variances": "q and k have their variance in the same dimensions",
    "dependent elements": "the elements of q depend on one another as those of k do",
    "means": "q or k has a mean vector, which every logit meets",
}


def _assumption_tests(q: Array, k: Array) -> Iterator[_Test]:
    for term, share in term_shares(q, k).items():
        if math.isfinite(share.value):
            said = f"{_MEANING[term]}: it changes the variance of the logits by {{value:+.0%}}."
            yield term, share_row(share, q.shape[-1], term), said[0].upper() + said[1:]


def _finding(check: str, row: Row, said: str, rates: Rates) -> Finding:
    (decided,) = decide([row], rates)
    assert decided.estimate is not None
    assert decided.gap is not None
    value = decided.estimate.value
    words = said.format(
        value=value,
        gap=abs(decided.gap),
        root=math.sqrt(max(value, 0.0)),
        shift=value * math.sqrt(row.case.d_k or 1),
    )
    cause = check.replace(" ", "-")
    wrong = decided.verdict == "mismatch"
    return decided_finding(
        check, "elements", decided, words if wrong else "", (wrong and cause) or None
    )


def _logits(row: Row, used: float, given: bool, rates: Rates) -> Finding:
    """The variance of all logits against 1, and what the ratio may come from."""
    (row,) = decide([row], rates)
    assert row.estimate is not None
    assert row.case.d_k is not None
    said, cause = "", None
    if row.verdict == "mismatch":
        d_k, std = row.case.d_k, math.sqrt(max(row.estimate.value, 0.0))
        known = factor_causes(used * math.sqrt(d_k), d_k, scale="sqrt-dk") if given else []
        known = known or (likely_causes(std, d_k, scale="sqrt-dk") if std > 0 else [])
        said = f"The logits have std {std:.4g} where 1 was assumed: "
        said += suspects(known) or "see which assumption on q and k fails."
        cause = "logit-variance"
    return decided_finding("logit variance", "all logits", row, said, cause)


def _formula(q: Array, k: Array, seen: Pass) -> Finding:
    """The general formula against the variance of the logits that the forward pass made."""
    formula, measured = grid_variance(Sums.of(q), Sums.of(k)), seen.variance
    verdict: Verdict = "measured"
    if seen.whole:
        verdict = "match" if abs(measured - formula) <= _ROUNDING * formula else "mismatch"
    said = "" if verdict != "mismatch" else "The logits do not have the variance that their q and "
    said += "k have by tr(S_q S_k) and means: was precision lost?" if said else ""
    where = "all logits, factor 1" if seen.whole else f"{seen.rows} rows, factor 1"
    allowed = _ROUNDING if seen.whole else None
    cause = "formula" if verdict == "mismatch" else None
    return Finding("general formula", where, verdict, said, cause, formula, measured, allowed)


def _entropies(seen: Pass, d_k: int, n_keys: int) -> Iterator[Finding]:
    """What a row's softmax is at each factor, beside that of unit normal q and k."""
    for i, figures in enumerate(seen.figures):
        keys = math.exp(figures.entropy)
        said = f"factor {figures.factor:.4g}" + (", in use" if i == 0 else "")
        yield Finding(
            "entropy",
            said,
            "measured",
            f"At {said}: {keys:.3g} effective keys of {n_keys}, largest weight "
            f"{figures.max_prob:.2g}, above 0.99 in {figures.saturated:.1%} of rows."
            + (_ENTROPY if i == 0 else ""),
            None,
            reference_entropy(d_k, n_keys, figures.factor),
            figures.entropy,
            place={
                "d_k": d_k,
                "n_keys": n_keys,
                "factor": figures.factor,
                "max_prob": figures.max_prob,
                "saturated": figures.saturated,
                "effective_keys": keys,
            },
        )
