"""What a claim's quantity is in its setting: exact values by name, through cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases import Case, Kind, Reference
from ..checks import InputError
from ..conventions import scale_factor
from ..planning import draws_needed
from ..predict import predict
from ..quantities import QUANTITIES
from .claim import Setting
from .expressions import evaluate
from .names import FIELDS, MEASURED, check_quantity
from .settings import Request, paired_cases

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured: value, its standard error, independent draws; the exact one if known."""

    value: float
    error: float
    draws: int
    exact: float | None = None


Measurements = Mapping[Request, Measured]


@dataclass(frozen=True, slots=True)
class Computed:
    """A value: exact, between two ends, or measured with its standard error.

    `low` and `high` are arrays of one shape, equal unless the kind is `bracket`.
    """

    low: Array
    high: Array
    case: Case | None = None
    kind: Kind | str = "closed form"
    error: float = 0.0
    draws: int | None = None
    reference: Reference | None = None
    exact: float | None = None

    @classmethod
    def exactly(cls, value: Any, case: Case | None = None) -> Computed:
        """A value without an error."""
        array = np.asarray(value, np.float64)
        return cls(array, array, case)

    @classmethod
    def measured(cls, found: Measured, case: Case) -> Computed:
        """A value with its standard error."""
        value = np.asarray(found.value)
        return cls(value, value, case, "measured", found.error, found.draws, exact=found.exact)


def compute(
    quantity: str, setting: Setting, versus: Setting | None, measured: Measurements
) -> list[Computed]:
    """The value in every case that the setting spells out, or its ratio to that in versus."""
    values = []
    for case, other in paired_cases(quantity, setting, versus):
        found = None if case is None else measured.get(Request(quantity, case, other))
        if found is not None and case is not None:
            values.append(Computed.measured(found, case))
        elif quantity in MEASURED:
            raise InputError(f"{quantity} has to be measured, and was not")
        elif quantity == "rows_to_tell":
            values.append(Computed.exactly(_rows_to_tell(case, other), case))
        else:
            here = value_in(quantity, case)
            values.append(here if other is None else _ratio(here, value_in(quantity, other)))
    return values


def _ratio(a: Computed, b: Computed) -> Computed:
    with np.errstate(divide="ignore"):
        low, high = a.low / b.high, a.high / b.low
    return replace(a, low=low, high=high, reference=None)


def value_in(quantity: str, case: Case | None) -> Computed:
    """An expression's value in one case.

    Examples:
        >>> float(value_in("std / sqrt(d_k)", Case(d_k=64)).low)
        1.0

    """
    names = check_quantity(quantity)
    if case is None:
        return Computed.exactly(evaluate(quantity, {}))
    if quantity in QUANTITIES:
        return _catalogued(quantity, case)
    return Computed.exactly(evaluate(quantity, {name: _named(name, case) for name in names}), case)


def _catalogued(quantity: str, case: Case) -> Computed:
    reference = predict(case, quantity)
    value = reference.value
    if value is None:
        raise InputError(f"{quantity} has no exact value in {case.canonical()}")
    ends = value if isinstance(value, tuple) else (value, value)
    low, high = (np.asarray(end, np.float64) for end in ends)
    return Computed(low, high, case, reference.kind, reference=reference)


def _named(name: str, case: Case) -> float | Callable[[float], float]:
    if name in FIELDS:
        field = getattr(case, name)
        if field is None:
            raise InputError(f"{name} is not given in the setting; add it")
        return float(field)
    if name == "coverage":
        return lambda c: 1.0 - tail(case, c)
    if name == "tail":
        return lambda c: tail(case, c)
    if name == "query_variance":
        return query_variance(case)
    if name not in QUANTITIES:
        raise InputError(f"{name} stands alone, not within an expression")
    value = _catalogued(name, case)
    if value.low != value.high:
        raise InputError(f"{name} is known between two ends only; claim it alone")
    return float(value.low)


def tail(case: Case, c: float) -> float:
    """`P(|x| > c)` of the scaled logit; through normal weights `2 E Q(c / (s chi chi chi))`.

    Examples:
        >>> round(1 - tail(Case(d_k=64), 24.0), 12)
        0.996695757675

    """
    if case.weights is None:
        from ..laws.distribution import logit_cdf, logit_sf

        limit = c / abs(scale_factor(case))
        return float(logit_sf(case, limit) + logit_cdf(case, -limit))
    from scipy.special import ndtr

    from ..quadrature import scale_rule
    from ..rows.laws import row_law

    law = row_law(case, scale_factor(case))
    if isinstance(law, str):
        raise InputError(f"the share of logits beyond {c:g} is not known: {law}")
    std, chi = law[0].std, law[0].chi
    if law[0].base != "normal":
        raise InputError("the share of logits through weights needs normal keys given the query")
    if not chi:
        return 2 * float(ndtr(-c / std))
    # a Gauss rule in r / (r + bend), smooth where ndtr turns
    nodes, weights = scale_rule(chi, c / std, 48)
    return 2 * float(weights @ ndtr(-c / (std * nodes)))


def query_variance(case: Case) -> float:
    """Variance of an element of q: `sigma_q^2`, or `D v_q` through weights (E |x|^2 = D).

    Examples:
        >>> query_variance(Case(d_k=64, sigma_q=0.5))
        0.25

    """
    if case.weights is None:
        return case.sigma_q**2
    from ..weights.layers import layer_of

    layer = layer_of(case)
    return layer.d_model * layer.variance_q


def _rows_to_tell(case: Case | None, other: Case | None) -> float:
    """Rows at which the test of the mean entropy tells `case` from `other`."""
    if case is None or other is None:
        raise InputError("rows_to_tell compares two settings; give a versus")
    here, there = predict(case, "entropy"), predict(other, "entropy")
    values = (here.value, there.value)
    assert isinstance(values[0], float)
    assert isinstance(values[1], float)
    spread = max(here.replicate_sd or 0.0, there.replicate_sd or 0.0)
    gap = abs(values[0] - values[1])
    return float(draws_needed(spread, here.unit, gap / here.unit)) if gap else math.inf
