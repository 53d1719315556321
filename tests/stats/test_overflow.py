"""Overflow shares against mpmath, NumPy's own number formats, and exact enumeration."""

import math

import ml_dtypes
import mpmath
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, chi
from verify_variance.stats.cases import Case
from verify_variance.stats.checks import InputError
from verify_variance.stats.overflow import overflow_threshold, unit_roundoff
from verify_variance.stats.predict import predict

FORMATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


@pytest.mark.parametrize("dtype", FORMATS)
def test_thresholds_are_those_of_the_formats(dtype):
    kind, limit = FORMATS[dtype], overflow_threshold(dtype)
    with np.errstate(over="ignore"):
        assert np.isinf(np.array(limit).astype(kind))
        assert np.isfinite(np.array(limit * (1 - 2.0**-20)).astype(kind))
    one = 1 + 2 * unit_roundoff(dtype)
    assert np.array(one).astype(kind) == one
    assert np.array(1 + unit_roundoff(dtype)).astype(kind) == 1  # a tie, to even


def mixture(d, t):
    """2 E Q(t / chi_d) in mpmath."""

    def density(r):
        return r ** (d - 1) * mpmath.exp(-(r**2) / 2) / (2 ** (d / 2 - 1) * mpmath.gamma(d / 2))

    mid = mpmath.sqrt(d)
    return 2 * mpmath.quad(
        lambda r: mpmath.ncdf(-t / r) * density(r), [0, mid / 2, mid, mid + 3, mid + 8, mid + 30]
    )


@pytest.mark.parametrize(("d_k", "sigma"), [(4, 60.0), (64, 40.0), (64, 90.0)])
def test_share_is_the_scale_mixture(d_k, sigma):
    case = Case(d_k=d_k, sigma_q=sigma, sigma_k=2 * sigma, dtype="float16")
    wanted = float(mixture(d_k, 65520 / (2 * sigma**2)))
    assert predict(case, "overflow").value == pytest.approx(wanted, rel=1e-9)


def test_the_normal_tail_is_five_times_too_small():
    """At 5 standard deviations of 64 dimensions: the planted error is told apart."""
    sigma = math.sqrt(65520 / 40)
    exact = predict(Case(d_k=64, sigma_q=sigma, sigma_k=sigma, dtype="float16"), "overflow").value
    assert exact / (2 * ndtr(-5)) == pytest.approx(5, rel=0.05)


def test_scale_first_moves_the_bound_and_scale_last_does_not():
    hot = {"d_k": 64, "sigma_q": 100.0, "sigma_k": 100.0, "dtype": "float16"}
    share = {s: predict(Case(scale=s, **hot), "overflow").value
             for s in ("none", "sqrt-dk", "query-only", "fourth-root")}  # fmt: skip
    assert share["none"] == share["sqrt-dk"]
    cooler = Case(d_k=64, sigma_q=12.5, sigma_k=100.0, dtype="float16")  # sigma / sqrt(d_k)
    assert share["query-only"] == share["fourth-root"]
    assert share["query-only"] == pytest.approx(predict(cooler, "overflow").value, rel=1e-9)
    enlarged = predict(Case(scale="multiplier:4", **hot), "overflow").value
    assert enlarged == pytest.approx(
        predict(Case(d_k=64, sigma_q=400.0, sigma_k=100.0, dtype="float16"), "overflow").value,
        rel=1e-9,
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_wide_exponents_never_overflow(dtype):
    case = Case(d_k=2**20, sigma_q=1e9, sigma_k=1e9, dtype=dtype)
    assert predict(case, "overflow").value == 0.0


def walk_beyond(d, m):
    """P(max_j |S_j| >= m) of a walk of d signs, by its transition probabilities."""
    p = np.zeros(2 * m + 1)
    p[m] = 1.0
    for _ in range(d):
        p = (np.roll(p, 1) + np.roll(p, -1)) / 2 * (np.abs(np.arange(-m, m + 1)) < m)
    return 1 - p.sum()


@pytest.mark.parametrize(("d", "m"), [(2, 2), (16, 8), (64, 10), (64, 20)])
def test_a_running_sum_lies_in_its_bracket(d, m):
    sigma = math.sqrt(65520 / m)  # 65520 / m is exact enough: the sums step over the threshold
    case = Case(d_k=d, elements_q="rademacher", elements_k="rademacher", sigma_q=sigma,
                sigma_k=sigma, dtype="float16", dtype_accumulate="float16")  # fmt: skip
    reference = predict(case, "overflow")
    low, high = reference.value
    last = 2 * binom.sf((d + m) / 2 - 1, d, 0.5)
    assert reference.kind == "bracket"
    assert low <= last <= walk_beyond(d, m) <= high <= 2 * last * (1 + 1e-12)


def test_what_is_not_known_is_measured_only():
    hot = {"d_k": 64, "dtype": "float16"}
    assert predict(Case(sigma_q=3e4, **hot), "overflow").kind == "none"  # elements overflow
    skewed = Case(elements_q="exponential", elements_k="exponential", sigma_q=60.0,
                  sigma_k=60.0, dtype_accumulate="float16", **hot)  # fmt: skip
    assert predict(skewed, "overflow").kind == "none"
    with pytest.raises(InputError, match=r"^overflow is of drawn q and k; give --dk"):
        predict(Case(d_k=None, logit_std=1.0), "overflow")
    with pytest.raises(InputError, match=r"^broken_rows is a statistic of rows and needs --n-keys"):
        predict(Case(), "broken_rows")


def test_stable_rows_break_at_an_infinite_logit():
    given = Case(d_k=None, logit_std=3e4, n_keys=10, dtype="float16")
    t = 65520 / 3e4
    wanted = 1 - ndtr(t) ** 10 + ndtr(-t) ** 10
    assert predict(given, "broken_rows").value == pytest.approx(wanted, rel=1e-12)
    r = chi(64)
    drawn = Case(d_k=64, n_keys=10, sigma_q=60.0, sigma_k=60.0, dtype="float16")
    wanted = r.expect(lambda x: 1 - ndtr(65520 / 3600 / x) ** 10 + ndtr(-65520 / 3600 / x) ** 10)
    assert predict(drawn, "broken_rows").value == pytest.approx(wanted, rel=1e-7)
    assert predict(Case(d_k=64, n_keys=10), "broken_rows").value == 0.0


@pytest.mark.parametrize(("dtype", "std", "n"), [("float32", 40.0, 10), ("float16", 4.0, 10),
                                                 ("float16", 2.0, 1000)])  # fmt: skip
def test_naive_rows_break_within_the_bracket(dtype, std, n):
    """NumPy's own exponentials over 20000 rows; each end may be missed once in 10^6."""
    case = Case(d_k=None, logit_std=std, n_keys=n, dtype_softmax=dtype, softmax="naive")
    low, high = predict(case, "broken_rows").value
    x = std * np.random.default_rng(5).standard_normal((20_000, n), dtype=np.float32)
    with np.errstate(over="ignore"):
        total = np.exp(x.astype(dtype)).sum(axis=1, dtype=np.float32).astype(dtype)
    broken = int((~np.isfinite(total) | (total == 0)).sum())
    assert binom.cdf(broken, 20_000, low) > 1e-6
    assert binom.sf(broken - 1, 20_000, high) > 1e-6


def test_no_room_for_half_a_moment_of_a_law():
    with pytest.raises(InputError, match=r"^law needs logits that are not rounded, got dtype"):
        predict(Case(dtype="float16"), "law")
