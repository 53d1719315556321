"""Pivots against mpmath: chi-square, binomial and Student tails, far out as well."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, xlogy
from scipy.stats import binom
from verify_variance.stats import pivots
from verify_variance.stats.cases import Reference
from verify_variance.stats.moments import Moments
from verify_variance.stats.pivots import (
    chi_square_z,
    clopper_pearson,
    constant_z,
    judge,
    share_z,
    student_z,
    two_sided,
)
from verify_variance.stats.quantities import QUANTITIES, Estimate


def normal_deviate(log_tail):
    """The z > 0 with log Q(z) = log_tail, by Newton's method in mpmath."""
    z = mp.sqrt(max(-2 * log_tail, mp.mpf("0.01")))
    for _ in range(60):
        tail = mp.erfc(z / mp.sqrt(2)) / 2
        step = (mp.log(tail) - log_tail) * tail / mp.npdf(z)
        z += step
        if abs(step) < 1e-20:
            return z
    raise AssertionError("no convergence")


def chi_square_log_tail(nu, ratio):
    """Log of the tail of chi^2_nu beyond nu ratio, on the side of ratio, by the textbook series."""
    a, x = mp.mpf(nu) / 2, mp.mpf(nu) * ratio / 2
    front = a * mp.log(x) - x - mp.loggamma(a)
    if ratio <= 1:  # P = x^a e^-x / Gamma(a) sum x^k / (a (a+1) ... (a+k))
        term = total = 1 / a
        k = 0
        while term > total * mp.eps:
            k += 1
            term *= x / (a + k)
            total += term
        return front + mp.log(total)
    # Q by Legendre's continued fraction, with the modified Lentz recurrence
    b = x + 1 - a
    c, d = mp.mpf(10) ** 300, 1 / b
    h = d
    for i in range(1, 100_000):
        an, b = -i * (i - a), b + 2
        d, c = 1 / (an * d + b), b + an / c
        h *= c * d
        if abs(c * d - 1) < mp.eps * 16:
            return front + mp.log(h)
    raise AssertionError("no convergence")


def test_the_series_agree_with_mpmath():
    with mp.workdps(40):
        for ratio in (0.7, 1.2):
            x = 10 * mp.mpf(ratio)
            ends = (0, x) if ratio < 1 else (x, mp.inf)
            tail = mp.gammainc(10, *ends, regularized=True)
            assert abs(chi_square_log_tail(20, ratio) - mp.log(tail)) < 1e-30


def exact_nu(draws, relative_sd):
    """2 sigma^4 / Var(S^2), with Var(S^2) = sigma^4 (2/(N-1) + k/N), k = relative_sd^2 - 2."""
    n, k = mp.mpf(draws), mp.mpf(relative_sd) ** 2 - 2
    return 2 / (2 / (n - 1) + k / n)


@pytest.mark.parametrize("relative_sd", [8**0.5, (2 + 6 / 64) ** 0.5, 1.0])
@pytest.mark.parametrize("draws", [100, 10_000])
@pytest.mark.parametrize("z", [-7.0, -5.0, -1.0, 0.5, 3.0, 5.2, 12.0])
def test_chi_square_deviates_equal_mpmath(draws, relative_sd, z):
    ratio = math.exp(z * relative_sd / math.sqrt(draws))
    with mp.workdps(40):
        log_tail = chi_square_log_tail(exact_nu(draws, relative_sd), ratio)
        assert log_tail > math.log(1e-275)
        wanted = float(mp.sign(ratio - 1) * normal_deviate(log_tail))
    assert chi_square_z(ratio, draws, relative_sd) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("ratio", [0.05, 0.3, 2.2, 3.0])
def test_far_tails_of_the_chi_square_law(ratio):
    draws, relative_sd = 4000, 2**0.5
    with mp.workdps(60):
        nu = exact_nu(draws, relative_sd)
        log_tail = chi_square_log_tail(nu, ratio)
        assert log_tail < math.log(1e-280)
        wanted = float(mp.sign(ratio - 1) * normal_deviate(log_tail))
    got = chi_square_z(ratio, draws, relative_sd)
    # r* has relative error O(1/nu) in the tail, hence 1/(nu z) in z
    assert abs(got - wanted) < 1 / (float(nu) * abs(wanted))


