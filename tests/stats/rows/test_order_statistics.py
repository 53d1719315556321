"""Ordered probabilities against tables, identities, independent integrals and draws."""

import math

import numpy as np
import pytest
from scipy.special import ndtri
from verify_variance.stats.rows import logit_laws
from verify_variance.stats.rows.logit_laws import RowLaw
from verify_variance.stats.rows.moments import row_moments
from verify_variance.stats.rows.order_statistics import JOINT, SINGLE, order_moments

XAVIER = 128 * 2 / (128 + 32) * math.sqrt(32)
NORMALS = (128, 32, 128)
ORDERED = [
    ("R101", RowLaw(1.0), 2, 1, 0.72521345442184, 1e-11),
    ("R102", RowLaw(1.0), 2, 2, 0.27478654557815, 1e-11),
    ("R105", RowLaw(1.0), 10, 3, 0.13026840117653, 1e-11),
    ("R106", RowLaw(5.656854249492381), 10, 1, 0.81175662588294, 1e-11),
    ("R107", RowLaw(5.656854249492381), 10, 2, 0.13308621289907, 1e-11),
    ("R111", RowLaw(8.0), 100, 3, 0.044423239456627, 1e-11),
    ("R112", RowLaw(3.7), 1000, 1, 0.38596999104441, 1e-11),
    ("R113", RowLaw(3.7), 1000, 2, 0.13454482707228, 1e-11),
    ("R117", RowLaw(5.0), 1000000, 3, 0.054984548294679, 1e-11),
    ("R152", RowLaw(math.sqrt(32), (32,)), 10, 1, 0.80752062688804, 1e-11),
    ("R153", RowLaw(math.sqrt(32), (32,)), 10, 2, 0.13444273932245, 1e-11),
    ("R157", RowLaw(1.0, (32,)), 10, 3, 0.1298678390259, 1e-11),
    ("R158", RowLaw(8.0, (64,)), 10, 1, 0.86457786171998, 1e-11),
    ("R159", RowLaw(8.0, (64,)), 10, 2, 0.10526837435331, 1e-11),
    ("R163", RowLaw(1.0, (64,)), 64, 3, 0.055855038216016, 1e-11),
    ("R179", RowLaw(XAVIER, NORMALS), 10, 1, 0.87735716858776, 1e-9),
    ("R180", RowLaw(XAVIER, NORMALS), 10, 2, 0.097295773589628, 1e-9),
    ("R187", RowLaw(XAVIER / math.sqrt(32), NORMALS), 10, 3, 0.11806800467869, 1e-9),
]


@pytest.mark.parametrize(("source", "law", "n", "rank", "value", "accuracy"), ORDERED)
def test_ordered_probabilities(
    source: str, law: RowLaw, n: int, rank: int, value: float, accuracy: float
) -> None:
    moment = order_moments(law, n)[(0,) * (rank - 1) + (1,)]
    assert moment == pytest.approx(value, rel=accuracy), source
    # a rank off by one is a planted error
    wrong = order_moments(law, n)[(0,) * (rank % 3) + (1,)]
    assert abs(wrong - value) > 0.1 * value


LAWS = [
    RowLaw(1e-3),
    RowLaw(0.3),
    RowLaw(1.49),
    RowLaw(1.51),
    RowLaw(40.0),
    RowLaw(1.0, (3,)),
    RowLaw(3.0, (), "rademacher", 9),
    RowLaw(64.0, (), "rademacher", 64),
    RowLaw(2.0, (), "sphere", 5),
    RowLaw(1.0, (), "sphere", 2),
]


@pytest.mark.parametrize("law", LAWS)
def test_two_and_three_keys_exhaust_the_row(law: RowLaw) -> None:
    two, three = order_moments(law, 2), order_moments(law, 3)
    assert two[1,] + two[0, 1] == pytest.approx(1.0, rel=1e-12)
    assert two[0, 0, 1] == 0.0
    assert three[1,] + three[0, 1] + three[0, 0, 1] == pytest.approx(1.0, rel=1e-12)
    squares = three[2,] + three[0, 2] + three[0, 0, 2]
    assert squares == pytest.approx(row_moments(law, 3)["sum_p2"], rel=1e-12)
    # p_1 p_2 = tr J / 2 and its square ||J||_F^2 / 4 for two keys
    m = row_moments(law, 2)
    assert two[1, 1] == pytest.approx(m["trace"] / 2, rel=1e-11)
    assert two[2, 2] == pytest.approx(m["frobenius_sq"] / 4, rel=1e-11)
    assert two[1,] - two[2,] == pytest.approx(two[1, 1], rel=1e-10)  # p_1 (1 - p_1)
    assert two[2, 1] + two[1, 2] == pytest.approx(two[1, 1], rel=1e-11)
    assert two[3, 1] == pytest.approx(two[3,] - two[4,], rel=1e-9)


