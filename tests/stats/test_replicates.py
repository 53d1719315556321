"""Matrices count once: design effect, error bars and coverage against simulated Q K'.

Counts are compared with binomial laws; each side is wrong with probability 5e-7 for a random seed.
"""

import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom
from verify_variance.stats.cases import Case
from verify_variance.stats.checks import InputError
from verify_variance.stats.decision import Row, decide
from verify_variance.stats.moments import Moments
from verify_variance.stats.pivots import judge
from verify_variance.stats.predict import predict
from verify_variance.stats.quantities import GROUPS, QUANTITIES, Estimate
from verify_variance.stats.replicates import checked_array, judged_row

ONE_SIDE = 5e-7
FIVE_SIGMA = -float(ndtri(ONE_SIDE))

DRAW = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-math.sqrt(3), math.sqrt(3), shape),
    "laplace": lambda rng, shape: rng.laplace(0, math.sqrt(0.5), shape),
    "rademacher": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
}


def matrices(rng, r, m, n, d, law="normal"):
    q, k = DRAW[law](rng, (r, m, d)), DRAW[law](rng, (r, n, d))
    return q @ k.transpose(0, 2, 1)


def row_of(quantity, d, law="normal"):
    case = Case(d_k=d, elements_q=law, elements_k=law)
    return Row(case, quantity, predict(case, quantity))


@pytest.mark.parametrize("law", DRAW)
@pytest.mark.parametrize("quantity", ["variance", "mean"])
def test_the_error_of_a_matrix_is_that_of_simulated_ones(law, quantity):
    """Variance over 40000 matrices against the exact one, within five of its own sigmas."""
    r, m, n, d = 40_000, 3, 5, 4
    x = matrices(np.random.default_rng(1), r, m, n, d, law)
    means = (x**2 if quantity == "variance" else x).mean(axis=(1, 2))
    row = judged_row(row_of(quantity, d, law), x)
    exact = row.reference.replicate_sd**2
    off = (means - (d if quantity == "variance" else 0.0)) ** 2
    assert abs(off.mean() - exact) < FIVE_SIGMA * off.std() / math.sqrt(r)
    # the sample's own error bar agrees: its variance has the same spread, twice for the squares
    assert abs(row.estimate.sd**2 - exact) < 2 * FIVE_SIGMA * off.std() / math.sqrt(r)


def test_pooling_the_logits_of_a_matrix_would_understate_the_error():
    x = matrices(np.random.default_rng(2), 400, 16, 16, 16)
    pooled = QUANTITIES["variance"].estimate(Moments.of(x, 8)).mcse
    honest = judged_row(row_of("variance", 16), x).estimate.mcse
    # design effect 1 + (m + n - 2)/(d + 3) = 2.58; its root is known to about 1/sqrt(2 400)
    assert honest / pooled == pytest.approx(math.sqrt(1 + 30 / 19), rel=FIVE_SIGMA / math.sqrt(800))


@pytest.mark.parametrize("quantity", GROUPS["logits"])
def test_matrices_of_one_logit_are_independent_logits(quantity):
    x = matrices(np.random.default_rng(3), 500, 1, 1, 8)
    flat, cube = (judged_row(row_of(quantity, 8), a) for a in (x.ravel(), x))
    assert cube.estimate.value == flat.estimate.value
    assert (cube.estimate.draws, cube.estimate.logits_per_draw) == (500, 1)
    # the sample spread over replicates divides by N - 1; S^2 by N - 1 once more
    assert cube.estimate.sd == pytest.approx(flat.estimate.sd, rel=2 / 500)
    if quantity in ("variance", "std", "mean"):
        assert cube.reference.replicate_sd == pytest.approx(flat.reference.replicate_sd, rel=1e-12)


def rejections(quantity, r, m, n, d, runs, seed):
    """Runs of r matrices whose two-sided p-value is at most 5 %, and every matrix's mean square."""
    rng, row, count, squares = np.random.default_rng(seed), row_of(quantity, d), 0, []
    for _ in range(runs):
        x = matrices(rng, r, m, n, d)
        judged = judged_row(row, x)
        count += judge(quantity, judged.estimate, judged.reference, 0.0).p_value <= 0.05
        squares.append((x**2).mean(axis=(1, 2)))
    return count, np.concatenate(squares)


@pytest.mark.wide
@pytest.mark.parametrize(("r", "m", "n", "d"), [(150, 8, 8, 8), (60, 16, 4, 16)])
def test_the_variance_of_matrices_is_rejected_as_often_as_stated(r, m, n, d):
    """The chi-square law leaves a skew (measured here), which moves the rate by a cosh."""
    runs = 1500
    count, squares = rejections("variance", r, m, n, d, runs, seed=4)
    z = (squares - squares.mean()) / squares.std()
    relative = squares.std() / squares.mean()
    residual = float((z**3).mean()) / math.sqrt(r) - 2 * relative / math.sqrt(r)
    off = 1.05 * math.cosh(residual * 1.96**3 / 6)
    assert off < 1.1
    assert binom.sf(count - 1, runs, 0.05 * off) > ONE_SIDE, count
    assert binom.cdf(count, runs, 0.05 / off) > ONE_SIDE, count


