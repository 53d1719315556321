"""The Jacobian's trace and norms against tables, eigenvalues and independent integrals."""

import math

import numpy as np
import pytest
from scipy.special import ndtri
from verify_variance.stats.jacobian import (
    expected_jacobian_frobenius_sq,
    expected_jacobian_trace,
    jacobian_frobenius_bracket,
    jacobian_spectral_bracket,
    three_key_moments,
)
from verify_variance.stats.rows.logit_laws import RowLaw
from verify_variance.stats.rows.moments import row_moments
from verify_variance.stats.softmax import top_gap_density

XAVIER = 128 * 2 / (128 + 32) * math.sqrt(32)
FROBENIUS_SQ = [
    ("R045", RowLaw(1.0), 2, 0.14810644834295),
    ("R053", RowLaw(0.1), 3, 0.22148042608428),
    ("R064", RowLaw(5.656854249492381), 10, 0.07245238063608),
    ("R074", RowLaw(2.0), 64, 0.080912531331315),
    ("R082", RowLaw(3.7), 1000, 0.079181121865094),
    ("R090", RowLaw(0.5), 1000000, 1.2840222595541e-06),
    ("R098", RowLaw(30.0), 1000000, 0.045611189076707),
    ("R123", RowLaw(1.0, (32,)), 10, 0.12062098714182),
    ("R129", RowLaw(1.0, (64,)), 10, 0.1209530559225),
    ("R135", RowLaw(math.sqrt(2), (2,)), 4, 0.15343753288859),
    ("R141", RowLaw(1.0, (64,)), 64, 0.034090375947167),
    ("R147", RowLaw(1.0, (64,)), 512, 0.0051778895392696),
    ("R166", RowLaw(1.0, (), "rademacher", 16), 10, 0.12183652800538),
    ("R172", RowLaw(1.0, (), "rademacher", 32), 64, 0.033717628605624),
    ("R177", RowLaw(XAVIER, (128, 32, 128)), 10, 0.050900243106773),
]
TRACE = [("R057", 10, 1.0, 0.80531260630535), ("R069", 10, 200.0, 0.0076936046031822)]


@pytest.mark.parametrize(("source", "law", "n", "value"), FROBENIUS_SQ)
def test_squared_frobenius_norm(source: str, law: RowLaw, n: int, value: float) -> None:
    assert row_moments(law, n)["frobenius_sq"] == pytest.approx(value, rel=1e-11), source


@pytest.mark.parametrize(("source", "n", "s", "value"), TRACE)
def test_trace(source: str, n: int, s: float, value: float) -> None:
    assert expected_jacobian_trace(n, s) == pytest.approx(value, rel=1e-12), source


def test_average_over_the_norm_of_a_two_dimensional_query() -> None:
    """R134 to R136 by the trapezoid rule in log |q|, |q|^2 / 2 ~ Exp(1): exact to 1e-13 there."""
    step = 0.1
    v = np.arange(-18.0, 2.5, step)
    weight = step * np.exp(2 * v - np.exp(2 * v) / 2)  # |q| = e^v
    rule = list(zip(np.exp(v).tolist(), weight.tolist(), strict=True))
    mixed = row_moments(RowLaw(math.sqrt(2), (2,)), 4)
    uniform = row_moments(RowLaw(0.0), 4)
    for name in ("sum_p2", "frobenius_sq", "entropy"):
        plain = sum(w * (row_moments(RowLaw(r), 4)[name] - uniform[name]) for r, w in rule)
        assert mixed[name] == pytest.approx(uniform[name] + plain, rel=1e-12), name


def test_wrong_sign_of_sum_p3_is_not_the_frobenius_norm() -> None:
    m = row_moments(RowLaw(1.0), 10)
    square = m["spread^2"] + 2 * m["spread"] / 10 + 1 / 100  # E (sum p^2)^2
    right = m["sum_p2"] - 2 * m["sum_p3"] + square
    assert m["frobenius_sq"] == pytest.approx(right, rel=1e-13)
    assert abs(m["frobenius_sq"] - (right + 4 * m["sum_p3"])) > 0.1


