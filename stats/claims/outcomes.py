"""Whether one test of a claim holds: what was said of a value, against the value.

What can go wrong: a figure that was simulated has an error of its own, and is judged by the error
of its own number of draws; a value that was measured has one too, and may not tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import pivots
from ..checks import InputError
from ..quantities import QUANTITIES, Estimate
from .claim import FALSE_ALARM, FALSE_ALARM_Z, Figure, Test
from .settings import variants
from .values import Computed, Measurements, compute


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test under one reading: whether it holds (None: the error bar does not tell)."""

    holds: bool | None
    computed: tuple[Computed, ...]
    z: float | None = None
    p_value: float | None = None
    last_digits: float | None = None
    reading: str = ""
    quantity: str = ""


def judge_test(test: Test, measured: Measurements) -> tuple[Outcome, ...]:
    """The outcome under every reading; one, unnamed, where there are no readings."""
    names = [reading.name for reading in test.readings] or [""]
    outcomes = []
    for name, (quantity, setting, versus) in zip(names, variants(test), strict=True):
        computed = tuple(compute(quantity, setting, versus, measured))
        outcome = judge_computed(test, quantity, computed)
        outcomes.append(replace(outcome, reading=name, quantity=quantity))
    return tuple(outcomes)


def judge_computed(test: Test, quantity: str, computed: Sequence[Computed]) -> Outcome:
    """All cases together: the figure must hold in each of them."""
    alone = [_judge_one(test, quantity, value) for value in computed]
    holding = [outcome.holds for outcome in alone]
    holds = False if False in holding else None if None in holding else True
    worst = min(alone, key=lambda o: (o.holds is not False, o.holds is not None))
    return replace(worst, holds=holds, computed=tuple(computed))


def _judge_one(test: Test, quantity: str, computed: Computed) -> Outcome:
    figure = test.figure
    reach = FALSE_ALARM_Z * computed.error
    low, high = computed.low - reach, computed.high + reach
    if figure.kind == "order":
        return Outcome(_ordered(figure, float(low), float(high)), (computed,))
    if len(figure.values) != computed.low.size and figure.kind != "between":
        raise InputError(
            f"{quantity} has {computed.low.size} values and the claim {len(figure.values)}; "
            "give as many"
        )
    ends = zip(low.ravel(), high.ravel(), strict=True)
    told = [_inside(figure, i, float(a), float(b)) for i, (a, b) in enumerate(ends)]
    holds = False if False in told else None if None in told else True
    middle = 0.5 * (computed.low + computed.high).ravel()
    off = None
    if figure.units and figure.kind in ("claimed", "about", "limit"):
        gaps = [
            (v - float(c)) / u for v, u, c in zip(figure.values, figure.units, middle, strict=True)
        ]
        off = max(gaps, key=abs)
    outcome = Outcome(holds, (computed,), last_digits=off)
    if computed.kind == "measured" and computed.error and figure.values:
        outcome = replace(outcome, z=(figure.values[0] - float(middle[0])) / computed.error)
    return outcome if test.draws is None else _by_draws(test, quantity, computed, outcome)


def _ordered(figure: Figure, low: float, high: float) -> bool | None:
    """Whether a ratio is on its side of 1."""
    if figure.order == "less":
        return True if high < 1 else False if low >= 1 else None
    return True if low > 1 else False if high <= 1 else None


def _inside(figure: Figure, i: int, low: float, high: float) -> bool | None:
    """Whether values from low to high are what the i-th number stands for."""
    if figure.kind == "differs_from":
        same = abs(figure.values[i]) * 1e-9 + figure.units[i] / 2
        if high < figure.values[i] - same or low > figure.values[i] + same:
            return True
        return False if low == high else None
    least, most = figure.interval(i)
    if low >= least and high <= most:
        return True
    if high < least or low > most:
        return False
    # an error bar wider than the digits given: what it covers is as good as it can be told
    inside = least <= 0.5 * (low + high) <= most
    return True if inside and high - low <= most - least < math.inf else None


def _by_draws(test: Test, quantity: str, computed: Computed, outcome: Outcome) -> Outcome:
    """A simulated figure: the p-value of as large a gap in that many draws, if it is right."""
    assert test.draws is not None
    value, nearest = test.figure.values[0], _nearest(test.figure, float(computed.low))
    given, kindest = (_pivot(quantity, computed, x, test.draws) for x in (value, nearest))
    by_chance = kindest.p_value >= FALSE_ALARM
    return replace(outcome, holds=outcome.holds or by_chance, z=given.z, p_value=given.p_value)


def _nearest(figure: Figure, computed: float) -> float:
    """The value that the figure may stand for which is nearest to what was computed."""
    low, high = figure.interval(0)
    return min(max(computed, low), high)


def _pivot(quantity: str, computed: Computed, value: float, draws: int) -> pivots.Pivot:
    reference = computed.reference
    if quantity in QUANTITIES:
        if reference is None or reference.replicate_sd is None:
            raise InputError(f"{quantity} has no exact spread, so that its draws say nothing")
        return pivots.judge(quantity, Estimate(draws, value, 0.0), reference, 0.0)
    if quantity.startswith(("coverage(", "tail(")) and quantity.endswith(")"):
        z = pivots.share_z(value, draws, float(computed.low))
        return pivots.Pivot(value - float(computed.low), z, pivots.two_sided(z))
    raise InputError(f"draws need a quantity of the catalogue or a coverage, got {quantity}")
