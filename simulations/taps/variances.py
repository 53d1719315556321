"""The variance of a module's logits, judged against its weights and its declared scheme.

Replicates are key heads of draws of the weights: given the tokens their differences from theory
have mean 0 and are independent, whatever the tokens share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...stats.audit.findings import Finding, decided_finding
from ...stats.cases import Case, Reference
from ...stats.causes import likely_causes
from ...stats.decision import Row, decide
from ...stats.failures import suspects
from ...stats.planning import Rates
from ...stats.quantities import Estimate
from .draws import Draws
from .models import Model
from .seen import Array

TOLERANCE = 0.05  # of the logits' standard deviation: known initialisations differ by more
FALSE_ALARM = 1e-6  # of an audit whose theories are all exact
LEAST_JUDGED = 16  # replicates: fewer say too little of their own spread
_FIGURES = {
    "variance": "logit variance",
    "mean": "logit mean",
    "max_prob": "max probability",
    "entropy": "entropy (nats)",
    "entropy_share": "entropy / log n",
    "saturated": "saturated rows",
}


def variances(drawn: Draws, model: Model, tests: int) -> Iterator[Finding]:
    """The variance measured against that of the weights, and of the declared scheme.

    `tests` is their number in the whole audit, whose false-alarm rate they share.
    """
    first = drawn.first
    measured = drawn.replicates(layer.measured["dot_variance"] for layer in drawn.layers)
    of_weights = [layer.from_weights for layer in drawn.layers if layer.from_weights is not None]
    if len(of_weights) == len(drawn.layers):
        theory = drawn.replicates(of_weights)
        row = _decided(drawn, measured, theory, first.law, tests)
        said = _said(drawn, row, "its weights make it") or _initialised(drawn, model)
        yield _finding("variance of its weights", drawn, row, said)
    if model.scheme is None or first.width is None or first.d_k is None:
        return
    declared = model.scheme(first.width, first.d_k, drawn.heads)
    of_scheme = [layer.from_scheme(*declared) for layer in drawn.layers]
    theory = drawn.replicates(each for each in of_scheme if each is not None)
    row = _decided(drawn, measured, theory, "factor^2 d_k v_q v_k |x|^2 S^2", tests)
    said = _said(drawn, row, f"{model.recipe} makes it")
    yield _finding(f"variance of {model.recipe}", drawn, row, said)


def _decided(drawn: Draws, measured: Array, theory: Array, law: str, tests: int) -> Row:
    """The row of a variance; not judged where its spread is unknown or more draws cannot be had."""
    value, several = float(theory.mean()), len(measured) >= LEAST_JUDGED
    spread = float(np.std(measured - theory, ddof=1)) if several else 0.0
    estimate = Estimate(len(measured), float(measured.mean()), spread)
    case = Case(drawn.first.d_k, n_keys=drawn.first.n_keys)
    rates = Rates(FALSE_ALARM / tests, tolerance=TOLERANCE, within=True)
    unit = 2 * (value or 1.0)  # the variance of unit logits, where q or k begins as 0
    judged = Reference(value, unit, None, None, "closed form", law)
    (row,) = decide([Row(case, "variance", judged, estimate)], rates)
    if several and (row.verdict != "undecided" or len(drawn.layers) > 1):
        return row
    known = replace(judged, value=None, kind="none", approximation=value)
    return decide([Row(case, "variance", known, estimate)], rates)[0]


def _said(drawn: Draws, row: Row, made: str) -> str:
    """What a variance that was not judged, or differs, means."""
    assert row.estimate is not None
    if row.verdict == "measured":
        return (
            f"{row.estimate.draws} independent heads are too few to judge a variance by; a "
            "function of seed that returns (module, inputs) lets the weights be drawn anew."
        )
    if row.verdict != "mismatch":
        return ""
    assert isinstance(row.reference.value, float)
    if not row.reference.value:
        return f"{drawn.where}: the logits vary where {made} 0."
    ratio = math.sqrt(row.estimate.value / row.reference.value)
    cause = suspects(likely_causes(ratio, None))
    said = f"{drawn.where}: the logits' standard deviation is {ratio:.3g} times what {made}"
    return f"{said}: {cause}" if cause else f"{said}."


def _initialised(drawn: Draws, model: Model) -> str:
    """Which part of the variance is scale and which initialisation, in a sentence."""
    of_unit = [layer.on_unit for layer in drawn.layers if layer.on_unit is not None]
    if not of_unit:
        return ""
    found = float(np.mean(of_unit))
    if not found:
        return f"{drawn.where}: q or k begins as 0, so that attention begins uniform."
    recipe = f" ({model.recipe})" if model.recipe else ""
    return (
        f"{drawn.where}: on uncorrelated tokens of unit variance the initialisation{recipe} and "
        f"this scale make logits of variance {found:.3g}."
    )


def figures(drawn: Draws) -> Iterator[Finding]:
    """What the softmax gets and what it makes of it: measured, with its error over the draws."""
    layers, n = drawn.layers, drawn.first.n_keys
    shown = {check: [layer.measured[name] for layer in layers] for name, check in _FIGURES.items()}
    shown["effective keys"] = [np.exp(layer.measured["entropy"]) for layer in layers]
    squares = [layer.measured["jacobian_frobenius_sq"] for layer in layers]
    shown[f"rms Jacobian, {n} keys"] = [np.sqrt(each) for each in squares]
    for check, values in shown.items():
        found = np.array([each.mean() for each in values])  # heads of a draw share its tokens
        found = found if len(found) > 1 else values[0]
        spread = float(np.std(found, ddof=1)) if len(found) > 1 else 0.0
        reference = Reference(None, 1.0, None, None, "none", "")
        estimate = Estimate(len(found), float(found.mean()), spread)
        case = Case(drawn.first.d_k, n_keys=n)
        (row,) = decide([Row(case, "mean", reference, estimate)])
        by_head = np.mean(np.stack(values), axis=0).tolist()
        yield decided_finding(check, drawn.where, row, layer=drawn.index, by_head=by_head)


def _finding(check: str, drawn: Draws, row: Row, said: str) -> Finding:
    place = {"layer": drawn.index, "heads": drawn.heads}
    return decided_finding(check, drawn.where, row, said, None, **place)
