"""Intervals of paired differences: coverage, tables of Student's law, and planted faults."""

import math

import numpy as np
import pytest
from verify_variance.stats.checks import InputError
from verify_variance.stats.training.paired import interval, paired, student_quantile

STUDENT = [(0.05, 1, 12.706), (0.05, 4, 2.776), (0.01, 9, 3.250), (0.001, 4, 8.610)]
"""Two-sided quantiles of Student's law, from the usual printed table."""


@pytest.mark.parametrize(("rate", "freedom", "quantile"), STUDENT)
def test_quantiles_are_those_of_the_printed_table(rate, freedom, quantile):
    assert student_quantile(rate, freedom) == pytest.approx(quantile, abs=5e-4)


def misses(replicates: int, rate: float, experiments: int, reach: float = 1.0) -> float:
    """Standard score of the share of simulated experiments whose interval misses the truth."""
    rng = np.random.default_rng(replicates)
    shared = rng.normal(size=(experiments, replicates)) * 5
    first = shared + 0.3 + rng.normal(size=shared.shape)
    second = shared + rng.normal(size=shared.shape)
    missed = 0
    for a, b in zip(first, second, strict=True):
        found = paired(a, b, rate)
        missed += abs(found.mean - 0.3) > reach * (found.high - found.mean)
    return (missed / experiments - rate) / math.sqrt(rate * (1 - rate) / experiments)


@pytest.mark.parametrize("replicates", [3, 5])
def test_intervals_miss_at_the_rate_that_they_state(replicates):
    """4000 experiments at a rate of 0.05; |z| above 5.5 has a chance below 1e-6 (binomial)."""
    assert abs(misses(replicates, 0.05, 4000)) < 5.5


def test_an_interval_that_is_a_third_too_short_is_found():
    assert misses(5, 0.05, 4000, reach=2 / 3) > 5.5


def test_pairing_removes_what_both_runs_share():
    shared = [10.0, 20.0, 30.0, 40.0]
    first = [x + d for x, d in zip(shared, [1.1, 0.9, 1.0, 1.0], strict=True)]
    found = paired(first, shared)
    assert found.mean == pytest.approx(1.0)
    assert found.high - found.low < 2
    assert interval(first).high - interval(first).low > 100


def test_one_replicate_and_a_lost_one_say_nothing():
    assert interval([2.0]).low == -math.inf
    lost = interval([1.0, math.nan, 2.0])
    assert math.isnan(lost.mean)
    assert (lost.low, lost.high) == (-math.inf, math.inf)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="an interval needs replicates, got none"):
        interval([])
    with pytest.raises(InputError, match="pairs need as many of both, got 1 and 2"):
        paired([1.0], [1.0, 2.0])
