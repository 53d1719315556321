"""Estimators against mpmath on exactly known samples and against a numerical jackknife."""

import math

import mpmath as mp
import numpy as np
import pytest
from verify_variance.stats.checks import InputError
from verify_variance.stats.moments import Moments
from verify_variance.stats.quantities import GROUPS, QUANTITIES, Estimate, expand_quantities

N = 400
SAMPLES = {
    "symmetric": np.random.default_rng(0).standard_normal(N),
    "skewed": np.random.default_rng(1).exponential(size=N) ** 1.5 + 7.0,
    "product": np.prod(np.random.default_rng(2).standard_normal((2, N)), axis=0),
}


def statistic(name, x):
    """The estimators once more, in mpmath, from their definitions."""
    n = len(x)
    mean = mp.fsum(x) / n
    m2, m3, m4 = (mp.fsum((v - mean) ** r for v in x) / n for r in (2, 3, 4))
    return {
        "mean": mean,
        "variance": m2 * n / (n - 1),
        "std": mp.sqrt(m2 * n / (n - 1)),
        "skewness": m3 / m2 ** mp.mpf("1.5"),
        "kurtosis": m4 / m2**2 - 3,
    }[name]


def estimate(name, x):
    return QUANTITIES[name].estimate(Moments.of(x, 8))


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("name", ["mean", "variance", "std", "skewness", "kurtosis"])
def test_estimates_equal_their_definitions(name, sample):
    x = SAMPLES[sample]
    with mp.workdps(40):
        wanted = float(statistic(name, [mp.mpf(float(v)) for v in x]))
    assert estimate(name, x).value == pytest.approx(wanted, rel=1e-11, abs=1e-12)


def infinitesimal_jackknife(name, x):
    """Root mean square of the numerical derivative in each value's weight."""
    step = 1e-5 / len(x)

    def weighted(weights):
        w = weights / weights.sum()
        mean = w @ x
        m2, m3, m4 = (w @ (x - mean) ** r for r in (2, 3, 4))
        return {
            "mean": mean,
            "variance": m2,
            "std": math.sqrt(m2),
            "skewness": m3 / m2**1.5,
            "kurtosis": m4 / m2**2 - 3,
        }[name]

    even = np.full(len(x), 1 / len(x))
    slopes = []
    for i in range(len(x)):
        up, down = even.copy(), even.copy()
        up[i] += step
        down[i] -= step
        slopes.append((weighted(up) - weighted(down)) / (2 * step))
    return float(np.sqrt(np.mean(np.square(slopes))))


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("name", ["mean", "variance", "std", "skewness", "kurtosis"])
def test_sd_is_that_of_the_numerical_influence_function(name, sample):
    # estimators with n - 1 have n / (n - 1) of the functional's influence, the std its root
    bessel = {"variance": N / (N - 1), "std": math.sqrt(N / (N - 1))}.get(name, 1.0)
    wanted = infinitesimal_jackknife(name, SAMPLES[sample]) * bessel
    assert estimate(name, SAMPLES[sample]).sd == pytest.approx(wanted, rel=1e-6)


def test_the_kurtosis_influence_needs_its_term_in_z_on_skewed_samples():
    # Bernoulli(p): K = 1/(p q) - 3, so that the delta method gives |dK/dp| sqrt(p q)
    p, q, n = 0.3, 0.7, 1000
    x = np.repeat([0.0, 1.0], [700, 300])
    wanted = (q - p) / (p * q) ** 1.5
    assert estimate("kurtosis", x).sd == pytest.approx(wanted, rel=1e-10)
    z = (x - p) / math.sqrt(p * q)
    k = (z**4).mean()
    without = math.sqrt(((z**4 - 2 * k * z**2 + k) ** 2).sum() / n)
    assert abs(without / wanted - 1) > 0.1


def test_shares_and_means_of_rows():
    share = QUANTITIES["saturated"].estimate(Moments.of([1, 0, 0, 0]))
    assert (share.draws, share.value) == (4, 0.25)
    assert share.sd == pytest.approx(math.sqrt(0.25 * 0.75), rel=1e-15)
    entropy = QUANTITIES["entropy"].estimate(Moments.of([1.0, 3.0]))
    assert (entropy.value, entropy.sd) == (2.0, 1.0)


def test_constant_samples_are_decided_not_nan():
    constant = Moments.of([2.0] * 5, 8)
    assert QUANTITIES["variance"].estimate(constant) == Estimate(5, 0.0, 0.0)
    assert QUANTITIES["std"].estimate(constant) == Estimate(5, 0.0, 0.0)
    for name in ("skewness", "kurtosis"):
        with pytest.raises(InputError, match=f"{name} needs logits that vary, got 5 equal"):
            QUANTITIES[name].estimate(constant)
    with pytest.raises(InputError, match="a variance needs at least 2 draws, got 1"):
        QUANTITIES["variance"].estimate(Moments.of([2.0], 8))


def test_two_point_samples_have_no_spread_of_their_variance():
    two_points = QUANTITIES["variance"].estimate(Moments.of([-1.0, 1.0] * 50, 8))
    assert two_points.sd == 0.0
    assert two_points.value == pytest.approx(100 / 99, rel=1e-15)


def test_mcse():
    assert Estimate(100, 1.0, 3.0).mcse == 0.3
    assert Estimate(0, 0.0, 0.0).mcse == math.inf


def test_groups_hold_every_quantity_once():
    assert GROUPS["all"] == GROUPS["logits"] + GROUPS["softmax"] + GROUPS["jacobian"]
    assert not {"law", *GROUPS["tails"], *GROUPS["extremes"]} & set(GROUPS["all"])


def test_expansion_keeps_order_and_refuses_repeats():
    assert expand_quantities(["entropy", "softmax"])[:3] == ("entropy", "max_prob", "second_prob")
    with pytest.raises(InputError, match="quantities lists std twice; give each value once"):
        expand_quantities(["std", "std"])
    with pytest.raises(InputError, match=r"unknown quantity 'varience'; did you mean variance\?"):
        expand_quantities(["varience"])