def test_the_two_branches_of_the_chi_square_tail_join(monkeypatch):
    ratio = 1.65
    direct = chi_square_z(ratio, 4000, 2**0.5)
    monkeypatch.setattr(pivots, "_EXACT_TAIL", 1.0)
    expanded = chi_square_z(ratio, 4000, 2**0.5)
    assert direct != expanded
    assert abs(direct - expanded) < 1 / (4000 * direct)


def test_a_variance_of_zero_is_infinitely_far():
    assert chi_square_z(0.0, 1000, 1.5) == -math.inf
    far = [chi_square_z(10.0**-power, 1000, 1.5) for power in (1, 10, 20, 100, 300)]
    assert far == sorted(far, reverse=True)
    assert math.isfinite(far[-1])


def test_for_matrices_the_mean_costs_one_of_all_logits():
    # 30 matrices of 64 x 64: nu = 2 / (relative_sd^2 / 30 + 2 / (L (L - 1))), L = 30 64 64
    n, logits, sd = 30, 30 * 64 * 64, 0.1
    nu = 2 / (sd**2 / n + 2 / (logits * (logits - 1)))
    with mp.workdps(40):
        wanted = float(normal_deviate(chi_square_log_tail(nu, 1.1)))
    assert chi_square_z(1.1, n, sd, 64 * 64) == pytest.approx(wanted, rel=1e-9)


def binomial_log_tail(successes, draws, p, upper):
    """Log P(B >= successes) or P(B <= successes): the textbook sum, away from the start."""
    p = mp.mpf(p)
    k = successes
    term = mp.binomial(draws, k) * p**k * (1 - p) ** (draws - k)
    total = term
    odds = p / (1 - p)
    while (k < draws if upper else k > 0) and term > total * mp.mpf(10) ** -25:
        if upper:
            term *= odds * (draws - k) / (k + 1)
            k += 1
        else:
            term *= k / odds / (draws - k + 1)
            k -= 1
        total += term
    return mp.log(total)


@pytest.mark.parametrize(
    ("successes", "draws", "p"),
    [
        (12, 1000, 0.005),
        (0, 1000, 0.005),
        (700, 1000, 0.5),
        (10_500, 100_000, 0.1),
        (3, 10**6, 1e-7),
    ],
)
def test_shares_have_the_binomial_tail_of_their_own_side(successes, draws, p):
    upper = successes >= p * draws
    with mp.workdps(40):
        wanted = float(normal_deviate(binomial_log_tail(successes, draws, p, upper)))
    assert share_z(successes / draws, draws, p) == pytest.approx(
        wanted if upper else -wanted, rel=1e-9
    )


def test_the_binomial_sum_agrees_with_the_beta_function():
    with mp.workdps(30):
        beta = mp.betainc(20, 21, 0, mp.mpf(0.3), regularized=True)
        assert abs(mp.exp(binomial_log_tail(20, 40, 0.3, True)) / beta - 1) < 1e-20
        below = mp.exp(binomial_log_tail(19, 40, 0.3, False))
        assert abs(below + beta - 1) < 1e-20


def test_shares_beyond_float64_are_bounded_from_below_and_signed():
    z = share_z(0.9, 10_000, 0.5)
    with mp.workdps(40):
        exact = float(normal_deviate(binomial_log_tail(9000, 10_000, 0.5, True)))
    assert 0.99 * exact < z <= exact
    assert share_z(0.1, 10_000, 0.5) == pytest.approx(-z, rel=1e-12)


def test_impossible_and_certain_shares():
    assert share_z(0.0, 10, 0.0) == share_z(1.0, 10, 1.0) == 0.0
    assert share_z(0.1, 10, 0.0) == math.inf
    assert share_z(0.9, 10, 1.0) == -math.inf


@given(st.integers(0, 60), st.floats(0.02, 0.98))
@settings(max_examples=100, deadline=None)
def test_a_share_is_never_called_too_often(successes, p):
    """Exact size: P(two-sided p <= alpha) <= alpha for every p (each side at alpha / 2)."""
    draws, alpha = 60, 0.05
    k = np.arange(draws + 1)
    log_pmf = [
        math.lgamma(draws + 1) - math.lgamma(i + 1) - math.lgamma(draws - i + 1) for i in k
    ] + (xlogy(k, p) + xlogy(draws - k, 1 - p))
    rejected = [two_sided(share_z(i / draws, draws, p)) <= alpha for i in k]
    assert np.exp(log_pmf)[rejected].sum() <= alpha * (1 + 1e-9)
    # the same observation is rejected or not by its own z
    assert rejected[successes] == (two_sided(share_z(successes / draws, draws, p)) <= alpha)


