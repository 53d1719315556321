"""The logit's references against exact enumeration and against values computed elsewhere."""

import itertools
import math

import numpy as np
import pytest
from verify_variance.stats import sampling_errors as se
from verify_variance.stats.cases import Case
from verify_variance.stats.laws import dot_product as dp
from verify_variance.stats.laws.logit_moments import logit_moments
from verify_variance.stats.logits import check_moments_exist, influence, logit_reference

MIXED = Case(
    d_k=12, elements_q="laplace", elements_k="uniform",
    mean_q=0.4, sigma_q=1.5, mean_k=-0.7, sigma_k=0.8,
)  # fmt: skip

# name, closed form, a wrong theory near it, the truth (R: shared table of exact values)
TABLE = [
    ("R001", dp.mean_absolute_dot_product(1), math.sqrt(2 / math.pi), 0.63661977236758),
    ("R003", dp.mean_absolute_dot_product(64), 8 * math.sqrt(2 / math.pi), 6.3581922398699),
    ("R004", se.sample_std_se(4, 6 / 16, 10_000), 4 / math.sqrt(20_000), 0.030823367888678),
    ("R006", se.sample_std_se(8, 6 / 64, 10_000), 8 / math.sqrt(20_000), 0.057881949103353),
    ("R023", dp.dot_product_kurtosis(16, 1.8, 1.8), (1.8 * 1.8 - 9) / 16, 0.015),
    ("R025", dp.dot_product_kurtosis(16, 4.2, 4.2), 4.2 * 4.2 / 16, 0.915),
    ("R026", dp.correlated_cumulant(64, 0.25, 2), 64 * (1 - 0.25**2), 68.0),
    ("R027", dp.correlated_cumulant(64, 0.25, 3), 64 * 6 * 0.25, 98.0),
    ("R028", dp.correlated_cumulant(64, 0.25, 4), 64 * 6 * (1 + 0.25**2), 529.5),
    ("R033", dp.qk_norm_variance(64, "layer"), dp.qk_norm_variance(64), 65.015873015873),
    ("R034", dp.qk_norm_kurtosis(64), dp.qk_norm_kurtosis(64, "layer"), -0.090909090909091),
    (
        "R035",
        dp.rope_kurtosis(64, 13, 1.8, 1.8),
        dp.rope_kurtosis(64, 0, 1.8, 1.8),
        0.0006023525473544,
    ),
    ("R042", se.design_effect(64, 64, 16), 64.0, 7.6315789473684),
    ("chi", dp.mean_chi(3), math.sqrt(3), 2 * math.sqrt(2 / math.pi)),
    ("E|x|^3", dp.absolute_moment(2, 3), dp.absolute_moment(3, 3), 6.0),
    ("mean", dp.dot_product_mean(12, 0.4, -0.7), 12 * 0.4 * 0.7, -3.36),
    (
        "variance",
        dp.dot_product_variance(12, 1.5, 0.8, 0.4, -0.7),
        12 * (1.5 * 0.8) ** 2,
        12 * ((1.5**2 + 0.4**2) * (0.8**2 + 0.7**2) - (0.4 * 0.7) ** 2),
    ),
    ("skewness", dp.dot_product_skewness(16, 2, 2), 2 * 2 / 16, 1.0),
]


@pytest.mark.parametrize(("name", "value", "planted", "truth"), TABLE, ids=[t[0] for t in TABLE])
def test_closed_forms(name: str, value: float, planted: float, truth: float) -> None:
    assert value == pytest.approx(truth, rel=3e-13)
    assert planted != pytest.approx(truth, rel=1e-4)


def test_mixed_laws_with_means() -> None:
    """R029, R031, R032."""
    assert logit_reference(MIXED, "mean").value == pytest.approx(-3.36, rel=1e-13)
    assert logit_reference(MIXED, "skewness").value == pytest.approx(-0.16235559734394, rel=1e-12)
    assert logit_reference(MIXED, "kurtosis").value == pytest.approx(0.81175807667997, rel=1e-12)
    without = logit_reference(Case(d_k=12, elements_q="laplace", elements_k="uniform"), "kurtosis")
    assert without.value != pytest.approx(0.81175807667997, rel=0.1)


def _standardised(x: np.ndarray) -> list[float]:
    z = (x - x.mean()) / x.std()
    return [float((z**r).mean()) for r in range(13)]


def _signs(d: int) -> np.ndarray:
    return np.array(list(itertools.product((-1.0, 1.0), repeat=d)))