def test_sharp_rows_follow_the_gap_density() -> None:
    s, n = 5000.0, 10
    g0 = top_gap_density(n)
    # corrections are O(1/s)
    assert expected_jacobian_trace(n, s) * s == pytest.approx(g0, rel=2e-3)
    assert expected_jacobian_frobenius_sq(n, s) * s == pytest.approx(g0 / 3, rel=2e-3)


@pytest.mark.parametrize("s", [0.0, 1e-3, 0.3, 1.0, 10.0, 300.0])
def test_three_keys_meet_the_main_formula(s: float) -> None:
    """E ||J||_F^2 from the gaps is an integral that shares nothing with the main formula."""
    frobenius, spectral = three_key_moments(RowLaw(s))
    m = row_moments(RowLaw(s), 3)
    assert frobenius[1] == pytest.approx(m["frobenius_sq"], rel=1e-12)
    assert spectral[0] < frobenius[0] < math.sqrt(m["frobenius_sq"]) * (1 + 1e-12)


CELLS = [(3, 1.0), (4, 0.3), (10, 1.0), (10, 6.0), (40, 3.0)]
ROWS = 3000
THRESHOLD = float(-ndtri(0.5e-6 / (3 * len(CELLS))))  # 1e-6 over all means below, two-sided


@pytest.mark.parametrize(("n", "s"), CELLS)
def test_brackets_hold_the_norms_of_drawn_jacobians(n: int, s: float) -> None:
    x = s * np.random.default_rng(77).standard_normal((ROWS, n))
    p = np.exp(x - x.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    jacobians = p[:, :, None] * (np.eye(n) - p[:, None, :])
    spectral = np.linalg.eigvalsh(jacobians)[:, -1]
    frobenius = np.sqrt((jacobians**2).sum(axis=(1, 2)))
    top = -np.sort(-p, axis=1)
    p1, p2 = top[:, 0], top[:, 1]
    rounding = 1e-14
    assert (spectral <= p1 * (1 - p1 + p2) + rounding).all()
    assert (spectral >= p1 * (1 - p1) * n / (n - 1) - rounding).all()
    assert (spectral >= (p1 + p2 - (p1 - p2) ** 2) / 2 - rounding).all()
    assert (frobenius**2 <= spectral * (1 - (p**2).sum(axis=1)) + rounding).all()
    law = RowLaw(s)
    for values, bracket in (
        (spectral, jacobian_spectral_bracket(law, n)),
        (frobenius, jacobian_frobenius_bracket(law, n)),
    ):
        slack = THRESHOLD * values.std() / math.sqrt(ROWS)
        assert bracket.low - slack < values.mean() < bracket.high + slack
        kurtosis = ((values - values.mean()) ** 4).mean() / values.var() ** 2
        allowed = 1 + THRESHOLD * math.sqrt((kurtosis - 1) / (4 * ROWS))
        assert values.std() < allowed * math.sqrt(bracket.mean_square - bracket.low**2)
        # a planted theory, lambda = tr J, lies outside
        if n > 3:
            assert row_moments(law, n)["trace"] > bracket.high


def test_three_key_means_lie_in_their_brackets() -> None:
    for s in (0.1, 1.0, 5.0, 100.0):
        frobenius, spectral = three_key_moments(RowLaw(s))
        low, high, _ = jacobian_spectral_bracket(RowLaw(s), 3)
        assert low <= spectral[0] <= high
        low, high, _ = jacobian_frobenius_bracket(RowLaw(s), 3)
        assert low <= frobenius[0] <= high


def test_three_keys_with_a_common_query_average_over_it() -> None:
    rng = np.random.default_rng(5)
    q = rng.standard_normal((200_000, 2))
    x = np.linalg.norm(q, axis=1)[:, None] * rng.standard_normal((200_000, 3))
    p = np.exp(x - x.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    y = (p**2).sum(axis=1) - 2 * (p**3).sum(axis=1) + (p**2).sum(axis=1) ** 2
    frobenius, _ = three_key_moments(RowLaw(math.sqrt(2), (2,)))
    norm = np.sqrt(np.maximum(y, 0.0))
    sd = math.sqrt(frobenius[1] - frobenius[0] ** 2)
    assert abs(norm.mean() - frobenius[0]) < 5.0 * sd / math.sqrt(norm.size)  # 6e-7
