"""Intervals of paired differences: the same initialisation and data order in both runs of a pair.

With differences d_1 ... d_S over S replicates, mean m and sample standard deviation s, the
interval is m +- t s / sqrt(S), t the two-sided quantile of Student's law with S - 1 degrees of
freedom. It is exact for normal differences; what it speaks of is another replicate of the same
experiment, never another text, model or length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..checks import InputError, fraction

FALSE_ALARM = 1e-3
"""Probability that an interval misses its value: that of the claims' own verdicts."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over replicates with its interval; `sd` is that of one replicate."""

    mean: float
    low: float
    high: float
    sd: float
    replicates: int


def student_quantile(false_alarm: float, freedom: int) -> float:
    """The t with P(|T| > t) = false_alarm.

    Examples:
        >>> round(student_quantile(0.05, 4), 3), round(student_quantile(1e-3, 4), 2)
        (2.776, 8.61)

    """
    from scipy.special import stdtrit

    return float(-stdtrit(freedom, fraction("false_alarm", false_alarm) / 2))


def interval(values: Sequence[float], false_alarm: float = FALSE_ALARM) -> Interval:
    """The interval of a mean over replicates; wholly open for fewer than two or a lost one.

    Examples:
        >>> found = interval([1.0, 2.0, 3.0], 0.05)
        >>> found.mean, round(found.low, 3), round(found.high, 3)
        (2.0, -0.484, 4.484)

    """
    count = len(values)
    if count == 0:
        raise InputError("an interval needs replicates, got none; train at least two")
    mean = math.fsum(values) / count
    if count < 2 or not math.isfinite(mean):
        return Interval(mean, -math.inf, math.inf, math.nan, count)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    reach = student_quantile(false_alarm, count - 1) * sd / math.sqrt(count)
    return Interval(mean, mean - reach, mean + reach, sd, count)


def paired(
    first: Sequence[float], second: Sequence[float], false_alarm: float = FALSE_ALARM
) -> Interval:
    """The interval of first minus second, replicate by replicate.

    Examples:
        >>> round(paired([1.5, 2.6, 3.4], [1.0, 2.0, 3.0]).mean, 12)
        0.5

    """
    if len(first) != len(second):
        raise InputError(f"pairs need as many of both, got {len(first)} and {len(second)}")
    return interval([a - b for a, b in zip(first, second, strict=True)], false_alarm)