@pytest.mark.parametrize(("mean_q", "mean_k"), [(0, 0), (0.3, 0), (0.3, -1.2)])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_all_moments_by_enumeration(d: int, mean_q: float, mean_k: float) -> None:
    x = ((0.5 * _signs(d) + mean_q) @ (2.0 * _signs(d) + mean_k).T).ravel()
    law = "rademacher"
    case = Case(d, None, law, law, 0.5, 2.0, mean_q, mean_k)
    moments = logit_moments(case)
    assert moments.mean == pytest.approx(x.mean(), abs=1e-14)
    assert moments.std == pytest.approx(x.std(), rel=1e-14)
    # twelve orders of cumulants and back: sums of up to 1e4 times what remains
    assert moments.standardised == pytest.approx(_standardised(x), rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("quantity", ["variance", "std", "kurtosis", "mean_abs"])
@pytest.mark.parametrize("laws", [("rademacher", "rademacher"), ("sphere", "rademacher"),
                                  ("sphere", "sphere")])  # fmt: skip
def test_one_sign_has_no_spread_at_all(laws: tuple[str, str], quantity: str) -> None:
    case = Case(d_k=1, elements_q=laws[0], elements_k=laws[1], sigma_q=1.3, sigma_k=0.7)
    reference = logit_reference(case, quantity, 0.37)
    assert reference.replicate_sd == 0.0
    assert reference.replicate_skew == 0.0


@pytest.mark.parametrize("quantity", ["skewness", "kurtosis"])
def test_influence_is_the_derivative_of_the_quantity(quantity: str) -> None:
    """Mix a point mass into a skewed three-point law; a dropped g term must show."""
    points, weights = np.array([-1.0, 0.5, 4.0]), np.array([0.5, 0.3, 0.2])
    order = {"skewness": 3, "kurtosis": 4}[quantity]

    def value(w: np.ndarray) -> float:
        centred = points - w @ points
        return float(w @ centred**order / (w @ centred**2) ** (order / 2))

    z = (points - weights @ points) / math.sqrt(weights @ (points - weights @ points) ** 2)
    g, k = (float(weights @ z**r) for r in (3, 4))
    assert abs(g) > 0.5
    coefficients = influence(quantity, g, k)
    dropped = influence(quantity, 0.0, k)
    for i in range(3):
        mass = np.eye(3)[i]
        step = 1e-5
        # central difference: error of order step^2
        slope = value(weights + step * (mass - weights)) - value(weights - step * (mass - weights))
        exact = float(np.polynomial.polynomial.polyval(z[i], coefficients))
        assert slope / (2 * step) == pytest.approx(exact, rel=1e-6)
        wrong = float(np.polynomial.polynomial.polyval(z[i], dropped))
        assert slope / (2 * step) != pytest.approx(wrong, rel=1e-2)


@pytest.mark.parametrize("quantity", ["variance", "std", "mean", "skewness", "kurtosis"])
def test_replicate_sd_and_skew_by_enumeration(quantity: str) -> None:
    d, mean = 3, 0.6
    x = ((_signs(d) + mean) @ (_signs(d) + mean).T).ravel()
    z = (x - x.mean()) / x.std()
    g, k = (z**3).mean(), (z**4).mean()
    f = {
        "mean": z * x.std(),
        "variance": (z**2 - 1) * x.var(),
        "std": (z**2 - 1) * x.std() / 2,
        "skewness": z**3 - 3 * z - g - 1.5 * g * (z**2 - 1),
        "kurtosis": z**4 - 4 * g * z - 2 * k * (z**2 - 1) - k,
    }[quantity]
    case = Case(d_k=d, elements_q="rademacher", elements_k="rademacher", mean_q=mean, mean_k=mean)
    reference = logit_reference(case, quantity)
    assert abs(f.mean()) < 1e-12
    assert reference.replicate_sd == pytest.approx(f.std(), rel=1e-11)
    skew = float((f**3).mean() / f.std() ** 3)
    assert reference.replicate_skew == pytest.approx(skew, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("d", [2, 5, 64])
def test_sphere_against_its_known_laws(d: int) -> None:
    with_normal = logit_moments(Case(d_k=d, elements_q="sphere"))
    assert with_normal.standardised == pytest.approx(
        logit_moments(Case(logit_std=1.0)).standardised, rel=1e-13
    )
    both = logit_reference(Case(d_k=d, elements_q="sphere", elements_k="sphere"), "kurtosis")
    assert both.value == pytest.approx(dp.qk_norm_kurtosis(d), rel=1e-12)
    # signs have the sphere's norm
    signs = logit_moments(Case(d_k=d, elements_q="rademacher", elements_k="sphere"))
    assert signs.standardised[8] == pytest.approx(
        logit_moments(Case(d_k=d, elements_q="sphere", elements_k="sphere")).standardised[8]
    )


def test_sphere_with_a_mean_by_enumeration() -> None:
    """On a circle E cos^2m is the mean over equally spaced angles; k has four values."""
    angles = np.arange(64) * 2 * np.pi / 64
    q = math.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    x = (q @ (_signs(2) + 0.7).T).ravel()
    case = Case(d_k=2, elements_q="sphere", elements_k="rademacher", mean_k=0.7)
    moments = logit_moments(case)
    assert moments.std == pytest.approx(x.std(), rel=1e-14)
    assert moments.standardised == pytest.approx(_standardised(x), rel=1e-12, abs=1e-12)


def test_correlated_normals() -> None:
    moments = logit_moments(Case(d_k=64, correlation=0.25))
    assert moments.mean == 16
    assert moments.std**2 == pytest.approx(68, rel=1e-14)
    assert moments.standardised[3] * moments.std**3 == pytest.approx(98, rel=1e-13)
    assert (moments.standardised[4] - 3) * moments.std**4 == pytest.approx(529.5, rel=1e-13)
    # rho -> 0 with means is the independent case
    means = {"d_k": 3, "mean_q": 0.4, "mean_k": 2.0}
    near, independent = (
        logit_moments(Case(correlation=1e-15, **means)),
        logit_moments(Case(**means)),
    )
    assert near.standardised == pytest.approx(independent.standardised, rel=1e-12, abs=1e-12)
    # rho = 1: chi-square with d_k degrees of freedom, skewness sqrt(8/d), kurtosis 12/d
    chi_square = logit_moments(Case(d_k=5, correlation=1.0))
    assert chi_square.standardised[3:5] == pytest.approx([math.sqrt(8 / 5), 3 + 12 / 5], rel=1e-13)


def test_rotary_planes_by_enumeration() -> None:
    c, s = math.cos(1.1), math.sin(1.1)
    rotated = _signs(2) @ np.array([[c, -s], [s, c]])
    x = (rotated @ _signs(2).T).ravel()
    exact = float((x**4).mean() / (x**2).mean() ** 2 - 3)
    assert dp.rope_kurtosis(2, 1.1, 1.0, 1.0) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("d", [1, 7, 64, 2**20])
def test_gamma_ratio_does_not_cancel(d: int) -> None:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        exact = mpmath.gamma(mpmath.mpf(d + 1) / 2) / mpmath.gamma(mpmath.mpf(d) / 2)
    assert dp.gamma_ratio(d / 2, 0.5) == pytest.approx(float(exact), rel=2e-15)


def test_units_and_scale() -> None:
    case = Case(d_k=64)
    got = {q: logit_reference(case, q, 0.125) for q in ("variance", "std", "mean", "kurtosis")}
    assert (got["variance"].value, got["variance"].unit) == (1, 2)
    assert (got["std"].value, got["std"].unit) == (1, 1)
    assert (got["mean"].value, got["mean"].unit) == (0, 1)
    assert (got["kurtosis"].value, got["kurtosis"].unit) == (0.09375, 1)
    assert got["variance"].replicate_sd == pytest.approx(math.sqrt(2 + 6 / 64), rel=1e-14)
    # variance and std are one deviation
    assert got["std"].replicate_sd == pytest.approx(got["variance"].replicate_sd / 2, rel=1e-15)


def test_mean_abs_of_normals_has_its_exact_spread() -> None:
    reference = logit_reference(Case(d_k=2), "mean_abs")  # |x| ~ Exp(1) at d_k = 2
    assert (reference.value, reference.replicate_sd) == pytest.approx((1, 1), rel=1e-14)
    assert reference.replicate_skew == pytest.approx(2, rel=1e-13)


def test_what_a_finite_sample_does() -> None:
    """S^2 of two values is (x1 - x2)^2 / 2: enumerate a two-point law."""
    pairs = np.array(list(itertools.product((-1.0, 1.0), repeat=2)))
    s2 = pairs.var(axis=1, ddof=1)
    assert se.sample_variance_sd(1.0, -2.0, 2) == pytest.approx(s2.std(), rel=1e-15)
    # chi-square: bias of S from E S = sigma sqrt(2/(n-1)) Gamma(n/2)/Gamma((n-1)/2), to 1/n^2
    n = 1000
    exact = math.sqrt(2 / (n - 1)) * dp.gamma_ratio((n - 1) / 2, 0.5) - 1
    assert se.sample_std_bias(1.0, 0.0, n) == pytest.approx(exact, rel=2 / n)
    assert se.sample_variance_skewness(0, 0, 0, n) == pytest.approx(math.sqrt(8 / n), rel=1e-14)


def test_infinite_moments_are_said() -> None:
    heavy = Case(elements_q="student-t:5")
    reference = logit_reference(heavy, "variance")
    assert (reference.value, reference.replicate_skew) == (64.0, None)
    assert logit_reference(Case(elements_q="student-t:3.5"), "variance").replicate_sd is None
    with pytest.raises(ValueError, match="kurtosis is infinite"):
        logit_reference(Case(elements_q="student-t:3"), "kurtosis")
    check_moments_exist(Case(elements_q="student-t:9"), "variance")
    check_moments_exist(heavy, "mean_abs")
    with pytest.raises(ValueError, match="order 8, got student-t:8") as caught:
        check_moments_exist(Case(elements_k="student-t:8"), "std")
    assert "test mean or mean_abs" in str(caught.value)
    with pytest.raises(ValueError, match="order 16"):
        check_moments_exist(Case(elements_q="student-t:16"), "kurtosis")


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (Case(d_k=0), "d_k must be a positive integer, got 0"),
        (Case(sigma_q=0.0), "sigma_q must be a positive number"),
        (Case(elements_q="sphere", mean_q=1.0), "mean_q must be 0 for sphere"),
        (Case(elements_q="uniform", correlation=0.5), "correlation must be 0 unless"),
        (Case(correlation=1.5), "correlation must be between -1 and 1"),
    ],
)
def test_cases_that_cannot_be(case: Case, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        logit_reference(case, "variance")