@pytest.mark.wide
@pytest.mark.parametrize("quantity", ["mean", "mean_abs", "skewness"])
def test_the_other_quantities_of_matrices_are_rejected_as_often_as_stated(quantity):
    """Student's t over 100 matrices (exact sd for the mean); second order moves it by some 10 %."""
    runs = 1200
    count, _ = rejections(quantity, 100, 6, 6, 8, runs, seed=5)
    assert binom.sf(count - 1, runs, 0.05 * 1.15) > ONE_SIDE, count
    assert binom.cdf(count, runs, 0.05 / 1.15) > ONE_SIDE, count


@pytest.mark.wide
def test_the_kurtosis_of_matrices_is_not_rejected_more_often_than_stated():
    """Conservative: the spread of 100 skewed matrices alone would reject 9 % at a nominal 5 %."""
    runs = 1000
    count, _ = rejections("kurtosis", 100, 6, 6, 8, runs, seed=7)
    assert binom.sf(count - 1, runs, 0.05) > ONE_SIDE, count
    assert binom.sf(90 - 1, runs, 0.05) < ONE_SIDE


def test_pooled_matrices_are_rejected_far_too_often():
    """The planted error: matrices of 32 x 32 at d = 16 judged as independent logits."""
    rng, row, runs, count = np.random.default_rng(6), row_of("variance", 16), 200, 0
    for _ in range(runs):
        x = matrices(rng, 10, 32, 32, 16)
        pooled = QUANTITIES["variance"].estimate(Moments.of(x, 4))
        count += judge("variance", pooled, row.reference, 0.0).p_value <= 0.05
    # design effect 1 + 62/19 = 4.26: rejected with probability 2 Q(1.96 / 2.06) = 0.34
    assert binom.cdf(count, runs, 0.05) > 1 - ONE_SIDE


def test_which_references_survive_for_matrices():
    x = matrices(np.random.default_rng(7), 50, 2, 3, 4)
    known = {q: judged_row(row_of(q, 4), x).reference for q in ("variance", "std", "mean")}
    assert all(ref.replicate_sd and ref.replicate_skew is None for ref in known.values())
    for quantity in ("skewness", "kurtosis", "mean_abs"):
        assert judged_row(row_of(quantity, 4), x).reference.replicate_sd is None
    off_centre = Case(d_k=4, mean_k=0.5)
    row = Row(off_centre, "mean", predict(off_centre, "mean"))
    assert judged_row(row, x).reference.replicate_sd is None
    sphere = Case(d_k=4, elements_q="sphere")
    row = Row(sphere, "variance", predict(sphere, "variance"))
    assert judged_row(row, x).reference.replicate_sd is None


def test_right_and_wrong_theory_for_matrices():
    x = matrices(np.random.default_rng(8), 400, 16, 16, 64)
    assert decide([judged_row(row_of("std", 64), x)], samples_only=True)[0].verdict == "match"
    # a relative gap of 4 % at a standard error of 0.24 % of the std: 16 of them
    wrong = decide([judged_row(row_of("std", 64), 1.04 * x)], samples_only=True)[0]
    assert wrong.verdict == "mismatch"


def test_constant_matrices_are_wrong_not_nan():
    row = judged_row(row_of("variance", 4), np.zeros((5, 2, 2)))
    assert (row.estimate.value, row.estimate.sd) == (0.0, 0.0)
    assert judge("variance", row.estimate, row.reference, 0.0).z == -math.inf


def test_one_dimension_is_independent_logits():
    estimate = judged_row(row_of("mean", 4), [1, 2, 3, 6]).estimate
    assert estimate == Estimate(4, 3.0, math.sqrt(3.5))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            np.ones((4, 5)),
            "logits must be 1-D, or 3-D replicate x query x key, got shape (4, 5): which axis is "
            "the replicate? reshape to (1, query, key) or flatten independent values",
        ),
        (np.ones(1), "logits need at least 2 replicates, got shape (1,); draw more"),
        (np.ones((1, 4, 4)), "logits need at least 2 replicates, got shape (1, 4, 4); draw more"),
        (np.ones((3, 0, 4)), "logits need at least 2 replicates, got shape (3, 0, 4); draw more"),
        (np.ones((2, 2, 2, 2)), "logits must be 1-D or 3-D, got shape (2, 2, 2, 2); reshape them"),
        (3.0, "logits must be 1-D or 3-D, got shape (); reshape them"),
        ([1.0, math.nan, math.inf], "logits must be finite, got 2 nan or inf of 3; clean them"),
        (["a", "b"], "logits must be real numbers, got dtype <U1"),
        ([1j, 2.0], "logits must be real numbers, got dtype complex128"),
    ],
)
def test_a_bad_array_is_one_line(bad, message):
    with pytest.raises(InputError) as caught:
        checked_array(bad)
    assert str(caught.value) == message
