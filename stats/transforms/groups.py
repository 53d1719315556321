"""Replicates that are groups: several queries on the same keys, of which each counts once."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..cases import Case
from ..moments import Moments
from ..quantities import Estimate
from .stacks import draw_shape, stack_of

LOGIT_MEANS = ("logit", "logit_square", "abs_logit")
"""Means over a group's logits from which their moments are estimated."""


def grouped(case: Case) -> bool:
    """Whether several queries on the same keys are one replicate."""
    return any(name in ("gqa", "queries") for name in stack_of(case))


def grouped_estimate(
    case: Case, quantity: str, measured: Mapping[tuple[str, float | None], object]
) -> Estimate:
    """Mean, mean_abs, variance or std of the logit from the means over each group.

    The variance is `E x^2 - (E x)^2`; its influence function is the group's mean of x^2, centred,
    since the logits have mean 0.
    """
    mean, square, absolute = (measured[name, None] for name in LOGIT_MEANS)
    assert isinstance(mean, Moments)
    assert isinstance(square, Moments)
    assert isinstance(absolute, Moments)
    size = math.prod(draw_shape(case))
    if quantity in ("mean", "mean_abs"):
        m = mean if quantity == "mean" else absolute
        return Estimate(m.count, m.mean, math.sqrt(m.central(2)), size)
    variance, sd = square.mean - mean.mean**2, math.sqrt(square.central(2))
    if quantity == "variance":
        return Estimate(square.count, variance, sd, size)
    std = math.sqrt(variance)
    return Estimate(square.count, std, sd / (2 * std), size)