@pytest.mark.parametrize(
    ("successes", "draws"), [(0, 50), (1, 50), (25, 50), (50, 50), (7, 20_000)]
)
@pytest.mark.parametrize("miss", [0.1, 1e-3, 1e-6])
def test_clopper_pearson_solves_for_the_tails(successes, draws, miss):
    low, high = clopper_pearson(successes / draws, draws, miss)
    with mp.workdps(30):

        def root(upper):
            a, b = mp.mpf(0), mp.mpf(1)
            for _ in range(60):
                p = (a + b) / 2
                tail = mp.exp(binomial_log_tail(successes, draws, p, upper))
                a, b = (p, b) if (tail < miss) == upper else (a, p)
            return float(a)

        if successes:
            assert low == pytest.approx(root(True), rel=1e-9)
        else:
            assert low == 0.0
        if successes < draws:
            assert high == pytest.approx(root(False), rel=1e-9)
        else:
            assert high == 1.0


@pytest.mark.parametrize(("draws", "t"), [(2, 3.0), (10, -6.0), (1000, 5.5), (100_000, -12.0)])
def test_student_deviates_equal_mpmath(draws, t):
    df = draws - 1
    with mp.workdps(40):
        tail = mp.betainc(df / mp.mpf(2), 0.5, 0, df / (df + mp.mpf(t) ** 2), regularized=True) / 2
        wanted = float(mp.sign(t) * normal_deviate(mp.log(tail)))
    estimate = Estimate(draws, 1.0 + t * 2.0 / math.sqrt(draws), 2.0)
    assert student_z(estimate, 1.0) == pytest.approx(wanted, rel=1e-8)


def test_student_of_a_constant_sample_and_beyond_float64():
    assert student_z(Estimate(10, 2.0, 0.0), 2.0) == 0.0
    assert student_z(Estimate(10, 2.0 + 1e-8, 0.0), 2.0) == 0.0
    assert student_z(Estimate(10, 1.9, 0.0), 2.0) == -math.inf
    huge = student_z(Estimate(10**6, 2.0, 1e-3), 1.0)
    assert two_sided(huge) == 0.0
    near = student_z(Estimate(10**6, 1.0 + 37e-6, 1e-3), 1.0)
    assert near < huge


def signs(n, ups):
    return np.repeat([1.0, -1.0], [ups, n - ups])


@pytest.mark.parametrize("quantity", ["variance", "std", "kurtosis"])
@pytest.mark.parametrize("ups", [50, 57, 80, 99, 20])
def test_constant_squares_deviate_as_their_mean_does(quantity, ups):
    """x = +-1: z^2 = N mean^2 exactly, whatever the sample."""
    n = 100
    estimate = QUANTITIES[quantity].estimate(Moments.of(signs(n, ups), 8))
    value = -2.0 if quantity == "kurtosis" else 1.0
    z = constant_z(quantity, estimate, value)
    assert abs(z) == pytest.approx(math.sqrt(n) * abs(2 * ups / n - 1), abs=1e-6)
    if ups != 50:
        assert z > 0 if quantity == "kurtosis" else z < 0


def test_the_law_of_a_constant_square_is_no_wider_than_nominal():
    """Exact binomial law of N mean^2 at N = 10000: the tail at the planned threshold."""
    n, alpha = 10_000, 2.5e-7
    k = np.arange(n + 1)
    log_pmf = [math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in k]
    pmf = np.exp(np.array(log_pmf) - n * math.log(2))
    variance = (n / (n - 1)) * (1 - (2 * k / n - 1) ** 2)
    z = np.array([constant_z("variance", Estimate(n, float(v), 0.0), 1.0) for v in variance])
    actual = pmf[2 * ndtr(-np.abs(z)) <= alpha].sum()
    assert 0.5 * alpha < actual < 1.2 * alpha


