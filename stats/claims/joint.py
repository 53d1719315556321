"""Claims against one another: two that no setting satisfies, and a table judged as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..checks import InputError
from ..shown import short
from .claim import Claim, Test
from .outcomes import judge_computed, judge_test
from .values import Measurements, compute


@dataclass(frozen=True, slots=True)
class Joint:
    """The chi-square p-value of a table, and what was looked at besides."""

    p_value: float
    why: str


def clash(claim: Claim, by_id: Mapping[str, Claim]) -> str:
    """Why no value of the free parameter satisfies both claims; "" where one does."""
    free = claim.consistent
    assert free is not None
    steps = 400
    both = (claim.tests[0], by_id[free.claim].tests[0])
    held: tuple[list[float], list[float]] = ([], [])
    for i in range(steps + 1):
        value = free.low * (free.high / free.low) ** (i / steps)
        fits = [_holds_at(test, free.parameter, value) for test in both]
        if all(fits):
            return ""
        for where, fit in zip(held, fits, strict=True):
            where += [value] if fit else []
    ranges = [
        f"{name} needs {short(min(where))}..{short(max(where))}" if where else f"{name} never holds"
        for name, where in zip((claim.id, free.claim), held, strict=True)
    ]
    return f"no {free.parameter} satisfies both: {', '.join(ranges)}"


def _holds_at(test: Test, parameter: str, value: float) -> bool:
    setting = {**test.setting, parameter: repr(value)}
    computed = compute(test.quantity, setting, None, {})
    return bool(judge_computed(replace(test, draws=None), test.quantity, computed).holds)


def joint(claim: Claim, by_id: Mapping[str, Claim], measured: Measurements) -> Joint | None:
    """Simulated figures judged together: their chi-square, and two looks chosen afterwards."""
    if not claim.joint:
        return None
    from scipy.special import chdtr, chdtrc

    z = [judge_test(by_id[name].tests[0], measured)[0].z for name in claim.joint]
    known = [value for value in z if value is not None]
    if len(known) != len(claim.joint):
        raise InputError("joint needs claims with draws; give each its draws")
    n, mean = len(known), math.fsum(known) / len(known)
    square = math.fsum(value**2 for value in known)
    spread = math.fsum((value - mean) ** 2 for value in known)
    p_value, close = float(chdtrc(n, square)), float(chdtr(n - 1, spread))
    one_sided = all(value < 0 for value in known) or all(value > 0 for value in known)
    side = f"all {n} deviations have one sign (p = {2.0 ** (1 - n):.3g}), " if one_sided else ""
    return Joint(
        p_value,
        f"chi-square {square:.3g} on {n} (p = {p_value:.2f}); exploratory, chosen after seeing the "
        f"table: {side}their spread is this small with p = {close:.2g}",
    )