@pytest.mark.parametrize("s", [0.5, 1.0, 4.0])
def test_top_of_three_keys_by_their_gaps(s: float) -> None:
    """Gauss-Legendre over the two gaps of the ordered logits, panels of width min(s, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    width = min(s, 1.0)
    g = (width * (np.arange(int(13 * s / width))[:, None] + (nodes + 1) / 2)).ravel()
    w = np.tile(weights * width / 2, int(13 * s / width))
    a, b = g[:, None], g[None, :]
    density = np.exp(-(a * a + a * b + b * b) / (3 * s * s)) * math.sqrt(3) / (math.pi * s * s)
    density = density * w[:, None] * w
    p1 = 1 / (1 + np.exp(-a) + np.exp(-a - b))
    p2 = p1 * np.exp(-a)
    moments = order_moments(RowLaw(s), 3)
    for a_power, b_power in [(1, 0), (2, 0), (3, 0), (4, 0), (0, 1), (0, 2), (0, 3), *JOINT]:
        key = (a_power, b_power) if b_power else (a_power,)
        plain = float((density * p1**a_power * p2**b_power).sum())
        assert moments[key] == pytest.approx(plain, rel=1e-11), key


def test_interlacing_of_rank_and_row_size() -> None:
    for s in (0.3, 2.0, 9.0):
        m = order_moments(RowLaw(s), 10)
        assert m[1,] > m[0, 1] > m[0, 0, 1] > 0
        assert m[2,] <= row_moments(RowLaw(s), 10)["sum_p2"] <= m[1,]


@pytest.mark.parametrize("n", [2, 10, 10**6])
def test_halving_the_step_changes_nothing(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stds = (1e-3, 0.5, 1.49, 1.51, 6.0, 300.0)

    def values() -> list[float]:
        order_moments.cache_clear()
        found = [order_moments(RowLaw(s), n) for s in stds]
        # ranks whose mean is below e^-37 of the first are beyond the panels
        return [m[key] if m[key] > 1e-12 else 0.0 for m in found for key in (*SINGLE, *JOINT)]

    coarse = values()
    with monkeypatch.context() as patch:
        patch.setattr(logit_laws, "STEP", 0.1)
        fine = values()
    order_moments.cache_clear()
    assert coarse == pytest.approx(fine, rel=1e-11)


def _draw(kind: str, rng: np.random.Generator, rows: int) -> tuple[np.ndarray, RowLaw]:
    if kind == "iid":
        return 2.0 * rng.standard_normal((rows, 7)), RowLaw(2.0)
    if kind == "signs":
        return (2.0 * rng.binomial(4, 0.5, (rows, 7)) - 4) / 2, RowLaw(1.0, (), "rademacher", 4)
    cosine = 2.0 * rng.beta(1.5, 1.5, (rows, 7)) - 1.0
    if kind == "sphere":
        return 2.0 * 2.0 * cosine, RowLaw(2.0, (), "sphere", 4)
    return rng.standard_normal((rows, 7)) * np.sqrt(rng.chisquare(4, (rows, 1))), RowLaw(2.0, (4,))


KINDS = ["iid", "signs", "sphere", "query"]
KEYS = (*SINGLE, *JOINT)
THRESHOLD = float(-ndtri(0.5e-6 / (len(KINDS) * (len(KEYS) + 3))))


@pytest.mark.parametrize("kind", KINDS)
def test_draws_agree_in_moments_and_spread(kind: str) -> None:
    rows = 100_000
    x, law = _draw(kind, np.random.default_rng(4711), rows)
    p = np.exp(x - x.max(axis=1, keepdims=True))
    top = -np.sort(-p / p.sum(axis=1, keepdims=True), axis=1)[:, :3]
    m = order_moments(law, 7)
    for key in KEYS:
        powers = np.array((*key, 0, 0)[:3])
        values = np.prod(top**powers, axis=1)
        assert abs(values.mean() - m[key]) < THRESHOLD * values.std() / math.sqrt(rows), key
    for j in range(3):
        zeros = (0,) * j
        sd = math.sqrt(m[(*zeros, 2)] - m[(*zeros, 1)] ** 2)
        values = top[:, j]
        kurtosis = ((values - values.mean()) ** 4).mean() / values.var() ** 2
        error = sd * math.sqrt((kurtosis - 1) / (4 * rows))
        assert abs(values.std() - sd) < THRESHOLD * error, j
