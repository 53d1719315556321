"""Measure what a claim is about where theory has no exact value for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..stats.cases import Case
from ..stats.cells import plan_cells
from ..stats.claims.names import MEASURED
from ..stats.claims.settings import Request
from ..stats.claims.values import Measured
from ..stats.decision import DEFAULT_RATES, Row
from ..stats.planning import elements_per_draw
from ..stats.predict import predict
from ..stats.run import estimate_of
from .gradients import measure_request
from .sweep import measure

FEWEST, MOST = 10_000, 1_000_000
ELEMENTS = 2e8  # random elements for one value: a second or so


def measure_claim(request: Request, seed: int, devices: Sequence[Any]) -> Measured:
    """The value of a quantity in a case, or its ratio between two, with its standard error.

    The errors of a ratio's two values are added as if they were independent.
    """
    if request.quantity in MEASURED:
        return measure_request(request, seed)
    here = _measured(request.quantity, request.case, seed, devices)
    if request.versus is None:
        return here
    there = _measured(request.quantity, request.versus, seed, devices)
    value = here.value / there.value
    error = abs(value) * math.hypot(here.error / here.value, there.error / there.value)
    return Measured(value, error, min(here.draws, there.draws))


def _measured(quantity: str, case: Case, seed: int, devices: Sequence[Any]) -> Measured:
    draws = int(min(max(ELEMENTS / elements_per_draw(case), FEWEST), MOST))
    row = Row(case, quantity, predict(case, quantity))
    (cell,) = plan_cells([row], DEFAULT_RATES, samples=draws)
    estimate = estimate_of(row, measure(cell, seed, devices))
    return Measured(estimate.value, estimate.mcse, draws)
