"""Theories that are wrong by a known gap, so that a miss can be counted."""

from __future__ import annotations

import math
from dataclasses import replace

from ..cases import Reference
from ..decision import Row
from ..pivots import bounds
from ..planning import Rates
from ..quantities import JUDGED

_POWER_OF_SIGMA = {"variance": 2, "std": 1}


def planted_row(row: Row, gap: float, rates: Rates) -> Row | None:
    """The row with a theory that the truth exceeds by `gap` times what the row must call.

    What it must call is its tolerance, or the gap that its draws detect where that is wider. None
    where no such theory exists: a distance or an extreme, a constant, a share beyond 0 or 1.
    `row` has been decided, as its own theory has it.
    """
    reference = row.reference
    if row.tolerance is None or row.detectable is None or reference.sample_law is not None:
        return None
    if reference.replicate_sd == 0.0:
        return None
    loose = rates.within or reference.rounded  # forgiven up to the tolerance
    called = row.tolerance + row.detectable if loose else max(row.tolerance, row.detectable)
    wrong = planted_reference(row.quantity, reference, gap * called)
    return None if wrong is None else replace(row, reference=wrong)


def planted_reference(quantity: str, reference: Reference, gap: float) -> Reference | None:
    """The theory of a sigma too small by `gap` (a variance, a std), or a value so far away.

    Elsewhere the value moves by `gap` units, and a bracket by its own width besides, so that the
    truth is at least that far outside.

    Examples:
        >>> theory = Reference(16.0, 32.0, 24.66, None, "closed form", "d_k")
        >>> round(planted_reference("variance", theory, 0.01).value, 6)  # 16 / 1.01^2
        15.684737

    """
    power = _POWER_OF_SIGMA.get(quantity)
    if power is not None:
        value = bounds(reference)[0]
        if gap <= -1 or not value:
            return None
        factor = math.pow(1 + gap, -power)
        sd = reference.replicate_sd
        return replace(
            reference,
            value=value * factor,
            unit=reference.unit * factor,
            replicate_sd=None if sd is None else sd * factor,
        )
    low, high = bounds(reference)
    moved = -gap * reference.unit - math.copysign(high - low, gap)
    low, high = low + moved, high + moved
    if JUDGED[quantity].test == "share" and not 0 < low <= high < 1:
        return None
    return replace(reference, value=low if low == high else (low, high))
