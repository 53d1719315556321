"""What a refuted number may have been meant to be: a search over its neighbours.

Neighbours differ in the quantity, in a factor that is often forgotten or counted twice, or in the
law of the elements. What fits was found by looking, and is a hint and no finding: the number of
neighbours that were tried always stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..cases import Case
from ..checks import InputError
from ..conventions import scale_factor
from ..quantities import QUANTITIES
from .claim import Test
from .names import check_quantity
from .outcomes import Outcome
from .values import value_in

_SIZES = ("variance", "std", "mean_abs")
_ROWS = ("max_prob", "second_prob", "third_prob", "sum_p2", "entropy", "jacobian_frobenius_sq")
_LAWS = ("normal", "uniform", "laplace", "rademacher")
_ROOM = 0.01  # of a number given so coarsely that anything would fit
_ROOT2 = math.sqrt(2)
_OF_LOGITS = {"": 1.0, "sqrt(2)": _ROOT2, "1/sqrt(2)": 1 / _ROOT2, "2": 2.0, "1/2": 0.5}


def search(test: Test, outcomes: Sequence[Outcome]) -> str:
    """Which neighbours the figure fits, and of how many; "" where there is nothing to search.

    Searched are single numbers of logits, rows or elements in one case (under each reading).
    Logit quantities are multiplied by a factor; for rows it is the logits that are.
    """
    if test.figure.kind not in ("claimed", "about") or len(test.figure.values) > 1:
        return ""
    if test.versus is not None or test.draws is not None or test.universal:
        return ""
    said = test.figure.values[0]
    room = min(test.figure.units[0] * test.figure.slack, _ROOM * abs(said)) * (1 + 1e-9)
    found: dict[str, None] = {}
    tried: set[tuple[str, float]] = set()
    for outcome in outcomes:
        case = outcome.computed[0].case
        if len(outcome.computed) > 1 or case is None or outcome.computed[0].kind == "measured":
            return ""
        for name, value in _neighbours(outcome.quantity or test.quantity, case):
            if (name, value) in tried or not math.isfinite(value):
                continue
            tried.add((name, value))
            if abs(value - said) <= room:
                found[f"{name}{f' ({outcome.reading})' if outcome.reading else ''}"] = None
    if not tried:
        return ""
    if not found:
        return f"none of {len(tried)} neighbours fits"
    listed = ", ".join(list(found)[:3]) + (", ..." if len(found) > 3 else "")
    verb = "fits" if len(found) == 1 else "fit"
    return f"{len(found)} of {len(tried)} neighbours {verb}: {listed}"


def _neighbours(quantity: str, case: Case) -> Iterator[tuple[str, float]]:
    if quantity in QUANTITIES and not QUANTITIES[quantity].of_pairs:
        yield from _of_rows(case)
    elif quantity in _SIZES or check_quantity(quantity) == ["query_variance"]:
        yield from _of_sizes(_SIZES if quantity in _SIZES else (quantity,), case)


def _of_rows(case: Case) -> Iterator[tuple[str, float]]:
    for factor, size in _OF_LOGITS.items():
        divisor = 1 / (scale_factor(case) * size)
        scaled = replace(case, scale=f"constant:{divisor!r}") if factor else case
        for name in _ROWS:
            words = f"{name}{f' of logits x {factor}' if factor else ''}"
            yield from _valued(words, name, scaled, 1.0)


def _of_sizes(names: Sequence[str], case: Case) -> Iterator[tuple[str, float]]:
    for law in _LAWS if case.weights is None else ("",):
        drawn = replace(case, elements_q=law, elements_k=law) if law else case
        for name in names:
            for factor, size in _factors(case).items():
                of_law = f" of {law} elements" if law not in ("", "normal") else ""
                yield from _valued(f"{name}{factor and f' x {factor}'}{of_law}", name, drawn, size)


def _factors(case: Case) -> dict[str, float]:
    """Factors that are often forgotten or counted twice."""
    found = dict(_OF_LOGITS)
    for name, size in (("d_k", case.d_k), ("d_model", case.d_model)):
        if size is not None and size > 1:
            root = math.sqrt(size)
            found |= {f"sqrt({name})": root, f"1/sqrt({name})": 1 / root}
            found |= {name: float(size), f"1/{name}": 1 / size}
    return found


def _valued(words: str, name: str, case: Case, factor: float) -> Iterator[tuple[str, float]]:
    try:
        value = value_in(name, case)
    except InputError:
        return
    if value.low == value.high:
        yield words, float(value.low) * factor