def test_no_sample_of_a_constant_square_lies_on_the_other_side():
    assert constant_z("variance", Estimate(100, 1.2, 0.1), 1.0) == math.inf
    assert constant_z("kurtosis", Estimate(100, -2.5, 0.1), -2.0) == -math.inf
    assert constant_z("mean_abs", Estimate(100, 1.0 + 1e-7, 0.0), 1.0) == 0.0
    assert constant_z("mean_abs", Estimate(100, 0.9, 0.0), 1.0) == -math.inf


VARIANCE = Reference(4.0, 8.0, 4 * 3.5**0.5, None, "closed form", "")
STD = Reference(2.0, 2.0, 3.5**0.5, None, "closed form", "")
BRACKET = Reference((0.3, 0.4), 0.35, None, None, "bracket", "")


@given(st.floats(0.5, 8.0), st.integers(100, 10**7), st.sampled_from([0.0, 0.01, 0.3]))
@settings(max_examples=200, deadline=None)
def test_variance_and_std_are_one_test_and_z_agrees_with_p_and_gap(value, draws, slack):
    variance = judge("variance", Estimate(draws, value, 1.0), VARIANCE, 0.0)
    std = judge("std", Estimate(draws, math.sqrt(value), 1.0), STD, 0.0)
    assert std.z == pytest.approx(variance.z, rel=1e-6, abs=1e-6)
    assert variance.gap == pytest.approx((value - 4) / 8)
    for name, x, reference in (("variance", value, VARIANCE), ("mean_abs", value, VARIANCE)):
        pivot = judge(name, Estimate(draws, x, 1.0), reference, slack)
        assert pivot.p_value == min(1.0, 2 * float(ndtr(-abs(pivot.z))))
        if abs(pivot.z) > 0.1:  # the chi-square median lies a little below its mean
            assert math.copysign(1, pivot.z) == math.copysign(1, pivot.gap)


def test_with_slack_only_what_is_outside_counts():
    inside = judge("std", Estimate(10**6, 2.019, 1.0), STD, 0.01)
    assert (inside.z, inside.p_value) == (0.0, 1.0)
    assert inside.gap == pytest.approx(0.0095)
    edge = judge("std", Estimate(10**6, 2.03, 1.0), STD, 0.01)
    # the law of a scaled x: ratio to the edge 2.02, relative spread unchanged
    assert edge.z == pytest.approx(chi_square_z((2.03 / 2.02) ** 2, 10**6, 3.5**0.5), rel=1e-9)


def test_brackets_are_judged_from_their_nearer_end():
    assert judge("jacobian_spectral", Estimate(100, 0.35, 0.1), BRACKET, 0.0) == pivots.Pivot(
        0.0, 0.0, 1.0
    )
    above = judge("jacobian_spectral", Estimate(100, 0.45, 0.1), BRACKET, 0.0)
    assert above.gap == pytest.approx(0.05 / 0.35)
    assert above.z == pytest.approx(student_z(Estimate(100, 0.45, 0.1), 0.4))
    below = judge("jacobian_spectral", Estimate(100, 0.25, 0.1), BRACKET, 0.0)
    assert below.gap < 0
    assert below.z == pytest.approx(-above.z)


def test_an_unknown_spread_of_a_variance_is_student():
    estimate = Estimate(20, 4.4, 1.0)
    reference = Reference(4.0, 8.0, None, None, "closed form", "")
    assert judge("variance", estimate, reference, 0.0).z == student_z(estimate, 4.0)


def test_a_reference_without_value_is_no_interval():
    with pytest.raises(ValueError, match="kind none"):
        pivots.bounds(Reference(None, 1.0, None, None, "none", ""))


@pytest.mark.parametrize("p", [0.0, 3e-9, 1e-4, 0.03, 0.5, 0.999])
@pytest.mark.parametrize("draws", [10_000, 123_456])
def test_a_share_moved_by_its_detectable_gap_is_called_with_the_power_promised(p, draws):
    tail, power = 5e-7, 0.999
    gap = pivots.share_detectable(p, p, draws, tail, power)
    counts = np.arange(draws + 1)
    rejected = [pivots.two_sided(pivots.share_z(c / draws, draws, p)) <= 2 * tail for c in counts]
    called = [
        float(binom.pmf(counts, draws, shifted)[rejected].sum())
        for shifted in (p + gap, p - gap)
        if 0 <= shifted <= 1
    ]
    assert min(called) >= power - 1e-9
    assert min(called) == pytest.approx(power, abs=1e-3)
