"""Row means and spreads against tabulated values, independent integrals, identities and draws."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from verify_variance.stats import softmax
from verify_variance.stats.rows import logit_laws
from verify_variance.stats.rows.logit_laws import RowLaw
from verify_variance.stats.rows.moments import row_moments
from verify_variance.stats.rows.saturation import saturated_share

# id of exact_values.json, (n, s), field, value; relative accuracy 1e-12 or that given
CASE_I = [
    ("R044", 2, 1.0, "sum_p2", 0.63683815396837),
    ("R046", 2, 1.0, "entropy", 0.5395000616884),
    ("R052", 3, 0.1, "sum_p2", 0.33554448210337),
    ("R054", 3, 0.1, "entropy", 1.0952955297385),
    ("R056", 10, 1.0, "sum_p3", 0.0580595114736),
    ("R061", 10, 5.656854249492381, "sum_p2", 0.73595597049097),
    ("R065", 10, 5.656854249492381, "entropy", 0.49689164265322),
    ("R068", 10, 200.0, "sum_p3", 0.98848099350887),
    ("R073", 64, 2.0, "sum_p2", 0.16073511238063),
    ("R075", 64, 2.0, "entropy", 2.6425019219299),
    ("R081", 1000, 3.7, "sum_p2", 0.23363666597981),
    ("R083", 1000, 3.7, "entropy", 2.6043872955665),
    ("R089", 1000000, 0.5, "sum_p2", 1.284024844827e-06),
    ("R091", 1000000, 0.5, "entropy", 13.690510736958),
    ("R097", 1000000, 30.0, "sum_p2", 0.83807765084321),
    ("R099", 1000000, 30.0, "entropy", 0.30129384632377),
    ("R118", 100, 2.0, "log_sum_exp", 6.4886812110296),
]
SPREADS = [
    ("R047", 2, 1.0, 0.12735745729971, 1e-6),
    ("R060", 10, 1.0, 0.069446080854842, 1e-6),
    ("R072", 10, 200.0, 0.050337950456375, 1e-9),
    ("R080", 100, 8.0, 0.25235850811147, 1e-9),
    ("R088", 4096, 1.0, 5.9462088860653e-05, 1e-6),
    ("R096", 1000000, 5.0, 0.16860909074316, 1e-9),
]
XAVIER = 128 * 2 / (128 + 32) * math.sqrt(32)  # D sigma_w^2 sqrt(d): R176 to R187
MIXED = [
    ("R122", RowLaw(1.0, (32,)), 10, "sum_p2", 0.19414459935243),
    ("R124", RowLaw(1.0, (32,)), 10, "entropy", 1.9271830933024),
    ("R128", RowLaw(1.0, (64,)), 10, "sum_p2", 0.1944145178024),
    ("R130", RowLaw(1.0, (64,)), 10, "entropy", 1.9253837966997),
    ("R134", RowLaw(math.sqrt(2), (2,)), 4, "sum_p2", 0.4362952314294),
    ("R136", RowLaw(math.sqrt(2), (2,)), 4, "entropy", 1.0314081010344),
    ("R140", RowLaw(1.0, (64,)), 64, "sum_p2", 0.039026651053025),
    ("R142", RowLaw(1.0, (64,)), 64, "entropy", 3.6857051856927),
    ("R146", RowLaw(1.0, (64,)), 512, "sum_p2", 0.005304823893281),
    ("R148", RowLaw(1.0, (64,)), 512, "entropy", 5.7420833520649),
    ("R164", RowLaw(1.0, (), "rademacher", 16), 10, "sum_p2", 0.19336010798197),
    ("R165", RowLaw(1.0, (), "rademacher", 16), 10, "entropy", 1.9254260684312),
    ("R170", RowLaw(1.0, (), "rademacher", 32), 64, "sum_p2", 0.038039151603888),
    ("R171", RowLaw(1.0, (), "rademacher", 32), 64, "entropy", 3.6899509320557),
    ("R176", RowLaw(XAVIER, (128, 32, 128)), 10, "sum_p2", 0.82608297733241),
    ("R178", RowLaw(XAVIER, (128, 32, 128)), 10, "entropy", 0.31375778335963),
]


@pytest.mark.parametrize(("source", "n", "s", "field", "value"), CASE_I)
def test_iid_normal_rows(source: str, n: int, s: float, field: str, value: float) -> None:
    assert row_moments(RowLaw(s), n)[field] == pytest.approx(value, rel=1e-12), source


@pytest.mark.parametrize(("source", "law", "n", "field", "value"), MIXED)
def test_rows_with_a_common_query(
    source: str, law: RowLaw, n: int, field: str, value: float
) -> None:
    assert row_moments(law, n)[field] == pytest.approx(value, rel=1e-11), source


@pytest.mark.parametrize(("source", "n", "s", "value", "accuracy"), SPREADS)
def test_spread_of_sum_p2(source: str, n: int, s: float, value: float, accuracy: float) -> None:
    m = row_moments(RowLaw(s), n)
    assert math.sqrt(m["spread^2"] - m["spread"] ** 2) == pytest.approx(value, rel=accuracy)


def two_keys(s: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of p_1 and weights from x_1 - x_2 ~ N(0, 2 s^2): trapezoid, strip pi, error 1e-16."""
    step = min(0.1, 0.1 * s)
    x = step * np.arange(-int(14 * s / step), int(14 * s / step) + 1)
    w = step * np.exp(-(x**2) / (4 * s * s)) / (2 * s * math.sqrt(math.pi))
    return 1.0 / (1.0 + np.exp(-x)), w


