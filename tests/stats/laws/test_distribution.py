"""Exact laws of the logit against the closed forms, enumeration and reference values."""

import itertools
import math

import numpy as np
import pytest
from verify_variance.stats.cases import Case
from verify_variance.stats.laws.distribution import logit_cdf, logit_pdf, logit_quantile, logit_sf
from verify_variance.stats.laws.logit_integrals import distribution_function


def _between(d: int, x: float) -> float:
    return float(logit_cdf(Case(d_k=d), x) - logit_cdf(Case(d_k=d), -x))


def test_reference_values() -> None:
    """R008, R010, R012, R014, R018, and the tail at d = 64, x = 80."""
    assert _between(32, 12.5) == pytest.approx(0.97075657789909, rel=1e-11)
    assert _between(64, 24.0) == pytest.approx(0.99669575767546, rel=1e-11)
    assert float(logit_sf(Case(d_k=64), 24.0)) == pytest.approx(0.0016521211622724, rel=1e-11)
    assert float(logit_sf(Case(d_k=64), 80.0)) == pytest.approx(3.22740098e-17, rel=2e-9)
    assert logit_quantile(Case(d_k=32), 0.975) == pytest.approx(11.162532961339, rel=1e-12)
    uniform = Case(d_k=16, elements_q="uniform", elements_k="uniform")
    assert float(logit_cdf(uniform, 6.0)) == pytest.approx(0.93327057192075, rel=1e-11)
    # planted: one dimension less, and a normal law of the same variance
    assert float(logit_sf(Case(d_k=63), 24.0)) != pytest.approx(0.0016521211622724, rel=1e-2)
    assert float(logit_sf(Case(logit_std=8.0), 24.0)) != pytest.approx(0.00165212, rel=1e-1)


@pytest.mark.parametrize("d", [1, 2, 3, 16, 64])
def test_struve_form_of_the_distribution_function(d: int) -> None:
    """`1/2 + (x/2) [K_v L_(v-1) + K_(v-1) L_v]`, v = (d-1)/2, in 30 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(30):
        v = mpmath.mpf(d - 1) / 2
        for x in (1e-6, 0.1, 1.0, 10.0):
            bessel = mpmath.besselk(v, x), mpmath.besselk(v - 1, x)
            struve = mpmath.struvel(v - 1, x), mpmath.struvel(v, x)
            exact = 0.5 + mpmath.mpf(x) / 2 * (bessel[0] * struve[0] + bessel[1] * struve[1])
            assert float(logit_cdf(Case(d_k=d), x)) == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("d", [1, 2, 16, 64])
def test_bessel_form_of_the_density(d: int) -> None:
    mpmath = pytest.importorskip("mpmath")
    v = mpmath.mpf(d - 1) / 2
    for x in (1e-3, 1.0, 20.0, 100.0):
        shape = mpmath.sqrt(mpmath.pi) * 2**v * mpmath.gamma(mpmath.mpf(d) / 2)
        exact = float(x**v * mpmath.besselk(v, x) / shape)
        assert float(logit_pdf(Case(d_k=d), x)) == pytest.approx(exact, rel=1e-12)


def test_two_dimensions_are_laplace_far_into_the_tail() -> None:
    x = np.array([0.0, 1.0, 80.0, 600.0])
    assert logit_sf(Case(d_k=2), x) == pytest.approx(np.exp(-x) / 2, rel=1e-12)
    assert logit_cdf(Case(d_k=2), -x) == pytest.approx(np.exp(-x) / 2, rel=1e-12)
    assert logit_quantile(Case(d_k=2, sigma_q=3.0), 0.001) == pytest.approx(
        3 * math.log(0.002), rel=1e-13
    )


def test_density_of_one_product_is_infinite_at_zero() -> None:
    assert logit_pdf(Case(d_k=1), [0.0, 1.0])[0] == math.inf
    with pytest.raises(ValueError, match="elements must be normal"):
        logit_pdf(Case(elements_q="uniform"), 0.0)


def test_signs_by_enumeration() -> None:
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=4)))
    x = (signs @ signs.T).ravel()
    case = Case(d_k=4, elements_q="rademacher", elements_k="rademacher")
    for at in (-5.0, -4.0, -1.0, 0.0, 2.0, 3.5, 4.0):
        assert float(logit_cdf(case, at)) == pytest.approx((x <= at).mean(), abs=1e-15)
        assert float(logit_sf(case, at)) == pytest.approx((x > at).mean(), abs=1e-15)
    assert logit_quantile(case, 0.9) == 2
    assert logit_quantile(case, 0.05) == -4


def test_spheres() -> None:
    both = Case(d_k=3, elements_q="sphere", elements_k="sphere", sigma_q=2.0)
    assert logit_cdf(both, [-7.0, -6.0, 0.0, 3.0, 6.0]) == pytest.approx(
        [0, 0, 0.5, 0.75, 1], abs=1e-15
    )
    with_normal = Case(d_k=3, elements_q="sphere")
    given = Case(logit_std=math.sqrt(3))
    assert logit_quantile(with_normal, 0.975) == pytest.approx(logit_quantile(given, 0.975))


def test_inversion_gives_the_normal_elements_law() -> None:
    x = np.array([-30.0, -5.0, 0.0, 3.0, 24.0])
    case = Case(d_k=64)
    assert distribution_function(case, x) == pytest.approx(logit_cdf(case, x), abs=1e-12)


def test_few_elements_with_edges_are_refused() -> None:
    with pytest.raises(ValueError, match="d_k must be larger"):
        logit_cdf(Case(d_k=2, elements_q="uniform", elements_k="uniform"), 1.0)
    with pytest.raises(ValueError, match="d_k must be larger"):
        logit_cdf(Case(d_k=20, elements_q="sparse:0.1"), 1.0)


def test_probability_must_be_inside() -> None:
    with pytest.raises(ValueError, match="p must be a number between 0 and 1, got 1"):
        logit_quantile(Case(), 1.0)
