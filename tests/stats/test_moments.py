"""Moments: exact rational arithmetic is the outside truth, and merging is a matter of rounding."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verify_variance.stats.moments import Moments

ORDER = 8
UNIT = 2.0**-53

values = st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=1, max_size=40)
samples = st.lists(values, min_size=2, max_size=5)


def exact_moments(x):
    """Count, mean and centred sums in rational arithmetic."""
    exact = [Fraction(v) for v in x]
    mean = sum(exact) / len(exact)
    return mean, [sum((v - mean) ** r for v in exact) for r in range(2, ORDER + 1)]


def rounding_of(x, r):
    """What r-fold products and two additions per value may round, with some offset of the mean.

    Each centred value carries at most u (4 max|x| + its own size) of error, so that its r-th power
    is off by r size^(r-1) times that, and n of them are summed; 64 is room for the merges.
    """
    largest = max(map(abs, x))
    spread = max(x) - min(x)
    n = len(x)
    one = r * (spread + 8 * UNIT * largest) ** (r - 1) * UNIT * (4 * largest + r * spread)
    return 64 * n * one + 1e-300


def merged(parts):
    total = Moments.of([], ORDER)
    for part in parts:
        total = total.merge(Moments.of(part, ORDER))
    return total


def assert_exact(moments, x):
    mean, sums = exact_moments(x)
    assert moments.count == len(x)
    assert abs(moments.mean - float(mean)) <= 64 * UNIT * max(map(abs, x))
    for r, (got, wanted) in enumerate(zip(moments.sums, sums, strict=True), start=2):
        assert abs(got - float(wanted)) <= rounding_of(x, r), r


@given(samples)
@settings(max_examples=150, deadline=None)
def test_merging_gives_the_moments_of_all_values_in_any_order(parts):
    x = [v for part in parts for v in part]
    assert_exact(merged(parts), x)
    assert_exact(merged(parts[::-1]), x)


@given(samples)
@settings(max_examples=100, deadline=None)
def test_merging_is_associative_to_rounding(parts):
    a, b, *rest = (Moments.of(part, ORDER) for part in parts)
    c = rest[0] if rest else a
    x = [*parts[0], *parts[1], *(parts[2] if rest else parts[0])]
    left, right = a.merge(b).merge(c), a.merge(b.merge(c))
    assert left.count == right.count
    for r, (one, other) in enumerate(zip(left.sums, right.sums, strict=True), start=2):
        assert abs(one - other) <= 2 * rounding_of(x, r)


@pytest.mark.parametrize("offset", [0.0, 1e3, -1e6, 1e8])
def test_an_offset_mean_does_not_cancel(offset):
    x = np.random.default_rng(3).standard_normal(3000) + offset
    assert_exact(merged(np.split(x, [1, 2, 500, 2000])), x.tolist())


def test_raw_power_sums_would_fail_where_centred_ones_do_not():
    x = np.random.default_rng(4).standard_normal(1000) + 1e8
    raw = float((x**2).sum() - x.size * x.mean() ** 2)
    truth = float(exact_moments(x.tolist())[1][0])
    assert abs(raw / truth - 1) > 0.01
    assert abs(merged(np.split(x, 10)).sums[0] / truth - 1) < 1e-7


def test_one_huge_value_keeps_its_moments():
    x = [*([1e-6] * 999), 1e6]
    moments = merged([x[:1], x[1:500], x[500:]])
    # the two-point law: S_r = (n-1) (-a/n)^r + ((n-1) a / n)^r
    a, n = Fraction(1e6) - Fraction(1e-6), 1000
    for r in range(2, ORDER + 1):
        wanted = (n - 1) * (-a / n) ** r + ((n - 1) * a / n) ** r
        assert moments.sums[r - 2] == pytest.approx(float(wanted), rel=1e-12)


def test_empty_moments_are_neutral():
    full, empty = Moments.of([1.0, 4.0], 4), Moments.of([], 4)
    assert full.merge(empty) == empty.merge(full) == full


def test_different_orders_do_not_merge_silently():
    with pytest.raises(ValueError, match="merged moments must be of one order, got 4, 2"):
        Moments.of([1.0, 2.0], 4).merge(Moments.of([1.0, 3.0], 2))


@pytest.mark.parametrize("factor", [-3.0, 0.125, 2.5])
def test_scaled_moments_are_those_of_the_scaled_values(factor):
    x = np.random.default_rng(5).exponential(size=400)
    scaled, direct = Moments.of(x, ORDER).scaled(factor), Moments.of(x * factor, ORDER)
    assert scaled.mean == pytest.approx(direct.mean, rel=1e-13)
    assert scaled.sums == pytest.approx(direct.sums, rel=1e-11)


def test_standardised_moments_of_four_values():
    m = Moments.of([0.0, 0.0, 0.0, 4.0], 4)  # mean 1, m2 3, m3 6, m4 21
    assert [m.standardised(r) for r in range(5)] == pytest.approx(
        [1, 0, 1, 6 / math.sqrt(27), 21 / 9], rel=1e-14
    )