@pytest.mark.parametrize("s", [1e-3, 0.1, 0.59, 0.61, 1.0, 3.0, 30.0])
def test_two_keys_by_a_single_integral(s: float) -> None:
    p, w = two_keys(s)
    q = 1.0 - p
    h = -p * np.log(p) - q * np.log(np.maximum(q, 1e-300))
    m = row_moments(RowLaw(s), 2)
    statistics = {"spread": 2 * (p - 0.5) ** 2, "deficit": math.log(2) - h, "trace": 2 * p * q}
    statistics["frobenius"] = 4 * (p * q) ** 2 - 0.25
    for name, values in statistics.items():
        # differences from the uniform row lose eps/s^2 in this plain integral, not in ours
        assert m[name] == pytest.approx(w @ values, rel=1e-11, abs=1e-14), name
        if name != "trace" and s > 0.05:
            for power in (2, 3):
                assert m[f"{name}^{power}"] == pytest.approx(w @ values**power, rel=1e-7), name


@pytest.mark.parametrize("s", [0.3, 1.0, 3.0])
def test_three_keys_by_a_double_integral(s: float) -> None:
    step = 0.12 * min(1.0, s) if s < 1 else 0.15
    g = step * np.arange(-int(12 * s / step), int(12 * s / step) + 1)
    a, b = g[:, None], g[None, :]  # x_1 - x_3 and x_2 - x_3
    w = np.exp(-(a * a - a * b + b * b) / (3 * s * s)) * step**2 / (2 * math.pi * s * s * 3**0.5)
    p = np.stack([np.exp(a) + 0 * b, np.exp(b) + 0 * a, 1 + 0 * a + 0 * b])
    p /= p.sum(axis=0)
    sum_p2 = (p**2).sum(axis=0)
    h = -(p * np.log(p)).sum(axis=0)
    y = sum_p2 - 2 * (p**3).sum(axis=0) + sum_p2**2
    m = row_moments(RowLaw(s), 3)
    for name, values in (
        ("spread", sum_p2 - 1 / 3),
        ("deficit", math.log(3) - h),
        ("frobenius", y - 2 / 9),
    ):
        for key, power in (("", 1), ("^2", 2), ("^3", 3)):
            assert m[name + key] == pytest.approx((w * values**power).sum(), rel=1e-8), name
    assert m["frobenius_sq*trace"] == pytest.approx((w * y * (1 - sum_p2)).sum(), rel=1e-11)


@pytest.mark.parametrize("n", [2, 10, 1000, 10**6])
@pytest.mark.parametrize("s", [0.2, 0.61, 2.0, 5.0, 50.0])
def test_entropy_by_gaussian_integration_by_parts(n: int, s: float) -> None:
    m = row_moments(RowLaw(s), n)
    # E H = E log S - s^2 (1 - E sum p^2); the right-hand side cancels, hence the absolute part
    parts = m["log_sum_exp"] - s * s * m["trace"]
    assert m["entropy"] == pytest.approx(parts, rel=1e-11, abs=1e-13 * (1 + s * s))


