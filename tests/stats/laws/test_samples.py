"""Laws of whole samples: their rates by simulation, their planners, and what they must catch."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr
from verify_variance.stats import pivots
from verify_variance.stats.cases import Reference
from verify_variance.stats.laws.samples import DistanceLaw, ExtremeLaw, distance_constant
from verify_variance.stats.quantities import Estimate

RATE = 1e-7  # of each statistical test here, for any seed


def most(trials, p):
    """Successes that a binomial exceeds with probability RATE at most."""
    return int(stats.binom.isf(RATE, trials, p))


def p_value(law, value):
    return 2 * math.exp(min(law.log_tails(value)))


def distance(x):
    level = np.sort(x)
    n = len(level)
    return max((np.arange(1, n + 1) / n - level).max(), (level - np.arange(n) / n).max())


@pytest.mark.parametrize("draws", [10, 1000])
def test_a_distance_alarms_no_more_often_than_it_says(draws):
    rng = np.random.default_rng()
    law, trials = DistanceLaw(draws), 2000
    p = [p_value(law, distance(rng.random(draws))) for _ in range(trials)]
    for level in (0.05, 0.005):
        assert sum(x <= level for x in p) <= most(trials, level)
    # planted: a bound without its factor 2 N alarms far too often
    assert sum(x**0.5 <= 0.05 for x in p) < sum(x**2 <= 0.05 for x in p) > most(trials, 0.05)


def test_a_distance_agrees_with_kolmogorovs_exact_law_in_the_tail():
    """scipy.stats.kstwo is the exact law for continuous F; Massart's bound is within a hair."""
    for draws, d in ((100, 0.2), (1000, 0.085), (10_000, 0.0269)):
        exact = stats.kstwo(draws).sf(d)
        assert exact <= p_value(DistanceLaw(draws), d) <= 1.25 * exact


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_a_detectable_gap_of_a_cdf_is_detected(share):
    """F off by the detectable gap at one edge: F_N there is binomial, and nothing else helps."""
    draws, tail, power = 10_000, 5e-7, 0.99
    law = DistanceLaw(draws)
    gap = law.detectable(tail, power)
    counts = np.random.default_rng().binomial(draws, share + gap, 20_000)
    seen = np.abs(counts / draws - share)
    called = sum(-2 * draws * d * d <= math.log(tail) for d in seen)
    assert called >= stats.binom.ppf(RATE, len(seen), power)
    assert gap == pytest.approx(distance_constant(tail, power) / 100)


def test_the_interval_of_a_distance_covers():
    rng, draws, shift = np.random.default_rng(), 1000, 0.1
    true = 0.1  # U(0, 1) + 0.1 against U(0, 1)
    missed = 0
    for _ in range(2000):
        low, high = DistanceLaw(draws).interval(distance(np.minimum(rng.random(draws) + shift, 1)),
                                                0.01)  # fmt: skip
        missed += not low <= true <= high
    assert missed <= most(2000, 0.02)


def normal_tail(x):
    return (float(ndtr(-x)),) * 2


@pytest.mark.parametrize("side", [1, -1])
def test_extremes_have_their_exact_law(side):
    draws, trials = 500, 3000
    law = ExtremeLaw(draws, side, normal_tail, 0.0, 1.0)
    x = np.random.default_rng().standard_normal((trials, draws))
    seen = x.max(1) if side > 0 else x.min(1)
    below = [math.exp(law.log_tails(value)[0]) for value in seen]
    assert stats.kstest(below, "uniform").pvalue > RATE
    median = side * law.quantile(0.5)
    assert abs(np.mean(seen < median) - 0.5) < 5.4 * 0.5 / math.sqrt(trials)
    # planted: one law for twice the draws
    twice = ExtremeLaw(2 * draws, side, normal_tail, 0.0, 1.0)
    wrong = [math.exp(twice.log_tails(value)[0]) for value in seen]
    assert stats.kstest(wrong, "uniform").pvalue < RATE


def test_extremes_of_a_lattice_count_their_own_value():
    """A coin of -1 and 1: the largest of 20 is 1 but once in a million, and 1 is no alarm."""
    law = ExtremeLaw(20, 1, lambda x: (0.5 * (x < 1 - 1e-9), 0.5 * (x <= 1)), 0.0, 1.0)
    assert law.log_tails(1.0) == (0.0, pytest.approx(math.log(1 - 2.0**-20)))
    assert math.exp(law.log_tails(-1.0)[0]) == pytest.approx(2.0**-20)


def test_a_detectable_shift_of_an_extreme_is_detected():
    draws, tail, power = 1000, 5e-7, 0.99
    law = ExtremeLaw(draws, 1, normal_tail, 0.0, 1.0)
    gap = law.detectable(tail, power)
    largest = np.random.default_rng().standard_normal((4000, draws)).max(1)
    for shift in (gap, -gap):
        called = sum(min(law.log_tails(x + shift)) <= math.log(tail) for x in largest)
        assert called >= stats.binom.ppf(RATE, len(largest), power)


def test_the_pivot_of_a_sample_law_is_its_p_value():
    law = DistanceLaw(10_000)
    reference = Reference(0.0, 1.0, 0.5, None, "closed form", "", sample_law=law)
    pivot = pivots.judge("law", Estimate(10_000, 0.03, 0.5), reference, 0.0)
    assert pivot.p_value == pytest.approx(2 * math.exp(-18))
    assert (pivot.gap, pivot.z > 0) == (0.03, True)
    far = pivots.judge("law", Estimate(10_000, 0.9, 0.5), reference, 0.0)
    assert far.p_value == 0.0
    assert 100 < far.z < math.inf
    # --within: only what exceeds the tolerance counts
    within = pivots.judge("law", Estimate(10_000, 0.03, 0.5), reference, 0.02)
    assert within.p_value == pytest.approx(2 * math.exp(-2))
    assert pivots.judge("law", Estimate(10_000, 0.03, 0.5), reference, 0.04).p_value == 1.0