@pytest.mark.parametrize("n", [2, 10, 1000])
def test_small_logits_follow_their_series(n: int) -> None:
    s = 1e-3
    m = row_moments(RowLaw(s), n)
    assert m["spread"] == pytest.approx(s * s * (n - 1) / n**2, rel=5e-6)
    assert m["deficit"] == pytest.approx(s * s * (n - 1) / (2 * n), rel=5e-6)
    variance = m["deficit^2"] - m["deficit"] ** 2
    # (n-1)/(2 n^2) s^4 + O(s^6): the sample variance of n normals, halved
    assert variance == pytest.approx(s**4 * (n - 1) / (2 * n * n), rel=2e-5)


@pytest.mark.parametrize("s", [0.02, 0.0875])
def test_the_entropy_series_meets_the_quadrature(s: float) -> None:
    """Just below and above the switch, Var H differs by the s^6 term that is known exactly."""
    n = 1000
    m = row_moments(RowLaw(s), n)
    variance = m["deficit^2"] - m["deficit"] ** 2
    second = (n - 1) * (2 / 3 * (n - 2) - 3) / n**3 * s**6
    leading = (n - 1) / (2 * n * n) * s**4
    assert variance == pytest.approx(leading + second, rel=4 * s**4)


@pytest.mark.parametrize("n", [2, 10, 10**6])
def test_halving_the_step_changes_nothing(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("sum_p2", "sum_p3", "trace", "frobenius_sq", "entropy", "log_sum_exp")
    stds = (1e-3, 0.3, 0.599, 0.601, 3.0, 40.0, 1024.0, 5000.0)

    def values() -> list[float]:
        logit_laws.atoms.cache_clear()
        row_moments.cache_clear()
        return [row_moments(RowLaw(s), n)[name] for s in stds for name in names]

    coarse = values()
    with monkeypatch.context() as patch:
        patch.setattr(logit_laws, "STEP", 0.1)
        fine = values()
    logit_laws.atoms.cache_clear()
    row_moments.cache_clear()
    assert coarse == pytest.approx(fine, rel=1e-12)


def test_saturation_of_two_keys_is_a_normal_tail() -> None:
    for s in (0.5, 1.0, 4.0, 100.0, 5000.0):
        exact = 2 * ndtr(-math.log(99) / (s * math.sqrt(2)))
        assert softmax.expected_saturated(2, s) == pytest.approx(exact, rel=1e-9)
    assert saturated_share(RowLaw(2.0, (), "rademacher", 4), 2)[0] == pytest.approx(18 / 256)


@pytest.mark.parametrize(("n", "s"), [(3, 2.0), (10, 8.0), (1000, 6.0)])
def test_saturation_lies_between_its_gap_probabilities(n: int, s: float) -> None:
    z = np.arange(-10.0, 10.0, 0.01)
    density = 0.01 * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    def gap_share(gap: float) -> float:
        return n * float(density @ ndtr(z - gap / s) ** (n - 1))

    share = softmax.expected_saturated(n, s)
    assert gap_share(math.log(99 * (n - 1))) < share < gap_share(math.log(99))


def test_limits() -> None:
    # R188: density at 0 of the gap of the top two of ten normals
    assert softmax.top_gap_density(10) == pytest.approx(1.5387527308352, rel=1e-12)
    assert softmax.top_gap_density(2) == pytest.approx(1 / math.sqrt(math.pi), rel=1e-14)
    # R190, R191
    assert softmax.poisson_dirichlet_max(0.5) == pytest.approx(0.62650759876718, rel=1e-8)
    assert softmax.poisson_dirichlet_entropy(0.5) == pytest.approx(2 * math.log(2), rel=1e-14)
    s, n = 5000.0, 10
    g0 = softmax.top_gap_density(n)
    # corrections are O(1/s): the density of the gap is flat on the scale of 1/s
    assert softmax.expected_entropy(n, s) * s == pytest.approx(g0 * math.pi**2 / 6, rel=2e-3)
    assert (1 - softmax.expected_max_prob(n, s)) * s == pytest.approx(g0 * math.log(2), rel=2e-3)
    # theory.md: at s = 2 s_c the sum of squares is still well above 1 - s_c/s = 0.5
    for keys, value in ((1000, 0.574), (10**6, 0.543)):
        s = 2 * softmax.condensation_std(keys)
        assert softmax.expected_sum_p2(keys, s) == pytest.approx(value, abs=5e-4)


def test_one_key_and_refusals() -> None:
    assert softmax.expected_sum_p2(1, 3.0) == 1.0
    assert softmax.expected_entropy(1, 3.0) == 0.0
    assert softmax.order_probability(2, 1.0, 3) == 0.0
    assert softmax.expected_sum_p2(10, 0.0) == pytest.approx(0.1, rel=1e-13)
    for call in (
        lambda: softmax.expected_sum_p2(0, 1.0),
        lambda: softmax.expected_sum_p2(10**6 + 1, 1.0),
        lambda: softmax.expected_sum_p2(10, -1.0),
        lambda: softmax.expected_sum_p2(10, math.nan),
        lambda: softmax.order_probability(10, 1.0, 4),
    ):
        with pytest.raises(ValueError, match="must be"):
            call()


def statistics_of(x: np.ndarray) -> dict[str, np.ndarray]:
    p = np.exp(x - x.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    sum_p2, sum_p3 = (p**2).sum(axis=1), (p**3).sum(axis=1)
    return {
        "spread": sum_p2 - 1 / x.shape[1],
        "deficit": math.log(x.shape[1]) + (p * np.log(np.maximum(p, 1e-300))).sum(axis=1),
        "frobenius": sum_p2 - 2 * sum_p3 + sum_p2**2 - (x.shape[1] - 1) / x.shape[1] ** 2,
    }


def _draw(kind: str, rng: np.random.Generator, rows: int) -> tuple[np.ndarray, RowLaw]:
    if kind == "iid":
        return 2.0 * rng.standard_normal((rows, 6)), RowLaw(2.0)
    if kind == "signs":
        return (2.0 * rng.binomial(9, 0.5, (rows, 6)) - 9) / 2, RowLaw(1.5, (), "rademacher", 9)
    q, k = rng.standard_normal((rows, 1, 4)), rng.standard_normal((rows, 6, 4))
    if kind == "query":
        return (q * k).sum(axis=2), RowLaw(2.0, (4,))
    if kind == "mean":
        return ((q + 0.5) * (k + 2.0)).sum(axis=2), RowLaw(2.0, (4,), shift=1.0)
    k *= 2.0 / np.linalg.norm(k, axis=2, keepdims=True)
    if kind == "query, sphere":
        return (q * k).sum(axis=2), RowLaw(2.0, (4,), "sphere", 4)
    q *= 2.0 / np.linalg.norm(q, axis=2, keepdims=True)
    return (q * k).sum(axis=2), RowLaw(2.0, (), "sphere", 4)


KINDS = ["iid", "signs", "query", "mean", "query, sphere", "sphere"]
THRESHOLD = float(-ndtri(0.5e-6 / (7 * len(KINDS))))  # 1e-6 over all draws below, two-sided


@pytest.mark.parametrize("kind", KINDS)
def test_draws_agree_in_mean_and_spread(kind: str) -> None:
    rows = 100_000
    x, law = _draw(kind, np.random.default_rng(20240607), rows)
    m = row_moments(law, 6)
    for name, values in statistics_of(x).items():
        sd = math.sqrt(m[f"{name}^2"] - m[name] ** 2)
        assert abs(values.mean() - m[name]) < THRESHOLD * sd / math.sqrt(rows), name
        kurtosis = ((values - values.mean()) ** 4).mean() / values.var() ** 2
        error = sd * math.sqrt((kurtosis - 1) / (4 * rows))
        assert abs(values.std() - sd) < THRESHOLD * error, name
    saturated = np.exp(x.max(axis=1)) > 0.99 * np.exp(x).sum(axis=1)
    low, high = saturated_share(law, 6)
    slack = THRESHOLD * math.sqrt(high / rows)
    assert low - slack < saturated.mean() < high + slack


def test_planted_errors_are_seen() -> None:
    """Wrong theories of this very kind lie outside what 100,000 rows allow."""
    rows = 100_000
    x, law = _draw("query", np.random.default_rng(20240607), rows)
    drawn, right, iid = statistics_of(x), row_moments(law, 6), row_moments(RowLaw(2.0), 6)
    bits = (math.log(6) - right["deficit"]) / math.log(2)
    wrong_sign = right["frobenius"] + 4 * right["sum_p3"]
    for name, planted in (
        ("spread", iid["spread"]),  # one normal per logit in place of a shared query
        ("frobenius", iid["frobenius"]),
        ("deficit", math.log(6) - bits),
        ("frobenius", wrong_sign),
    ):
        values = drawn[name]
        assert abs(values.mean() - planted) > 2 * THRESHOLD * values.std() / math.sqrt(rows), name
    shared = math.sqrt(right["spread^2"] - right["spread"] ** 2)
    alone = math.sqrt(iid["spread^2"] - iid["spread"] ** 2)
    assert abs(shared - alone) > 0.05 * shared
